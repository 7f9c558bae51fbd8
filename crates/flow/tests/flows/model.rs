//! A reference model beside two muxes: what each user wrote, and what the other must therefore read.
//!
//! The channel between the muxes keeps the order of each stream and nothing else. The users follow
//! the events as a real one would: they read only after `Readable`, and after `writable` gave
//! nothing they write only after `Writable`, so a missing event shows as bytes that never arrive.

use crate::pair::{address, message, pattern};
use manypath_engine::{Duration, Instant, Message};
use manypath_flow::{FlowConfig, FlowEvent, FlowId, FlowMux, Refusal};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What one user does with one flow.
#[derive(Debug, Default)]
pub(crate) struct End {
    id: Option<FlowId>,
    /// Incoming, not answered yet.
    pending: bool,
    to_write: u64,
    written: u64,
    waits_for_writable: bool,
    wants_finish: bool,
    has_finished: bool,
    readable: bool,
    read: u64,
    consumed: u64,
    saw_finished: bool,
    saw_closed: bool,
    /// Reset or refused, by either user: bytes may be missing from here on.
    broken: bool,
    /// Reset or refused by this user: no more events.
    left: bool,
}

/// One flow, as both users see it. End 0 is A's, end 1 is Z's.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) ends: [End; 2],
}

/// Messages from one mux to the other.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    ordered: BTreeMap<u16, VecDeque<Message>>,
    unordered: Vec<Message>,
}

impl Channel {
    fn push(&mut self, message: Message) {
        if message.unordered {
            self.unordered.push(message);
        } else {
            self.ordered.entry(message.stream.0).or_default().push_back(message);
        }
    }

    /// Takes the next message of one stream, or an unordered one.
    fn pop(&mut self, pick: usize) -> Option<Message> {
        let choices = self.ordered.len() + self.unordered.len();
        let choice = pick.checked_rem(choices)?;
        if choice >= self.ordered.len() {
            return Some(self.unordered.swap_remove(choice - self.ordered.len()));
        }
        let (&stream, messages) = self.ordered.iter_mut().nth(choice)?;
        let message = messages.pop_front();
        if messages.is_empty() {
            self.ordered.remove(&stream);
        }
        message
    }
}

/// The muxes, the channels between them and the model.
pub(crate) struct World {
    pub(crate) muxes: [FlowMux; 2],
    /// `channels[side]` leads from that side to the other.
    channels: [Channel; 2],
    pub(crate) flows: Vec<Flow>,
    by_id: [BTreeMap<FlowId, usize>; 2],
    config: FlowConfig,
    now: Instant,
}

/// What a user or the network does next. `pick` chooses among what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Open,
    Accept {
        pick: usize,
    },
    Refuse {
        pick: usize,
    },
    Write {
        pick: usize,
        len: u64,
    },
    Read {
        pick: usize,
        times: usize,
    },
    Consume {
        pick: usize,
        part: u64,
    },
    Finish {
        pick: usize,
    },
    Reset {
        pick: usize,
    },
    Send {
        messages: usize,
        fragment: usize,
    },
    Deliver {
        pick: usize,
        messages: usize,
    },
    Events {
        most: usize,
    },
    /// A bulk transfer on a good network with readers that keep up.
    Rush {
        pick: usize,
        rounds: usize,
    },
}

fn source_of(flow: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(flow as u128)), 1000)
}

fn flow_of(source: SocketAddr) -> usize {
    match source.ip() {
        IpAddr::V6(ip) => u128::from(ip) as usize,
        IpAddr::V4(ip) => panic!("{ip}"),
    }
}

fn seed(flow: usize, side: usize) -> u64 {
    (flow * 2 + side) as u64
}

impl World {
    pub(crate) fn new(both_initiated: bool, streams: u16, config: FlowConfig) -> Self {
        let muxes = [true, both_initiated].map(|first| FlowMux::new(first, streams, config));
        Self {
            muxes,
            channels: Default::default(),
            flows: Vec::new(),
            by_id: Default::default(),
            config,
            now: Instant::ZERO,
        }
    }

