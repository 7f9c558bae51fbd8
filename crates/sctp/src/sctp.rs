//! The functions of RFC 6458 section 9, under its own names.
//!
//! # Safety
//! Pointers are null or point to as much memory as the lengths and the families of addresses say.

use crate::calls;
use crate::exports::{answer, answer_len, manypath_getsockopt};
use crate::memory::{self, fill, parts, room, scatter};
use crate::request::{How, Request, split_size};
use libc::{c_int, c_uint, c_void, iovec, size_t, sockaddr, socklen_t};
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::*;
use manypath_sockets::{About, Control, Errno, address};

/// The result of a call whose length is an int.
fn answer_short(result: Result<usize, Errno>) -> c_int {
    c_int::try_from(answer_len(result)).unwrap_or(c_int::MAX)
}

/// `sctp_bindx` (section 9.1).
///
/// # Safety
/// `count` addresses can be read at `addresses`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_bindx(
    fd: c_int,
    addresses: *const sockaddr,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller promises it.
    let all = unsafe { memory::addresses(addresses, count) };
    let bound = all.and_then(|all| {
        calls::with_local(fd, &all, |sockets, host, id| match flags {
            SCTP_BINDX_ADD_ADDR => sockets.bind_more(host, id, &all),
            SCTP_BINDX_REM_ADDR => sockets.unbind(host, id, &all),
            _ => Err(Errno::INVALID),
        })
    });
    answer(bound.map(|()| 0))
}

/// `sctp_connectx` (section 9.9). The first address begins the association, the others do if it is not
/// reached. `*number` is set where the call fails with `EINPROGRESS`, too.
///
/// # Safety
/// `count` addresses can be read at `addresses`, and `*number` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_connectx(
    fd: c_int,
    addresses: *const sockaddr,
    count: c_int,
    number: *mut sctp_assoc_t,
) -> c_int {
    // SAFETY: the caller promises it.
    let all = unsafe { memory::addresses(addresses, count) };
    let mut new = 0;
    let connected = all.and_then(|all| calls::connect(fd, &all, &mut new));
    if connected.is_ok() || connected == Err(Errno::IN_PROGRESS) {
        // SAFETY: the caller promises it.
        unsafe { memory::set(number, new) };
    }
    answer(connected.map(|()| 0))
}

/// `sctp_peeloff` (section 9.2).
#[unsafe(no_mangle)]
pub extern "C" fn sctp_peeloff(fd: c_int, number: sctp_assoc_t) -> c_int {
    sctp_peeloff_flags(fd, number, 0)
}

/// `sctp_peeloff` with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, as Linux has it.
#[unsafe(no_mangle)]
pub extern "C" fn sctp_peeloff_flags(fd: c_int, number: sctp_assoc_t, flags: c_uint) -> c_int {
    answer(calls::peel_off(fd, number, flags.cast_signed()))
}

/// `sctp_getpaddrs` (section 9.3): how many, and the addresses in memory that `sctp_freepaddrs` frees.
///
/// # Safety
/// `*addresses` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_getpaddrs(
    fd: c_int,
    number: sctp_assoc_t,
    addresses: *mut *mut sockaddr,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { tell_addresses(fd, number, addresses, true) }
}

/// `sctp_getladdrs` (section 9.5).
///
/// # Safety
/// `*addresses` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_getladdrs(
    fd: c_int,
    number: sctp_assoc_t,
    addresses: *mut *mut sockaddr,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { tell_addresses(fd, number, addresses, false) }
}

/// # Safety
/// `*to` can be written.
unsafe fn tell_addresses(
    fd: c_int,
    number: sctp_assoc_t,
    to: *mut *mut sockaddr,
    of_peer: bool,
) -> c_int {
    let found = calls::ask(fd, Request::Addresses { of_peer, number });
    answer(found.and_then(|found| {
        let (count, bytes) = split_size(&found).ok_or(Errno::BADF)?;
        if count == 0 {
            // SAFETY: the caller promises it.
            unsafe { memory::set(to, std::ptr::null_mut()) };
            return Ok(0);
        }
        // SAFETY: malloc gives as much as is written, or nothing; the caller promises the rest.
        unsafe {
            let copy = libc::malloc(bytes.len());
            if copy.is_null() {
                return Err(Errno(libc::ENOMEM));
            }
            fill(copy, bytes.len(), bytes)?;
            memory::set(to, copy.cast());
        }
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    }))
}

