//! What the peer says.

use super::FlowMux;
use crate::error::FlowError;
use crate::event::{FlowEvent, Refusal};
use crate::flow::{End, Flow, Phase, Recv};
use crate::id::FlowId;
use crate::lanes::{Age, LaneKey, Opener};
use crate::message::{Accept, Body, Control, Finish, Open, Parsed};
use crate::{
    PPID_CONTROL, PPID_DATA_OF_ACCEPTOR, PPID_DATA_OF_OPENER, PPID_DATAGRAM_OF_ACCEPTOR,
    PPID_DATAGRAM_OF_OPENER,
};
use bytes::Bytes;
use core::net::SocketAddr;
use manypath_engine::Message;

impl FlowMux {
    /// Takes a message that the association received.
    ///
    /// # Errors
    /// The peer broke the protocol: abort the association and give the error's text as the reason.
    pub fn handle_message(&mut self, message: Message) -> Result<(), FlowError> {
        let handled = self.dispatch(message);
        self.counters.protocol_errors += u64::from(handled.is_err());
        handled
    }

    fn dispatch(&mut self, message: Message) -> Result<(), FlowError> {
        let stream = message.stream.0;
        let opener = match message.ppid {
            PPID_CONTROL => return self.handle_control(&message),
            PPID_DATA_OF_OPENER => Opener::Peer,
            PPID_DATA_OF_ACCEPTOR => Opener::Us,
            PPID_DATAGRAM_OF_OPENER | PPID_DATAGRAM_OF_ACCEPTOR if self.datagrams.are_agreed() => {
                return self.handle_datagram(message);
            }
            other => return Err(FlowError::UnknownPpid(other.0)),
        };
        if message.unordered {
            return Err(FlowError::Unordered);
        }
        self.handle_data(LaneKey { opener, stream }, message.payload)
    }

    fn handle_datagram(&mut self, message: Message) -> Result<(), FlowError> {
        // The association holds a whole one, or something else than a datagram.
        if message.more {
            return Err(FlowError::TooLarge);
        }
        let of_opener = message.ppid == PPID_DATAGRAM_OF_OPENER;
        self.datagrams.handle_datagram(self.now, of_opener, message.payload)
    }

    fn handle_data(&mut self, key: LaneKey, payload: Bytes) -> Result<(), FlowError> {
        let stream = key.stream;
        let lane = self.lanes.get_mut(key).ok_or(FlowError::InvalidStream(stream))?;
        if !lane.is_busy() {
            return Err(FlowError::NoFlow(stream));
        }
        if lane.has_got_end() {
            return Err(FlowError::AfterEnd(stream));
        }
        let Some(id) = lane.flow else {
            self.counters.discarded_bytes += payload.len() as u64;
            return Ok(());
        };
        self.check_accepted(id, stream)?;
        if self.flows.get_mut(id).is_some_and(|flow| !flow.recv.receive(payload)) {
            return Err(FlowError::CreditExceeded(stream));
        }
        if self.flows.get_mut(id).is_some_and(|flow| flow.recv.should_announce()) {
            self.events.push_back(FlowEvent::Readable(id));
        }
        Ok(())
    }

    /// The acceptor sends ACCEPT before anything else.
    fn check_accepted(&self, id: FlowId, stream: u16) -> Result<(), FlowError> {
        match self.flows.get(id) {
            Some(flow) if flow.phase == Phase::Opening => Err(FlowError::NotAccepted(stream)),
            Some(_) | None => Ok(()),
        }
    }

    fn handle_control(&mut self, message: &Message) -> Result<(), FlowError> {
        // Parts of data are data; a part of anything else says nothing.
        if message.more {
            return Err(FlowError::TooLarge);
        }
        let control = match Control::parse(&message.payload)? {
            Parsed::Control(control) => control,
            Parsed::Ignorable(_) => {
                self.counters.ignored_messages += 1;
                return Ok(());
            }
        };
        if message.unordered && control.body.is_ordered() {
            return Err(FlowError::Unordered);
        }
        if let Body::Datagram(body) = control.body {
            let flow = (control.from_opener, control.generation);
            return self.datagrams.handle_control(self.now, message.stream.0, flow, body);
        }
        let opener = if control.from_opener { Opener::Peer } else { Opener::Us };
        let key = LaneKey { opener, stream: message.stream.0 };
        if let Body::Open(open) = control.body {
            return self.handle_open(key, control.generation, open);
        }
        if let Body::Relay(relay) = control.body {
            return self.handle_relay(key, control.generation, relay);
        }
        let lane = self.lanes.get_mut(key).ok_or(FlowError::InvalidStream(key.stream))?;
        match lane.age(control.generation) {
            Age::Current => self.handle_current(key, control.body),
            Age::Late => self.handle_late(key, control.body),
            Age::Early => self.handle_early(key, control.body),
        }
    }

