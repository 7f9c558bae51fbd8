//! System calls on descriptors, past the functions of the C library: those are ours where this library is
//! preloaded.

use libc::{c_int, c_long};
use manypath_sockets::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The result of a system call, and the number of the error if it failed.
fn result(value: c_long) -> Result<c_long, Errno> {
    if value < 0 { Err(last_error()) } else { Ok(value) }
}

/// The error of the last call.
fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Sets `errno` for the program.
pub(crate) fn set_errno(error: Errno) {
    // SAFETY: the C library has an errno for every thread.
    unsafe { *libc::__errno_location() = error.0 };
}

/// Keeps errno as it is: system calls that fail within a call of the program must not change it if that succeeds.
pub(crate) struct KeptErrno(c_int);

impl KeptErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: the C library has an errno for every thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        set_errno(Errno(self.0));
    }
}

/// The family of a socket of any kind.
pub(crate) fn domain(fd: RawFd) -> Result<c_int, Errno> {
    let (mut domain, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: both can be written.
    let asked = unsafe {
        let to = (&raw mut domain).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, to, &raw mut len)
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    if asked == 0 { Ok(domain) } else { Err(Errno(error.unwrap_or(libc::EBADF))) }
}

/// Two connected sockets of the kernel. `flags` are for the first; the second is not passed on.
pub(crate) fn pair(flags: c_int) -> Result<(RawFd, RawFd), Errno> {
    let mut fds: [c_int; 2] = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two numbers to where two are.
    result(unsafe {
        libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, fds.as_mut_ptr())
    })?;
    if flags & libc::SOCK_CLOEXEC == 0 {
        control(fds[0], libc::F_SETFD, 0)?;
    }
    if flags & libc::SOCK_NONBLOCK != 0 {
        control(fds[0], libc::F_SETFL, libc::O_NONBLOCK)?;
    }
    Ok((fds[0], fds[1]))
}

/// `fcntl` with a number.
pub(crate) fn control(fd: RawFd, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    // SAFETY: commands with a number as argument touch no memory of ours.
    let value = result(unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) })?;
    Ok(value as c_int)
}

/// Whether calls on it return instead of waiting.
pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    control(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0)
}

pub(crate) fn close(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the caller has no further use for it.
    result(unsafe { libc::syscall(libc::SYS_close, fd) }).map(drop)
}

/// Room for the control message that passes a descriptor, as the kernel aligns it.
#[repr(C, align(8))]
struct Passing([u8; 24]);

/// A message of one byte, with room for a descriptor beside it.
fn passing(byte: &mut libc::iovec, control: &mut Passing) -> libc::msghdr {
    // SAFETY: all zeroes is a legal msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (byte, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    message
}

/// Passes a descriptor on over a socket of the kernel, with a byte.
pub(crate) fn send_descriptor(over: RawFd, fd: RawFd) -> Result<(), Errno> {
    let (mut byte, mut control) = ([0u8], Passing([0; 24]));
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let message = passing(&mut part, &mut control);
    // SAFETY: there is room for a control message with one descriptor, and what the message points to outlives the
    // call.
    result(unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        libc::syscall(libc::SYS_sendmsg, over, &raw const message, libc::MSG_NOSIGNAL)
    })
    .map(drop)
}

/// The descriptor that comes with the next byte.
pub(crate) fn receive_descriptor(over: RawFd) -> Result<OwnedFd, Errno> {
    let (mut byte, mut control) = ([0u8], Passing([0; 24]));
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut message = passing(&mut part, &mut control);
    // SAFETY: what the message points to outlives the call; the descriptor is nobody else's.
    unsafe {
        let flags = libc::MSG_CMSG_CLOEXEC;
        result(libc::syscall(libc::SYS_recvmsg, over, &raw mut message, flags))?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(Errno::BADF);
        }
        let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// What the kernel calls the file behind a descriptor.
pub(crate) fn inode(fd: RawFd) -> Option<u64> {
    // SAFETY: all zeroes is a legal stat, into which the call writes.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat.st_ino)
    }
}

