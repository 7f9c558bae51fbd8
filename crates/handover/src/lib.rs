//! Preloaded by `manypath run` under programs where the launcher may not copy descriptors of other processes, as in
//! containers of Docker's default profile.
//!
//! The calls of the C library that the launcher looks at stand here once more, under their own names. Before each one
//! its socket is sent to the launcher; then the call is made, and the launcher, which finds it trapped, has the socket
//! already. All else is as without this library. Nothing is kept between two calls, so that programs may fork,
//! execute others and close whatever they like.
//!
//! Programs below a command may be of another C library than the command, and a loader that misses a function of a preloaded
//! library ends the program. Optimised, the library therefore asks for nothing but the functions in `scripts/any-libc`, which
//! all C libraries have: nothing here may panic, or allocate.
//!
//! # Safety
//! Every function takes what the function of the C library takes.

#![allow(clippy::missing_safety_doc, reason = "it is that of the C library for all of them")]

#[path = "../../preload/src/next.rs"]
mod next;

use libc::{c_int, c_uint, c_void, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use next::call_next;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Where the launcher waits for sockets.
const PLACE: &std::ffi::CStr = c"MANYPATH_HANDOVER";
/// Which calls of servers the launcher looks at, by the first letter: it must not get sockets for others, which it
/// would keep.
const SERVERS_NAME: &std::ffi::CStr = c"MANYPATH_HANDOVER_SERVERS";
/// `listen` alone.
const LISTEN: u8 = b'l';
/// `accept`, and `listen`.
const ACCEPT: u8 = b'a';
static SERVERS: AtomicU8 = AtomicU8::new(0);

/// Room for a control message with one descriptor.
const ROOM: usize = 64;

/// Read when the library is loaded: programs change their environment, and reading it then is not safe among threads.
static mut LAUNCHER: libc::sockaddr_un = libc::sockaddr_un { sun_family: 0, sun_path: [0; 108] };
/// Whether the launcher's place is known.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // SAFETY: the name ends with a zero, and there is no other thread yet.
    let place = unsafe { libc::getenv(PLACE.as_ptr()) };
    if place.is_null() {
        return;
    }
    // SAFETY: the environment ends its strings with a zero.
    let length = unsafe { libc::strlen(place) };
    let address = &raw mut LAUNCHER;
    // SAFETY: nobody else has the address yet. There is room, and the strings do not overlap.
    unsafe {
        if length >= mem::size_of_val(&(*address).sun_path) {
            return;
        }
        (*address).sun_family = libc::AF_UNIX as libc::sa_family_t;
        std::ptr::copy_nonoverlapping(place, (&raw mut (*address).sun_path).cast(), length);
    }
    IS_KNOWN.store(true, Ordering::Release);
    // SAFETY: as above.
    let servers = unsafe { libc::getenv(SERVERS_NAME.as_ptr()) };
    if !servers.is_null() {
        // SAFETY: strings of the environment have a first byte, if only the zero.
        SERVERS.store(unsafe { *servers } as u8, Ordering::Relaxed);
    }
}

/// Functions whose first argument is the descriptor, and when the launcher wants to see it.
macro_rules! announce {
    ($(
        fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $result:ty => $wanted:expr;
    )*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($fd: c_int $(, $arg: $type)*) -> $result {
            if $wanted {
                hand_over($fd);
            }
            // SAFETY: the function of the C library has this type, and the caller gives what it takes.
            unsafe { call_next!($name, fn(c_int $(, $type)*) -> $result, ($fd $(, $arg)*)) }
        }
    )* };
}

announce! {
    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int => true;
    fn listen(fd: c_int, backlog: c_int) -> c_int => [LISTEN, ACCEPT].contains(&servers());
    fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int => servers() == ACCEPT;
    fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int => servers() == ACCEPT;
    fn getsockname(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int => true;
    fn getpeername(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int => true;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        => is_asked(level, name);
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        => is_told(level, name);
    fn sendto(
        fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t
    ) -> ssize_t => connects(flags);
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t => connects(flags);
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int
        => connects(flags);
}

fn servers() -> u8 {
    SERVERS.load(Ordering::Relaxed)
}

/// The options that the launcher's filter traps.
const fn is_asked(level: c_int, name: c_int) -> bool {
    matches!(
        (level, name),
        (libc::SOL_SOCKET, libc::SO_ERROR | libc::SO_RCVBUF)
            | (libc::IPPROTO_TCP, libc::TCP_INFO | libc::TCP_MAXSEG)
    )
}

const fn is_told(level: c_int, name: c_int) -> bool {
    matches!(
        (level, name),
        (libc::IPPROTO_IP, libc::IP_TOS)
            | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            | (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT)
    )
}

const fn connects(flags: c_int) -> bool {
    flags & libc::MSG_FASTOPEN != 0
}

/// Sends the socket to the launcher. Whatever comes of it, the call follows.
fn hand_over(fd: c_int) {
    if !IS_KNOWN.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the C library has an errno for every thread; the calls below must not change it.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    if is_tcp(fd) {
        send(fd);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// The launcher carries nothing else.
fn is_tcp(fd: c_int) -> bool {
    let mut protocol: c_int = 0;
    let mut length = mem::size_of::<c_int>() as socklen_t;
    // By its number: the function of this name is ours.
    // SAFETY: the kernel writes at most `length` bytes of the number.
    let result = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PROTOCOL);
        libc::syscall(libc::SYS_getsockopt, fd, level, name, &raw mut protocol, &raw mut length)
    };
    result == 0 && [libc::IPPROTO_TCP, libc::IPPROTO_MPTCP].contains(&protocol)
}

#[repr(C, align(8))]
struct Control([u8; ROOM]);

fn send(fd: c_int) {
    let mut number = fd.to_ne_bytes();
    let mut piece = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    let mut control = Control([0; ROOM]);
    // SAFETY: all zeroes is a valid header, whose fields then point to live buffers of these lengths. A descriptor has
    // room in the control message.
    unsafe {
        let mut header: msghdr = mem::zeroed();
        header.msg_name = (&raw mut LAUNCHER).cast();
        header.msg_namelen = mem::size_of::<libc::sockaddr_un>() as socklen_t;
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = libc::CMSG_SPACE(mem::size_of::<c_int>() as c_uint) as _;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(mem::size_of::<c_int>() as c_uint) as _;
        std::ptr::copy_nonoverlapping(fd.to_ne_bytes().as_ptr(), libc::CMSG_DATA(first), 4);
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return;
        }
        // A signal must not lose it: the call that follows would be out of the launcher's reach.
        while libc::syscall(libc::SYS_sendmsg, socket, &raw const header, libc::MSG_NOSIGNAL) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        libc::syscall(libc::SYS_close, socket);
    }
}
