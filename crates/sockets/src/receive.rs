//! The next message or notification.

use crate::association::{Association, Input};
use crate::constants::*;
use crate::errno::Errno;
use crate::notification::number;
use crate::socket::{Settings, Socket};
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use bytes::Bytes;
use manypath_engine::{Endpoint, Message};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// What a call that receives gets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// The message, or as much as there was room for; nothing at the end of an association.
    pub data: Bytes,
    /// `MSG_EOR` at the end of a message, `MSG_NOTIFICATION`.
    pub flags: i32,
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// What the program has asked to be told with it.
    pub about: About,
}

/// What is told with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// sctp_sndrcvinfo (`sctp_data_io_event`).
    pub old: Option<sctp_sndrcvinfo>,
    /// sctp_rcvinfo (`SCTP_RECVRCVINFO`).
    pub info: Option<sctp_rcvinfo>,
    /// sctp_nxtinfo (`SCTP_RECVNXTINFO`), if there is a next message.
    pub next: Option<sctp_nxtinfo>,
}

impl Socket {
    /// Whether something can be read. Associations without it are not asked again until something has
    /// happened to them.
    pub(crate) fn has_input(&mut self, endpoint: &Endpoint) -> bool {
        self.next_with_input(endpoint).is_some()
    }

    fn next_with_input(&mut self, endpoint: &Endpoint) -> Option<(sctp_assoc_t, Input)> {
        let next = |ready: &BTreeSet<sctp_assoc_t>, turn| {
            ready.range(turn..).next().or(ready.first()).copied()
        };
        while let Some(number) = next(&self.ready, self.turn) {
            let association = self.associations.get(&number);
            if let Some(input) = association.and_then(|one| one.input(endpoint)) {
                return Some((number, input));
            }
            self.ready.remove(&number);
            self.forget_if_over(number);
        }
        None
    }

    /// An association of a one-to-many socket that is over and read to its end is gone.
    fn forget_if_over(&mut self, number: sctp_assoc_t) {
        let over = self.associations.get(&number).is_some_and(|one| one.closed.is_some());
        if over && !self.is_one_to_one() {
            self.associations.remove(&number);
        }
    }
}

