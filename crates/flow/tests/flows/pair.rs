//! Two muxes and what is between them.

use bytes::Bytes;
use manypath_engine::{Instant, Message, Outgoing, Tsn};
use manypath_flow::{FlowConfig, FlowEvent, FlowId, FlowMux};
use std::collections::VecDeque;
use std::net::SocketAddr;

pub(crate) const FRAGMENT: usize = 1400;

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn destination() -> SocketAddr {
    address("192.0.2.2:22")
}

pub(crate) fn source() -> SocketAddr {
    address("[2001:db8::1]:40000")
}

pub(crate) fn local() -> SocketAddr {
    address("192.0.2.2:50000")
}

pub(crate) fn message(sent: Outgoing) -> Message {
    let Outgoing { stream, ppid, unordered, payload } = sent;
    Message { stream, ppid, unordered, number: 0, tsn: Tsn(0), payload, more: false }
}

pub(crate) fn events(mux: &mut FlowMux) -> Vec<FlowEvent> {
    std::iter::from_fn(|| mux.poll_event()).collect()
}

pub(crate) fn read_all(mux: &mut FlowMux, flow: FlowId) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = mux.read(flow) {
        mux.consumed(flow, bytes.len());
        all.extend_from_slice(&bytes);
    }
    all
}

/// Muxes `a` (which began the association) and `z`, and the messages on their way.
pub(crate) struct Pair {
    pub(crate) a: FlowMux,
    pub(crate) z: FlowMux,
    pub(crate) to_z: VecDeque<Message>,
    pub(crate) to_a: VecDeque<Message>,
    now: Instant,
}

impl Pair {
    pub(crate) fn new(streams: u16) -> Self {
        Self::with(streams, FlowConfig::default())
    }

    pub(crate) fn with(streams: u16, config: FlowConfig) -> Self {
        Self {
            a: FlowMux::new(true, streams, config),
            z: FlowMux::new(false, streams, config),
            to_z: VecDeque::new(),
            to_a: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, millis: u64) {
        self.now = self.now + std::time::Duration::from_millis(millis);
        self.a.advance_time(self.now);
        self.z.advance_time(self.now);
    }

    /// Everything that A has to say leaves A.
    pub(crate) fn send_a(&mut self) {
        while let Some(sent) = self.a.poll_message(FRAGMENT) {
            self.to_z.push_back(message(sent));
        }
    }

    /// Everything that Z has to say leaves Z.
    pub(crate) fn send_z(&mut self) {
        while let Some(sent) = self.z.poll_message(FRAGMENT) {
            self.to_a.push_back(message(sent));
        }
    }

    /// Everything on its way to Z arrives.
    pub(crate) fn arrive_z(&mut self) {
        while let Some(message) = self.to_z.pop_front() {
            self.z.handle_message(message).unwrap();
        }
    }

    /// Everything on its way to A arrives.
    pub(crate) fn arrive_a(&mut self) {
        while let Some(message) = self.to_a.pop_front() {
            self.a.handle_message(message).unwrap();
        }
    }

    /// Messages go to and fro until there are none.
    pub(crate) fn settle(&mut self) {
        while self.is_busy() {
            self.send_a();
            self.send_z();
            self.arrive_z();
            self.arrive_a();
        }
    }

    fn is_busy(&self) -> bool {
        let on_the_way = !self.to_a.is_empty() || !self.to_z.is_empty();
        on_the_way || self.a.has_messages() || self.z.has_messages()
    }

    /// A flow that A has opened and Z accepted, with the events taken.
    pub(crate) fn flow(&mut self) -> (FlowId, FlowId) {
        let at_a = self.a.open(destination(), source()).unwrap();
        self.settle();
        let at_z = match events(&mut self.z)[..] {
            [FlowEvent::Incoming { flow, .. }] => flow,
            ref other => panic!("{other:?}"),
        };
        self.z.accept(at_z, local());
        self.settle();
        assert_eq!(events(&mut self.a), [FlowEvent::Opened { flow: at_a, local: local() }]);
        (at_a, at_z)
    }
}

/// `len` bytes that differ from place to place.
pub(crate) fn pattern(seed: u64, offset: u64, len: usize) -> Bytes {
    (offset..offset + len as u64).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8).collect()
}
