//! What the applications of a simulation work with: both ends at once.

use super::apps::{Desk, Way};
use super::ledger::Ledger;
use super::network::Network;
use crate::world::HostId;
use bytes::Bytes;
use manypath_engine::{AssociationId, Instant, Outgoing, Ppid, StreamId};

pub(super) struct SimulatedDesk<'a> {
    pub(super) network: &'a mut Network,
    /// The association at the sender and, once it is known, at the receiver.
    pub(super) associations: [Option<AssociationId>; 2],
    pub(super) ledgers: &'a mut [Ledger; 2],
    /// Size of the sender's send buffer in bytes.
    pub(super) send_buffer: usize,
}

/// Payload of all messages: nobody looks at it.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Payload of a message.
pub(super) fn zeros(len: usize) -> Bytes {
    Bytes::from_static(&ZEROS[..len.min(ZEROS.len())])
}

impl Desk for SimulatedDesk<'_> {
    fn now(&self) -> Instant {
        self.network.world.now()
    }

    fn send(&mut self, way: Way, stream: u16, len: usize, generated: Instant) -> bool {
        let (host, Some(id)) = self.end(way) else { return false };
        let (now, stream_id) = (self.now(), StreamId(stream));
        let payload = zeros(len);
        let message = Outgoing { stream: stream_id, ppid: Ppid(0), unordered: false, payload };
        let sent = self.network.world.endpoint(host).send(now, id, message).is_ok();
        if sent {
            self.ledgers[way as usize].on_sent(stream, generated);
        }
        sent
    }

    fn queued(&self, stream: u16) -> (usize, usize) {
        let Some(id) = self.associations[0] else { return (0, 0) };
        let sender = self.network.world.look(self.network.sender);
        (sender.queued_on_stream(id, StreamId(stream)), self.send_buffer)
    }

    fn send_space(&self) -> usize {
        let Some(id) = self.associations[0] else { return 0 };
        self.network.world.look(self.network.sender).send_space(id)
    }
}

impl SimulatedDesk<'_> {
    /// The end that sends messages of a way.
    fn end(&self, way: Way) -> (HostId, Option<AssociationId>) {
        match way {
            Way::Forth => (self.network.sender, self.associations[0]),
            Way::Back => (self.network.receiver, self.associations[1]),
        }
    }
}
