//! Flows to destinations beyond the acceptor.
//!
//! ```text
//! open_beyond ─▶ ASK ─▶ answer ─┬─▶ RELAY OPEN, from here on a flow like any other
//!                               └─▶ Refused: nothing of the flow has gone out
//! ```
//!
//! A side that relays says so unasked, so that nobody waits for the answer. One that does not know the question never
//! answers: the opener gives up when it has waited long enough, and no stream has been used.

use super::FlowMux;
use super::outgoing::control;
use crate::INITIAL_CREDIT;
use crate::error::{FlowError, OpenError};
use crate::event::{FlowEvent, Refusal};
use crate::flow::{Flow, Phase, Recv};
use crate::id::FlowId;
use crate::lanes::{LaneKey, Opener};
use crate::message::{Beyond, Body, Control, RelayAnswer, RelayBody, RelayOpen, SeenAt};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use manypath_engine::Outgoing;

/// The lane of a flow that has none yet: no association has so many streams.
const NO_LANE: LaneKey = LaneKey { opener: Opener::Us, stream: u16::MAX };

/// What the two sides have said about relaying.
#[derive(Debug, Default)]
pub(super) struct Relaying {
    /// What this side answers.
    own: RelayAnswer,
    /// What the peer has said.
    peer: Option<RelayAnswer>,
    asked: bool,
    ask_due: bool,
    answer_due: bool,
    /// This side asks to be registered, and has an answer.
    registers: bool,
    register_due: bool,
    is_registered: bool,
    /// The peer has asked for that, and is told that it is.
    peer_registers: bool,
    registered_due: bool,
    /// Addresses that the peer is told beside those that others see, and its own; whether either is news.
    candidates: SeenAt,
    candidates_due: bool,
    peer_candidates: SeenAt,
    peer_candidates_new: bool,
    /// Flows that wait for the peer's answer.
    held: Vec<FlowId>,
}

impl Relaying {
    pub(super) const fn is_due(&self) -> bool {
        let registers = self.register_due || self.registered_due;
        self.ask_due || self.answer_due || registers || self.candidates_due
    }
}

impl FlowMux {
    /// What the peer is told if it asks whether this side relays; that it does is said at once.
    pub fn set_relay_answer(&mut self, answer: RelayAnswer) {
        self.relaying.own = answer;
        self.relaying.answer_due |= answer == RelayAnswer::Relays;
    }

    /// Whether the peer relays, once it has said so. A peer that does not know the question never does.
    pub const fn peer_relays(&self) -> Option<RelayAnswer> {
        self.relaying.peer
    }

    /// Asks the peer for a flow to a destination beyond it, on behalf of a program at `source`. Data may be written at
    /// once; nothing is sent before the peer has said that it relays.
    ///
    /// # Errors
    /// As of [`FlowMux::open`]. That the peer does not relay comes as [`FlowEvent::Refused`].
    pub fn open_beyond(&mut self, beyond: Beyond, source: SocketAddr) -> Result<FlowId, OpenError> {
        let held = hold(self, beyond, source);
        let id = held.inspect_err(|_| self.counters.open_failures += 1)?;
        self.counters.opened += 1;
        match self.relaying.peer {
            Some(answer) => self.settle_held(id, answer),
            None => {
                self.relaying.held.push(id);
                self.ask_whether_peer_relays();
            }
        }
        Ok(id)
    }

    /// Asks the peer, once, unless it has said whether it relays.
    pub fn ask_whether_peer_relays(&mut self) {
        let relaying = &mut self.relaying;
        relaying.ask_due |=
            relaying.peer.is_none() && !core::mem::replace(&mut relaying.asked, true);
    }

    /// Opens a flow that was held, or gives it up.
    fn settle_held(&mut self, id: FlowId, answer: RelayAnswer) {
        let refusal = match answer {
            RelayAnswer::Relays => match self.lanes.free_stream() {
                Some(stream) => return self.open_held(id, stream),
                None => Refusal::NoStream,
            },
            RelayAnswer::NotRelay | RelayAnswer::NotAllowed => Refusal::NotRelay,
        };
        self.kill(id, FlowEvent::Refused { flow: id, refusal });
    }