impl Sockets {
    /// Receives up to `room` bytes of the next message or notification; what there is no room for comes
    /// with the next call. With `peek` it stays.
    ///
    /// # Errors
    /// `EAGAIN` if there is none, `ENOTCONN`, and what has ended the association.
    pub fn receive(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        room: usize,
        peek: bool,
    ) -> Result<Received, Errno> {
        self.mark(id);
        let socket = self.socket(id)?;
        let unconnected = socket.is_one_to_one() && socket.only().is_none();
        if socket.shut.0 {
            return Ok(Received::default());
        }
        if let Some((number, input)) =
            socket.next_with_input(host.endpoint).filter(|_| !unconnected)
        {
            let settings = &socket.settings;
            let Some(association) = socket.associations.get_mut(&number) else {
                return Err(Errno::AGAIN);
            };
            let received = match input {
                Input::Notification => told(association, room, peek),
                Input::Message => message(host, association, settings, room, peek),
            };
            if !peek {
                // The others come next, unless a message has been read in part or one is behind a notification.
                let is_done = input == Input::Message && received.flags & libc::MSG_EOR != 0;
                socket.turn = if is_done { number.saturating_add(1) } else { number };
            }
            return Ok(received);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if unconnected {
            return Err(Errno::NOT_CONNECTED);
        }
        let only = socket.only().and_then(|only| socket.associations.get(&only));
        match only.filter(|only| only.is_at_end()) {
            Some(over) if socket.settings.follows_linux && !over.peer_shutdown => {
                Err(Errno::NOT_CONNECTED)
            }
            Some(_) => Ok(Received::default()),
            None => Err(Errno::AGAIN),
        }
    }

    /// Whether a receive call that waits fails with `ENOTCONN` on Linux: a one-to-many socket has no association and does
    /// not listen.
    pub fn waits_in_vain(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(|socket| {
            let is_alone = socket.associations.is_empty() && socket.backlog.is_none();
            socket.settings.follows_linux && !socket.is_one_to_one() && is_alone
        })
    }

    /// How many bytes the next message or notification has (FIONREAD); 0 if there is none.
    pub fn pending(&mut self, host: &mut Host<'_>, id: SocketId) -> usize {
        self.receive(host, id, usize::MAX, true).map_or(0, |received| received.data.len())
    }
}

fn told(association: &mut Association, room: usize, peek: bool) -> Received {
    let Some(first) = association.notifications.front_mut() else { return Received::default() };
    let len = room.min(first.bytes.len());
    let whole = len == first.bytes.len();
    let data = first.bytes.slice(..len);
    if !peek {
        let _told = first.bytes.split_to(len);
        if whole {
            association.notifications.pop_front();
        }
    }
    let end = if whole { libc::MSG_EOR } else { 0 };
    let from = Some(association.peer);
    Received { data, flags: MSG_NOTIFICATION | end, from, about: About::default() }
}

fn message(
    host: &mut Host<'_>,
    association: &mut Association,
    settings: &Settings,
    room: usize,
    peek: bool,
) -> Received {
    let from = Some(association.peer);
    if association.message(host.endpoint).is_none() {
        return Received::default();
    }
    let about = about(host, association, settings);
    let Some(first) = association.messages.front_mut() else { return Received::default() };
    let len = room.min(first.payload.len());
    let whole = len == first.payload.len();
    let end = if whole && !first.more { libc::MSG_EOR } else { 0 };
    let data = first.payload.slice(..len);
    if !peek {
        let _read = first.payload.split_to(len);
        association.is_begun = !whole || first.more;
        if whole {
            association.messages.pop_front();
        }
    }
    Received { data, flags: end, from, about }
}

/// What the program wants to know of the first message.
fn about(host: &mut Host<'_>, association: &mut Association, settings: &Settings) -> About {
    let id = association.id;
    let next = settings.next_info.then(|| association.message_after(host.endpoint));
    let next = next.flatten().map(|next| next_info(next, id));
    let old = settings.events.has(SCTP_DATA_IO_EVENT);
    let Some(first) = association.messages.front().filter(|_| old || settings.receive_info) else {
        return About { next, ..About::default() };
    };
    // The cumulative TSN matters only to those who read out of order.
    let status = first.unordered.then(|| host.status(association.engine)).flatten();
    let cum_tsn = status.and_then(|status| status.cum_tsn).map_or(0, |tsn| tsn.0);
    let info = receive_info(first, cum_tsn, settings.context, id);
    About { old: old.then(|| old_info(&info)), info: settings.receive_info.then_some(info), next }
}

fn flags(message: &Message) -> u16 {
    if message.unordered { number(SCTP_UNORDERED) } else { 0 }
}

fn receive_info(message: &Message, cum_tsn: u32, context: u32, id: sctp_assoc_t) -> sctp_rcvinfo {
    sctp_rcvinfo {
        rcv_sid: message.stream.0,
        rcv_ssn: (message.number & 0xffff) as u16,
        rcv_flags: flags(message),
        rcv_ppid: message.ppid.0.to_be(),
        rcv_tsn: message.tsn.0,
        rcv_cumtsn: cum_tsn,
        rcv_context: context,
        rcv_assoc_id: id,
    }
}

fn old_info(info: &sctp_rcvinfo) -> sctp_sndrcvinfo {
    sctp_sndrcvinfo {
        sinfo_stream: info.rcv_sid,
        sinfo_ssn: info.rcv_ssn,
        sinfo_flags: info.rcv_flags,
        sinfo_ppid: info.rcv_ppid,
        sinfo_context: info.rcv_context,
        sinfo_timetolive: 0,
        sinfo_tsn: info.rcv_tsn,
        sinfo_cumtsn: info.rcv_cumtsn,
        sinfo_assoc_id: info.rcv_assoc_id,
    }
}

fn next_info(next: &Message, id: sctp_assoc_t) -> sctp_nxtinfo {
    sctp_nxtinfo {
        nxt_sid: next.stream.0,
        nxt_flags: flags(next),
        nxt_ppid: next.ppid.0.to_be(),
        nxt_length: u32::try_from(next.payload.len()).unwrap_or(u32::MAX),
        nxt_assoc_id: id,
    }
}