    /// Every step takes a millisecond.
    fn tick(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        self.muxes.iter_mut().for_each(|mux| mux.advance_time(self.now));
    }

    pub(crate) fn step(&mut self, side: usize, step: Step) {
        self.tick();
        match step {
            Step::Open => self.open(side),
            Step::Accept { pick } => self.answer(side, pick, true),
            Step::Refuse { pick } => self.answer(side, pick, false),
            Step::Write { pick, len } => self.with_live(side, pick, |world, flow| {
                if !world.flows[flow].ends[side].wants_finish {
                    world.flows[flow].ends[side].to_write += len;
                }
                world.pump(side, flow);
            }),
            Step::Read { pick, times } => self.with_live(side, pick, |world, flow| {
                (0..times).for_each(|_| world.read_once(side, flow));
            }),
            Step::Consume { pick, part } => self.with_live(side, pick, |world, flow| {
                let end = &world.flows[flow].ends[side];
                let amount = (end.read - end.consumed) * part / 4;
                world.consume(side, flow, amount);
            }),
            Step::Finish { pick } => self.with_live(side, pick, |world, flow| {
                world.flows[flow].ends[side].wants_finish = true;
                world.pump(side, flow);
            }),
            Step::Reset { pick } => self.with_live(side, pick, |world, flow| {
                world.leave(side, flow, FlowMux::reset);
            }),
            Step::Send { messages, fragment } => self.send(side, messages, fragment),
            Step::Deliver { pick, messages } => self.deliver(side, pick, messages),
            Step::Events { most } => self.events(side, most),
            Step::Rush { pick, rounds } => self.with_live(side, pick, |world, flow| {
                (0..rounds).for_each(|_| world.rush(side, flow));
            }),
        }
        self.check_memory();
    }

    fn open(&mut self, side: usize) {
        let flow = self.flows.len();
        let Ok(id) = self.muxes[side].open(address("192.0.2.2:22"), source_of(flow)) else {
            return;
        };
        let mut ends = [End::default(), End::default()];
        ends[side].id = Some(id);
        self.flows.push(Flow { ends });
        self.by_id[side].insert(id, flow);
    }

    /// The flow chosen among those that this user knows and has not seen closed.
    fn with_live(&mut self, side: usize, pick: usize, act: impl FnOnce(&mut Self, usize)) {
        let live: Vec<_> = self.by_id[side].values().copied().collect();
        if let Some(choice) = pick.checked_rem(live.len()) {
            act(self, live[choice]);
        }
    }

    fn answer(&mut self, side: usize, pick: usize, accept: bool) {
        self.with_live(side, pick, |world, flow| {
            let end = &mut world.flows[flow].ends[side];
            if !end.pending {
                return;
            }
            end.pending = false;
            let Some(id) = end.id else { return };
            if accept {
                world.muxes[side].accept(id, address("192.0.2.2:50000"));
                world.pump(side, flow);
            } else if world.muxes[side].status(id).is_some() && !end.broken {
                world.leave(side, flow, |mux, id| mux.refuse(id, Refusal::Errno(111)));
            }
        });
    }

    /// This user ends the flow at once.
    fn leave(&mut self, side: usize, flow: usize, act: impl FnOnce(&mut FlowMux, FlowId)) {
        let Flow { ends } = &mut self.flows[flow];
        let Some(id) = ends[side].id else { return };
        ends[side].left = true;
        ends.iter_mut().for_each(|end| end.broken = true);
        act(&mut self.muxes[side], id);
        if self.muxes[side].status(id).is_some() {
            // A refusal of a flow that the peer has just reset does nothing.
            self.flows[flow].ends[side].left = false;
        } else {
            self.by_id[side].remove(&id);
        }
    }

    /// Writes what the user wants to write, as far as it goes.
    fn pump(&mut self, side: usize, flow: usize) {
        let end = &mut self.flows[flow].ends[side];
        let Some(id) = end.id.filter(|_| !end.pending && !end.left) else { return };
        while end.to_write > 0 && !end.waits_for_writable {
            let len = self.muxes[side].writable(id).min(end.to_write as usize);
            if len == 0 {
                end.waits_for_writable = true;
                return;
            }
            let bytes = pattern(seed(flow, side), end.written, len);
            if self.muxes[side].write(id, bytes).is_err() {
                assert!(end.broken, "write failed on a whole flow");
                return;
            }
            end.written += len as u64;
            end.to_write -= len as u64;
        }
        if end.wants_finish && end.to_write == 0 {
            end.has_finished = true;
            self.muxes[side].finish(id);
        }
    }

