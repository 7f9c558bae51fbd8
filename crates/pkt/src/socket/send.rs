//! Calls that send.

use super::lifecycle::{begin, end, take_error};
use super::options;
use crate::api::arguments::{Arguments, field, fields, int};
use crate::api::constants::constant;
use crate::api::errno::{Called, Outcome};
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::world::World;
use bytes::Bytes;
use manypath_engine::{Duration, MessageEnd, Outgoing, Ppid, Reliability, SendError, StreamId};

/// Largest message that is made: a script must not use up the memory.
const MAX_LEN: usize = 1 << 24;

/// What is sent and how.
#[derive(Clone, Copy, Default, Debug)]
struct Message {
    len: usize,
    stream: u16,
    ppid: u32,
    flags: i64,
    /// What is to be done for it, if not as much as for others.
    reliability: Option<Reliability>,
}

/// `write(fd, data, len)`, `send(fd, data, len, flags)`, `sendto(...)`.
pub(super) fn write(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let message = Message { len: args.len(2)?, ..default_message(world, fd)? };
    send(world, fd, message)
}

/// `writev(fd, vector, count)`.
pub(super) fn writev(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let message = Message { len: vector_len(args.value(1)?)?, ..default_message(world, fd)? };
    send(world, fd, message)
}

/// `sendmsg(fd, message, flags)`.
pub(super) fn sendmsg(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let header = fields(args.value(1)?)?;
    let vector = get(header, "msg_iov").ok_or_else(|| Why::syntax("msg_iov is missing"))?;
    let mut message = default_message(world, fd)?;
    message.len = vector_len(vector)?;
    let mut begins = false;
    if let Some(Value::List(controls)) = get(header, "msg_control") {
        for control in controls {
            begins |= init_message(world, fd, fields(control)?)?;
            control_message(&mut message, fields(control)?)?;
        }
    }
    if begins && world.sockets.get(fd)?.link.is_none() {
        begin(world, fd, None)?;
    }
    send(world, fd, message)
}

