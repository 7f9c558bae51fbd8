//! Socket options that neither std nor socket2 knows.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Words of `SO_MEMINFO` (linux/sock_diag.h), and the one that counts dropped packets.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;
/// Options of MPTCP sockets (linux/mptcp.h), and the beginning of `struct mptcp_info`: eight bytes of counts, then the
/// flags, of which the first says that the connection has fallen back to TCP.
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_INFO_WORDS: usize = 3;
const MPTCP_FLAGS_WORD: usize = 2;
const MPTCP_FALLBACK: u32 = 1;

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

/// Lets a TCP socket that is bound to port 0 get its port when it connects (`IP_BIND_ADDRESS_NO_PORT`): then sockets
/// that are connected to different destinations can share one.
///
/// # Errors
/// When it is no IP socket.
pub fn choose_port_when_connecting(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
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

/// Whether both ends of a connected MPTCP socket speak MPTCP, and not TCP because one does not.
///
/// # Errors
/// When it is no MPTCP socket.
pub fn speaks_mptcp(socket: &impl AsRawFd) -> io::Result<bool> {
    let mut info = [0u32; MPTCP_INFO_WORDS];
    let mut length = size_of_val(&info) as libc::socklen_t;
    let to = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes into `info`.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), SOL_MPTCP, MPTCP_INFO, to, &raw mut length) };
    match result {
        0 => Ok(info[MPTCP_FLAGS_WORD] & MPTCP_FALLBACK == 0),
        _ => match io::Error::last_os_error() {
            // After a fallback only the options of TCP are left.
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
            error => Err(error),
        },
    }
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
