//! The interface to the upper layer (RFC 9260 section 11.1): the messages that the user gives, and what the user is
//! told of messages. None of it can end the association or change a path's state.

use super::context::Context;
use super::state::State;
use super::tcb::{Association, Peer};
use crate::config::Reliability;
use crate::event::{AssociationId, Event};
use crate::path::Paths;
use crate::send::{Failed, MessageEnd, Outgoing, SendError, Sender, Undelivered, undelivered};
use crate::status::RoundTrips;

/// What the user waits for.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Bytes of the message that found the send buffer full.
    blocked: Option<usize>,
    /// The user is to be told when all has been delivered.
    dry_wanted: bool,
    /// A Readable event waits to be polled.
    readable_announced: bool,
}

impl Notices {
    /// The user has polled the Readable event: what comes from now on is worth another one.
    pub(crate) fn on_readable_polled(&mut self) {
        self.readable_announced = false;
    }
}

/// What the user's side of an association works on.
pub(crate) struct UpperLayer<'a> {
    id: AssociationId,
    state: &'a State,
    /// The user may give messages.
    is_open: bool,
    sender: &'a mut Sender,
    peer: &'a mut Option<Peer>,
    paths: &'a mut Paths,
    notices: &'a mut Notices,
}

impl Association {
    pub(crate) fn upper_layer(&mut self) -> UpperLayer<'_> {
        UpperLayer {
            id: self.id,
            state: &self.state,
            is_open: self.accepts_messages(),
            sender: &mut self.sender,
            peer: &mut self.peer,
            paths: &mut self.paths,
            notices: &mut self.notices,
        }
    }

    /// Whether the user may give messages.
    pub(crate) fn accepts_messages(&self) -> bool {
        self.state.accepts_messages() && !self.shutdown_wanted
    }
}

impl UpperLayer<'_> {
    /// Queues a message, reliable or as far as its stream is if nothing is said about it.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        message: Outgoing,
        reliability: Option<Reliability>,
    ) -> Result<(), SendError> {
        self.check_open()?;
        let len = message.payload.len();
        let result = self.sender.enqueue(cx.now, message, reliability, self.paths);
        self.announce_failed(cx);
        self.note_blocked(len, result)
    }

    /// Queues a part of a message.
    pub(crate) fn send_part(
        &mut self,
        message: Outgoing,
        end: MessageEnd,
    ) -> Result<(), SendError> {
        self.check_open()?;
        let len = message.payload.len();
        let result = self.sender.enqueue_part(message, end);
        self.note_blocked(len, result)
    }

    fn check_open(&self) -> Result<(), SendError> {
        match self.is_open {
            true => Ok(()),
            false => Err(SendError::ShuttingDown),
        }
    }

    /// A message of `len` bytes was queued, or not: the user is told when there is room for it.
    fn note_blocked(&mut self, len: usize, result: Result<(), SendError>) -> Result<(), SendError> {
        if result == Err(SendError::BufferFull) {
            self.notices.blocked = Some(len);
        }
        result
    }

    /// Gives up the messages whose time has come, and says so.
    pub(super) fn abandon_overdue(&mut self, cx: &mut Context<'_>) {
        self.sender.abandoning(cx.now, self.paths).give_up();
        self.announce_failed(cx);
    }

    /// Tells the user of the messages that were given up.
    fn announce_failed(&mut self, cx: &mut Context<'_>) {
        let failed = self.sender.abandonment_mut().take_failed();
        let room = !failed.is_empty();
        for Failed { message, policy, sent } in failed {
            cx.emit(self.id, Event::SendFailed { message, policy, sent });
        }
        if room {
            self.announce_writable(cx);
        }
    }

    /// The handshake is complete, which this end has begun or not.
    pub(super) fn announce_connected(&self, cx: &mut Context<'_>, initiated: bool) {
        let Some(peer) = &self.peer else { return };
        let announcement = &peer.announcement;
        let event = Event::Connected {
            initiated,
            adaptation: announcement.adaptation,
            outbound_streams: announcement.inbound_streams.min(cx.config.streams),
            inbound_streams: announcement.outbound_streams.min(cx.config.max_inbound_streams()),
        };
        cx.emit(self.id, event);
    }

    /// Tells the user that there is something to read, once until the user has been told.
    pub(super) fn announce_readable(&mut self, cx: &mut Context<'_>) {
        let readable = self.peer.as_ref().is_some_and(|peer| peer.receiver.is_readable());
        if readable && !self.notices.readable_announced {
            self.notices.readable_announced = true;
            cx.emit(self.id, Event::Readable);
        }
    }

    /// Tells the user that there is room for the message that found none.
    pub(super) fn announce_writable(&mut self, cx: &mut Context<'_>) {
        if self.notices.blocked.is_some_and(|wanted| self.sender.has_room(wanted)) {
            self.notices.blocked = None;
            cx.emit(self.id, Event::Writable);
        }
        self.announce_dry(cx);
    }

    /// Tells the user that everything has been delivered, if it waits for that.
    pub(super) fn announce_dry(&mut self, cx: &mut Context<'_>) {
        if self.notices.dry_wanted && !self.state.is_setting_up() && self.sender.buffer().is_empty()
        {
            self.notices.dry_wanted = false;
            cx.emit(self.id, Event::SenderDry);
        }
    }

    /// The user is to be told when all that was to be sent has been delivered.
    pub(crate) fn tell_when_dry(&mut self, cx: &mut Context<'_>) {
        self.notices.dry_wanted = true;
        self.announce_dry(cx);
    }
}

/// How long round trips take over the paths that carry data.
pub(crate) fn round_trips(sender: &Sender, paths: &Paths) -> RoundTrips {
    let usable = sender.choice().usable(paths);
    let smoothed = paths.among(usable).filter_map(|path| path.rtt().smoothed());
    RoundTrips {
        min_rtt: paths.iter().filter_map(|path| path.rtt().least()).min(),
        slowest: smoothed.max().filter(|_| usable.len() > 1),
    }
}

/// Nothing more of messages will come that the user gets in parts. Perhaps what has come `stays_readable`.
pub(super) fn end_partial_delivery(
    cx: &mut Context<'_>,
    id: AssociationId,
    peer: &mut Option<Peer>,
    stays_readable: bool,
) {
    let Some(peer) = peer else { return };
    peer.receiver.end_partial_delivery(stays_readable);
    announce_aborted_parts(cx, id, peer);
}

/// Tells the user of messages of which the rest will not come.
pub(super) fn announce_aborted_parts(cx: &mut Context<'_>, id: AssociationId, peer: &mut Peer) {
    for message in peer.receiver.take_aborted_parts() {
        cx.counters.partial_deliveries_aborted += 1;
        cx.emit(id, Event::PartialDeliveryAborted(message));
    }
}

/// Tells the user of the messages that have not got across, if that is wanted.
pub(super) fn announce_undelivered(cx: &mut Context<'_>, id: AssociationId, sender: &Sender) {
    if cx.config.report_undelivered {
        for Undelivered { message, sent, terms } in
            undelivered(sender.outstanding(), sender.queue())
        {
            let reliability = terms.left(cx.now);
            cx.emit(id, Event::Undelivered { message, sent, reliability });
        }
    }
}
