//! What the user of an association asks for.

use super::context::Context;
use super::tcb::Association;
use crate::config::Reliability;
use crate::event::Event;
use crate::send::{Failed, MessageEnd, Outgoing, SendError, Undelivered};
use crate::status::RoundTrips;

impl Association {
    /// Queues a message, reliable or as far as its stream is if nothing is said about it.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        message: Outgoing,
        reliability: Option<Reliability>,
    ) -> Result<(), SendError> {
        if !self.state.accepts_messages() || self.shutdown_wanted {
            return Err(SendError::ShuttingDown);
        }
        let len = message.payload.len();
        let result = self.sender.enqueue(cx.now, message, reliability, &mut self.paths);
        self.announce_failed(cx);
        if result == Err(SendError::BufferFull) {
            self.notices.blocked = Some(len);
        }
        result
    }

    /// Queues a part of a message.
    pub(crate) fn send_part(
        &mut self,
        message: Outgoing,
        end: MessageEnd,
    ) -> Result<(), SendError> {
        if !self.state.accepts_messages() || self.shutdown_wanted {
            return Err(SendError::ShuttingDown);
        }
        let len = message.payload.len();
        let result = self.sender.enqueue_part(message, end);
        if result == Err(SendError::BufferFull) {
            self.notices.blocked = Some(len);
        }
        result
    }

    /// Gives up the messages whose time has come, and says so.
    pub(super) fn abandon_overdue(&mut self, cx: &mut Context<'_>) {
        self.sender.give_up(cx.now, &mut self.paths);
        self.announce_failed(cx);
    }

    /// Tells the user of the messages that were given up.
    fn announce_failed(&mut self, cx: &mut Context<'_>) {
        let failed = self.sender.take_failed();
        let room = !failed.is_empty();
        for Failed { message, policy, sent } in failed {
            cx.emit(self.id, Event::SendFailed { message, policy, sent });
        }
        if room {
            self.announce_writable(cx);
        }
    }

    /// Nothing more of messages will come that the user gets in parts. Perhaps what has come `stays_readable`.
    pub(super) fn end_partial_delivery(&mut self, cx: &mut Context<'_>, stays_readable: bool) {
        if let Some(peer) = &mut self.peer {
            peer.receiver.end_partial_delivery(stays_readable);
        }
        self.announce_aborted_parts(cx);
    }

    /// Tells the user of messages of which the rest will not come.
    pub(super) fn announce_aborted_parts(&mut self, cx: &mut Context<'_>) {
        let Some(peer) = &mut self.peer else { return };
        for message in peer.receiver.take_aborted_parts() {
            cx.counters.partial_deliveries_aborted += 1;
            cx.emit(self.id, Event::PartialDeliveryAborted(message));
        }
    }

    /// Tells the user of the messages that have not got across, if that is wanted.
    pub(super) fn announce_undelivered(&self, cx: &mut Context<'_>) {
        if cx.config.report_undelivered {
            for Undelivered { message, sent } in self.sender.undelivered() {
                cx.emit(self.id, Event::Undelivered { message, sent });
            }
        }
    }

    /// Bytes that [`Self::send`] would accept.
    pub(crate) fn send_space(&self) -> usize {
        if self.state.accepts_messages() && !self.shutdown_wanted { self.sender.space() } else { 0 }
    }

    pub(crate) fn round_trips(&self) -> RoundTrips {
        let usable = self.sender.usable(&self.paths);
        let smoothed = self.paths.iter().filter(|path| usable.contains(path.id()));
        let smoothed = smoothed.filter_map(|path| path.rtt().smoothed());
        RoundTrips {
            min_rtt: self.paths.iter().filter_map(|path| path.rtt().least()).min(),
            slowest: smoothed.max().filter(|_| usable.len() > 1),
        }
    }

    /// The user is to be told when all that was to be sent has been delivered.
    pub(crate) fn tell_when_dry(&mut self, cx: &mut Context<'_>) {
        self.notices.dry_wanted = true;
        self.announce_dry(cx);
    }
}
