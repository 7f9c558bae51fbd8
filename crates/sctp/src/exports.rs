//! The calls of the C library on sockets, for SCTP sockets, under names of our own.
//!
//! Each behaves as the call without `manypath_` does on a socket of IPPROTO_SCTP (RFC 6458 sections 3 and
//! 4), and with other descriptors is that call.
//!
//! # Safety
//! As with the calls of the C library: pointers are null or point to as much memory as the lengths say.

use crate::calls;
use crate::memory::{self, fill, parts, room, scatter};
use crate::request::{How, Request, split_size};
use crate::system::{self, set_errno};
use crate::{options, process};
use libc::{
    c_int, c_uint, c_ulong, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};
use manypath_sockets::{Errno, lay_out};
use std::time::{Duration, Instant};

/// Leaves a call to the C library if the descriptor is none of ours.
macro_rules! foreign {
    ($fd:ident, $($call:tt)+) => {
        if !crate::owns($fd) {
            // SAFETY: it is the call of the C library, with the arguments that the program gave for it.
            return unsafe { libc::$($call)+ };
        }
    };
}

/// What a call returns: the value, or -1 and errno.
pub(crate) fn answer(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

pub(crate) fn answer_len(result: Result<usize, Errno>) -> ssize_t {
    let len = result.map(|len| ssize_t::try_from(len).unwrap_or(ssize_t::MAX));
    len.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

/// `socket`: ours are those of the families `AF_INET` and `AF_INET6`, the types `SOCK_STREAM` and
/// `SOCK_SEQPACKET`, and `IPPROTO_SCTP`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if !calls::is_sctp(domain, kind, protocol) {
        // SAFETY: it is the call of the C library, with the arguments that the program gave for it.
        return unsafe { libc::socket(domain, kind, protocol) };
    }
    answer(calls::socket(domain, kind))
}

/// `bind`.
///
/// # Safety
/// `len` bytes can be read at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_bind(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    foreign!(fd, bind(fd, address, len));
    // SAFETY: the caller promises it.
    let address = unsafe { memory::peer(address, len) };
    answer(address.and_then(|address| {
        let address = address.ok_or(Errno::FAULT)?;
        calls::with_local(fd, &[address], |sockets, _, id| sockets.bind(id, address)).map(|()| 0)
    }))
}

/// `listen`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_listen(fd: c_int, backlog: c_int) -> c_int {
    foreign!(fd, listen(fd, backlog));
    let listens = calls::with(fd, |sockets, host, id| sockets.listen(host, id, backlog));
    answer(listens.map(|()| {
        process::say_if_hidden();
        0
    }))
}

/// `accept`.
///
/// # Safety
/// `*len` bytes can be written at `from`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_accept(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { manypath_accept4(fd, from, len, 0) }
}

/// `accept4`.
///
/// # Safety
/// `*len` bytes can be written at `from`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_accept4(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    foreign!(fd, accept4(fd, from, len, flags));
    answer(calls::accept(fd, flags).and_then(|(new, peer)| {
        // SAFETY: the caller promises it.
        unsafe { memory::tell_address(from, len, &peer) }?;
        Ok(new)
    }))
}

/// `connect`.
///
/// # Safety
/// `len` bytes can be read at `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    foreign!(fd, connect(fd, to, len));
    // SAFETY: the caller promises it.
    let to = unsafe { memory::peer(to, len) };
    answer(to.and_then(|to| calls::connect(fd, &[to.ok_or(Errno::FAULT)?], &mut 0)).map(|()| 0))
}

/// `shutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_shutdown(fd: c_int, how: c_int) -> c_int {
    foreign!(fd, shutdown(fd, how));
    let directions = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return answer(Err(Errno::INVALID)),
    };
    answer(calls::ask(fd, Request::ShutDown(directions.0, directions.1)).map(|_| 0))
}

/// `close`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_close(fd: c_int) -> c_int {
    foreign!(fd, close(fd));
    answer(calls::close(fd).map(|()| 0))
}

/// `dup`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_dup(fd: c_int) -> c_int {
    foreign!(fd, dup(fd));
    answer(calls::duplicate(fd, || system::dup(fd)))
}

