//! An association of a socket.

use crate::notification::Notification;
use crate::structures::{sctp_assoc_t, sctp_prinfo, sctp_sndinfo};
use manypath_engine::{
    AssociationId, CloseReason, Endpoint, Instant, Message, Outgoing, PathId, Reliability,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// How messages are sent unless the call says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendDefaults {
    pub(crate) info: sctp_sndinfo,
    pub(crate) reliability: sctp_prinfo,
    /// The shared key that authenticates them.
    pub(crate) active_key: u16,
}

/// An association of a socket.
#[derive(Debug)]
pub(crate) struct Association {
    /// How the program knows it.
    pub(crate) id: sctp_assoc_t,
    /// How the engine knows it.
    pub(crate) engine: AssociationId,
    /// The peer as it was first known, with its SCTP port.
    pub(crate) peer: SocketAddr,
    /// Where else to begin it if the peer is not reached there, with UDP ports.
    pub(crate) others: VecDeque<SocketAddr>,
    /// Messages that waited for the association when it did not come about at an address, and for how long they are
    /// worth sending: for the next address.
    pub(crate) carried: Vec<(Outgoing, Reliability)>,
    /// Streams to the peer and from it, once established.
    pub(crate) streams: Option<(u16, u16)>,
    /// Why it is over, if it is.
    pub(crate) closed: Option<CloseReason>,
    /// Whether the peer sends no more.
    pub(crate) peer_shutdown: bool,
    /// Paths that were confirmed: an address is so only once.
    pub(crate) confirmed: BTreeSet<PathId>,
    pub(crate) notifications: VecDeque<Notification>,
    /// Messages that were taken out of the engine: the one that is read, and the one after it if the
    /// program wants to know of it.
    pub(crate) messages: VecDeque<Message>,
    /// Whether a part of the first notification or message has been read.
    pub(crate) is_begun: bool,
    /// When a message went or came last, or it was established.
    pub(crate) last_active: Instant,
    /// Those of the socket when it began, or what was set since.
    pub(crate) defaults: SendDefaults,
}

/// What a program can read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    Notification,
    Message,
}

impl Association {
    pub(crate) fn new(
        id: sctp_assoc_t,
        engine: AssociationId,
        peer: SocketAddr,
        defaults: SendDefaults,
    ) -> Self {
        Self {
            id,
            engine,
            peer,
            others: VecDeque::new(),
            carried: Vec::new(),
            streams: None,
            closed: None,
            peer_shutdown: false,
            confirmed: BTreeSet::new(),
            notifications: VecDeque::new(),
            messages: VecDeque::new(),
            is_begun: false,
            last_active: Instant::ZERO,
            defaults,
        }
    }

    /// Whether it can come about at another address of the peer if it does not at this one.
    pub(crate) fn may_begin_elsewhere(&self) -> bool {
        self.streams.is_none() && !self.others.is_empty()
    }

    /// Whether nothing more will come than what is here.
    pub(crate) fn is_at_end(&self) -> bool {
        self.closed.is_some() || self.peer_shutdown
    }

    /// What can be read next. What was begun comes to its end first; messages come before the news
    /// that there will be no more.
    pub(crate) fn input(&self, endpoint: &Endpoint) -> Option<Input> {
        let message = self.has_message(endpoint).then_some(Input::Message);
        match self.notifications.front() {
            Some(_) if message.is_some() && self.is_begun => message,
            Some(first) if message.is_some() && first.is_after_data() => message,
            Some(_) => Some(Input::Notification),
            None => message,
        }
    }

    /// Whether a message, or a part of one, can be read. It stays in the engine, where it counts against the window.
    pub(crate) fn has_message(&self, endpoint: &Endpoint) -> bool {
        !self.messages.is_empty() || endpoint.is_readable(self.engine)
    }

    /// The message that is read next, out of the engine.
    pub(crate) fn message(&mut self, endpoint: &mut Endpoint) -> Option<&mut Message> {
        if self.messages.is_empty() {
            self.messages.extend(endpoint.read(self.engine));
        }
        self.messages.front_mut()
    }

    /// The message after the one that is read, if it is here.
    pub(crate) fn message_after(&mut self, endpoint: &mut Endpoint) -> Option<&Message> {
        if self.messages.len() == 1 {
            self.messages.extend(endpoint.read(self.engine));
        }
        self.messages.get(1)
    }
}
