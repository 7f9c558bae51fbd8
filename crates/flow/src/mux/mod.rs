//! All flows of one association.
//!
//! `commands` is what the user asks for, `incoming` what the peer says, `outgoing` what is said to
//! the peer, `credit` how much may be said.

mod commands;
mod credit;
mod incoming;
mod outgoing;
pub(crate) mod relaying;
mod rotation;
mod turns;

use crate::config::FlowConfig;
use crate::datagrams::Datagrams;
use crate::event::FlowEvent;
use crate::flow::{End, Flow, Invitation, Phase};
use crate::id::FlowId;
use crate::lanes::{LaneKey, Lanes, Opener};
use crate::message::Control;
use crate::status::{FlowCounters, FlowStatus};
use crate::table::FlowTable;
use alloc::collections::VecDeque;
use bytes::Bytes;
use core::time::Duration;
use manypath_engine::Instant;
use manypath_window::Budget;
use relaying::Relaying;
use rotation::Rotation;

/// An ordered control message that waits to be sent.
#[derive(Debug)]
struct Ordered {
    key: LaneKey,
    /// The message is our end of the lane's flow.
    ends: bool,
    payload: Bytes,
}

/// The flows of one association, sans-IO.
///
/// Calls are of three kinds. Commands (`open`, `accept`, `refuse`, `write`, `read`, `consumed`,
/// `finish`, `reset`) change state; those about a flow that is gone do nothing. `handle_message`
/// brings in what the association received. `poll_message` and `poll_event` hand out what has come
/// of it; drain both after the others. Every call takes about constant time, however many flows
/// there are; only `flows` looks at all of them.
///
/// There is no clock: tell the time with `advance_time` before anything else happens at that time.
///
/// A mux lives as long as its association. When the association ends or its peer restarts, all
/// flows are lost: drop the mux and reset what hangs on its flows.
#[derive(Debug)]
pub struct FlowMux {
    config: FlowConfig,
    flows: FlowTable,
    lanes: Lanes,
    /// Flows opened here and flows opened by the peer.
    ours: usize,
    theirs: usize,
    budget: Budget,
    now: Duration,
    /// Bytes in all send queues.
    queued: usize,
    /// Bytes that all flows would send at once if the association took them.
    backlog: usize,
    /// Round trip of the slowest path that data may take.
    slowest_path: Duration,
    /// When a flow measured its round trip last.
    probed: Option<Duration>,
    ordered: VecDeque<Ordered>,
    /// Flows with unordered control messages to send.
    hints: VecDeque<FlowId>,
    /// Flows with data or FINISH to send, in turn.
    rotation: Rotation,
    events: VecDeque<FlowEvent>,
    counters: FlowCounters,
    datagrams: Datagrams,
    relaying: Relaying,
    /// Where the search for reclaimable credit goes on.
    reclaim_cursor: usize,
}

impl FlowMux {
    /// Bytes that `write` takes for a flow with an empty queue, however much all flows hold.
    pub const WRITE_FLOOR: usize = 16 << 10;

    /// A mux without flows for an association with `streams` streams usable in both directions, with a
    /// budget of its own. `initiated` says whether this side began the association; if both say so no harm is done.
    pub fn new(initiated: bool, streams: u16, config: FlowConfig) -> Self {
        Self::within(initiated, streams, config, Budget::new(config.receive_budget))
    }

    /// The same with a budget that others use too; `receive_budget` means nothing.
    pub fn within(initiated: bool, streams: u16, config: FlowConfig, budget: Budget) -> Self {
        let config = config.normalised();
        Self {
            config,
            flows: FlowTable::default(),
            lanes: Lanes::new(initiated, streams),
            ours: 0,
            theirs: 0,
            budget,
            now: Duration::ZERO,
            queued: 0,
            backlog: 0,
            slowest_path: Duration::ZERO,
            probed: None,
            ordered: VecDeque::new(),
            hints: VecDeque::new(),
            rotation: Rotation::default(),
            events: VecDeque::new(),
            counters: FlowCounters::default(),
            datagrams: Datagrams::default(),
            relaying: Relaying::default(),
            reclaim_cursor: 0,
        }
    }

    /// What happens from here on happens at `now`.
    pub fn advance_time(&mut self, now: Instant) {
        self.now = Duration::from_nanos(now.as_nanos());
    }

    /// A round trip over the slowest of the paths that data may take now is `round_trip`: windows follow it. Zero: there
    /// is one path only.
    pub fn set_slowest_path(&mut self, round_trip: Duration) {
        self.slowest_path = round_trip;
    }

    /// The flows of datagrams of the association.
    pub const fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    /// The same, to be used.
    pub const fn datagrams_mut(&mut self) -> &mut Datagrams {
        &mut self.datagrams
    }