pub(crate) fn dup(fd: RawFd) -> Result<RawFd, Errno> {
    // SAFETY: it touches no memory.
    result(unsafe { libc::syscall(libc::SYS_dup, fd) }).map(|fd| fd as RawFd)
}

pub(crate) fn dup3(fd: RawFd, to: RawFd, flags: c_int) -> Result<RawFd, Errno> {
    // SAFETY: it touches no memory.
    result(unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) }).map(|fd| fd as RawFd)
}

/// Sends one byte without waiting. False if there is no room.
pub(crate) fn send_byte(fd: RawFd) -> bool {
    let byte = [0u8];
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let none = std::ptr::null::<libc::sockaddr>();
    // SAFETY: the kernel reads one byte, which is there.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendto, fd, byte.as_ptr(), 1usize, flags, none, 0usize) };
    sent == 1
}

/// Takes all bytes out without waiting.
pub(crate) fn drain(fd: RawFd) {
    let mut bytes = [0u8; 256];
    while receive(fd, &mut bytes, libc::MSG_DONTWAIT).is_ok_and(|len| len > 0) {}
}

fn receive(fd: RawFd, bytes: &mut [u8], flags: c_int) -> Result<usize, Errno> {
    let none = std::ptr::null_mut::<libc::sockaddr>();
    let (to, len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the kernel writes at most `len` bytes to where so many are.
    let got = result(unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, len, flags, none, none) })?;
    Ok(usize::try_from(got).unwrap_or(0))
}

/// Waits until the descriptor is readable, as a `recv` on it does: signals and SO_RCVTIMEO have their
/// usual effect.
pub(crate) fn wait_readable(fd: RawFd) -> Result<(), Errno> {
    receive(fd, &mut [0], libc::MSG_PEEK).map(drop)
}

/// Waits until the descriptor is writable, as long as SO_SNDTIMEO says.
pub(crate) fn wait_writable(fd: RawFd) -> Result<(), Errno> {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let limit = send_timeout(fd);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let no_mask = std::ptr::null::<libc::sigset_t>();
    let poll = &raw mut poll;
    // SAFETY: the kernel reads and writes one pollfd, and reads one timespec or none.
    let ready = unsafe { libc::syscall(libc::SYS_ppoll, poll, 1usize, limit, no_mask, 8usize) };
    if result(ready)? == 0 { Err(Errno::AGAIN) } else { Ok(()) }
}

fn send_timeout(fd: RawFd) -> Option<libc::timespec> {
    let mut time = [0u8; size_of::<libc::timeval>()];
    option(fd, libc::SO_SNDTIMEO, &mut time).ok()?;
    let word = |at: usize| i64::from_ne_bytes(time[at..at + 8].try_into().unwrap_or_default());
    let (tv_sec, micros) = (word(0), word(8));
    (tv_sec != 0 || micros != 0).then_some(libc::timespec { tv_sec, tv_nsec: micros * 1000 })
}

/// An option of the level SOL_SOCKET.
pub(crate) fn option(fd: RawFd, name: c_int, value: &mut [u8]) -> Result<usize, Errno> {
    let mut len = value.len() as libc::socklen_t;
    let (to, room) = (value.as_mut_ptr(), &raw mut len);
    // SAFETY: the kernel writes at most `len` bytes to where so many are, and then `len`.
    result(unsafe { libc::syscall(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, name, to, room) })?;
    Ok(len as usize)
}

/// Sets an option of the level SOL_SOCKET.
pub(crate) fn set_option(fd: RawFd, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let (from, len) = (value.as_ptr(), value.len());
    // SAFETY: the kernel reads `len` bytes, which are there.
    result(unsafe { libc::syscall(libc::SYS_setsockopt, fd, libc::SOL_SOCKET, name, from, len) })
        .map(drop)
}

/// What a kernel without SCTP does to one who sends where nobody reads.
pub(crate) fn raise_broken_pipe() {
    // SAFETY: a signal to the calling thread, which may have chosen to ignore it.
    unsafe { libc::raise(libc::SIGPIPE) };
}
