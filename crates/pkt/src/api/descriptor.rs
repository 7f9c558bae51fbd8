//! Open sockets.

use super::errno::Errno;
use super::notification::Subscriptions;
use crate::language::Why;
use manypath_engine::{AssociationId, CloseReason, Config};
use std::collections::BTreeMap;

/// First descriptor: 0 to 2 are taken in every process.
const FIRST: i64 = 3;

/// An association and the stack that it lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkId {
    /// Index of the stack.
    pub stack: usize,
    /// Its association there.
    pub association: AssociationId,
}

/// The open sockets by descriptor.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    open: BTreeMap<i64, Socket>,
    /// Whether the association at work was begun here.
    connecting: bool,
    /// Whether the first INIT since `connect` has been seen.
    pub init_seen: bool,
}

/// A socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    /// Whether it is of the one-to-many style (RFC 6458 section 3).
    pub many: bool,
    /// Whether calls return instead of waiting.
    pub nonblocking: bool,
    /// Options for the associations to come.
    pub config: Config,
    /// Its engine endpoint, once it has one.
    pub stack: Option<usize>,
    /// Its association.
    pub link: Option<LinkId>,
    /// Whether it accepts associations.
    pub listening: bool,
    /// Whether nothing more will be written.
    pub shut: bool,
    /// Whether the end of its association has been reported.
    pub reported: bool,
    /// How long `close` waits (SO_LINGER), if it does; with 0 it aborts.
    pub linger: Option<i64>,
    /// The size of the packets of its associations (`spp_pathmtu`), if it is not left to the stack.
    pub path_mtu: Option<u16>,
    /// The shared key that chunks are authenticated with.
    pub active_key: u16,
    /// What `recvmsg` tells besides data.
    pub subscriptions: Subscriptions,
    /// Options that have no effect here, to be read back.
    pub kept: BTreeMap<String, i64>,
}

impl Socket {
    /// A socket that was just made.
    pub(crate) fn new(many: bool, config: Config) -> Self {
        Self {
            many,
            nonblocking: false,
            config,
            stack: None,
            link: None,
            listening: false,
            shut: false,
            reported: false,
            linger: None,
            active_key: 0,
            path_mtu: None,
            subscriptions: Subscriptions::default(),
            kept: BTreeMap::new(),
        }
    }
}

impl Descriptors {
    /// Opens a socket under the lowest free descriptor.
    pub(crate) fn open(&mut self, socket: Socket) -> i64 {
        let free = (FIRST..).find(|fd| !self.open.contains_key(fd)).unwrap_or(FIRST);
        self.open.insert(free, socket);
        free
    }

    /// The socket `fd`.
    pub(crate) fn get(&mut self, fd: i64) -> Result<&mut Socket, Why> {
        self.open.get_mut(&fd).ok_or_else(|| Why::syntax(format!("{fd} is no open socket")))
    }

    /// What the user of an association wants to be told, or who listens for it.
    pub(crate) fn subscriptions(&self, id: LinkId) -> Option<&Subscriptions> {
        let owner = self.open.values().find(|socket| socket.link == Some(id));
        let listens = |socket: &&Socket| socket.listening && socket.stack == Some(id.stack);
        let socket = owner.or_else(|| self.open.values().find(listens));
        socket.map(|socket| &socket.subscriptions)
    }

    /// Closes `fd`.
    pub(crate) fn close(&mut self, fd: i64) -> Option<Socket> {
        self.open.remove(&fd)
    }

    /// An association is begun from here.
    pub(crate) fn set_connecting(&mut self, connecting: bool) {
        self.connecting = connecting;
        self.init_seen = false;
    }

    /// Whether the association at work was begun here.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting
    }
}

/// The error that an association's end means to its socket.
pub(crate) fn error_of(reason: &CloseReason, established: bool) -> Option<Errno> {
    match reason {
        CloseReason::Graceful => None,
        CloseReason::NoAnswer | CloseReason::TooManyFailures => Some("ETIMEDOUT"),
        CloseReason::Unreachable
        | CloseReason::NoAdaptation
        | CloseReason::NoAuthentication
        | CloseReason::NoProtection => Some("ECONNREFUSED"),
        CloseReason::PeerAborted(_) if established => Some("ECONNRESET"),
        CloseReason::PeerAborted(_) => Some("ECONNREFUSED"),
        CloseReason::LocalAbort | CloseReason::ProtocolViolation(_) => Some("ECONNABORTED"),
    }
}
