//! Calls that receive.

use super::lifecycle::take_error;
use crate::api::arguments::{Arguments, fields, int};
use crate::api::constants::constant;
use crate::api::descriptor::LinkId;
use crate::api::descriptor::Socket;
use crate::api::errno::{Called, Outcome};
use crate::api::filled::{Filled, fits};
use crate::api::notification::{ASSOCIATION, Notification};
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::world::{Link, World};
use manypath_engine::Message;
use std::net::SocketAddr;

/// What a call that receives gets.
struct Received {
    len: usize,
    flags: i64,
    /// What the data belongs to; none with notifications.
    message: Option<About>,
    notification: Option<Filled>,
}

/// A message and what is told with it.
struct About {
    message: Message,
    /// The message that comes next.
    next: Option<Message>,
    /// The cumulative TSN.
    cum_tsn: i64,
}

/// `read(fd, buffer, len)` and `recv(fd, buffer, len, flags)`.
pub(super) fn read(world: &mut World, args: &Arguments<'_>) -> Called {
    match receive(world, args.int(0)?, args.len(2)?)? {
        Ok(received) => Ok(Outcome::bytes(received.len)),
        Err(outcome) => Ok(outcome),
    }
}

/// `sctp_recvmsg(fd, buffer, len, from, fromlen, information, flags)`.
pub(super) fn sctp_recvmsg(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let received = match receive(world, fd, args.len(2)?)? {
        Ok(received) => received,
        Err(outcome) => return Ok(outcome),
    };
    from_peer(world, args.value(3)?)?;
    let socket = world.sockets.get(fd)?;
    if let Some(about) = &received.message
        && socket.subscriptions.data_io
    {
        fits("the information", args.value(5)?, &send_receive_info(socket, about))?;
    }
    fits("msg_flags", args.value(6)?, &Filled::Int(received.flags))?;
    Ok(Outcome::bytes(received.len))
}

/// `recvmsg(fd, message, flags)`.
pub(super) fn recvmsg(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let header = fields(args.value(1)?)?;
    let vector = get(header, "msg_iov").ok_or_else(|| Why::syntax("msg_iov is missing"))?;
    let received = match receive(world, fd, vector_len(vector)?)? {
        Ok(received) => received,
        Err(outcome) => return Ok(outcome),
    };
    check_vector(vector, &received)?;
    let socket = world.sockets.get(fd)?;
    if let Some(control) = get(header, "msg_control") {
        let found = received.message.as_ref().map_or(Vec::new(), |m| controls(socket, m));
        fits("msg_control", control, &Filled::List(found))?;
    }
    if let Some(flags) = get(header, "msg_flags") {
        fits("msg_flags", flags, &Filled::Int(received.flags))?;
    }
    Ok(Outcome::bytes(received.len))
}

/// `sctp_recvv(fd, vector, count, from, fromlen, information, length, type, flags)`.
pub(super) fn sctp_recvv(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let vector = args.value(1)?;
    let received = match receive(world, fd, vector_len(vector)?)? {
        Ok(received) => received,
        Err(outcome) => return Ok(outcome),
    };
    check_vector(vector, &received)?;
    from_peer(world, args.value(3)?)?;
    let socket = world.sockets.get(fd)?;
    // Nothing is told where there is no room for it.
    let wanted = !matches!(args.value(5)?, Value::Word(null) if null == "NULL");
    let (info, len, kind) = match &received.message {
        Some(message) if wanted => receive_infos(socket, message),
        _ => (Filled::Nothing, 0, 0),
    };
    fits("the information", args.value(5)?, &info)?;
    fits("the length", args.value(6)?, &Filled::Int(len))?;
    fits("the type", args.value(7)?, &Filled::Int(kind))?;
    fits("flags", args.value(8)?, &Filled::Int(received.flags))?;
    Ok(Outcome::bytes(received.len))
}

fn receive(world: &mut World, fd: i64, room: usize) -> Result<Result<Received, Outcome>, Why> {
    let socket = world.sockets.get(fd)?.clone();
    let Some(link) = socket.link else { return Ok(Err(Outcome::Fails("ENOTCONN"))) };
    note_dry(world, fd)?;
    if let Some(notification) = notification(world, &socket, link, room)? {
        return Ok(Ok(notification));
    }
    if let Some(received) = message(world, &socket, link, room)? {
        return Ok(Ok(received));
    }
    if let Some(errno) = take_error(world, fd)? {
        return Ok(Err(Outcome::Fails(errno)));
    }
    let link = world.link(link)?;
    let over = link.closed.is_some() || link.peer_shutdown;
    Ok(Err(if over { Outcome::Returns(0) } else { Outcome::Waits("EAGAIN") }))
}

