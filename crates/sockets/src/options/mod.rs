//! `getsockopt` and `setsockopt`.
//!
//! An option is set for the associations to come and, where the engine can change it, for the one that it
//! names; with a one-to-one socket for its own.

mod associations;
mod authentication;
mod delivery;
mod general;
mod paths;
mod streams;

pub(crate) use associations::init_message;

use crate::constants::SCTP_REUSE_PORT;
use crate::errno::Errno;
use crate::layout::Structure;
use crate::structures::{sctp_assoc_t, sctp_assoc_value};
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::AssociationId;

/// What becomes of asking a group of options for one: none if it is not one of theirs.
type Asked<T> = Option<Result<T, Errno>>;

/// An option of the level IPPROTO_SCTP that a program sets or asks for: of which socket, which one, and what is in the
/// program's memory.
#[derive(Clone, Copy)]
struct Request<'a> {
    id: SocketId,
    name: i32,
    value: &'a [u8],
}

impl Sockets {
    /// Sets an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if there is no such option or it can only be read, `EINVAL` if the value is too short
    /// or makes no sense.
    pub fn set_option(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Result<(), Errno> {
        self.socket(id)?;
        self.mark(id);
        match level {
            libc::SOL_SOCKET => return general::set(self, id, name, value),
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => {
                return general::set_only_ipv6(self, id, value);
            }
            libc::IPPROTO_SCTP if name == SCTP_REUSE_PORT => {
                return general::set_reuse_port(self, id, value);
            }
            libc::IPPROTO_SCTP => {}
            _ => return Err(Errno::NO_PROTOCOL_OPTION),
        }
        let request = Request { id, name, value };
        associations::set(self, host, request)
            .or_else(|| paths::set(self, host, request))
            .or_else(|| delivery::set(self, host, request))
            .or_else(|| streams::set(self, host, request))
            .or_else(|| authentication::set(self, host, request))
            .unwrap_or(Err(Errno::NO_PROTOCOL_OPTION))
    }

    /// Reads an option. `asked` is what is in the program's memory: some options are asked with an
    /// association, an address or a type.
    ///
    /// # Errors
    /// As with [`set_option`](Self::set_option).
    pub fn option(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        (level, name): (i32, i32),
        asked: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.socket(id)?;
        match level {
            libc::SOL_SOCKET => return general::get(self, id, name),
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => {
                return Ok(answer_flag(self.socket(id)?.settings.family.only_ipv6));
            }
            libc::IPPROTO_SCTP if name == SCTP_REUSE_PORT => {
                return Ok(answer_flag(self.socket(id)?.settings.reuse_port));
            }
            libc::IPPROTO_SCTP => {}
            _ => return Err(Errno::NO_PROTOCOL_OPTION),
        }
        let request = Request { id, name, value: asked };
        associations::get(self, host, request)
            .or_else(|| paths::get(self, host, request))
            .or_else(|| delivery::get(self, request))
            .or_else(|| streams::get(self, host, request))
            .or_else(|| authentication::get(self, host, request))
            .unwrap_or(Err(Errno::NO_PROTOCOL_OPTION))
    }

    /// The engine's name of the association that an option means: none if it is for those to come.
    fn engine_of(
        &mut self,
        id: SocketId,
        association: sctp_assoc_t,
    ) -> Result<Option<AssociationId>, Errno> {
        let socket = self.socket(id)?;
        let chosen = socket.chosen(association).and_then(|chosen| socket.associations.get(&chosen));
        let engine = chosen.map(|one| one.engine);
        let future = socket.is_one_to_one() || association == crate::constants::SCTP_FUTURE_ASSOC;
        if engine.is_none() && !future {
            return Err(Errno::INVALID);
        }
        Ok(engine)
    }

    /// The same where there must be one.
    fn existing(
        &mut self,
        id: SocketId,
        association: sctp_assoc_t,
    ) -> Result<AssociationId, Errno> {
        self.engine_of(id, association)?.ok_or(Errno::INVALID)
    }
}

/// The structure at the beginning of a value.
fn decode<S: Structure>(value: &[u8]) -> Result<S, Errno> {
    S::decode(value).ok_or(Errno::INVALID)
}

/// An int.
fn int(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.get(..4).and_then(|bytes| bytes.try_into().ok()).ok_or(Errno::INVALID)?;
    Ok(i32::from_ne_bytes(bytes))
}

fn is_on(value: &[u8]) -> Result<bool, Errno> {
    Ok(int(value)? != 0)
}

/// The value in a sctp_assoc_value, or an int alone.
fn association_value(value: &[u8]) -> Result<u32, Errno> {
    match sctp_assoc_value::decode(value) {
        Some(value) => Ok(value.assoc_value),
        None => int(value)?.try_into().map_err(|_| Errno::INVALID),
    }
}

/// A sctp_assoc_value where there was room for one, else an int.
fn answer_value(asked: &[u8], value: u32) -> Vec<u8> {
    match sctp_assoc_value::decode(asked) {
        Some(asked) => sctp_assoc_value { assoc_value: value, ..asked }.encode(),
        None => value.to_ne_bytes().to_vec(),
    }
}

fn answer_flag(on: bool) -> Vec<u8> {
    i32::from(on).to_ne_bytes().to_vec()
}