    fn read_once(&mut self, side: usize, flow: usize) {
        let end = &mut self.flows[flow].ends[side];
        let Some(id) = end.id.filter(|_| end.readable) else { return };
        let Some(bytes) = self.muxes[side].read(id) else {
            end.readable = false;
            return;
        };
        let expected = pattern(seed(flow, 1 - side), end.read, bytes.len());
        assert!(bytes == expected, "flow {flow}: wrong bytes at {}", end.read);
        end.read += bytes.len() as u64;
        let (read, written) = (end.read, self.flows[flow].ends[1 - side].written);
        assert!(read <= written, "flow {flow}: more bytes than were written");
    }

    fn consume(&mut self, side: usize, flow: usize, amount: u64) {
        let end = &mut self.flows[flow].ends[side];
        end.consumed += amount;
        if let Some(id) = end.id {
            self.muxes[side].consumed(id, amount as usize);
        }
    }

    fn send(&mut self, side: usize, messages: usize, fragment: usize) {
        for _ in 0..messages {
            let Some(sent) = self.muxes[side].poll_message(fragment) else { break };
            assert!(!sent.payload.is_empty());
            self.channels[side].push(message(sent));
        }
    }

    fn deliver(&mut self, from: usize, pick: usize, messages: usize) {
        for i in 0..messages {
            let Some(message) = self.channels[from].pop(pick.wrapping_add(i * 7)) else { break };
            self.muxes[1 - from].handle_message(message).unwrap();
        }
    }

    fn events(&mut self, side: usize, most: usize) {
        for _ in 0..most {
            let Some(event) = self.muxes[side].poll_event() else { break };
            self.event(side, event);
        }
    }

    fn event(&mut self, side: usize, event: FlowEvent) {
        let id = event.flow();
        if let FlowEvent::Incoming { source, .. } = event {
            let flow = flow_of(source);
            let end = &mut self.flows[flow].ends[side];
            assert!(end.id.is_none());
            (end.id, end.pending) = (Some(id), true);
            self.by_id[side].insert(id, flow);
            return;
        }
        let flow = self.by_id[side][&id];
        let end = &mut self.flows[flow].ends[side];
        assert!(!end.left && !end.saw_closed, "{event:?} after the last one");
        match event {
            FlowEvent::Incoming { .. } | FlowEvent::IncomingBeyond(_) => {}
            FlowEvent::Opened { .. } => assert!(!end.saw_finished),
            FlowEvent::Refused { refusal, .. } => self.refused(side, flow, refusal),
            FlowEvent::Readable(_) => end.readable = true,
            FlowEvent::Writable(_) => {
                end.waits_for_writable = false;
                self.pump(side, flow);
            }
            FlowEvent::Finished(_) => self.finished(side, flow),
            FlowEvent::Reset(_) => {
                assert!(end.broken, "flow {flow}: reset by nobody");
                (0..3).for_each(|_| self.read_once(side, flow));
            }
            FlowEvent::Closed(_) => {
                assert!(end.broken || (end.saw_finished && end.has_finished));
                end.saw_closed = true;
                self.by_id[side].remove(&id);
            }
        }
    }

    fn refused(&mut self, side: usize, flow: usize, refusal: Refusal) {
        let Flow { ends } = &mut self.flows[flow];
        match refusal {
            // The muxes refused because of their limits, the users do not know.
            Refusal::Busy => {
                assert!(ends[1 - side].id.is_none());
                (ends[1 - side].saw_closed, ends[1 - side].broken) = (true, true);
            }
            Refusal::Errno(111) => assert!(ends[1 - side].left),
            Refusal::NotAllowed
            | Refusal::NoStream
            | Refusal::Errno(_)
            | Refusal::NotRelay
            | Refusal::DestinationClosed
            | Refusal::NoSuchName
            | Refusal::Circle
            | Refusal::OverQuota
            | Refusal::Other(_) => {
                panic!("{refusal:?}")
            }
        }
        ends[side].broken = true;
    }

