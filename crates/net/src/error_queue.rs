//! ICMP errors of a socket, from its error queue (`IP_RECVERR`, `IPV6_RECVERR`; ip(7), ipv6(7)).
//!
//! Read here and not through quinn-udp because the destination of the packet that caused the error
//! is wanted, which names the path; quinn-udp tells who complained.

use crate::sockaddr;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// One message of the error queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorReport {
    pub(crate) kind: ErrorKind,
    /// Where the packet was going that caused the error.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) quote: Quote,
    /// What the link takes, in bytes of IP packet, if the packet was too big.
    pub(crate) mtu: u16,
}

/// The start of an SCTP packet as an ICMP message quotes it; empty if it quotes only UDP and IP
/// headers. 20 bytes are what tells whose packet it is: common header, chunk header, Initiate Tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quote {
    bytes: [u8; 20],
    length: usize,
}

impl Quote {
    /// The first bytes of `packet`.
    pub(crate) fn of(packet: &[u8]) -> Self {
        let mut quote = Self::default();
        quote.length = packet.len().min(quote.bytes.len());
        quote.bytes[..quote.length].copy_from_slice(&packet[..quote.length]);
        quote
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorKind {
    /// ICMP destination unreachable of any code except the next ones': network, host, or prohibited.
    Unreachable,
    /// ICMP protocol unreachable, or ICMPv6 unrecognized next header: the host is there, and does not
    /// know what carries the packet.
    NoProtocol,
    /// ICMP port unreachable: the host is there, and says that nobody listens.
    PortClosed,
    /// ICMP fragmentation needed, or ICMPv6 packet too big.
    TooBig,
    /// Any other ICMP message.
    Other,
    /// The kernel's own: the packet was larger than the interface takes.
    LocalTooBig,
    /// The kernel's own: the failing call has returned it already.
    Local,
}

/// Takes the oldest message off the error queue of a socket; `None` if it is empty.
pub(crate) fn receive(socket: RawFd) -> io::Result<Option<ErrorReport>> {
    let mut name = Aligned([0; size_of::<libc::sockaddr_storage>()]);
    let mut control = Aligned([0; 256]);
    let mut quote = Quote::default();
    let mut part =
        libc::iovec { iov_base: quote.bytes.as_mut_ptr().cast(), iov_len: quote.bytes.len() };
    // SAFETY: msghdr is plain data, for which all zeroes is a legal value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.0.as_mut_ptr().cast();
    header.msg_namelen = name.0.len() as libc::socklen_t;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let Some(length) = receive_message(socket, &mut header)? else { return Ok(None) };
    quote.length = length.min(quote.bytes.len());
    let filled = (header.msg_namelen as usize).min(name.0.len());
    let error = extended_error(&header);
    let kind = error.as_ref().map_or(ErrorKind::Other, classify);
    let mtu = error.map_or(0, |error| u16::try_from(error.ee_info).unwrap_or(u16::MAX));
    let destination = sockaddr::parse(&name.0[..filled]);
    Ok(Some(ErrorReport { kind, destination, quote, mtu }))
}

/// The length of the quote that was received; `None` if the error queue is empty.
fn receive_message(socket: RawFd, header: &mut libc::msghdr) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: the caller's header describes live buffers with their true lengths.
        let result =
            unsafe { libc::recvmsg(socket, header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if let Ok(length) = usize::try_from(result) {
            return Ok(Some(length));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// The `sock_extended_err` among the control messages.
fn extended_error(header: &libc::msghdr) -> Option<libc::sock_extended_err> {
    // SAFETY: recvmsg left a valid chain of control messages in the header, which the CMSG macros
    // walk within msg_controllen. The error is read only from a message long enough to hold it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            let wanted = libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as _) as _;
            if is_extended_error(found) && found.cmsg_len >= wanted {
                return Some(
                    libc::CMSG_DATA(found).cast::<libc::sock_extended_err>().read_unaligned(),
                );
            }
            message = libc::CMSG_NXTHDR(header, found);
        }
    }
    None
}

fn is_extended_error(message: &libc::cmsghdr) -> bool {
    matches!(
        (message.cmsg_level, message.cmsg_type),
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    )
}

/// For an association that is being set up all unreachable messages say the same (RFC 6951 section
/// 5.5 maps port unreachable to protocol unreachable). For one that was established a closed port
/// says more: its peer has ended without a word.
fn classify(error: &libc::sock_extended_err) -> ErrorKind {
    match (error.ee_origin, error.ee_type, error.ee_code) {
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _) => ErrorKind::TooBig,
        (libc::SO_EE_ORIGIN_ICMP, 3, 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => ErrorKind::PortClosed,
        (libc::SO_EE_ORIGIN_ICMP, 3, 2) | (libc::SO_EE_ORIGIN_ICMP6, 4, 1) => ErrorKind::NoProtocol,
        (libc::SO_EE_ORIGIN_ICMP, 3, _) | (libc::SO_EE_ORIGIN_ICMP6, 1, _) => {
            ErrorKind::Unreachable
        }
        (libc::SO_EE_ORIGIN_LOCAL, _, _) if error.ee_errno == libc::EMSGSIZE as u32 => {
            ErrorKind::LocalTooBig
        }
        (libc::SO_EE_ORIGIN_LOCAL, _, _) => ErrorKind::Local,
        _ => ErrorKind::Other,
    }
}

/// Memory aligned as the kernel's structures want it.
#[repr(align(8))]
struct Aligned<const N: usize>([u8; N]);

#[cfg(test)]
mod tests {
    use super::*;

    fn error(origin: u8, kind: u8, code: u8) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: 0,
            ee_origin: origin,
            ee_type: kind,
            ee_code: code,
            ee_pad: 0,
            ee_info: 0,
            ee_data: 0,
        }
    }

    #[test]
    fn icmp_messages_are_told_apart() {
        let v4 = |kind, code| classify(&error(libc::SO_EE_ORIGIN_ICMP, kind, code));
        let v6 = |kind, code| classify(&error(libc::SO_EE_ORIGIN_ICMP6, kind, code));
        assert_eq!(v4(3, 3), ErrorKind::PortClosed);
        assert_eq!(v4(3, 1), ErrorKind::Unreachable);
        assert_eq!(v4(3, 2), ErrorKind::NoProtocol);
        assert_eq!(v4(3, 4), ErrorKind::TooBig);
        assert_eq!(v4(3, 13), ErrorKind::Unreachable);
        assert_eq!(v4(11, 0), ErrorKind::Other);
        assert_eq!(v6(1, 4), ErrorKind::PortClosed);
        assert_eq!(v6(1, 0), ErrorKind::Unreachable);
        assert_eq!(v6(2, 0), ErrorKind::TooBig);
        assert_eq!(v6(3, 0), ErrorKind::Other);
        assert_eq!((v6(4, 1), v6(4, 0)), (ErrorKind::NoProtocol, ErrorKind::Other));
        let local = error(libc::SO_EE_ORIGIN_LOCAL, 0, 0);
        assert_eq!(classify(&local), ErrorKind::Local);
        let too_big = libc::sock_extended_err { ee_errno: libc::EMSGSIZE as u32, ..local };
        assert_eq!(classify(&too_big), ErrorKind::LocalTooBig);
    }
}