/// `dup3`; with flags of 0 as `dup2`.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd == to && crate::owns(fd) {
        return fd;
    }
    give_way(to, fd, flags);
    foreign!(fd, dup3(fd, to, flags));
    answer(calls::duplicate(fd, || system::dup3(fd, to, flags)))
}

/// Leaves the SCTP socket of `fd` if it has one: `dup2` or `dup3` is about to put `by` in its place, which closes it.
/// Does nothing if they will fail because `by` is no descriptor, or `dup3` does not know one of the flags.
pub fn give_way(fd: c_int, by: c_int, flags: c_int) {
    let sound = fd != by && flags & !libc::O_CLOEXEC == 0;
    if sound && crate::owns(fd) && system::control(by, libc::F_GETFD, 0).is_ok() {
        // Like close, it can only fail for what is no socket of ours.
        let _left = calls::leave(fd);
    }
}

/// `fcntl` with a number or nothing as its argument.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    foreign!(fd, fcntl(fd, command, argument));
    let call = || system::control(fd, command, argument);
    if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command) {
        return answer(calls::duplicate(fd, call));
    }
    answer(call())
}

/// `ioctl` with `FIONBIO` and `FIONREAD`.
///
/// # Safety
/// An int can be read and written at `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_ioctl(
    fd: c_int,
    request: c_ulong,
    argument: *mut c_int,
) -> c_int {
    foreign!(fd, ioctl(fd, request, argument));
    let result = match request {
        // SAFETY: the caller promises it.
        libc::FIONBIO => unsafe { memory::value(argument) }.and_then(|on| {
            let flags = system::control(fd, libc::F_GETFL, 0)?;
            let others = flags & !libc::O_NONBLOCK;
            let wanted = if on != 0 { others | libc::O_NONBLOCK } else { others };
            system::control(fd, libc::F_SETFL, wanted).map(drop)
        }),
        libc::FIONREAD => calls::ask(fd, Request::Pending).map(|len| {
            let (len, _) = split_size(&len).unwrap_or_default();
            // SAFETY: the caller promises it.
            unsafe { memory::set(argument, c_int::try_from(len).unwrap_or(c_int::MAX)) }
        }),
        _ => Err(Errno(libc::ENOTTY)),
    };
    answer(result.map(|()| 0))
}

/// `getsockname`.
///
/// # Safety
/// `*len` bytes can be written at `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_getsockname(
    fd: c_int,
    name: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    foreign!(fd, getsockname(fd, name, len));
    let found = calls::ask(fd, Request::OwnName);
    // SAFETY: the caller promises it.
    answer(found.and_then(|own| unsafe { memory::tell_address(name, len, &own) }).map(|()| 0))
}

/// `getpeername`: the primary address of the peer of a one-to-one socket.
///
/// # Safety
/// `*len` bytes can be written at `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_getpeername(
    fd: c_int,
    name: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    foreign!(fd, getpeername(fd, name, len));
    let found = calls::ask(fd, Request::PeerName);
    // SAFETY: the caller promises it.
    answer(found.and_then(|peer| unsafe { memory::tell_address(name, len, &peer) }).map(|()| 0))
}

/// `setsockopt`.
///
/// # Safety
/// `len` bytes can be read at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    foreign!(fd, setsockopt(fd, level, name, value, len));
    // SAFETY: the caller promises it.
    let value = unsafe { memory::bytes(value, len as usize) };
    answer(value.and_then(|value| options::set(fd, level, name, value)))
}

/// `getsockopt`. Options that are asked with an association or an address are asked with what is at
/// `value`.
///
/// # Safety
/// `*len` bytes can be read and written at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    foreign!(fd, getsockopt(fd, level, name, value, len));
    // SAFETY: the caller promises it.
    let found = unsafe {
        memory::value(len).and_then(|len| {
            let asked = memory::bytes(value, len as usize)?;
            options::get(fd, level, name, asked).map(|found| (found, len as usize))
        })
    };
    answer(found.and_then(|((found, result), room)| {
        let told = room.min(found.len());
        // SAFETY: the caller promises it.
        unsafe {
            fill(value, room, &found)?;
            memory::set(len, told as socklen_t);
        }
        result?;
        // libsctp wants the descriptor back as the result.
        let peels = [102, 122].contains(&name) && level == libc::IPPROTO_SCTP;
        let sd = found.get(4..8).filter(|_| peels).and_then(|sd| sd.try_into().ok());
        Ok(sd.map_or(0, c_int::from_ne_bytes))
    }))
}

