//! Receiving with the Traffic Class of IPv6 (`IPV6_RECVTCLASS`, RFC 3542 section 6.5): a raw socket gives out
//! no IPv6 header. For UDP quinn-udp does this.

use crate::sockaddr;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Room for control messages.
#[repr(align(8))]
struct Control([u8; 64]);

/// Receives one packet into `buffer`: its length, who sent it, and its Traffic Class, 0 if the kernel does
/// not tell.
pub(crate) fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
    let mut name = [0; size_of::<libc::sockaddr_storage>()];
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, for which all zeroes is a legal value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header describes live buffers with their true lengths.
    let result = unsafe { libc::recvmsg(socket, &mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    let class = class_of(&header);
    let filled = (header.msg_namelen as usize).min(name.len());
    let from = sockaddr::parse(&name[..filled]).ok_or(io::ErrorKind::InvalidData)?;
    Ok((len, from, class))
}

fn class_of(header: &libc::msghdr) -> u8 {
    // SAFETY: recvmsg left a valid chain of control messages in the header, which the CMSG macros walk
    // within msg_controllen. The value is read only from a message long enough to hold it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            let is_class =
                (found.cmsg_level, found.cmsg_type) == (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
            if is_class && found.cmsg_len >= libc::CMSG_LEN(size_of::<libc::c_int>() as _) as _ {
                let class = libc::CMSG_DATA(found).cast::<libc::c_int>().read_unaligned();
                return u8::try_from(class & 0xFF).unwrap_or(0);
            }
            message = libc::CMSG_NXTHDR(header, found);
        }
    }
    0
}