/// `sctp_freepaddrs` (section 9.4).
///
/// # Safety
/// The addresses are from `sctp_getpaddrs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_freepaddrs(addresses: *mut sockaddr) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { libc::free(addresses.cast()) };
    0
}

/// `sctp_freeladdrs` (section 9.6).
///
/// # Safety
/// The addresses are from `sctp_getladdrs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_freeladdrs(addresses: *mut sockaddr) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { sctp_freepaddrs(addresses) }
}

/// `sctp_opt_info` (section 8): `getsockopt` with an association.
///
/// # Safety
/// `*len` bytes can be read and written at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_opt_info(
    fd: c_int,
    number: sctp_assoc_t,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller promises it. Every structure that is asked with an association begins with it.
    unsafe {
        // A length that cannot be read is an error of the call itself.
        if !value.is_null() && memory::value(len).is_ok_and(|len| len as usize >= 8) {
            memory::set(value.cast(), number);
        }
        manypath_getsockopt(fd, libc::IPPROTO_SCTP, name, value, len)
    }
}

/// Length of an address by its family, as Linux has it; 0 if that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn sctp_getaddrlen(family: libc::sa_family_t) -> c_int {
    let len = address::len(&family.to_ne_bytes());
    len.and_then(|len| c_int::try_from(len).ok()).unwrap_or(0)
}

/// `sctp_sendmsg` (section 9.7, deprecated).
///
/// # Safety
/// `len` bytes can be read at `data`, and `to_len` at `to`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "RFC 6458 has it so")]
pub unsafe extern "C" fn sctp_sendmsg(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    to: *const sockaddr,
    to_len: socklen_t,
    ppid: u32,
    flags: u32,
    stream: u16,
    time_to_live: u32,
    context: u32,
) -> c_int {
    let info = sctp_sndrcvinfo {
        sinfo_stream: stream,
        sinfo_flags: (flags & 0xffff) as u16,
        sinfo_ppid: ppid,
        sinfo_context: context,
        sinfo_timetolive: time_to_live,
        ..Default::default()
    };
    // SAFETY: the caller promises it.
    let given = unsafe {
        memory::bytes(data, len).and_then(|data| Ok((data.to_vec(), memory::peer(to, to_len)?)))
    };
    answer_short(given.and_then(|(data, to)| {
        calls::send(fd, to.into_iter().collect(), data, 0, How::Controls(vec![old(&info)]))
    }))
}

fn old(info: &sctp_sndrcvinfo) -> Control {
    Control { kind: SCTP_SNDRCV, data: info.encode() }
}

/// `sctp_send` (section 9.10, deprecated).
///
/// # Safety
/// `len` bytes can be read at `data`, and one structure at `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_send(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    info: *const sctp_sndrcvinfo,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { sctp_sendx(fd, data, len, std::ptr::null(), 0, info, flags) }
}

/// `sctp_sendx` (section 9.11, deprecated).
///
/// # Safety
/// `len` bytes can be read at `data`, `count` addresses at `to` and one structure at `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_sendx(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    to: *const sockaddr,
    count: c_int,
    info: *const sctp_sndrcvinfo,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller promises it.
    let given = unsafe {
        memory::bytes(data, len).and_then(|data| {
            let controls = memory::optional(info)?.iter().map(old).collect();
            Ok((data.to_vec(), memory::addresses(to, count)?, How::Controls(controls)))
        })
    };
    answer_short(given.and_then(|(data, to, how)| calls::send(fd, to, data, flags, how)))
}

/// `sctp_recvmsg` (section 9.8, deprecated).
///
/// # Safety
/// `len` bytes can be written at `buffer`, `*from_len` at `from`, one structure at `info` and an int at
/// `flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sctp_recvmsg(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    info: *mut sctp_sndrcvinfo,
    flags: *mut c_int,
) -> c_int {
    // SAFETY: the caller promises it.
    let asked = unsafe { memory::optional(flags) }.map(Option::unwrap_or_default);
    answer_short(asked.and_then(|asked| {
        let (received, peer) = calls::receive(fd, len, asked)?;
        // SAFETY: the caller promises it.
        unsafe {
            fill(buffer, len, &received.data)?;
            memory::tell_address(from, from_len, &peer)?;
            if let Some(old) = received.about.old {
                memory::set(info, old);
            }
            memory::set(flags, received.flags);
        }
        Ok(received.data.len())
    }))
}