/// `read`.
///
/// # Safety
/// `len` bytes can be written at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    foreign!(fd, read(fd, buffer, len));
    // SAFETY: the caller promises it.
    unsafe { manypath_recv(fd, buffer, len, 0) }
}

/// `recv`.
///
/// # Safety
/// `len` bytes can be written at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_recv(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    foreign!(fd, recv(fd, buffer, len, flags));
    let none = std::ptr::null_mut();
    // SAFETY: the caller promises it.
    unsafe { manypath_recvfrom(fd, buffer, len, flags, none, none.cast()) }
}

/// `recvfrom`.
///
/// # Safety
/// `len` bytes can be written at `buffer`, and `*from_len` at `from`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    foreign!(fd, recvfrom(fd, buffer, len, flags, from, from_len));
    answer_len(calls::receive(fd, len, flags).and_then(|(received, peer)| {
        // SAFETY: the caller promises it.
        unsafe {
            fill(buffer, len, &received.data)?;
            memory::tell_address(from, from_len, &peer)?;
        }
        Ok(received.data.len())
    }))
}

/// `readv`.
///
/// # Safety
/// `vector` has `count` parts with as much memory as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    foreign!(fd, readv(fd, vector, count));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller promises it.
    let parts = unsafe { parts(vector, count) };
    answer_len(parts.and_then(|parts| {
        let (received, _) = calls::receive(fd, room(parts), 0)?;
        // SAFETY: the caller promises it.
        unsafe { scatter(parts, &received.data) }?;
        Ok(received.data.len())
    }))
}

/// `recvmsg`, with the control messages that the socket has asked for.
///
/// # Safety
/// `message` has as much memory as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_recvmsg(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    foreign!(fd, recvmsg(fd, message, flags));
    // SAFETY: the caller promises it.
    answer_len(unsafe { receive_message(fd, message, flags) })
}

/// # Safety
/// `message` has as much memory as it says.
unsafe fn receive_message(fd: c_int, at: *mut msghdr, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the caller promises it, and so in the blocks below.
    let (mut message, parts) = unsafe {
        let message = memory::value(at)?;
        (message, parts(message.msg_iov, message.msg_iovlen)?)
    };
    let (received, peer) = calls::receive(fd, room(parts), flags)?;
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let (controls, cut) = lay_out(&received.about, room);
    // SAFETY: as above.
    unsafe {
        scatter(parts, &received.data)?;
        memory::tell_address(message.msg_name.cast(), &raw mut message.msg_namelen, &peer)?;
        fill(message.msg_control, room, &controls)?;
        message.msg_controllen = controls.len();
        message.msg_flags = received.flags | if cut { libc::MSG_CTRUNC } else { 0 };
        memory::set(at, message);
    }
    Ok(received.data.len())
}

/// `write`.
///
/// # Safety
/// `len` bytes can be read at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    foreign!(fd, write(fd, data, len));
    // SAFETY: the caller promises it.
    unsafe { manypath_send(fd, data, len, 0) }
}

/// `send`.
///
/// # Safety
/// `len` bytes can be read at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_send(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    foreign!(fd, send(fd, data, len, flags));
    // SAFETY: the caller promises it.
    unsafe { manypath_sendto(fd, data, len, flags, std::ptr::null(), 0) }
}

/// `sendto`.
///
/// # Safety
/// `len` bytes can be read at `data`, and `to_len` at `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    foreign!(fd, sendto(fd, data, len, flags, to, to_len));
    // SAFETY: the caller promises it.
    let given = unsafe {
        memory::bytes(data, len).and_then(|data| Ok((data.to_vec(), memory::peer(to, to_len)?)))
    };
    answer_len(given.and_then(|(data, to)| {
        calls::send(fd, to.into_iter().collect(), data, flags, How::Controls(Vec::new()))
    }))
}