    fn finished(&mut self, side: usize, flow: usize) {
        let Flow { ends } = &mut self.flows[flow];
        assert!(ends[1 - side].has_finished, "finished by nobody");
        assert_eq!(ends[side].read, ends[1 - side].written, "finished before the end");
        ends[side].saw_finished = true;
    }

    fn rush(&mut self, side: usize, flow: usize) {
        let end = &mut self.flows[flow].ends[side];
        if !end.wants_finish && end.to_write == 0 {
            end.to_write = 100_000;
        }
        self.pump(side, flow);
        for side in [side, 1 - side] {
            self.send(side, 400, 1400);
            self.deliver(side, 0, 400);
            self.events(1 - side, usize::MAX);
            self.catch_up(1 - side, flow);
        }
        self.events(side, usize::MAX);
    }

    /// Reads and consumes everything there is.
    fn catch_up(&mut self, side: usize, flow: usize) {
        while self.flows[flow].ends[side].readable {
            self.read_once(side, flow);
        }
        let end = &self.flows[flow].ends[side];
        self.consume(side, flow, end.read - end.consumed);
    }

    /// No flow holds more than its window, all together no more than the budget.
    fn check_memory(&self) {
        for mux in &self.muxes {
            assert!(mux.promised() <= self.config.receive_budget);
            let mut promised = 0;
            for id in mux.flows() {
                let status = mux.status(id).unwrap();
                assert!(status.buffered <= self.config.max_window.into());
                assert!(status.receive_window <= self.config.max_window);
                promised += status.buffered + status.receive_credit;
            }
            assert!(promised <= mux.promised());
        }
    }

    /// Everybody reads, writes and finishes until nothing is left. Every flow must end.
    pub(crate) fn conclude(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "flows do not end: {:#?}", self.unfinished());
            self.tick();
            for side in 0..2 {
                self.events(side, usize::MAX);
                let live: Vec<_> = self.by_id[side].values().copied().collect();
                live.into_iter().for_each(|flow| self.conclude_flow(side, flow));
                self.send(side, 200, 1400);
                self.deliver(side, round, 400);
            }
            self.check_memory();
            if self.by_id.iter().all(BTreeMap::is_empty) && self.is_quiet() {
                break;
            }
        }
        self.check_conclusion();
    }

    fn conclude_flow(&mut self, side: usize, flow: usize) {
        let end = &mut self.flows[flow].ends[side];
        end.wants_finish = true;
        if core::mem::take(&mut end.pending) {
            let id = end.id.unwrap();
            self.muxes[side].accept(id, address("192.0.2.2:50000"));
        }
        self.pump(side, flow);
        self.catch_up(side, flow);
    }

    fn is_quiet(&self) -> bool {
        let empty = |channel: &Channel| channel.ordered.is_empty() && channel.unordered.is_empty();
        self.channels.iter().all(empty) && self.muxes.iter().all(FlowMux::is_drained)
    }

    fn unfinished(&self) -> Vec<(usize, &Flow)> {
        let done = |flow: &Flow| flow.ends.iter().all(|end| end.saw_closed || end.left);
        self.flows.iter().enumerate().filter(|(_, flow)| !done(flow)).collect()
    }

    fn check_conclusion(&self) {
        for (i, flow) in self.flows.iter().enumerate() {
            let [a, z] = &flow.ends;
            let whole = !a.broken && !z.broken;
            let complete = |end: &End, peer: &End| {
                end.saw_finished && end.saw_closed && end.read == peer.written && end.to_write == 0
            };
            assert!(!whole || (complete(a, z) && complete(z, a)), "flow {i}: {flow:?}");
        }
        for mux in &self.muxes {
            assert_eq!(
                (mux.promised(), mux.len(), mux.backlog(), mux.has_events()),
                (0, 0, 0, false)
            );
            assert_eq!(mux.counters().protocol_errors, 0);
        }
    }
}