/// `sctp_sendv` (section 9.12).
///
/// # Safety
/// `vector` has `count` parts with as much memory as they say, `addresses` as many as are said, and
/// `info_len` bytes can be read at `info`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "RFC 6458 has it so")]
pub unsafe extern "C" fn sctp_sendv(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    addresses: *const sockaddr,
    address_count: c_int,
    info: *const c_void,
    info_len: socklen_t,
    info_type: c_uint,
    flags: c_int,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller promises it.
    let given = unsafe {
        parts(vector, count).and_then(|parts| {
            let data = memory::gather(parts)?;
            let to = memory::addresses(addresses, address_count)?;
            Ok((data, to, memory::bytes(info, info_len as usize)?))
        })
    };
    answer_short(given.and_then(|(data, to, info)| {
        let how = How::Vector(info_type.cast_signed(), info.to_vec());
        calls::send(fd, to, data, flags, how)
    }))
}

/// `sctp_recvv` (section 9.13).
///
/// # Safety
/// `vector` has `count` parts with as much memory as they say, `*from_len` bytes can be written at `from`,
/// `*info_len` at `info`, and the others too.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "RFC 6458 has it so")]
pub unsafe extern "C" fn sctp_recvv(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    info: *mut c_void,
    info_len: *mut socklen_t,
    info_type: *mut c_uint,
    flags: *mut c_int,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller promises it.
    let given = unsafe {
        parts(vector, count).and_then(|parts| {
            let asked = memory::optional(flags)?.unwrap_or(0);
            Ok((parts, asked, memory::optional(info_len)?.unwrap_or(0) as usize))
        })
    };
    answer_short(given.and_then(|(parts, asked, info_room)| {
        let info_room = if info.is_null() { 0 } else { info_room };
        let (received, peer) = calls::receive(fd, room(parts), asked)?;
        let (kind, bytes) = vector_info(&received.about, info_room);
        // SAFETY: the caller promises it.
        unsafe {
            scatter(parts, &received.data)?;
            memory::tell_address(from, from_len, &peer)?;
            fill(info, info_room, &bytes)?;
            // Like libsctp, leave the length alone where there is nothing to return.
            if kind != SCTP_RECVV_NOINFO {
                memory::set(info_len, bytes.len() as socklen_t);
            }
            memory::set(info_type, kind.unsigned_abs());
            memory::set(flags, received.flags);
        }
        Ok(received.data.len())
    }))
}

/// What `sctp_recvv` returns about a message, and its type: the most that there is room for.
fn vector_info(about: &About, room: usize) -> (c_int, Vec<u8>) {
    let both = about.info.zip(about.next).map(|(recvv_rcvinfo, recvv_nxtinfo)| {
        (SCTP_RECVV_RN, sctp_recvv_rn { recvv_rcvinfo, recvv_nxtinfo }.encode())
    });
    let info = about.info.map(|info| (SCTP_RECVV_RCVINFO, info.encode()));
    let next = about.next.map(|next| (SCTP_RECVV_NXTINFO, next.encode()));
    let fitting = [both, info, next].into_iter().flatten().find(|(_, bytes)| bytes.len() <= room);
    fitting.unwrap_or((SCTP_RECVV_NOINFO, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_told_for_which_there_is_room() {
        let about =
            About { old: None, info: Some(Default::default()), next: Some(Default::default()) };
        let sizes = [sctp_nxtinfo::DESCRIPTION.size, sctp_rcvinfo::DESCRIPTION.size];
        let told = |room| vector_info(&about, room).0;
        assert_eq!(told(sizes[0] - 1), SCTP_RECVV_NOINFO);
        assert_eq!(told(sizes[0]), SCTP_RECVV_NXTINFO);
        assert_eq!(told(sizes[1]), SCTP_RECVV_RCVINFO);
        assert_eq!(told(sizes[0] + sizes[1]), SCTP_RECVV_RN);
        let none = About::default();
        assert_eq!(vector_info(&none, 100), (SCTP_RECVV_NOINFO, Vec::new()));
    }
}
