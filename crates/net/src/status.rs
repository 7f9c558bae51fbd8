//! What the kernel tells about a socket.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Words of `SO_MEMINFO` (linux/sock_diag.h), and the one that counts dropped packets.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

pub(crate) fn receive_buffer(socket: &UdpSocket) -> usize {
    socket2::SockRef::from(socket).recv_buffer_size().unwrap_or(0)
}

pub(crate) fn send_buffer(socket: &UdpSocket) -> usize {
    socket2::SockRef::from(socket).send_buffer_size().unwrap_or(0)
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