/// Notes that nothing is left to be sent, if somebody wants to know (SCTP_SENDER_DRY_EVENT).
pub(super) fn note_dry(world: &mut World, fd: i64) -> Result<(), Why> {
    let socket = world.sockets.get(fd)?;
    let wanted = socket.subscriptions.events.contains("SCTP_SENDER_DRY_EVENT");
    let Some(id) = socket.link.filter(|_| wanted) else { return Ok(()) };
    let info = world.stacks[id.stack].endpoint.sender_queue_info(id.association);
    let is_empty = info.is_some_and(|info| info.queued == 0);
    let link = world.link(id)?;
    if is_empty && !link.is_dry && link.streams.is_some() {
        link.is_dry = true;
        link.notifications.push_back(Notification::Dry);
    }
    Ok(())
}

/// The next notification that the socket wants, unless messages come first.
fn notification(
    world: &mut World,
    socket: &Socket,
    id: LinkId,
    room: usize,
) -> Result<Option<Received>, Why> {
    if let Some(rest) = world.link(id)?.rest.take() {
        return Ok(Some(told(world.link(id)?, rest, room, Filled::Asked)));
    }
    let has_message = peek(world, id)?;
    let link = world.link(id)?;
    let Some(first) = link.notifications.front() else { return Ok(None) };
    if has_message && first.is_after_data() {
        return Ok(None);
    }
    let Some(first) = link.notifications.pop_front() else { return Ok(None) };
    let (filled, len) = first.filled(&socket.subscriptions, |tsn| world.numbers.own_tsn(tsn.0));
    Ok(Some(told(world.link(id)?, len, room, filled)))
}

/// What fits of a notification of which `len` bytes are left; the rest of it comes next.
fn told(link: &mut Link, len: usize, room: usize, filled: Filled) -> Received {
    let flags = ["MSG_NOTIFICATION", "MSG_EOR"].into_iter().filter_map(constant);
    let whole = len <= room;
    link.rest = (!whole).then(|| len - room);
    let flags = flags.take(if whole { 2 } else { 1 }).sum();
    Received { len: len.min(room), flags, message: None, notification: Some(filled) }
}

/// Whether a message can be read. It is taken out of the engine for that.
fn peek(world: &mut World, id: LinkId) -> Result<bool, Why> {
    let link = world.link(id)?;
    if link.partial.is_some() || link.next.is_some() {
        return Ok(true);
    }
    let next = world.stacks[id.stack].endpoint.read(id.association);
    let link = world.link(id)?;
    link.next = next;
    Ok(link.next.is_some())
}

/// The next message, or what fits of it.
fn message(
    world: &mut World,
    socket: &Socket,
    id: LinkId,
    room: usize,
) -> Result<Option<Received>, Why> {
    if world.link(id)?.partial.is_none() {
        peek(world, id)?;
        let link = world.link(id)?;
        link.partial = link.next.take().map(|message| (message.clone(), message.payload));
    }
    if socket.subscriptions.looks_ahead() {
        let next = world.stacks[id.stack].endpoint.read(id.association);
        let link = world.link(id)?;
        link.next = link.next.take().or(next);
    }
    let link = world.link(id)?;
    let Some((message, mut rest)) = link.partial.take() else { return Ok(None) };
    let part = rest.split_to(room.min(rest.len()));
    let whole = rest.is_empty();
    if !whole {
        link.partial = Some((message.clone(), rest));
    }
    let flags = if whole && !message.more { constant("MSG_EOR").unwrap_or(0) } else { 0 };
    let next = link.next.clone();
    let status = world.stacks[id.stack].endpoint.status(world.now, id.association);
    let cum_tsn = status.and_then(|status| status.cum_tsn).map_or(0, |tsn| i64::from(tsn.0));
    let about = About { message, next, cum_tsn };
    Ok(Some(Received { len: part.len(), flags, message: Some(about), notification: None }))
}

fn from_peer(world: &World, expected: &Value) -> Result<(), Why> {
    let peer = SocketAddr::new(world.network.remote, crate::world::PORT);
    match expected {
        Value::Word(_) => Ok(()),
        _ => fits("the sender", expected, &Filled::Address(peer)),
    }
}

fn vector_len(vector: &Value) -> Result<usize, Why> {
    let bad = || Why::syntax("expected an array of {data, length}");
    let Value::List(parts) = vector else { return Err(bad()) };
    let mut total = 0;
    for part in parts {
        let (_, len) = part_of(part)?;
        total = usize::try_from(int(len)?).map_err(|_| bad())?.saturating_add(total);
    }
    Ok(total)
}

/// Data and length of a part of a vector.
fn part_of(part: &Value) -> Result<(&Value, &Value), Why> {
    match fields(part)? {
        [Arg::Bare(data), Arg::Bare(len)] | [Arg::Named(_, data), Arg::Named(_, len)] => {
            Ok((data, len))
        }
        _ => Err(Why::syntax("expected {data, length}")),
    }
}

/// Compares a notification with what the script expects in the first part.
fn check_vector(vector: &Value, received: &Received) -> Result<(), Why> {
    let Value::List(parts) = vector else { return Ok(()) };
    for part in parts {
        let (expected, _) = part_of(part)?;
        match (expected, &received.notification) {
            (Value::Any, _) => {}
            (expected, Some(notification)) => fits("the notification", expected, notification)?,
            (_, None) => return Err(Why::mismatch("data was received, not a notification")),
        }
    }
    Ok(())
}