    fn handle_open(&mut self, key: LaneKey, generation: u32, open: Open) -> Result<(), FlowError> {
        let Open { window, destination, source } = open;
        self.check_open(key, generation, Body::Open(open).kind())?;
        if let Some(flow) = self.take_in(key, generation, window, (destination, source)) {
            self.events.push_back(FlowEvent::Incoming { flow, destination, source });
        }
        Ok(())
    }

    /// Whether the peer may open a flow there now, by a message of this type.
    pub(super) fn check_open(
        &mut self,
        key: LaneKey,
        generation: u32,
        kind: u8,
    ) -> Result<(), FlowError> {
        if key.opener == Opener::Us {
            return Err(FlowError::Unexpected(kind));
        }
        let lane = self.lanes.get_mut(key).ok_or(FlowError::InvalidStream(key.stream))?;
        if lane.is_busy() {
            return Err(FlowError::StreamBusy(key.stream));
        }
        if lane.generation.checked_add(1) != Some(generation) {
            return Err(FlowError::WrongGeneration(key.stream));
        }
        self.counters.incoming += 1;
        Ok(())
    }

    /// A flow that the peer opens, unless there is no room: then it is refused.
    pub(super) fn take_in(
        &mut self,
        key: LaneKey,
        generation: u32,
        window: u32,
        ends: (SocketAddr, SocketAddr),
    ) -> Option<FlowId> {
        if self.theirs >= self.config.max_flows {
            self.counters.refused_too_many += 1;
            self.refuse_at_once(key, generation, Refusal::Busy);
            return None;
        }
        let Some(least) = self.config.open_window(&self.budget) else {
            self.counters.refused_no_memory += 1;
            self.reclaim();
            self.refuse_at_once(key, generation, Refusal::Busy);
            return None;
        };
        let recv = Recv::new(least, self.now);
        Some(self.insert(Flow::new((key, generation), ends, window, recv)))
    }