/// `writev`: one message.
///
/// # Safety
/// `vector` has `count` parts with as much memory as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    foreign!(fd, writev(fd, vector, count));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller promises it.
    let data = unsafe { parts(vector, count).and_then(|parts| memory::gather(parts)) };
    let none = || How::Controls(Vec::new());
    answer_len(data.and_then(|data| calls::send(fd, Vec::new(), data, 0, none())))
}

/// `sendmsg`, with control messages that say how.
///
/// # Safety
/// `message` has as much memory as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    foreign!(fd, sendmsg(fd, message, flags));
    // SAFETY: the caller promises it.
    let given = unsafe {
        memory::value(message).and_then(|message| {
            let data = memory::gather(parts(message.msg_iov, message.msg_iovlen)?)?;
            let to = memory::peer(message.msg_name.cast(), message.msg_namelen)?;
            Ok((data, to, memory::controls(&message)?))
        })
    };
    answer_len(given.and_then(|(data, to, controls)| {
        calls::send(fd, to.into_iter().collect(), data, flags, How::Controls(controls))
    }))
}

/// The most messages of one call (Linux's `UIO_MAXIOV`).
const MOST_MESSAGES: c_uint = 1024;

/// `sendmmsg`: how many messages were sent; an error only if the first one was not.
///
/// # Safety
/// `messages` are `count` messages with as much memory as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    foreign!(fd, sendmmsg(fd, messages, count, flags));
    one_by_one(count, |number| {
        // SAFETY: the caller promises it.
        let (message, len) = unsafe {
            let at = messages.add(number);
            (&raw const (*at).msg_hdr, &raw mut (*at).msg_len)
        };
        // SAFETY: as above.
        unsafe { told(len, manypath_sendmsg(fd, message, flags)) }
    })
}

/// `recvmmsg`: how many messages were received; an error only if none was. With `MSG_WAITFORONE` it waits for
/// the first one alone. The time limit is looked at after each message, as Linux does.
///
/// # Safety
/// `messages` are `count` messages with as much memory as they say; `limit` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manypath_recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    limit: *mut timespec,
) -> c_int {
    foreign!(fd, recvmmsg(fd, messages, count, flags, limit));
    // SAFETY: the caller promises it.
    let limit = match unsafe { memory::optional(limit) } {
        Ok(limit) => limit,
        Err(error) => return answer(Err(error)),
    };
    let until = limit.and_then(|limit| {
        let seconds = u64::try_from(limit.tv_sec).ok()?;
        let span = Duration::new(seconds, u32::try_from(limit.tv_nsec).ok()?);
        Instant::now().checked_add(span)
    });
    one_by_one(count, |number| {
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        if number > 0 && is_late {
            return false;
        }
        let waits = number == 0 || flags & libc::MSG_WAITFORONE == 0;
        let flags = flags & !libc::MSG_WAITFORONE | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the caller promises it.
        let (message, len) = unsafe {
            let at = messages.add(number);
            (&raw mut (*at).msg_hdr, &raw mut (*at).msg_len)
        };
        // SAFETY: as above.
        unsafe { told(len, manypath_recvmsg(fd, message, flags)) }
    })
}

/// How many of `count` calls succeeded before one did not; -1 if that was the first one.
fn one_by_one(count: c_uint, mut call: impl FnMut(usize) -> bool) -> c_int {
    let count = count.min(MOST_MESSAGES);
    let done = (0..count).take_while(|number| call(*number as usize)).count();
    if done == 0 && count > 0 { -1 } else { done as c_int }
}

/// Writes down a length, unless it stands for an error.
///
/// # Safety
/// A number can be written at `to`.
unsafe fn told(to: *mut c_uint, len: ssize_t) -> bool {
    let known = c_uint::try_from(len);
    // SAFETY: the caller promises it.
    known.map(|len| unsafe { memory::set(to, len) }).is_ok()
}

/// Whether a descriptor stands for an SCTP socket of this library.
#[unsafe(no_mangle)]
pub extern "C" fn manypath_is_sctp(fd: c_int) -> c_int {
    c_int::from(crate::owns(fd) && crate::stack::running().is_some())
}