/// The control messages that come with a message.
fn controls(socket: &Socket, about: &About) -> Vec<Filled> {
    let control = |len: i64, kind: &str, data: Filled| {
        Filled::Struct(vec![
            ("cmsg_len", Filled::Int(len)),
            ("cmsg_level", Filled::Int(constant("IPPROTO_SCTP").unwrap_or(0))),
            ("cmsg_type", Filled::Int(constant(kind).unwrap_or(0))),
            ("cmsg_data", data),
        ])
    };
    let mut found = Vec::new();
    if socket.subscriptions.receive_info {
        found.push(control(40, "SCTP_RCVINFO", receive_info(about)));
    }
    if let (true, Some(next)) = (socket.subscriptions.next_info, &about.next) {
        found.push(control(28, "SCTP_NXTINFO", next_info(next)));
    }
    if socket.subscriptions.data_io {
        let kind = if socket.subscriptions.extended_info { "SCTP_EXTRCV" } else { "SCTP_SNDRCV" };
        found.push(control(140, kind, send_receive_info(socket, about)));
    }
    found
}

/// The information of sctp_recvv, its length and its type.
fn receive_infos(socket: &Socket, about: &About) -> (Filled, i64, i64) {
    let next = about.next.as_ref().filter(|_| socket.subscriptions.next_info);
    match (socket.subscriptions.receive_info, next) {
        (false, None) => (Filled::Nothing, 0, 0),
        (true, None) => (receive_info(about), 28, 1),
        (false, Some(next)) => (next_info(next), 16, 2),
        (true, Some(next)) => {
            let both =
                vec![("recvv_rcvinfo", receive_info(about)), ("recvv_nxtinfo", next_info(next))];
            (Filled::Struct(both), 44, 3)
        }
    }
}

fn unordered(message: &Message) -> i64 {
    if message.unordered { constant("SCTP_UNORDERED").unwrap_or(0) } else { 0 }
}

fn ppid(message: &Message) -> i64 {
    i64::from(message.ppid.0.swap_bytes())
}

fn receive_info(About { message, cum_tsn, .. }: &About) -> Filled {
    Filled::numbers([
        ("rcv_sid", message.stream.0.into()),
        ("rcv_ssn", message.number.into()),
        ("rcv_flags", unordered(message)),
        ("rcv_ppid", ppid(message)),
        ("rcv_tsn", message.tsn.0.into()),
        ("rcv_cumtsn", *cum_tsn),
        ("rcv_context", 0),
        ("rcv_assoc_id", ASSOCIATION),
    ])
}

fn next_info(next: &Message) -> Filled {
    Filled::numbers([
        ("nxt_sid", next.stream.0.into()),
        ("nxt_flags", unordered(next) | constant("SCTP_COMPLETE").unwrap_or(0)),
        ("nxt_ppid", ppid(next)),
        ("nxt_length", i64::try_from(next.payload.len()).unwrap_or(i64::MAX)),
        ("nxt_assoc_id", ASSOCIATION),
    ])
}

/// A sctp_sndrcvinfo or a sctp_extrcvinfo, as the socket wants it.
fn send_receive_info(socket: &Socket, about: &About) -> Filled {
    let About { message, cum_tsn, next } = about;
    let mut fields = vec![
        ("sinfo_stream", message.stream.0.into()),
        ("sinfo_ssn", message.number.into()),
        ("sinfo_flags", unordered(message)),
        ("sinfo_ppid", ppid(message)),
        ("sinfo_context", 0),
        ("sinfo_timetolive", 0),
        ("sinfo_pr_value", 0),
        ("sinfo_tsn", message.tsn.0.into()),
        ("sinfo_cumtsn", *cum_tsn),
        ("sinfo_assoc_id", ASSOCIATION),
    ];
    if socket.subscriptions.extended_info {
        let next = next.as_ref();
        let value = |of: fn(&Message) -> i64| next.map_or(0, of);
        fields.extend([
            ("serinfo_next_flags", value(next_flags)),
            ("serinfo_next_stream", value(|next| next.stream.0.into())),
            ("serinfo_next_aid", next.map_or(0, |_| ASSOCIATION)),
            ("serinfo_next_length", value(|next| i64::try_from(next.payload.len()).unwrap_or(0))),
            ("serinfo_next_ppid", value(ppid)),
        ]);
    }
    Filled::Struct(fields.into_iter().map(|(key, number)| (key, Filled::Int(number))).collect())
}

fn next_flags(next: &Message) -> i64 {
    let unordered = next.unordered.then_some("SCTP_NEXT_MSG_IS_UNORDERED");
    let names = ["SCTP_NEXT_MSG_AVAIL", "SCTP_NEXT_MSG_ISCOMPLETE"].into_iter().chain(unordered);
    names.filter_map(constant).sum()
}
