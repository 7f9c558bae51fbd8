//! What is said to the peer.

use super::FlowMux;
use crate::flow::{End, Flow, Invitation};
use crate::id::FlowId;
use crate::lanes::{LaneKey, Opener};
use crate::message::{Body, Credit, Finish, Probe, Return, Want};
#[cfg(doc)]
use crate::share::Share;
use crate::{PPID_CONTROL, PPID_DATA_OF_ACCEPTOR, PPID_DATA_OF_OPENER};
use bytes::Bytes;
use core::time::Duration;
use manypath_engine::{Outgoing, StreamId};

impl FlowMux {
    /// The next message for the association: control first, then data in messages of at most
    /// `fragment_size` bytes. Flows take turns, each with as many bytes as its [`Share`] says; those
    /// with little to send need not wait for theirs.
    ///
    /// A message that was handed out counts as sent: a caller whose association does not take it
    /// now must keep it and try again. Take no more than the association can send soon; what waits
    /// here is shared fairly, what waits there is in order.
    pub fn poll_message(&mut self, fragment_size: usize) -> Option<Outgoing> {
        self.poll_relaying()
            .or_else(|| self.poll_ordered())
            .or_else(|| self.poll_hint())
            .or_else(|| self.poll_data(fragment_size))
    }

    fn poll_ordered(&mut self) -> Option<Outgoing> {
        let message = self.ordered.pop_front()?;
        if message.ends {
            self.lanes.end_sent(message.key);
        }
        Some(control(message.key, false, message.payload))
    }

    fn poll_hint(&mut self) -> Option<Outgoing> {
        while let Some(&id) = self.hints.front() {
            let now = self.now;
            let message = self.flows.get_mut(id).and_then(|flow| {
                let body = next_hint(flow, now)?;
                Some((flow.key, flow.control(body)))
            });
            match message {
                Some((key, message)) => return Some(control(key, true, message.encode())),
                None => self.hints.pop_front(),
            };
        }
        None
    }

    fn poll_data(&mut self, fragment_size: usize) -> Option<Outgoing> {
        let message = self.next_data(fragment_size);
        self.look_ahead();
        message
    }

    fn next_data(&mut self, fragment_size: usize) -> Option<Outgoing> {
        while let Some(id) = self.rotation.next(self.now, fragment_size, self.awaits_writer()) {
            let Some(flow) = self.flows.get_mut(id) else { continue };
            flow.scheduled = false;
            if !flow.is_sendable() {
                // It was asked to write for this turn, and had nothing.
                continue;
            }
            let key = flow.key;
            let Some(payload) = flow.send.take(fragment_size.max(1)) else {
                return Some(self.send_finish(id, key));
            };
            self.queued -= payload.len();
            self.after_data(id, payload.len());
            return Some(data(key, payload));
        }
        None
    }

    fn after_data(&mut self, id: FlowId, sent: usize) {
        self.update_backlog(id);
        self.note_writable(id, sent);
        self.schedule_again(id, sent);
        self.note_shortage(id);
    }

    /// The user is told that there is room, or will be.
    fn note_writable(&mut self, id: FlowId, sent: usize) {
        let (half, low) = (self.send_bound() / 2, Self::WRITE_FLOOR / 2);
        let Some(flow) = self.flows.get_mut(id) else { return };
        let queued = flow.send.queued();
        // Half of the bound is the time to write more, once. But other flows' writes may lower the
        // bound again before the user gets to it; what certainly can be written is due below `low`.
        let crosses_low = queued <= low && queued + sent > low;
        let is_time = flow.send.owes_writable && queued <= half;
        if (crosses_low || is_time) && flow.send.end == End::None {
            flow.send.owes_writable = false;
            if self.rotation.defers(flow) {
                flow.send.invitation = Invitation::Later;
            } else {
                self.ask(id);
            }
        }
    }

    fn send_finish(&mut self, id: FlowId, key: LaneKey) -> Outgoing {
        let payload = self.flows.get_mut(id).map_or_else(Bytes::new, |flow| {
            flow.send.end = End::Sent;
            flow.control(Body::Finish(Finish { bytes: flow.send.sent() })).encode()
        });
        self.lanes.end_sent(key);
        self.report_end(id);
        control(key, false, payload)
    }
}

/// Takes the next unordered message of a flow off its list.
fn next_hint(flow: &mut Flow, now: Duration) -> Option<Body> {
    let hints = &mut flow.hints;
    if core::mem::take(&mut hints.credit) {
        let reclaim = core::mem::take(&mut hints.reclaim);
        let (window, granted) = flow.recv.grant(now);
        return Some(Body::Credit(Credit { window, reclaim, granted }));
    }
    if core::mem::take(&mut hints.give_back) {
        return Some(Body::Return(Return { returned: flow.send.returned() }));
    }
    if core::mem::take(&mut hints.want) {
        return Some(Body::Want(Want { window: flow.send.window() }));
    }
    if core::mem::take(&mut hints.probe) {
        let stamp = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        return Some(Body::Probe(Probe { stamp }));
    }
    hints.queued = false;
    None
}

pub(super) fn control(key: LaneKey, unordered: bool, payload: Bytes) -> Outgoing {
    Outgoing { stream: StreamId(key.stream), ppid: PPID_CONTROL, unordered, payload }
}

fn data(key: LaneKey, payload: Bytes) -> Outgoing {
    let ppid = match key.opener {
        Opener::Us => PPID_DATA_OF_OPENER,
        Opener::Peer => PPID_DATA_OF_ACCEPTOR,
    };
    Outgoing { stream: StreamId(key.stream), ppid, unordered: false, payload }
}
