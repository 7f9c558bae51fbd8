//! Preloaded under a program (`manypath run --sctp`), it serves the program's SCTP sockets in userland.
//!
//! The calls of the C library on descriptors stand here once more, under their own names: those on SCTP
//! sockets go to `manypath_sctp`, all others on to the C library. The functions of libsctp come with
//! `manypath_sctp`; where a program has its own copy of them, they come down to options of sockets.
//!
//! # Safety
//! Every function takes what the function of the C library takes.

#![allow(clippy::missing_safety_doc, reason = "it is that of the C library for all of them")]

mod next;

use libc::{
    c_int, c_uint, c_ulong, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};
use manypath_sctp as sctp;
use next::{call_next, next};

/// Functions whose first argument is the descriptor, and what they are for SCTP sockets.
macro_rules! interpose {
    ($(
        fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $result:ty => $ours:expr;
    )*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($fd: c_int $(, $arg: $type)*) -> $result {
            if sctp::owns($fd) {
                #[allow(unused_unsafe, reason = "some of ours are safe")]
                // SAFETY: the caller gives what the function of the C library takes, and so does ours.
                return unsafe { $ours };
            }
            // SAFETY: the function of the C library has this type, and the caller gives what it takes.
            unsafe { call_next!($name, fn(c_int $(, $type)*) -> $result, ($fd $(, $arg)*)) }
        }
    )* };
}

interpose! {
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int
        => sctp::manypath_bind(fd, address, len);
    fn listen(fd: c_int, backlog: c_int) -> c_int => sctp::manypath_listen(fd, backlog);
    fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int
        => sctp::manypath_accept(fd, from, len);
    fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int
        => sctp::manypath_accept4(fd, from, len, flags);
    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int
        => sctp::manypath_connect(fd, to, len);
    fn shutdown(fd: c_int, how: c_int) -> c_int => sctp::manypath_shutdown(fd, how);
    fn close(fd: c_int) -> c_int => sctp::manypath_close(fd);
    fn dup(fd: c_int) -> c_int => sctp::manypath_dup(fd);
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int
        => sctp::manypath_fcntl(fd, command, argument as c_int);
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int
        => sctp::manypath_fcntl(fd, command, argument as c_int);
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int
        => sctp::manypath_ioctl(fd, request, argument);
    fn getsockname(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int
        => sctp::manypath_getsockname(fd, name, len);
    fn getpeername(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int
        => sctp::manypath_getpeername(fd, name, len);
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        => sctp::manypath_getsockopt(fd, level, name, value, len);
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        => sctp::manypath_setsockopt(fd, level, name, value, len);
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t
        => sctp::manypath_read(fd, buffer, len);
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        => sctp::manypath_readv(fd, vector, count);
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t
        => sctp::manypath_recv(fd, buffer, len, flags);
    fn recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t => sctp::manypath_recvfrom(fd, buffer, len, flags, from, from_len);
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t
        => sctp::manypath_recvmsg(fd, message, flags);
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t
        => sctp::manypath_write(fd, data, len);
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        => sctp::manypath_writev(fd, vector, count);
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t
        => sctp::manypath_send(fd, data, len, flags);
    fn sendto(
        fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t
    ) -> ssize_t => sctp::manypath_sendto(fd, data, len, flags, to, to_len);
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t
        => sctp::manypath_sendmsg(fd, message, flags);
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int
        => sctp::manypath_sendmmsg(fd, messages, count, flags);
    fn recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec
    ) -> c_int => sctp::manypath_recvmmsg(fd, messages, count, flags, limit);

    // Programs that are built with _FORTIFY_SOURCE call these, with the size of the buffer.
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t) -> ssize_t
        => sctp::manypath_read(fd, buffer, len.min(room));
    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t
        => sctp::manypath_recv(fd, buffer, len.min(room), flags);
    fn __recvfrom_chk(
        fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t
    ) -> ssize_t => sctp::manypath_recvfrom(fd, buffer, len.min(room), flags, from, from_len);
}

/// `socket`: those of SCTP are ours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // The kernel takes no protocol for the only one that has such sockets.
    let implied = protocol == 0 && kind & 0xf == libc::SOCK_SEQPACKET;
    let inet = [libc::AF_INET, libc::AF_INET6].contains(&domain);
    let style = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&(kind & 0xf));
    if inet && style && (protocol == libc::IPPROTO_SCTP || implied) {
        sctp::follow_linux();
        return sctp::manypath_socket(domain, kind, libc::IPPROTO_SCTP);
    }
    // SAFETY: the function of the C library has this type.
    let real = unsafe { next!(socket, unsafe extern "C" fn(c_int, c_int, c_int) -> c_int) };
    // SAFETY: it touches no memory.
    real.map_or_else(next::missing, |real| unsafe { real(domain, kind, protocol) })
}

/// `dup2`: a descriptor may come to stand for an SCTP socket, or cease to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if sctp::owns(fd) {
        return sctp::manypath_dup3(fd, to, 0);
    }
    sctp::give_way(to, fd, 0);
    // SAFETY: the function of the C library has this type.
    let real = unsafe { next!(dup2, unsafe extern "C" fn(c_int, c_int) -> c_int) };
    // SAFETY: it touches no memory.
    real.map_or_else(next::missing, |real| unsafe { real(fd, to) })
}

/// `dup3`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if sctp::owns(fd) {
        return sctp::manypath_dup3(fd, to, flags);
    }
    sctp::give_way(to, fd, flags);
    // SAFETY: the function of the C library has this type.
    let real = unsafe { next!(dup3, unsafe extern "C" fn(c_int, c_int, c_int) -> c_int) };
    // SAFETY: it touches no memory.
    real.map_or_else(next::missing, |real| unsafe { real(fd, to, flags) })
}
