//! Options of authentication (RFC 6458 sections 8.1.17, 8.1.18, 8.2.3, 8.2.4 and 8.3.2 to 8.3.5).

use super::set::ids;
use crate::api::arguments::{field, fields, int};
use crate::api::descriptor::Socket;
use crate::api::errno::{Called, Errno, Outcome};
use crate::api::filled::Filled;
use crate::language::Why;
use crate::language::ast::{Value, get};
use crate::world::World;
use manypath_engine::{HmacAlgorithms, KeyError};

/// INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH (RFC 4895 section 3.2).
const NEVER: [u8; 4] = [1, 2, 14, 15];
/// ASCONF ACK and ASCONF, which are always authenticated (RFC 5061 section 4.1.1).
const ADDRESS_CHANGES: [u8; 2] = [0x80, 0xc1];

/// Sets an option; none if it is not one of these.
pub(super) fn set(
    world: &mut World,
    fd: i64,
    option: &str,
    value: &Value,
) -> Result<Option<Outcome>, Why> {
    let called = match option {
        "SCTP_AUTH_CHUNK" => demand(world.sockets.get(fd)?, value),
        "SCTP_HMAC_IDENT" => algorithms(world, fd, value),
        "SCTP_AUTH_KEY" => shared_key(world, fd, value),
        "SCTP_AUTH_ACTIVE_KEY" => with_number(world, fd, value, Request::Activate),
        "SCTP_AUTH_DEACTIVATE_KEY" => with_number(world, fd, value, Request::Deactivate),
        "SCTP_AUTH_DELETE_KEY" => with_number(world, fd, value, Request::Delete),
        _ => return Ok(None),
    };
    called.map(Some)
}

/// Reads an option; none if it is not one of these.
pub(super) fn get_option(world: &mut World, fd: i64, option: &str) -> Result<Option<Filled>, Why> {
    let socket = world.sockets.get(fd)?.clone();
    let numbers = |list: &[u8]| list.iter().map(|byte| Filled::Int((*byte).into())).collect();
    let chunks = |list: &[u8]| {
        Filled::Struct(vec![
            ("gauth_assoc_id", Filled::Asked),
            ("gauth_number_of_chunks", Filled::Int(i64::try_from(list.len()).unwrap_or(0))),
            ("gauth_chunks", Filled::List(numbers(list))),
        ])
    };
    Ok(Some(match option {
        "SCTP_AUTH_ACTIVE_KEY" => Filled::Struct(vec![
            ("scact_assoc_id", Filled::Asked),
            ("scact_keynumber", Filled::Int(socket.active_key.into())),
        ]),
        "SCTP_HMAC_IDENT" => {
            let list: &[u8] = match socket.config.hmac_algorithms {
                HmacAlgorithms::Sha256Sha1 => &[3, 1],
                HmacAlgorithms::Sha1Sha256 => &[1, 3],
                HmacAlgorithms::Sha1 => &[1],
            };
            Filled::Struct(vec![
                ("shmac_number_of_idents", Filled::Int(i64::try_from(list.len()).unwrap_or(0))),
                ("shmac_idents", Filled::List(numbers(list))),
            ])
        }
        "SCTP_LOCAL_AUTH_CHUNKS" => chunks(&demanded(&socket)),
        "SCTP_PEER_AUTH_CHUNKS" => {
            let status = socket.link.and_then(|link| {
                world.stacks[link.stack].endpoint.status(world.now, link.association)
            });
            if status.is_some_and(|status| status.authentication) {
                return Err(Why::gap("what the peer wants authenticated is not told"));
            }
            chunks(&[])
        }
        _ => return Ok(None),
    }))
}

/// The chunk types that the peer of this socket has to authenticate.
fn demanded(socket: &Socket) -> Vec<u8> {
    let config = &socket.config;
    let mut list = config.authenticated_chunks.clone();
    if config.address_reconfiguration {
        list.extend(ADDRESS_CHANGES);
    }
    list.sort_unstable();
    list.dedup();
    list
}

