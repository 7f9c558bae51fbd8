//! The system calls that the standard library does not have, each behind a safe function.
//!
//! Everything that a host's anchor calls between `fork` and its end ([`interface`], [`fd_passing`],
//! [`namespace`], [`process`]) allocates nothing and takes no lock.

pub(crate) mod fd_passing;
pub(crate) mod interface;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod wait;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The result of a system call that returns -1 on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`check`], for calls that return a size.
pub(crate) fn check_size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// As [`check`], for calls that return a new descriptor.
fn check_fd(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a file without allocating.
pub(crate) fn open(path: &std::ffi::CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `path` is a valid C string; no mode is needed without O_CREAT.
    check_fd(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) })
}

/// Writes `value` to an existing file without allocating.
pub(crate) fn write_file(path: &std::ffi::CStr, value: &[u8]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = open(path, libc::O_WRONLY)?;
    // SAFETY: `value` is valid for its length.
    let written = unsafe { libc::write(file.as_raw_fd(), value.as_ptr().cast(), value.len()) };
    check_size(written).map(drop)
}

/// Sets a number of bytes among the options of a socket.
pub(crate) fn set_socket_option(
    socket: std::os::fd::BorrowedFd<'_>,
    name: libc::c_int,
    bytes: u32,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: address and size are those of a C int that lives until the call ends.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    })
    .map(drop)
}
