//! Connections through flows, in virtual time: what the live stack puts between TCP programs and the association.
//!
//! ```text
//! writer ─▶ relay ─▶ FlowMux ─▶ feed ─▶ association ─▶ ... ─▶ association ─▶ FlowMux ─▶ relay ─▶ reader
//! ```
//!
//! The flows, their windows and the rule that feeds the association are those of the live stack. The programs and the
//! loopback sockets take no time: the writer always has data, the reader takes all that comes.

use super::ledger::Ledger;
use super::network::Network;
use crate::scenario::{AppKind, AppSpec};
use crate::world::HostId;
use bytes::Bytes;
use manypath_engine::{AssociationId, Endpoint, Instant, Message, Outgoing};
use manypath_flow::{Fed, FlowConfig, FlowEvent, FlowId, FlowMux, Flows, feed, unsent_limit};
use manypath_window::Budget;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes that a relay reads from a socket at a time, as the live stack does.
const READ_SIZE: usize = 64 << 10;
/// Memory of the windows of one host, as the live stack has it by default.
const WINDOW_MEMORY: u64 = 256 << 20;

/// Where the connections go; nobody looks at it.
const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

static ZEROS: [u8; READ_SIZE] = [0; READ_SIZE];

/// The connections of a scenario, at both ends.
#[derive(Debug)]
pub(super) struct Connections {
    number: u16,
    bytes: u64,
    download: bool,
    opened: bool,
    ends: [End; 2],
}

/// What one host has above its association.
#[derive(Debug)]
struct End {
    flows: Flows,
    held: Option<Outgoing>,
    /// Whether it is the one that sends.
    writes: bool,
    /// What is left to be written, by flow. Empty at the receiver.
    writers: BTreeMap<FlowId, u64>,
    /// Something has changed since it was looked at last.
    dirty: bool,
    /// The association had enough when it was fed last.
    waits: bool,
}

impl Connections {
    /// Those that the scenario asks for, if it does.
    pub(super) fn new(apps: &[AppSpec]) -> Option<Self> {
        let [AppSpec { kind: AppKind::Connection { bytes, download }, streams, .. }] = *apps else {
            return None;
        };
        let ends = [true, false].map(|sender| End::new(sender != download, streams, sender));
        Some(Self { number: streams, bytes, download, opened: false, ends })
    }

    /// Bytes that all of them carry.
    pub(super) fn total(&self) -> u64 {
        self.bytes * u64::from(self.number)
    }

    /// A message has come to the sender (0) or the receiver (1).
    pub(super) fn handle_message(&mut self, now: Instant, side: usize, message: Message) {
        let end = &mut self.ends[side];
        end.flows.advance_time(now);
        end.dirty = true;
        let handled = end.flows.handle_message(message);
        assert!(handled.is_ok(), "both ends speak the same protocol: {handled:?}");
    }

    /// The association of the sender (0) or the receiver (1) takes messages again.
    pub(super) fn on_writable(&mut self, side: usize) {
        self.ends[side].dirty = true;
    }

    /// Lets both ends do what there is to do.
    pub(super) fn work(
        &mut self,
        network: &mut Network,
        associations: [Option<AssociationId>; 2],
        ledgers: &mut [Ledger; 2],
    ) {
        if !self.opened {
            self.open(network.world.now());
        }
        let hosts = [network.sender, network.receiver];
        for (end, (host, id)) in self.ends.iter_mut().zip(hosts.into_iter().zip(associations)) {
            if let Some(id) = id.filter(|id| end.has_work(network.world.look(host), *id)) {
                end.work(network, (host, id), self.bytes, &mut ledgers[0]);
            }
        }
    }

    fn open(&mut self, now: Instant) {
        self.opened = true;
        let end = &mut self.ends[usize::from(self.download)];
        end.flows.advance_time(now);
        end.dirty = true;
        for number in 0..self.number {
            let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000 + number % 20_000));
            let opened = end.flows.open(SERVICE, source);
            let flow = opened.unwrap_or_else(|error| unreachable!("each has a stream: {error:?}"));
            if !self.download {
                end.writers.insert(flow, self.bytes);
            }
        }
    }
}

impl End {
    fn new(initiated: bool, streams: u16, writes: bool) -> Self {
        let budget = Budget::new(WINDOW_MEMORY);
        let mux = FlowMux::within(initiated, streams, FlowConfig::default(), budget);
        Self {
            flows: Flows::Mux(Box::new(mux)),
            held: None,
            writes,
            writers: BTreeMap::new(),
            dirty: false,
            waits: false,
        }
    }

    fn has_work(&self, endpoint: &Endpoint, id: AssociationId) -> bool {
        self.dirty || (self.waits && endpoint.unsent(id) < unsent_limit(endpoint, id))
    }

    /// Moves bytes until nothing moves any more.
    fn work(
        &mut self,
        network: &mut Network,
        (host, id): (HostId, AssociationId),
        bytes: u64,
        ledger: &mut Ledger,
    ) {
        let now = network.world.now();
        self.flows.advance_time(now);
        loop {
            while let Some(event) = self.flows.poll_event() {
                self.on_event(now, event, bytes, ledger);
            }
            let endpoint = network.world.endpoint(host);
            let (fed, taken) = feed(now, endpoint, id, &mut self.flows, &mut self.held);
            self.waits = fed == Fed::Enough;
            if taken == 0 && !self.flows.has_events() {
                break;
            }
        }
        self.dirty = false;
    }

    fn on_event(&mut self, now: Instant, event: FlowEvent, bytes: u64, ledger: &mut Ledger) {
        match event {
            FlowEvent::Incoming { flow, .. } => {
                self.flows.accept(flow, SERVICE);
                if self.writes {
                    self.writers.insert(flow, bytes);
                }
                self.write(flow);
            }
            FlowEvent::Opened { flow, .. } | FlowEvent::Writable(flow) => self.write(flow),
            FlowEvent::Readable(flow) => self.read(now, flow, ledger),
            FlowEvent::Finished(flow) => self.flows.finish(flow),
            FlowEvent::IncomingBeyond(_)
            | FlowEvent::Refused { .. }
            | FlowEvent::Reset(_)
            | FlowEvent::Closed(_) => {}
        }
    }

    /// Lets the program write all that the flow takes.
    fn write(&mut self, flow: FlowId) {
        let Some(left) = self.writers.get_mut(&flow) else { return };
        while *left > 0 {
            let room = self.flows.writable(flow).min(READ_SIZE);
            let len = usize::try_from(*left).unwrap_or(room).min(room);
            if len == 0 || self.flows.write(flow, Bytes::from_static(&ZEROS[..len])).is_err() {
                return;
            }
            *left -= len as u64;
        }
        self.writers.remove(&flow);
        self.flows.finish(flow);
    }

    fn read(&mut self, now: Instant, flow: FlowId, ledger: &mut Ledger) {
        while let Some(piece) = self.flows.read(flow) {
            ledger.note_delivery(now, 0, piece.len(), None);
            self.flows.consumed(flow, piece.len());
        }
    }
}
