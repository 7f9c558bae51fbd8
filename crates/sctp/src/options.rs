//! `getsockopt` and `setsockopt`, with what needs more than a socket: options that make descriptors, wait,
//! or are the kernel's own.

use crate::calls::{ask, connect, peel_off};
use crate::memory;
use crate::request::Request;
use crate::system;
use libc::{c_int, c_void};
use manypath_sockets::Errno;
use manypath_sockets::address::decode_packed;
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{sctp_getaddrs_old, sctp_peeloff_arg};
use std::os::fd::RawFd;

/// Options that calls which wait follow by waiting for the descriptor.
const OF_THE_DESCRIPTOR: [c_int; 2] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];

fn is_of_the_descriptor(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET && OF_THE_DESCRIPTOR.contains(&name)
}

/// Sets an option. The number that the call returns.
pub(crate) fn set(fd: RawFd, level: c_int, name: c_int, value: &[u8]) -> Result<c_int, Errno> {
    if is_of_the_descriptor(level, name) {
        return system::set_option(fd, name, value).map(|()| 0);
    }
    let connects = [SCTP_SOCKOPT_CONNECTX, SCTP_SOCKOPT_CONNECTX_OLD].contains(&name);
    if level == libc::IPPROTO_SCTP && connects {
        let mut number = 0;
        connect(fd, &decode_packed(value)?, &mut number)?;
        return Ok(if name == SCTP_SOCKOPT_CONNECTX { number } else { 0 });
    }
    let request = Request::SetOption { option: (level, name), value: value.to_vec() };
    ask(fd, request).map(|_| 0)
}

/// Reads an option: the value, and what the call returns with it.
///
/// # Safety
/// Where the value of `SCTP_SOCKOPT_CONNECTX3` points to, there are as many bytes as it says.
pub(crate) unsafe fn get(
    fd: RawFd,
    level: c_int,
    name: c_int,
    asked: &[u8],
) -> Result<(Vec<u8>, Result<(), Errno>), Errno> {
    if is_of_the_descriptor(level, name) {
        let mut value = vec![0; asked.len()];
        let len = system::option(fd, name, &mut value)?;
        value.truncate(len);
        return Ok((value, Ok(())));
    }
    let mut result = Ok(());
    let value = match (level, name) {
        (libc::IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS) => {
            let arg = sctp_peeloff_arg::decode(asked).ok_or(Errno::INVALID)?;
            let flags = match (name, asked.get(8..12)) {
                (SCTP_SOCKOPT_PEELOFF_FLAGS, Some(flags)) => {
                    flags.try_into().map_or(0, i32::from_ne_bytes)
                }
                _ => 0,
            };
            let sd = peel_off(fd, arg.associd, flags)?;
            let mut answer = sctp_peeloff_arg { sd, ..arg }.encode();
            answer.extend(asked.get(8..).unwrap_or_default());
            answer
        }
        (libc::IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3) => {
            let arg = sctp_getaddrs_old::decode(asked).ok_or(Errno::INVALID)?;
            let len = usize::try_from(arg.addr_num).map_err(|_| Errno::INVALID)?;
            let at = arg.addrs as usize as *const c_void;
            // SAFETY: the caller promises it.
            let addresses = decode_packed(unsafe { memory::bytes(at, len) }?)?;
            let mut assoc_id = 0;
            // Whoever does not wait learns the number of the association that has begun.
            match connect(fd, &addresses, &mut assoc_id) {
                Err(error) if error != Errno::IN_PROGRESS => return Err(error),
                begun => result = begun,
            }
            sctp_getaddrs_old { assoc_id, ..arg }.encode()
        }
        _ => ask(fd, Request::Option { option: (level, name), asked: asked.to_vec() })?,
    };
    Ok((value, result))
}