/// What SCTP_INIT says of the association that is begun. Whether one is to be.
fn init_message(world: &mut World, fd: i64, control: &[Arg]) -> Result<bool, Why> {
    match (get(control, "cmsg_type"), get(control, "cmsg_data")) {
        (Some(Value::Word(kind)), Some(data)) if kind == "SCTP_INIT" => {
            options::init_message(&mut world.sockets.get(fd)?.config, fields(data)?)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn control_message(message: &mut Message, control: &[Arg]) -> Result<(), Why> {
    let (Some(Value::Word(kind)), Some(data)) =
        (get(control, "cmsg_type"), get(control, "cmsg_data"))
    else {
        return Err(Why::syntax("cmsg_type or cmsg_data is missing"));
    };
    match kind.as_str() {
        "SCTP_INIT" => Ok(()),
        "SCTP_SNDINFO" => send_info(message, fields(data)?, "snd_"),
        "SCTP_SNDRCV" => send_info(message, fields(data)?, "sinfo_"),
        "SCTP_PRINFO" => {
            message.reliability = reliability_info(fields(data)?)?;
            Ok(())
        }
        "SCTP_DSTADDRV4" | "SCTP_DSTADDRV6" | "SCTP_AUTHINFO" => Ok(()),
        other => Err(Why::gap(format!("control message {other} is not known"))),
    }
}

/// `sctp_sendmsg(fd, data, len, to, tolen, ppid, flags, stream, time to live, context)`.
pub(super) fn sctp_sendmsg(world: &mut World, args: &Arguments<'_>) -> Called {
    let mut message = Message { len: args.len(2)?, flags: args.int(6)?, ..Message::default() };
    message.ppid = network_order(args.int(5)?)?;
    message.stream = stream(args.int(7)?)?;
    message.reliability = lifetime(message.flags, args.int(8)?)?;
    send(world, args.int(0)?, message)
}

/// `sctp_send(fd, data, len, information, flags)`.
pub(super) fn sctp_send(world: &mut World, args: &Arguments<'_>) -> Called {
    with_info(world, args, 3)
}

/// `sctp_sendx(fd, data, len, addresses, count, information, flags)`.
pub(super) fn sctp_sendx(world: &mut World, args: &Arguments<'_>) -> Called {
    with_info(world, args, 5)
}

fn with_info(world: &mut World, args: &Arguments<'_>, info: usize) -> Called {
    let mut message = Message { len: args.len(2)?, ..Message::default() };
    if let Value::Struct(info) = args.value(info)? {
        send_info(&mut message, info, "sinfo_")?;
        let time = field(info, "sinfo_timetolive")?.unwrap_or(0);
        message.reliability = lifetime(message.flags, time)?;
    }
    send(world, args.int(0)?, message)
}

/// `sctp_sendv(fd, vector, count, addresses, count, information, length, type, flags)`.
pub(super) fn sctp_sendv(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let mut message = default_message(world, fd)?;
    message.len = vector_len(args.value(1)?)?;
    if let Value::Struct(info) = args.value(5)? {
        vector_info(&mut message, info, int(args.value(7)?)?)?;
    }
    send(world, fd, message)
}

/// Takes over the information of `sctp_sendv`, which is of this type.
fn vector_info(message: &mut Message, info: &[Arg], kind: i64) -> Result<(), Why> {
    let is = |name: &str| constant(name) == Some(kind);
    if is("SCTP_SENDV_PRINFO") {
        message.reliability = reliability_info(info)?;
    }
    if is("SCTP_SENDV_SNDINFO") {
        send_info(message, info, "snd_")?;
    }
    if !is("SCTP_SENDV_SPA") {
        return Ok(());
    }
    let valid = field(info, "sendv_flags")?.unwrap_or(0);
    let part = |flag: &str, key: &str| -> Result<Option<&[Arg]>, Why> {
        let given = constant(flag).is_some_and(|flag| valid & flag != 0);
        get(info, key).filter(|_| given).map(fields).transpose()
    };
    if let Some(sent) = part("SCTP_SEND_SNDINFO_VALID", "sendv_sndinfo")? {
        send_info(message, sent, "snd_")?;
    }
    if let Some(terms) = part("SCTP_SEND_PRINFO_VALID", "sendv_prinfo")? {
        message.reliability = reliability_info(terms)?;
    }
    Ok(())
}

/// What `pr_policy` and `pr_value` say.
fn reliability_info(info: &[Arg]) -> Result<Option<Reliability>, Why> {
    let (policy, value) = (field(info, "pr_policy")?, field(info, "pr_value")?);
    reliability(policy.unwrap_or(0), value.unwrap_or(0)).map(Some)
}

/// What a time to live says. The flags may name another policy that it is the value of.
fn lifetime(flags: i64, time: i64) -> Result<Option<Reliability>, Why> {
    match flags & 0xf {
        0 if time == 0 => Ok(None),
        0 => reliability(1, time).map(Some),
        policy => reliability(policy, time).map(Some),
    }
}

/// The policy with the number that FreeBSD gives it.
pub(super) fn reliability(policy: i64, value: i64) -> Result<Reliability, Why> {
    let value = u32::try_from(value).map_err(|_| Why::syntax(format!("{value} is no pr_value")))?;
    match policy {
        0 => Ok(Reliability::Reliable),
        1 => Ok(Reliability::Lifetime(Duration::from_millis(value.into()))),
        2 => Ok(Reliability::Priority(value)),
        3 => Ok(Reliability::Retransmissions(value)),
        other => Err(Why::gap(format!("policy {other} of partial reliability is not known"))),
    }
}

/// Takes over what `snd_` or `sinfo_` fields say.
fn send_info(message: &mut Message, info: &[Arg], prefix: &str) -> Result<(), Why> {
    let value = |key: &str| field(info, &format!("{prefix}{key}"));
    if let Some(number) = value("sid")?.or(value("stream")?) {
        message.stream = stream(number)?;
    }
    if let Some(ppid) = value("ppid")? {
        message.ppid = network_order(ppid)?;
    }
    if let Some(flags) = value("flags")? {
        message.flags = flags;
    }
    Ok(())
}

/// What SCTP_DEFAULT_SNDINFO has set.
fn default_message(world: &mut World, fd: i64) -> Result<Message, Why> {
    let kept = &world.sockets.get(fd)?.kept;
    let value = |key: &str| kept.get(key).copied().unwrap_or(0);
    Ok(Message {
        len: 0,
        stream: stream(value("snd_sid"))?,
        ppid: network_order(value("snd_ppid"))?,
        flags: value("snd_flags"),
        reliability: reliability(value("pr_policy"), value("pr_value")).map(Some)?,
    })
}

fn stream(number: i64) -> Result<u16, Why> {
    u16::try_from(number).map_err(|_| Why::syntax(format!("{number} is no stream")))
}

/// Payload protocol identifiers lie in memory as they travel.
fn network_order(number: i64) -> Result<u32, Why> {
    let number = u32::try_from(number).map_err(|_| Why::syntax("a ppid has 32 bits"))?;
    Ok(number.swap_bytes())
}

fn vector_len(vector: &Value) -> Result<usize, Why> {
    let bad = || Why::syntax("expected an array of {data, length}");
    let Value::List(parts) = vector else { return Err(bad()) };
    let mut total = 0;
    for part in parts {
        let len = match fields(part)? {
            [Arg::Bare(_), Arg::Bare(len)] | [Arg::Named(..), Arg::Named(_, len)] => int(len)?,
            _ => return Err(bad()),
        };
        total = usize::try_from(len).map_err(|_| bad())?.saturating_add(total);
    }
    Ok(total)
}

fn send(world: &mut World, fd: i64, message: Message) -> Called {
    let flags = message.flags;
    let has = |name: &str| constant(name).is_some_and(|flag| flags & flag != 0);
    if message.len > MAX_LEN {
        return Err(Why::gap("so large a message is not tried"));
    }
    if let Some(errno) = take_error(world, fd)? {
        return Ok(Outcome::Fails(errno));
    }
    let socket = world.sockets.get(fd)?;
    if socket.shut {
        return Ok(Outcome::Fails("EPIPE"));
    }
    if socket.link.is_none() && !socket.many {
        return Ok(Outcome::Fails("ENOTCONN"));
    }
    if socket.link.is_none() {
        begin(world, fd, None)?;
    }
    let Some(link) = world.sockets.get(fd)?.link else { return Ok(Outcome::Fails("ENOTCONN")) };
    let now = world.now;
    let kept = &world.sockets.get(fd)?.kept;
    let explicit = kept.get("SCTP_EXPLICIT_EOR").is_some_and(|on| *on != 0);
    world.link(link)?.is_dry = false;
    let endpoint = &mut world.stacks[link.stack].endpoint;
    if has("SCTP_ABORT") {
        endpoint.abort(now, link.association, &vec![0; message.len]);
        return Ok(Outcome::bytes(message.len));
    }
    let eof = has("SCTP_EOF");
    let (stream, reliability) = (StreamId(message.stream), message.reliability.unwrap_or_default());
    // Of a part as much is taken as there is room for (RFC 6458 section 8.1.26).
    let is_cut = explicit && reliability == Reliability::Reliable;
    let space = if is_cut { endpoint.send_space(link.association) } else { usize::MAX };
    let given = message.len.min(space);
    let open = explicit && (given < message.len || !eof && !has("SCTP_EOR"));
    let is_part = open || endpoint.is_unfinished(link.association, Some(stream));
    let last = match (open, has("SCTP_SACK_IMMEDIATELY")) {
        (true, _) => MessageEnd::Open,
        (false, true) => MessageEnd::LastPrompt,
        (false, false) => MessageEnd::Last,
    };
    let outgoing = Outgoing {
        stream,
        ppid: Ppid(message.ppid),
        unordered: has("SCTP_UNORDERED"),
        payload: Bytes::from(vec![0; given]),
    };
    let outcome = match reliability {
        _ if eof && message.len == 0 => Ok(()),
        _ if given == 0 && message.len > 0 => Err(SendError::BufferFull),
        Reliability::Reliable if is_part || last == MessageEnd::LastPrompt => {
            endpoint.send_part(now, link.association, outgoing, last)
        }
        // Parts are reliable.
        _ if is_part => Err(SendError::Unfinished),
        other => endpoint.send_with(now, link.association, outgoing, other),
    };
    if eof && outcome.is_ok() && given == message.len {
        end(world, link);
    }
    Ok(match outcome {
        Ok(()) => Outcome::bytes(given),
        Err(SendError::UnknownAssociation | SendError::ShuttingDown) => Outcome::Fails("EPIPE"),
        Err(SendError::InvalidStream | SendError::Empty | SendError::Unfinished) => {
            Outcome::Fails("EINVAL")
        }
        Err(SendError::TooLarge) => Outcome::Fails("EMSGSIZE"),
        Err(SendError::BufferFull) => Outcome::Waits("EAGAIN"),
    })
}
