//! A message goes to an association, which it may begin.

use crate::association::SendDefaults;
use crate::constants::*;
use crate::control::SendInfo;
use crate::errno::Errno;
use crate::options::init_message;
use crate::socket::Settings;
use crate::structures::sctp_assoc_t;
use crate::table::{Host, SocketId, Sockets};
use bytes::Bytes;
use manypath_engine::{
    AssociationId, MessageEnd, Outgoing, Ppid, Reliability, SendError, StreamId,
};
use std::net::SocketAddr;

/// What `snd_flags` may have; Linux takes no others either.
const KNOWN_FLAGS: i32 = SCTP_UNORDERED
    | SCTP_ADDR_OVER
    | SCTP_ABORT
    | SCTP_SACK_IMMEDIATELY
    | SCTP_SENDALL
    | SCTP_EOF
    | SCTP_EOR
    | SCTP_PR_SCTP_PRIO;

/// A message and where it is to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outbound {
    /// The peers' addresses that were given; the first one chooses the association.
    pub to: Vec<SocketAddr>,
    /// How it is to be sent.
    pub info: SendInfo,
    /// What.
    pub data: Bytes,
}

impl Sockets {
    /// How a message is sent: the defaults of its association, and what `say` changes. `to` is the address of the
    /// peer, if one is given.
    ///
    /// # Errors
    /// `EBADF`, and those of `say`.
    pub fn send_info(
        &self,
        host: &Host<'_>,
        id: SocketId,
        to: Option<SocketAddr>,
        say: impl Fn(&mut SendInfo) -> Result<(), Errno>,
    ) -> Result<SendInfo, Errno> {
        let mut said = SendInfo::default();
        say(&mut said)?;
        let mut info = SendInfo::of(self.defaults(host, id, said.info.snd_assoc_id, to)?);
        say(&mut info)?;
        Ok(info)
    }

    /// The defaults for a message to the association that is named, or that has this address of the peer, or for one
    /// that begins an association.
    fn defaults(
        &self,
        host: &Host<'_>,
        id: SocketId,
        named: sctp_assoc_t,
        to: Option<SocketAddr>,
    ) -> Result<&SendDefaults, Errno> {
        let socket = self.sockets.get(&id).ok_or(Errno::BADF)?;
        let known = socket.chosen(named).or_else(|| self.with_peer(host, id, to?));
        known.map_or(Ok(&socket.settings.defaults), |known| socket.defaults(known))
    }

    /// Sends a message, or a part of one (`SCTP_EXPLICIT_EOR`). The number of bytes that were taken: all of them,
    /// but of a part as many as there was room for.
    ///
    /// # Errors
    /// `EAGAIN` if there is no room for it now, and those of RFC 6458.
    pub fn send(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        message: Outbound,
    ) -> Result<usize, Errno> {
        let socket = self.socket(id)?;
        if let Some(error) = socket.error.take() {
            self.mark(id);
            return Err(error);
        }
        if socket.shut.1 {
            return Err(Errno::PIPE);
        }
        let flags = i32::from(message.info.info.snd_flags);
        let ends = flags & (SCTP_EOF | SCTP_ABORT) != 0;
        let is_refused = ends && socket.settings.follows_linux && socket.is_one_to_one();
        if flags & !KNOWN_FLAGS != 0 || is_refused {
            return Err(Errno::INVALID);
        }
        // The active key authenticates all messages of an association.
        if let Some(key) = message.info.key {
            let (named, to) = (message.info.info.snd_assoc_id, message.to.first().copied());
            if key != self.defaults(host, id, named, to)?.active_key {
                return Err(Errno::NOT_SUPPORTED);
            }
        }
        if flags & SCTP_SENDALL != 0 && !self.is_one_to_one(id) {
            return self.send_to_all(host, id, &message);
        }
        let number = self.destination(host, id, &message)?;
        self.send_on(host, id, number, &message)
    }

