//! Netlink (netlink(7)): questions to the kernel about routes, links and sockets, and its news of them.
//!
//! Messages are bytes in the machine's order: a header, a structure that depends on the type, attributes. What a body
//! means is for the caller to say.
#![forbid(unsafe_code)]

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv,
    send, socket_with,
};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Routes, addresses, links (rtnetlink(7)), whose number is zero.
pub const ROUTE: Option<Protocol> = None;
/// Sockets (sock_diag(7)).
pub const SOCK_DIAG: Option<Protocol> = Some(netlink::SOCK_DIAG);

/// Bytes of `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Bytes that are read in one go; the kernel makes no longer datagrams of lists.
const DATAGRAM: usize = 32 << 10;
/// Datagrams that are read for one question, or at a time: nobody but the kernel sends any, and never so many.
const DATAGRAMS: usize = 4096;
/// The kernel answers at once.
const LIMIT: Duration = Duration::from_secs(1);
/// Receive buffer asked for, in bytes: the kernel drops news that do not fit, and says so.
const NEWS_BUFFER: usize = 256 << 10;

/// One question.
#[derive(Clone, Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// A message of type `kind` that begins with the structure `body`; `flags` beside `NLM_F_REQUEST`.
    #[must_use]
    pub fn new(kind: u16, flags: libc::c_int, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend(body);
        Self(bytes)
    }

    /// Sets a byte of the structure.
    pub fn set(&mut self, at: usize, value: u8) {
        self.0[HEADER + at] = value;
    }

    /// Adds an attribute, whose value is a multiple of four bytes long.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
    }
}

/// A netlink socket of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens one that hears the multicast groups of a mask: group n has the bit n - 1. Readable when there are news.
    ///
    /// # Errors
    /// Where the system permits no netlink sockets (some sandboxes).
    pub fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(LIMIT))?;
        if groups != 0 {
            // Smaller is more news lost, which is noticed.
            let _ = set_socket_recv_buffer_size(&socket, NEWS_BUFFER);
        }
        bind(&socket, &netlink::SocketAddrNetlink::new(0, groups))?;
        Ok(Self(socket))
    }

    /// Asks, and gives the body of each answer to `take`.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn ask(&self, request: Request, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let Request(mut bytes) = request;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        send(&self.0, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0; DATAGRAM];
        for _ in 0..DATAGRAMS {
            // A signal interrupts a call with a timeout, whatever its handler says (signal(7)).
            let receive = || recv(&self.0, &mut buffer[..], RecvFlags::empty());
            let (_, length) = retry_on_intr(receive)?;
            if is_last(buffer.get(..length).unwrap_or_default(), &mut take)? {
                break;
            }
        }
        Ok(())
    }

    /// Gives the types of the messages that have come unasked to `take`: all of them, as a poll tells only of what
    /// comes later.
    ///
    /// # Errors
    /// Some may have been lost; above all ENOBUFS.
    pub fn news(&self, mut take: impl FnMut(u16)) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM];
        let mut lost = Ok(());
        for _ in 0..DATAGRAMS {
            match recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let datagram = buffer.get(..length).unwrap_or_default();
                    messages(datagram).for_each(|message| take(message.kind));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => lost = Err(error.into()),
            }
        }
        lost
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Netlink {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    body: &'a [u8],
}

/// The messages of a datagram.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.get(..HEADER)?;
        let length = u32_at(header, 0)? as usize;
        let (kind, flags) = (u16_at(header, 4)?, u16_at(header, 6)?);
        let body = bytes.get(HEADER..length).unwrap_or_default();
        bytes = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
        Some(Message { kind, flags, body })
    })
}

/// Takes in the answers of a datagram. Tells whether they were the last ones.
fn is_last(datagram: &[u8], take: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    for Message { kind, flags, body } in messages(datagram) {
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let error = u32_at(body, 0).unwrap_or(0).cast_signed();
                return match error {
                    0 => Ok(true),
                    _ => Err(io::Error::from_raw_os_error(error.saturating_neg())),
                };
            }
            _ => take(body),
        }
        if i32::from(flags) & libc::NLM_F_MULTI == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The attributes that `bytes` consist of, with their types.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?).max(4), u16_at(bytes, 2)?);
        let value = bytes.get(4..length).unwrap_or_default();
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The number at a place, if there is one.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_ne_bytes(*half))
}

/// The number at a place, if there is one.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// The address that a value of four or sixteen bytes is.
#[must_use]
pub fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADER, attributes, is_last, messages};

    fn message(kind: u16, length: u32, size: usize) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(size, 0);
        bytes
    }

    fn kinds(bytes: &[u8]) -> Vec<u16> {
        messages(bytes).map(|message| message.kind).collect()
    }

    #[test]
    fn garbage_is_no_answer_and_ends() {
        for bytes in [&[0; 64][..], &[255; 64], &[1], &[]] {
            let mut found = 0;
            let _ = is_last(bytes, &mut |_| found += 1);
            assert!(found <= 4, "{bytes:?}");
            assert!(attributes(bytes).count() <= 16, "{bytes:?}");
        }
    }

    #[test]
    fn messages_that_lie_about_their_length_end_the_reading() {
        for length in [0, 1, 15, 17, 1000, u32::MAX] {
            assert_eq!(kinds(&message(20, length, 40)).first(), Some(&20), "{length}");
        }
        let both = [message(16, 18, 20), message(24, 20, 20)].concat();
        assert_eq!(kinds(&both), [16, 24]);
        assert!(kinds(&message(20, 16, HEADER - 1)).is_empty());
    }
}
