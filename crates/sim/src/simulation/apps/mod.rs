//! The applications of the sender. Each reacts to three things: there is room in the send buffer, a
//! time has come, a message was delivered.

mod file;
mod on_off;
mod request_response;
mod saturated;

use super::ledger::Ledger;
use super::network::Network;
use crate::scenario::{AppKind, AppSpec};
use crate::world::HostId;
use bytes::Bytes;
use manypath_engine::{AssociationId, Instant, Outgoing, Ppid, StreamId};

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// From sender to receiver.
    Forth,
    /// From receiver to sender.
    Back,
}

/// What an application does. The default reactions are none.
pub(super) trait Application: std::fmt::Debug {
    /// There may be room in the send buffer.
    fn on_space(&mut self, desk: &mut Desk<'_>);
    /// A message of one of its streams was delivered.
    fn on_delivered(&mut self, _desk: &mut Desk<'_>, _way: Way, _stream: u16) {}
    /// The time that `next_timer` gave has come.
    fn on_timer(&mut self, _desk: &mut Desk<'_>) {}
    /// When `on_timer` is to be called.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
    /// Bytes after whose delivery it has nothing more to do.
    fn total(&self) -> Option<u64> {
        None
    }
}

/// The application that `spec` describes, beginning at `now`.
pub(super) fn start(spec: &AppSpec, now: Instant) -> Box<dyn Application> {
    match spec.kind {
        AppKind::Saturated { queue_info } => Box::new(saturated::Saturated::new(spec, queue_info)),
        AppKind::File { bytes } => Box::new(file::File::new(spec, bytes)),
        AppKind::RequestResponse { response, think } => {
            Box::new(request_response::RequestResponse::new(spec, response, think))
        }
        AppKind::OnOff { rate_bps, on, off } => {
            Box::new(on_off::OnOff::new(spec, rate_bps, (on, off), now))
        }
    }
}

/// What applications work with.
pub(super) struct Desk<'a> {
    pub(super) network: &'a mut Network,
    /// The association at the sender and, once it is known, at the receiver.
    pub(super) associations: [Option<AssociationId>; 2],
    pub(super) ledgers: &'a mut [Ledger; 2],
    /// Size of the sender's send buffer in bytes.
    pub(super) send_buffer: usize,
}

/// Payload of all messages: nobody looks at it.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

impl Desk<'_> {
    pub(super) fn now(&self) -> Instant {
        self.network.world.now()
    }

    /// Sends a message that exists since `generated`; false if there is no room for it.
    pub(super) fn send(&mut self, way: Way, stream: u16, len: usize, generated: Instant) -> bool {
        let (host, Some(id)) = self.end(way) else { return false };
        let (now, stream_id) = (self.now(), StreamId(stream));
        let payload = Bytes::from_static(&ZEROS[..len.min(ZEROS.len())]);
        let message = Outgoing { stream: stream_id, ppid: Ppid(0), unordered: false, payload };
        let sent = self.network.world.endpoint(host).send(now, id, message).is_ok();
        if sent {
            self.ledgers[way as usize].on_sent(stream, generated);
        }
        sent
    }

    /// Bytes that a stream holds in the sender's send buffer, and that buffer's size.
    pub(super) fn queued(&self, stream: u16) -> (usize, usize) {
        let Some(id) = self.associations[0] else { return (0, 0) };
        let sender = self.network.world.look(self.network.sender);
        (sender.queued_on_stream(id, StreamId(stream)), self.send_buffer)
    }

    /// The end that sends messages of a way.
    fn end(&self, way: Way) -> (HostId, Option<AssociationId>) {
        match way {
            Way::Forth => (self.network.sender, self.associations[0]),
            Way::Back => (self.network.receiver, self.associations[1]),
        }
    }
}