    /// `SCTP_SENDALL`: to every association of the socket. Those that have no room miss it.
    fn send_to_all(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        message: &Outbound,
    ) -> Result<usize, Errno> {
        let socket = self.socket(id)?;
        if socket.settings.explicit_end
            && i32::from(message.info.info.snd_flags) & (SCTP_EOR | SCTP_EOF) == 0
        {
            // They would have room for parts of different lengths.
            return Err(Errno::INVALID);
        }
        let all: Vec<_> = socket.associations.keys().copied().collect();
        for number in all {
            let _missed = self.send_on(host, id, number, message);
        }
        Ok(message.data.len())
    }

    /// The association that a message goes to: by its number, by its address, or a new one.
    fn destination(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        message: &Outbound,
    ) -> Result<sctp_assoc_t, Errno> {
        let named = message.info.info.snd_assoc_id;
        let socket = self.socket(id)?;
        if socket.is_one_to_one() && socket.backlog.is_some() {
            return Err(Errno::PIPE);
        }
        if let Some(chosen) = socket.chosen(named) {
            let connected =
                socket.is_one_to_one() && !socket.peeled && socket.settings.follows_linux;
            let other = message.to.first().filter(|_| connected && socket.is_established(chosen));
            if other.is_some_and(|to| self.with_peer(host, id, *to).is_none()) {
                return Err(Errno::ADDRESS_NOT_AVAILABLE);
            }
            return Ok(chosen);
        }
        if named > SCTP_ALL_ASSOC && !socket.is_one_to_one() {
            return Err(Errno::PIPE);
        }
        let Some(to) = message.to.first().copied() else {
            return Err(if socket.is_one_to_one() { Errno::NOT_CONNECTED } else { Errno::PIPE });
        };
        if let Some(found) = self.with_peer(host, id, to) {
            return Ok(found);
        }
        self.begin_by_sending(host, id, message)
    }

    /// The association of a socket that has this address among those of its peer.
    pub(crate) fn with_peer(
        &self,
        host: &Host<'_>,
        id: SocketId,
        peer: SocketAddr,
    ) -> Option<sctp_assoc_t> {
        let own = self.sockets.get(&id)?.bound.as_ref()?.port;
        let engine = host.endpoint.association_with(peer.ip(), own, peer.port())?;
        let (owner, number) = self.owners.get(&engine)?;
        (*owner == id).then_some(*number)
    }

    fn begin_by_sending(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        message: &Outbound,
    ) -> Result<sctp_assoc_t, Errno> {
        let flags = i32::from(message.info.info.snd_flags);
        if flags & (SCTP_EOF | SCTP_ABORT) != 0 {
            return Err(Errno::INVALID);
        }
        let port = message.to.first().map_or(0, SocketAddr::port);
        let more = message.info.addresses.iter().map(|ip| SocketAddr::new(*ip, port));
        let all: Vec<_> = message.to.iter().copied().chain(more).collect();
        let before = self.socket(id)?.settings.config.clone();
        if let Some(init) = &message.info.init {
            init_message(&mut self.socket(id)?.settings.config, init);
        }
        let begun = self.connect(host, id, &all);
        self.socket(id)?.settings.config = before;
        begun
    }

    fn send_on(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        number: sctp_assoc_t,
        message: &Outbound,
    ) -> Result<usize, Errno> {
        let socket = self.sockets.get_mut(&id).ok_or(Errno::BADF)?;
        let watches = socket.settings.events.has(SCTP_SENDER_DRY_EVENT);
        let association = socket.associations.get_mut(&number).ok_or(Errno::PIPE)?;
        if association.closed.is_some() {
            return Err(Errno::PIPE);
        }
        let (flags, engine) = (i32::from(message.info.info.snd_flags), association.engine);
        if flags & SCTP_ABORT != 0 {
            host.endpoint.abort(host.now, engine, &message.data);
            return Ok(message.data.len());
        }
        let ends = flags & SCTP_EOF != 0;
        if message.data.is_empty() {
            return if ends { Ok(end(host, engine)) } else { Err(Errno::INVALID) };
        }
        let sent = give(host, engine, &socket.settings, message);
        if sent == Err(Errno::AGAIN) {
            socket.blocked.insert(number);
            self.changed.entry(id).or_insert(false);
        }
        let taken = sent?;
        association.last_active = host.now;
        if watches {
            host.endpoint.tell_when_dry(host.now, engine);
        }
        if ends && taken == message.data.len() {
            end(host, engine);
        }
        Ok(taken)
    }
}