    /// The next notification.
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        loop {
            let event = self.events.pop_front()?;
            let id = event.flow();
            let Some(flow) = self.flows.get_mut(id) else { continue };
            if event == FlowEvent::Writable(id) && flow.send.invitation == Invitation::OnTheWay {
                flow.send.invitation = Invitation::None;
            }
            if event == FlowEvent::Closed(id) {
                self.remove(id);
            }
            return Some(event);
        }
    }

    /// Whether `poll_event` may have something to give: what it causes may be more for `poll_message`.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether `poll_message` has something to give.
    pub fn has_messages(&self) -> bool {
        // The rotation may hold flows that are gone; they never make it seem empty.
        let sends =
            self.rotation.has_urgent() || !(self.rotation.is_empty() || self.awaits_writer());
        sends || self.relaying.is_due() || !(self.ordered.is_empty() && self.hints.is_empty())
    }

    /// Bytes that the flows would send now if the association took them: what they have queued, or all their credit where
    /// a writer has more than fits.
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// A snapshot of one flow.
    pub fn status(&self, flow: FlowId) -> Option<FlowStatus> {
        self.flows.get(flow).map(Flow::status)
    }

    /// Whether the `Finished` event of a flow was given.
    pub fn has_finished(&self, flow: FlowId) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.recv.is_finished())
    }

    /// The flows that exist now.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> {
        self.flows.iter().map(|(id, _)| id)
    }

    /// How many flows exist now.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether no flow exists now.
    pub fn is_empty(&self) -> bool {
        self.flows.len() == 0
    }

    /// Whether nothing is left to be done: no flow, nothing to send, and no flow that was reset or
    /// refused here whose end the peer has not confirmed. Looks at all streams.
    pub fn is_drained(&self) -> bool {
        self.is_empty() && !self.has_messages() && self.lanes.busy() == 0
    }

    /// Streams that may carry flows.
    pub fn streams(&self) -> u16 {
        self.lanes.count()
    }

    /// The association has the streams below `end` now; those from `first` on that are new may carry flows
    /// (RFC 6525). One that has no more of them changes nothing.
    pub fn add_streams(&mut self, first: u16, end: u16) {
        self.lanes.grow(first, end);
    }

    /// Flows that were opened here and have not ended.
    pub const fn opened_here(&self) -> usize {
        self.ours
    }

    /// Bytes of receive memory promised to peers, by all that share the budget.
    pub fn promised(&self) -> u64 {
        self.budget.promised()
    }

    /// The window that a program may count on which sizes one of its own by that of its transport: what the
    /// flow can have now if its reader takes it, but no more than `least` or twice the present one, so that a
    /// program's window grows with the path's as it does over TCP.
    pub fn offered_window(&self, flow: FlowId, least: u64) -> u64 {
        let own = self.flows.get(flow).map_or(0, |flow| flow.recv.window()).into();
        let most = self.budget.share(own).min(self.config.max_window.into()).max(own);
        least.max(2 * own).min(most)
    }

    /// What happened so far.
    pub fn counters(&self) -> &FlowCounters {
        &self.counters
    }

    fn insert(&mut self, flow: Flow) -> FlowId {
        *self.population(flow.key.opener) += 1;
        let key = flow.key;
        let id = self.flows.insert(flow);
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.begin(Some(id));
        }
        id
    }

    fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let mut flow = self.flows.remove(id)?;
        self.backlog -= flow.backlog;
        self.drop_unsent(flow.send.clear());
        *self.population(flow.key.opener) -= 1;
        Some(flow)
    }

    fn drop_unsent(&mut self, bytes: usize) {
        self.queued -= bytes;
        self.counters.unsent_bytes += bytes as u64;
    }

    fn population(&mut self, opener: Opener) -> &mut usize {
        match opener {
            Opener::Us => &mut self.ours,
            Opener::Peer => &mut self.theirs,
        }
    }

    /// Brings the sum over all flows up to date with what one of them can send now.
    fn update_backlog(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let bytes = if flow.is_sendable() { flow.send.backlog() } else { 0 };
        let before = core::mem::replace(&mut flow.backlog, bytes);
        self.backlog = (self.backlog - before).saturating_add(bytes);
    }

    /// Puts the flow into the rotation if it has something to send.
    fn schedule(&mut self, id: FlowId) {
        self.update_backlog(id);
        let Some(flow) = self.flows.get_mut(id) else { return };
        if flow.wants_turn() && !flow.scheduled {
            flow.scheduled = true;
            self.rotation.enter(self.now, id, flow);
            self.look_ahead();
        }
    }

    /// Asks flows whose turn is near to write for it.
    fn look_ahead(&mut self) {
        while let Some(id) = self.rotation.look_ahead() {
            let Some(flow) = self.flows.get(id) else { continue };
            let later = flow.send.invitation == Invitation::Later;
            let more = self.rotation.most_to_write(flow).is_some() && flow.send.has_more();
            if later || (more && self.room(flow) >= Self::WRITE_FLOOR) {
                self.ask(id);
            }
        }
    }

    fn ask(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.send.invitation = Invitation::OnTheWay;
        self.events.push_back(FlowEvent::Writable(id));
    }

    /// Whether the flow whose turn is next has been asked to write, and has not heard it yet.
    fn awaits_writer(&self) -> bool {
        let first = self.rotation.first().and_then(|id| self.flows.get(id));
        first
            .is_some_and(|flow| flow.send.invitation == Invitation::OnTheWay && !flow.is_sendable())
    }

    /// The flow has sent a message of `bytes`: it goes on if its turn is not over, otherwise it waits for
    /// the next one.
    fn schedule_again(&mut self, id: FlowId, bytes: usize) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.scheduled = flow.wants_turn();
        self.rotation.on_sent(id, flow, bytes);
    }

    fn queue_ordered(&mut self, key: LaneKey, ends: bool, control: Control) {
        self.ordered.push_back(Ordered { key, ends, payload: control.encode() });
    }

    /// Tells the reader of the end once it has read everything, and reports a flow that is done.
    fn report_end(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        if flow.phase == Phase::Dead {
            return;
        }
        if flow.recv.should_finish() {
            self.events.push_back(FlowEvent::Finished(id));
        }
        if flow.recv.is_finished() && flow.send.end == End::Sent && !flow.closing {
            flow.closing = true;
            self.events.push_back(FlowEvent::Closed(id));
        }
    }
}