fn demand(socket: &mut Socket, value: &Value) -> Called {
    let chunk = field(fields(value)?, "sauth_chunk")?.unwrap_or(0);
    let chunk = u8::try_from(chunk).map_err(|_| Why::syntax("a chunk type has 8 bits"))?;
    if NEVER.contains(&chunk) {
        return Ok(Outcome::Fails("EINVAL"));
    }
    socket.config.authenticated_chunks.push(chunk);
    Ok(Outcome::OK)
}

/// RFC 4895 section 6.1 forbids another list once something was announced, so it must come before.
fn algorithms(world: &mut World, fd: i64, value: &Value) -> Called {
    let socket = world.sockets.get(fd)?;
    let list = match get(fields(value)?, "shmac_idents") {
        Some(Value::List(list)) => list.iter().map(int).collect::<Result<Vec<_>, _>>()?,
        _ => return Err(Why::syntax("shmac_idents must be a list")),
    };
    socket.config.hmac_algorithms = match list.as_slice() {
        [3, 1] => HmacAlgorithms::Sha256Sha1,
        [1, 3] => HmacAlgorithms::Sha1Sha256,
        [1] => HmacAlgorithms::Sha1,
        // SHA-1 must be there (RFC 4895 section 6.1), and no others are known.
        _ => return Ok(Outcome::Fails("EINVAL")),
    };
    Ok(Outcome::OK)
}

fn shared_key(world: &mut World, fd: i64, value: &Value) -> Called {
    let args = fields(value)?;
    let number = key_number(field(args, "sca_keynumber")?)?;
    let secret = match get(args, "sca_key") {
        Some(Value::List(list)) => list.iter().map(int).collect::<Result<Vec<_>, _>>()?,
        _ => Vec::new(),
    };
    let secret: Vec<u8> = secret.into_iter().filter_map(|byte| u8::try_from(byte).ok()).collect();
    let (stack, association) = ids(world, fd)?;
    let now = world.now;
    let endpoint = &mut world.stacks[stack].endpoint;
    let result = endpoint.set_shared_key(now, association, number, &secret);
    Ok(outcome(result.or_else(|error| match error {
        KeyError::NoAuthentication => endpoint.set_shared_key(now, None, number, &secret),
        KeyError::UnknownKey | KeyError::Active | KeyError::WrongOrder => Err(error),
    })))
}

#[derive(Clone, Copy)]
enum Request {
    Activate,
    Deactivate,
    Delete,
}

fn with_number(world: &mut World, fd: i64, value: &Value, request: Request) -> Called {
    let number = key_number(field(fields(value)?, "scact_keynumber")?)?;
    let (stack, id) = ids(world, fd)?;
    let now = world.now;
    let endpoint = &mut world.stacks[stack].endpoint;
    let mut ask = |id| match request {
        Request::Activate => endpoint.set_active_key(now, id, number),
        Request::Deactivate => endpoint.deactivate_key(now, id, number),
        Request::Delete => endpoint.delete_key(now, id, number),
    };
    // An association without authentication has no keys: those of the endpoint are left.
    let result = ask(id).or_else(|error| match error {
        KeyError::NoAuthentication => ask(None),
        KeyError::UnknownKey | KeyError::Active | KeyError::WrongOrder => Err(error),
    });
    if matches!(request, Request::Activate) && result.is_ok() {
        world.sockets.get(fd)?.active_key = number;
    }
    Ok(outcome(result))
}

fn key_number(number: Option<i64>) -> Result<u16, Why> {
    u16::try_from(number.unwrap_or(0)).map_err(|_| Why::syntax("a key number has 16 bits"))
}

fn outcome(result: Result<(), KeyError>) -> Outcome {
    let errno: Errno = match result {
        Ok(()) => return Outcome::OK,
        Err(KeyError::NoAuthentication) => "EOPNOTSUPP",
        Err(KeyError::UnknownKey) => "ENOENT",
        Err(KeyError::Active | KeyError::WrongOrder) => "EINVAL",
    };
    Outcome::Fails(errno)
}