/// The association ends: when everything is delivered, or at once if a message has no end.
pub(crate) fn end(host: &mut Host<'_>, engine: AssociationId) -> usize {
    if host.endpoint.is_unfinished(engine, None) {
        host.endpoint.abort(host.now, engine, b"a message has no end");
    } else {
        host.endpoint.shutdown(host.now, engine);
    }
    0
}

/// Gives the engine a message, or as much as it takes of one that is written in parts. How many bytes.
fn give(
    host: &mut Host<'_>,
    engine: AssociationId,
    settings: &Settings,
    message: &Outbound,
) -> Result<usize, Errno> {
    let (len, flags) = (message.data.len(), i32::from(message.info.info.snd_flags));
    let limit = usize::try_from(settings.config.send_buffer).unwrap_or(usize::MAX);
    let fragment = host.endpoint.fragment_size(engine);
    let in_one = settings.disable_fragments && fragment > 0;
    let last = !settings.explicit_end || flags & (SCTP_EOR | SCTP_EOF) != 0;
    let stream = StreamId(message.info.info.snd_sid);
    let in_parts = host.endpoint.is_unfinished(engine, Some(stream))
        || settings.explicit_end && (!last || len > limit);
    if in_one && (in_parts || len > fragment) || len > limit && !in_parts {
        return Err(Errno::MESSAGE_SIZE);
    }
    if in_parts {
        return give_part(host, engine, message, (limit, last));
    }
    hand_over(host, engine, message)?;
    Ok(len)
}

/// As much of a part as there is room for, unless that is little.
fn give_part(
    host: &mut Host<'_>,
    engine: AssociationId,
    message: &Outbound,
    (limit, last): (usize, bool),
) -> Result<usize, Errno> {
    if message.info.reliability.is_some_and(|terms| terms != Reliability::Reliable) {
        return Err(Errno::INVALID);
    }
    let len = message.data.len();
    let worthwhile = len.min((limit / 4).max(1));
    let taken = len.min(host.endpoint.send_space(engine).max(worthwhile));
    let part = Outgoing { payload: message.data.slice(..taken), ..outgoing(message) };
    let end = if last && taken == len { message_end(message) } else { MessageEnd::Open };
    let given = host.endpoint.send_part(host.now, engine, part, end);
    given.map(|()| taken).map_err(errno)
}

fn hand_over(host: &mut Host<'_>, engine: AssociationId, message: &Outbound) -> Result<(), Errno> {
    let (outgoing, end) = (outgoing(message), message_end(message));
    let sent = match message.info.reliability.filter(|it| *it != Reliability::Reliable) {
        None if end == MessageEnd::LastPrompt => {
            host.endpoint.send_part(host.now, engine, outgoing, end)
        }
        Some(reliability) => host.endpoint.send_with(host.now, engine, outgoing, reliability),
        None => host.endpoint.send(host.now, engine, outgoing),
    };
    sent.map_err(errno)
}

/// How a message ends of which all is given.
const fn message_end(message: &Outbound) -> MessageEnd {
    match message.info.info.snd_flags as i32 & SCTP_SACK_IMMEDIATELY {
        0 => MessageEnd::Last,
        _ => MessageEnd::LastPrompt,
    }
}

fn outgoing(message: &Outbound) -> Outgoing {
    let info = &message.info.info;
    Outgoing {
        stream: StreamId(info.snd_sid),
        // It lies in memory as it travels.
        ppid: Ppid(u32::from_be(info.snd_ppid)),
        unordered: i32::from(info.snd_flags) & SCTP_UNORDERED != 0,
        payload: message.data.clone(),
    }
}

fn errno(error: SendError) -> Errno {
    match error {
        SendError::UnknownAssociation | SendError::ShuttingDown => Errno::PIPE,
        SendError::InvalidStream | SendError::Empty | SendError::Unfinished => Errno::INVALID,
        SendError::BufferFull => Errno::AGAIN,
        SendError::TooLarge => Errno::MESSAGE_SIZE,
    }
}
