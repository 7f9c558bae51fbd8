//! What the peer says about datagrams.

use super::{
    DATAGRAM_STREAMS, DatagramEvent, DatagramFlow, Datagrams, Flow, HEADER, MAX_DATAGRAM, MAX_FLOWS,
};
use crate::error::FlowError;
use crate::event::Refusal;
use crate::message::{DatagramBody, DatagramOpen};
use bytes::Bytes;
use core::time::Duration;

impl Datagrams {
    /// Takes a control message about the flow `number` of the sender or, if not `from_opener`, of ours.
    /// Nothing that comes before an agreement means anything.
    pub(crate) fn handle_control(
        &mut self,
        now: Duration,
        stream: u16,
        (from_opener, number): (bool, u32),
        body: DatagramBody,
    ) -> Result<(), FlowError> {
        let flow = DatagramFlow { opened_here: !from_opener, number };
        if !self.are_agreed() {
            self.counters.ignored += 1;
            return Ok(());
        }
        match body {
            DatagramBody::Open(open) | DatagramBody::OpenBeyond(open) => {
                let DatagramOpen { destination, source, .. } = open;
                let event = if matches!(body, DatagramBody::Open(_)) {
                    DatagramEvent::Incoming { flow, destination, source }
                } else {
                    DatagramEvent::IncomingBeyond { flow, destination }
                };
                return self.handle_open(now, stream, flow, (body.kind(), open), event);
            }
            DatagramBody::Accept | DatagramBody::Unreachable(_) if from_opener => {
                return Err(FlowError::Unexpected(body.kind()));
            }
            DatagramBody::Accept => self.handle_accept(flow),
            DatagramBody::Close(why) => self.handle_close(flow, why),
            DatagramBody::SeenAt(seen) => {
                if self.flows.contains_key(&flow) {
                    self.events.push_back(DatagramEvent::SeenAt(flow, seen));
                }
            }
            DatagramBody::Unreachable(errno) => {
                if self.flows.contains_key(&flow) {
                    self.events.push_back(DatagramEvent::Unreachable(flow, errno));
                }
            }
        }
        Ok(())
    }

    fn handle_open(
        &mut self,
        now: Duration,
        stream: u16,
        flow: DatagramFlow,
        (kind, open): (u8, DatagramOpen),
        event: DatagramEvent,
    ) -> Result<(), FlowError> {
        if flow.opened_here || self.stream_of(flow).is_none_or(|own| own.0 != stream) {
            return Err(FlowError::Unexpected(kind));
        }
        if self.latest.get(&stream).is_some_and(|latest| *latest >= flow.number) {
            return Err(FlowError::WrongGeneration(stream));
        }
        self.latest.insert(stream, flow.number);
        self.counters.incoming += 1;
        let DatagramOpen { lifetime_ms, destination, source } = open;
        let lifetime = Duration::from_millis(lifetime_ms.into());
        let early = self.early.take(flow.number);
        self.flows.insert(flow, Flow::new(destination, source, lifetime));
        if self.flows.keys().filter(|flow| !flow.opened_here).count() > MAX_FLOWS {
            self.counters.late += early.len() as u64;
            self.close(flow, Some(Refusal::Busy));
            return Ok(());
        }
        self.events.push_back(event);
        for (came, payload) in early {
            if came.saturating_add(lifetime) < now {
                self.counters.late += 1;
            } else {
                self.deliver(flow, payload);
            }
        }
        Ok(())
    }

    fn handle_accept(&mut self, flow: DatagramFlow) {
        let Some(known) = self.flows.get_mut(&flow) else { return };
        if !known.accepted {
            known.accepted = true;
            self.events.push_back(DatagramEvent::Accepted(flow));
        }
    }

    fn handle_close(&mut self, flow: DatagramFlow, why: Option<Refusal>) {
        if self.forget(flow).is_some() {
            self.counters.closed_by_peer += 1;
            self.events.push_back(DatagramEvent::Closed(flow, why));
        }
    }

    /// Takes a datagram; `of_opener` says that its sender has opened the flow.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Duration,
        of_opener: bool,
        mut message: Bytes,
    ) -> Result<(), FlowError> {
        let number = message.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let number = number.ok_or(FlowError::Truncated(0))?;
        let payload = message.split_off(HEADER);
        if payload.len() > MAX_DATAGRAM {
            return Err(FlowError::TooLarge);
        }
        let flow = DatagramFlow { opened_here: !of_opener, number };
        if self.flows.contains_key(&flow) {
            self.deliver(flow, payload);
        } else if of_opener && self.is_to_come(number) {
            self.counters.early += 1;
            self.counters.late += self.early.keep(number, now, payload);
        } else {
            self.counters.late += 1;
        }
        Ok(())
    }

    /// Whether the peer has not opened the flow yet.
    fn is_to_come(&self, number: u32) -> bool {
        let offset = number % u32::from(DATAGRAM_STREAMS);
        let stream = self.first_stream.map(|first| u32::from(first) + offset);
        let latest = stream.and_then(|s| self.latest.get(&u16::try_from(s).unwrap_or_default()));
        latest.is_none_or(|latest| *latest < number)
    }

    fn deliver(&mut self, flow: DatagramFlow, payload: Bytes) {
        let Some(known) = self.flows.get_mut(&flow) else { return };
        known.received += 1;
        known.received_bytes += payload.len() as u64;
        self.counters.received += 1;
        self.events.push_back(DatagramEvent::Received(flow, payload));
    }
}
