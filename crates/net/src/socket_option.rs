//! Socket options that neither std nor socket2 knows.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Words of `SO_MEMINFO` (linux/sock_diag.h), and the one that counts dropped packets.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Sets an option whose value is a C int.
pub(crate) fn set(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the address and the size of a C int are given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The value of an option that is a C int.
#[cfg(test)]
pub(crate) fn get(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel knows about a TCP connection. Fields that it is too old for are 0.
///
/// # Errors
/// When it is no TCP socket.
pub fn tcp_info(socket: &impl AsRawFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all zeroes is a valid value: there are only numbers in it.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    let to = (&raw mut info).cast();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `length` bytes into `info`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Packets dropped because the receive buffer was full; 0 on kernels before 4.12, which do not say.
pub(crate) fn receive_overflows(socket: &UdpSocket) -> u64 {
    let mut words = [0u32; MEMINFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `words`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result == 0 { u64::from(words[MEMINFO_DROPS]) } else { 0 }
}