    pub(super) fn refuse_at_once(&mut self, key: LaneKey, generation: u32, why: Refusal) {
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.begin(None);
        }
        let body = Body::Refuse(why);
        let refusal = Control { from_opener: false, generation, body };
        self.queue_ordered(key, true, refusal);
    }

    /// After its opener's and its acceptor's end a flow may still be the subject of a RESET that
    /// followed a FINISH, and of unordered messages.
    fn handle_late(&mut self, key: LaneKey, body: Body) -> Result<(), FlowError> {
        match body {
            Body::Reset
            | Body::Credit(_)
            | Body::Want(_)
            | Body::Return(_)
            | Body::Probe(_)
            | Body::Report(_) => {
                self.counters.late_messages += 1;
                Ok(())
            }
            Body::Open(_)
            | Body::Accept(_)
            | Body::Refuse(_)
            | Body::Finish(_)
            | Body::Datagram(_)
            | Body::Relay(_) => Err(FlowError::NoFlow(key.stream)),
        }
    }

    /// An unordered message can overtake the OPEN of its flow.
    fn handle_early(&mut self, key: LaneKey, body: Body) -> Result<(), FlowError> {
        if body.is_ordered() {
            return Err(FlowError::WrongGeneration(key.stream));
        }
        self.counters.early_messages += 1;
        Ok(())
    }

    fn handle_current(&mut self, key: LaneKey, body: Body) -> Result<(), FlowError> {
        let Some(lane) = self.lanes.get_mut(key) else { return Ok(()) };
        let (id, got_end) = (lane.flow, lane.has_got_end());
        match body {
            Body::Open(_) => Err(FlowError::StreamBusy(key.stream)),
            Body::Datagram(_) | Body::Relay(_) => Err(FlowError::Unexpected(body.kind())),
            Body::Accept(_) | Body::Refuse(_) | Body::Finish(_) if got_end => {
                Err(FlowError::AfterEnd(key.stream))
            }
            Body::Accept(_) | Body::Refuse(_) if key.opener == Opener::Peer => {
                Err(FlowError::Unexpected(body.kind()))
            }
            Body::Accept(accept) => self.handle_accept(id, accept),
            Body::Refuse(refusal) => self.handle_refuse(key, id, refusal),
            Body::Finish(finish) => self.handle_finish(key, id, finish),
            Body::Reset => {
                self.handle_reset(key, id);
                Ok(())
            }
            Body::Credit(credit) => {
                self.handle_credit(id, credit);
                Ok(())
            }
            Body::Want(want) => {
                self.handle_want(id, want);
                Ok(())
            }
            Body::Return(back) => self.handle_return(key, id, back),
            Body::Probe(probe) => {
                self.handle_probe(key, id, probe);
                Ok(())
            }
            Body::Report(report) => {
                self.handle_report(id, report);
                Ok(())
            }
        }
    }

    fn handle_accept(&mut self, id: Option<FlowId>, accept: Accept) -> Result<(), FlowError> {
        let Some(id) = id else { return Ok(()) };
        let Some(flow) = self.flows.get_mut(id) else { return Ok(()) };
        if flow.phase != Phase::Opening {
            return Err(FlowError::Unexpected(Body::Accept(accept).kind()));
        }
        flow.phase = Phase::Open;
        flow.local = Some(accept.local);
        flow.send.grant(accept.window.into(), accept.window);
        self.counters.accepted_by_peer += 1;
        self.events.push_back(FlowEvent::Opened { flow: id, local: accept.local });
        self.schedule(id);
        self.note_shortage(id);
        Ok(())
    }

    fn handle_refuse(
        &mut self,
        key: LaneKey,
        id: Option<FlowId>,
        refusal: Refusal,
    ) -> Result<(), FlowError> {
        if let Some(flow) = id {
            if self.flows.get(flow).is_some_and(|flow| flow.phase != Phase::Opening) {
                return Err(FlowError::Unexpected(Body::Refuse(refusal).kind()));
            }
            self.counters.refused_by_peer += 1;
            self.kill(flow, FlowEvent::Refused { flow, refusal });
        }
        self.lanes.end_received(key);
        Ok(())
    }

    fn handle_finish(
        &mut self,
        key: LaneKey,
        id: Option<FlowId>,
        finish: Finish,
    ) -> Result<(), FlowError> {
        if let Some(id) = id {
            self.check_accepted(id, key.stream)?;
            let received = self.flows.get(id).map(|flow| flow.recv.received());
            if received.is_some_and(|received| received != finish.bytes) {
                return Err(FlowError::WrongLength(key.stream));
            }
            if let Some(flow) = self.flows.get_mut(id) {
                flow.recv.end();
            }
            self.report_end(id);
        }
        self.lanes.end_received(key);
        Ok(())
    }

    fn handle_reset(&mut self, key: LaneKey, id: Option<FlowId>) {
        if let Some(id) = id {
            self.counters.resets_by_peer += 1;
            self.kill(id, FlowEvent::Reset(id));
        }
        self.lanes.end_received(key);
    }

    /// The flow is over on the wire, except for our end if that was not sent. What was received
    /// before stays until the user has taken the last event.
    pub(super) fn kill(&mut self, id: FlowId, event: FlowEvent) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.recv.end();
        flow.phase = Phase::Dead;
        flow.closing = true;
        let unsent = flow.send.clear();
        let (key, sent_end) = (flow.key, flow.send.end == End::Sent);
        let reset = flow.control(Body::Reset);
        self.drop_unsent(unsent);
        self.update_backlog(id);
        if self.detach(id, key) && !sent_end {
            self.queue_ordered(key, true, reset);
        }
        self.events.push_back(event);
        self.events.push_back(FlowEvent::Closed(id));
    }
}
