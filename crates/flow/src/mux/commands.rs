//! What the user asks for.

use super::FlowMux;
use crate::INITIAL_CREDIT;
use crate::error::{OpenError, WriteError};
use crate::event::{FlowEvent, Refusal};
use crate::flow::{End, Flow, Invitation, Phase};
use crate::id::FlowId;
use crate::lanes::{LaneKey, Opener};
use crate::message::{Accept, Body, Open};
use crate::share::Share;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

impl FlowMux {
    /// Asks the peer for a flow to `destination` on behalf of a program at `source`. Data may be
    /// written at once.
    pub fn open(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> Result<FlowId, OpenError> {
        let opened = self.try_open(destination, source);
        match opened {
            Ok(_) => self.counters.opened += 1,
            Err(_) => self.counters.open_failures += 1,
        }
        opened
    }

    fn try_open(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> Result<FlowId, OpenError> {
        let recv = self.first_recv()?;
        let window = recv.window();
        let stream = self.lanes.free_stream().ok_or(OpenError::NoStream)?;
        let key = LaneKey { opener: Opener::Us, stream };
        let generation = self.lanes.get_mut(key).map_or(0, |lane| lane.generation).wrapping_add(1);
        let flow = Flow::new((key, generation), (destination, source), INITIAL_CREDIT, recv);
        let control = flow.control(Body::Open(Open { window, destination, source }));
        self.queue_ordered(key, false, control);
        Ok(self.insert(flow))
    }

    /// Whether there are so many flows that new ones begin with a small window.
    pub(super) fn is_crowded(&self) -> bool {
        self.flows.len() > self.config.first_windows
    }

    /// A flow has begun, with its first window or a smaller one for want of memory.
    pub(super) fn note_first(&mut self, whole: bool) {
        if !whole {
            self.counters.growths_no_memory += 1;
            self.reclaim();
        }
    }

    /// Accepts a flow of the peer: it is connected, from `local` on this host.
    pub fn accept(&mut self, id: FlowId, local: SocketAddr) {
        if self.flows.get(id).is_none_or(|flow| flow.phase != Phase::Incoming) {
            return;
        }
        let (now, crowded) = (self.now, self.is_crowded());
        let Some(flow) = self.flows.get_mut(id) else { return };
        let whole = crowded || flow.recv.raise_to_first();
        // What was consumed already is granted with it.
        let (_, granted) = flow.recv.grant(now);
        let window = u32::try_from(granted).unwrap_or(u32::MAX);
        flow.phase = Phase::Open;
        flow.local = Some(local);
        let control = flow.control(Body::Accept(Accept { window, local }));
        let key = flow.key;
        self.counters.accepted += 1;
        self.queue_ordered(key, false, control);
        self.note_first(whole);
        self.schedule(id);
        self.grant_if_due(id);
    }

    /// Refuses a flow of the peer. The flow is gone at once.
    pub fn refuse(&mut self, id: FlowId, refusal: Refusal) {
        if self.flows.get(id).is_none_or(|flow| flow.phase != Phase::Incoming) {
            return;
        }
        let Some(flow) = self.remove(id) else { return };
        self.counters.refused += 1;
        self.detach(id, flow.key);
        self.queue_ordered(flow.key, true, flow.control(Body::Refuse(refusal)));
    }

    /// Bytes that `write` takes for the flow now. While it is less than half of
    /// [`FlowMux::WRITE_FLOOR`], a `Writable` event is to come.
    pub fn writable(&self, id: FlowId) -> usize {
        match self.flows.get(id) {
            Some(flow) if flow.send.end == End::None && flow.phase != Phase::Dead => {
                if flow.send.invitation == Invitation::Later { 0 } else { self.room(flow) }
            }
            Some(_) | None => 0,
        }
    }

    /// Bytes that the flow may queue now. Where many wait for their turns that is what it can send in one.
    pub(super) fn room(&self, flow: &Flow) -> usize {
        let bound = self.send_bound();
        let most = self.rotation.most_to_write(flow).map_or(bound, |turn| {
            let credit = usize::try_from(flow.send.credit()).unwrap_or(usize::MAX);
            bound.min(turn).min(credit.max(Self::WRITE_FLOOR))
        });
        most.saturating_sub(flow.send.queued())
    }

    /// Most bytes that one flow may have queued now: less when all flows together hold much, never
    /// less than the floor.
    pub(super) fn send_bound(&self) -> usize {
        let free = self.config.send_budget.saturating_sub(self.queued);
        free.min(self.config.send_buffer).max(Self::WRITE_FLOOR)
    }

    /// Queues bytes on a flow: all of them or none.
    pub fn write(&mut self, id: FlowId, bytes: Bytes) -> Result<(), WriteError> {
        let room = self.writable(id);
        let flow = self.flows.get_mut(id).ok_or(WriteError::UnknownFlow)?;
        match flow.phase {
            Phase::Incoming => return Err(WriteError::NotAccepted),
            Phase::Dead => return Err(WriteError::Reset),
            Phase::Held | Phase::Opening | Phase::Open => {}
        }
        if flow.send.end != End::None {
            return Err(WriteError::Finished);
        }
        if bytes.len() > room {
            return Err(WriteError::Full);
        }
        self.queued += bytes.len();
        let filled = bytes.len() == room;
        flow.send.push(bytes, filled);
        flow.send.owes_writable |= flow.send.queued() > Self::WRITE_FLOOR / 2;
        self.schedule(id);
        self.note_shortage(id);
        Ok(())
    }

    /// Says how large a part of the association's capacity the flow is to have, beside others that
    /// have something to send too. It holds from its next turn on.
    pub fn set_share(&mut self, id: FlowId, share: Share) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.share = share;
        }
    }

