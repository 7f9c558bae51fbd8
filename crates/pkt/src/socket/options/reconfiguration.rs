//! Options that are requests to reset or add streams (RFC 6525 section 6.3).

use crate::api::arguments::{field, fields, int};
use crate::api::constants::constant;
use crate::api::descriptor::Socket;
use crate::api::errno::{Called, Errno, Outcome};
use crate::language::Why;
use crate::language::ast::{Value, get};
use crate::world::World;
use manypath_engine::{ReconfigurationError, StreamDirection, StreamId};

/// What the peer may ask for (`SCTP_ENABLE_STREAM_RESET`), and whether the extension is used.
pub(super) fn enable(socket: &mut Socket, allowed: i64) {
    let has = |name: &str| constant(name).is_some_and(|flag| allowed & flag != 0);
    let config = &mut socket.config;
    config.accept_stream_resets = has("SCTP_ENABLE_RESET_STREAM_REQ");
    config.accept_association_resets = has("SCTP_ENABLE_RESET_ASSOC_REQ");
    config.accept_added_streams = has("SCTP_ENABLE_CHANGE_ASSOC_REQ");
    config.reconfiguration |= allowed != 0;
}

/// What [`enable`] was given.
pub(super) fn enabled(socket: &Socket) -> i64 {
    let config = &socket.config;
    let flags = [
        (config.accept_stream_resets, "SCTP_ENABLE_RESET_STREAM_REQ"),
        (config.accept_association_resets, "SCTP_ENABLE_RESET_ASSOC_REQ"),
        (config.accept_added_streams, "SCTP_ENABLE_CHANGE_ASSOC_REQ"),
    ];
    flags.iter().filter(|(on, _)| *on).filter_map(|(_, name)| constant(name)).sum()
}

/// `SCTP_RESET_STREAMS`, `SCTP_RESET_ASSOC` or `SCTP_ADD_STREAMS`; none if `option` is another one.
pub(super) fn request(
    world: &mut World,
    fd: i64,
    option: &str,
    value: &Value,
) -> Result<Option<Outcome>, Why> {
    let called = match option {
        "SCTP_RESET_STREAMS" => reset_streams(world, fd, value),
        "SCTP_RESET_ASSOC" => reset_association(world, fd),
        "SCTP_ADD_STREAMS" => add_streams(world, fd, value),
        _ => return Ok(None),
    };
    called.map(Some)
}

fn reset_streams(world: &mut World, fd: i64, value: &Value) -> Called {
    let args = fields(value)?;
    let flags = field(args, "srs_flags")?.unwrap_or(0);
    let has = |name: &str| constant(name).is_some_and(|flag| flags & flag != 0);
    let mut directions = Vec::new();
    if has("SCTP_STREAM_RESET_OUTGOING") {
        directions.push(StreamDirection::Outgoing);
    }
    if has("SCTP_STREAM_RESET_INCOMING") {
        directions.push(StreamDirection::Incoming);
    }
    let streams = match get(args, "srs_stream_list") {
        Some(Value::List(list)) => list.iter().map(stream).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
        Some(_) => return Err(Why::syntax("srs_stream_list must be a list")),
    };
    let Some(link) = world.sockets.get(fd)?.link else { return Ok(Outcome::Fails("ENOENT")) };
    let now = world.now;
    let endpoint = &mut world.stacks[link.stack].endpoint;
    Ok(outcome(endpoint.reset_streams(now, link.association, &directions, &streams)))
}

fn stream(value: &Value) -> Result<StreamId, Why> {
    u16::try_from(int(value)?).map(StreamId).map_err(|_| Why::syntax(format!("{value}: no stream")))
}

fn reset_association(world: &mut World, fd: i64) -> Called {
    let Some(link) = world.sockets.get(fd)?.link else { return Ok(Outcome::Fails("ENOENT")) };
    let now = world.now;
    Ok(outcome(world.stacks[link.stack].endpoint.reset_association(now, link.association)))
}

fn add_streams(world: &mut World, fd: i64, value: &Value) -> Called {
    let args = fields(value)?;
    let count = |key: &str| -> Result<u16, Why> {
        let number = field(args, key)?.unwrap_or(0);
        u16::try_from(number).map_err(|_| Why::syntax(format!("{key} is out of range")))
    };
    let (incoming, outgoing) = (count("sas_instrms")?, count("sas_outstrms")?);
    let Some(link) = world.sockets.get(fd)?.link else { return Ok(Outcome::Fails("ENOENT")) };
    let now = world.now;
    let endpoint = &mut world.stacks[link.stack].endpoint;
    Ok(outcome(endpoint.add_streams(now, link.association, outgoing, incoming)))
}

fn outcome(result: Result<(), ReconfigurationError>) -> Outcome {
    let errno: Errno = match result {
        Ok(()) => return Outcome::OK,
        Err(ReconfigurationError::NotEstablished) => "ENOENT",
        Err(ReconfigurationError::NotSupported) => "EOPNOTSUPP",
        Err(ReconfigurationError::InProgress) => "EALREADY",
        Err(ReconfigurationError::InvalidStreams) => "EINVAL",
    };
    Outcome::Fails(errno)
}
