//! Receiving with control messages (recvmsg(2), cmsg(3)), for those that neither quinn-udp nor rustix gives out.

use crate::sockaddr;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Room for all control messages of one call, in bytes.
const ROOM: usize = 256;

/// What recvmsg(2) gave.
pub(crate) struct Received<T> {
    /// Bytes in the buffer.
    pub(crate) length: usize,
    /// Who sent it; of an error queue, where the packet was going.
    pub(crate) name: Option<SocketAddr>,
    /// What was found among the control messages.
    pub(crate) found: Option<T>,
}

/// Level and type of a control message.
pub(crate) type Kind = (libc::c_int, libc::c_int);

/// Memory aligned as the kernel's structures want it.
#[repr(align(8))]
struct Aligned<const N: usize>([u8; N]);

/// Receives one packet into `buffer` without waiting. `find` is shown the control messages until it returns something.
///
/// # Errors
/// Those of recvmsg(2), `WouldBlock` if there is nothing.
pub(crate) fn receive<T>(
    socket: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
    find: impl FnMut(Kind, &[u8]) -> Option<T>,
) -> io::Result<Received<T>> {
    let mut name = Aligned([0; size_of::<libc::sockaddr_storage>()]);
    let mut control = Aligned([0; ROOM]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, for which all zeroes is a legal value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.0.as_mut_ptr().cast();
    header.msg_namelen = name.0.len() as libc::socklen_t;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header describes live buffers with their true lengths.
    let result = unsafe { libc::recvmsg(socket, &mut header, flags | libc::MSG_DONTWAIT) };
    let length = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    let filled = (header.msg_namelen as usize).min(name.0.len());
    Ok(Received { length, name: sockaddr::parse(&name.0[..filled]), found: first(&header, find) })
}

/// What `find` returns first for the control messages of a header that recvmsg(2) has filled.
fn first<T>(header: &libc::msghdr, mut find: impl FnMut(Kind, &[u8]) -> Option<T>) -> Option<T> {
    // SAFETY: recvmsg left a valid chain of control messages in the header, which the CMSG macros walk
    // within msg_controllen. Each is looked at only as far as it is long.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(current) = message.as_ref() {
            let length = (current.cmsg_len as u64).saturating_sub(u64::from(libc::CMSG_LEN(0)));
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(message), length as usize);
            if let Some(found) = find((current.cmsg_level, current.cmsg_type), data) {
                return Some(found);
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}
