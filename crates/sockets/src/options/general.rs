//! Options of the level SOL_SOCKET.

use super::{answer_flag, int, is_on};
use crate::errno::Errno;
use crate::table::{SocketId, Sockets};
use libc::{
    SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_LINGER, SO_PROTOCOL, SO_RCVBUF, SO_REUSEADDR, SO_SNDBUF,
    SO_TYPE,
};

/// As with Linux.
const LEAST_SEND_BUFFER: u32 = 2304;

pub(super) fn set(
    sockets: &mut Sockets,
    id: SocketId,
    name: i32,
    value: &[u8],
) -> Result<(), Errno> {
    let settings = &mut sockets.socket(id)?.settings;
    let size = |value: &[u8]| u32::try_from(int(value)?).map_err(|_| Errno::INVALID);
    match name {
        SO_RCVBUF => settings.config.receive_buffer = size(value)?,
        SO_SNDBUF => settings.config.send_buffer = size(value)?.max(LEAST_SEND_BUFFER),
        SO_REUSEADDR => settings.reuse = is_on(value)?,
        SO_LINGER => {
            let seconds = int(value.get(4..).unwrap_or_default())?;
            let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
            settings.linger = is_on(value)?.then_some(seconds);
        }
        _ => return Err(Errno::NO_PROTOCOL_OPTION),
    }
    Ok(())
}

/// `IPV6_V6ONLY` (RFC 3493 section 5.3), which must be set before the socket is bound.
pub(super) fn set_only_ipv6(
    sockets: &mut Sockets,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let socket = sockets.socket(id)?;
    if socket.bound.is_some() || !socket.settings.family.ipv6 {
        return Err(Errno::INVALID);
    }
    socket.settings.family.only_ipv6 = is_on(value)?;
    Ok(())
}

/// `SCTP_REUSE_PORT` (RFC 6458 section 8.1.27), which must be set before the socket is bound.
pub(super) fn set_reuse_port(
    sockets: &mut Sockets,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let socket = sockets.socket(id)?;
    if !socket.is_one_to_one() {
        return Err(Errno::NOT_SUPPORTED);
    }
    if socket.bound.is_some() {
        return Err(Errno::FAULT);
    }
    socket.settings.reuse_port = is_on(value)?;
    Ok(())
}

pub(super) fn get(sockets: &mut Sockets, id: SocketId, name: i32) -> Result<Vec<u8>, Errno> {
    let socket = sockets.socket(id)?;
    // "The kernel doubles this value [...] and this doubled value is returned" (socket(7)).
    let size = |bytes: u32| {
        i32::try_from(bytes)
            .map_or(i32::MAX, |bytes| bytes.saturating_mul(2))
            .to_ne_bytes()
            .to_vec()
    };
    Ok(match name {
        SO_ERROR => {
            let error = socket.error.take();
            sockets.mark(id);
            error.map_or(0, |error| error.0).to_ne_bytes().to_vec()
        }
        SO_TYPE => {
            let kind =
                if socket.is_one_to_one() { libc::SOCK_STREAM } else { libc::SOCK_SEQPACKET };
            kind.to_ne_bytes().to_vec()
        }
        SO_DOMAIN => {
            let family = if socket.settings.family.ipv6 { libc::AF_INET6 } else { libc::AF_INET };
            family.to_ne_bytes().to_vec()
        }
        SO_PROTOCOL => libc::IPPROTO_SCTP.to_ne_bytes().to_vec(),
        SO_ACCEPTCONN => answer_flag(socket.backlog.is_some()),
        SO_RCVBUF => size(socket.settings.config.receive_buffer),
        SO_SNDBUF => size(socket.settings.config.send_buffer),
        SO_REUSEADDR => answer_flag(socket.settings.reuse),
        SO_LINGER => {
            let on = i32::from(socket.settings.linger.is_some());
            let seconds = i32::from(socket.settings.linger.unwrap_or(0));
            [on.to_ne_bytes(), seconds.to_ne_bytes()].concat()
        }
        _ => return Err(Errno::NO_PROTOCOL_OPTION),
    })
}