    fn open_held(&mut self, id: FlowId, stream: u16) {
        let key = LaneKey { opener: Opener::Us, stream };
        let generation = self.lanes.get_mut(key).map_or(0, |lane| lane.generation).wrapping_add(1);
        let Some(flow) = self.flows.get_mut(id) else { return };
        let Some(beyond) = flow.beyond.as_deref().cloned() else { return };
        (flow.key, flow.generation, flow.phase) = (key, generation, Phase::Opening);
        let (window, source) = (flow.recv.window(), flow.source);
        let open = Box::new(RelayOpen { window, source, beyond });
        let control = flow.control(Body::Relay(RelayBody::Open(open)));
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.begin(Some(id));
        }
        self.queue_ordered(key, false, control);
        self.schedule(id);
    }

    /// Where a flow leads that goes beyond its acceptor, and the relays by which it has come.
    pub fn beyond(&self, flow: FlowId) -> Option<&Beyond> {
        self.flows.get(flow)?.beyond.as_deref()
    }

    pub(super) fn handle_relay(
        &mut self,
        key: LaneKey,
        generation: u32,
        body: RelayBody,
    ) -> Result<(), FlowError> {
        match body {
            RelayBody::Ask => self.relaying.answer_due = true,
            RelayBody::Answer(answer) => {
                self.relaying.peer = Some(answer);
                for id in core::mem::take(&mut self.relaying.held) {
                    if self.flows.get(id).is_some_and(|flow| flow.phase == Phase::Held) {
                        self.settle_held(id, answer);
                    }
                }
            }
            RelayBody::Open(open) => return self.handle_relay_open(key, generation, *open),
            RelayBody::Register if self.relaying.own == RelayAnswer::Relays => {
                self.relaying.peer_registers = true;
                self.relaying.registered_due = true;
            }
            RelayBody::Register => self.relaying.answer_due = true,
            RelayBody::Registered => self.relaying.is_registered = true,
            RelayBody::Candidates(addresses) => {
                self.relaying.peer_candidates_new |= self.relaying.peer_candidates != addresses;
                self.relaying.peer_candidates = addresses;
            }
        }
        Ok(())
    }

    fn handle_relay_open(
        &mut self,
        key: LaneKey,
        generation: u32,
        open: RelayOpen,
    ) -> Result<(), FlowError> {
        let RelayOpen { window, source, beyond } = open;
        self.check_open(key, generation, RelayBody::OPEN)?;
        if self.relaying.own != RelayAnswer::Relays {
            self.counters.refused += 1;
            self.refuse_at_once(key, generation, Refusal::NotRelay);
            return Ok(());
        }
        if let Some(id) = self.take_in(key, generation, window, (beyond.named(), source)) {
            if let Some(flow) = self.flows.get_mut(id) {
                flow.beyond = Some(Box::new(beyond));
            }
            self.events.push_back(FlowEvent::IncomingBeyond(id));
        }
        Ok(())
    }

    /// The question and the answer, which concern no flow: they go before everything else.
    pub(super) fn poll_relaying(&mut self) -> Option<Outgoing> {
        let relaying = &mut self.relaying;
        let (from_opener, body) = if core::mem::take(&mut relaying.ask_due) {
            (true, RelayBody::Ask)
        } else if core::mem::take(&mut relaying.answer_due) {
            (false, RelayBody::Answer(relaying.own))
        } else if core::mem::take(&mut relaying.register_due) {
            (true, RelayBody::Register)
        } else if core::mem::take(&mut relaying.registered_due) {
            (false, RelayBody::Registered)
        } else if core::mem::take(&mut relaying.candidates_due) {
            (true, RelayBody::Candidates(relaying.candidates.clone()))
        } else {
            return None;
        };
        let message = Control { from_opener, generation: 0, body: Body::Relay(body) };
        Some(control(LaneKey { stream: 0, ..NO_LANE }, true, message.encode()))
    }
}

impl FlowMux {
    /// The receiving half of a flow that is to be opened here, with the first window that the memory allows.
    pub(super) fn first_recv(&mut self) -> Result<Recv, OpenError> {
        if self.ours >= self.config.max_flows {
            return Err(OpenError::TooManyFlows);
        }
        let Some(mut window) = self.config.open_window(&self.budget) else {
            self.reclaim();
            return Err(OpenError::NoMemory);
        };
        let whole = self.is_crowded() || window.raise_to_first();
        self.note_first(whole);
        Ok(Recv::new(window, self.now))
    }
}

/// Asks the peer, a relay, to lead flows of datagrams for the key of this side here. False if it was asked before.
pub(crate) fn register(mux: &mut FlowMux) -> bool {
    let asked = core::mem::replace(&mut mux.relaying.registers, true);
    mux.relaying.register_due |= !asked;
    !asked
}

/// Whether the peer has said that it does.
pub(crate) const fn is_registered(mux: &FlowMux) -> bool {
    mux.relaying.is_registered
}

/// Whether the peer has asked for that.
pub(crate) const fn peer_registers(mux: &FlowMux) -> bool {
    mux.relaying.peer_registers
}

/// Tells the peer addresses of this side, unless it was told the same before.
pub(crate) fn tell_candidates(mux: &mut FlowMux, addresses: SeenAt) -> bool {
    let relaying = &mut mux.relaying;
    let is_new = relaying.candidates != addresses;
    (relaying.candidates, relaying.candidates_due) = (addresses, relaying.candidates_due || is_new);
    is_new
}

/// What the peer has told of its own addresses.
pub(crate) const fn peer_candidates(mux: &FlowMux) -> &SeenAt {
    &mux.relaying.peer_candidates
}

/// Whether they are others than at the last call.
pub(crate) fn take_candidates_news(mux: &mut FlowMux) -> bool {
    core::mem::take(&mut mux.relaying.peer_candidates_new)
}

/// A flow that waits until the peer has said whether it relays.
fn hold(mux: &mut FlowMux, beyond: Beyond, source: SocketAddr) -> Result<FlowId, OpenError> {
    let recv = mux.first_recv()?;
    let mut flow = Flow::new((NO_LANE, 0), (beyond.named(), source), INITIAL_CREDIT, recv);
    flow.phase = Phase::Held;
    flow.beyond = Some(Box::new(beyond));
    Ok(mux.insert(flow))
}