    /// The next bytes of a flow, in order. Tell [`FlowMux::consumed`] when they are done with.
    pub fn read(&mut self, id: FlowId) -> Option<Bytes> {
        let bytes = self.flows.get_mut(id)?.recv.read();
        self.report_end(id);
        bytes
    }

    /// `bytes` of what was read have been taken by the reader and need no memory any more. Credit
    /// follows this.
    pub fn consumed(&mut self, id: FlowId, bytes: usize) {
        let (now, slowest) = (self.now, self.slowest_path);
        let Some(flow) = self.flows.get_mut(id) else { return };
        let adjustment = flow.recv.consume(now, bytes, slowest);
        self.note_adjustment(adjustment);
        self.grant_if_due(id);
        self.probe_if_due(id);
    }

    /// Ends our direction in order: what was written is sent, nothing more may be written.
    pub fn finish(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        if flow.send.end == End::None && flow.phase != Phase::Dead {
            flow.send.end = End::Wanted;
            self.schedule(id);
        }
    }

    /// Ends both directions at once. The flow is gone at once: what was not sent or not read is
    /// lost, and the peer's program sees a reset.
    pub fn reset(&mut self, id: FlowId) {
        let Some(flow) = self.remove(id) else { return };
        if self.detach(id, flow.key) {
            self.counters.resets += 1;
            self.queue_reset(&flow);
        }
    }

    /// The association turned out to have fewer streams: call it before `handle_message`, when the
    /// association is established. Flows of ours on streams that are not there are refused.
    pub fn limit_streams(&mut self, streams: u16) {
        if streams >= self.lanes.count() {
            return;
        }
        let lost: Vec<_> = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.key.stream >= streams && flow.phase != Phase::Held)
            .map(|(id, flow)| (id, flow.key.opener))
            .collect();
        self.lanes.shrink(streams);
        self.ordered.retain(|message| message.key.stream < streams);
        for (flow, opener) in lost {
            self.counters.without_stream += 1;
            let refused = FlowEvent::Refused { flow, refusal: Refusal::NoStream };
            let ours = opener == Opener::Us;
            self.kill(flow, if ours { refused } else { FlowEvent::Reset(flow) });
        }
    }

    /// Frees the lane from the flow, so that what still comes for it is discarded; true if the flow
    /// was on it, which it is until both sides have ended it.
    pub(super) fn detach(&mut self, id: FlowId, key: LaneKey) -> bool {
        match self.lanes.get_mut(key) {
            Some(lane) if lane.flow == Some(id) => {
                lane.flow = None;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Queues RESET: our end of the flow, unless FINISH was that already.
    pub(super) fn queue_reset(&mut self, flow: &Flow) {
        let ends = flow.send.end != End::Sent;
        self.queue_ordered(flow.key, ends, flow.control(Body::Reset));
    }
}
