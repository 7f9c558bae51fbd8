//! Questions to the kernel over netlink: lists of routes and of sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens one of a protocol (`NETLINK_ROUTE`, `NETLINK_SOCK_DIAG`) that hears the groups of a mask.
    ///
    /// # Errors
    /// As `socket` and `bind` say.
    pub(crate) fn new(protocol: libc::c_int, groups: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: plain numbers; then the kernel has just made the descriptor.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, kind, protocol);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: all zeroes is a valid sockaddr_nl.
        let mut own: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        own.nl_family = libc::AF_NETLINK as u16;
        own.nl_groups = groups;
        let length = std::mem::size_of_val(&own) as libc::socklen_t;
        // SAFETY: the address is valid for its length.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const own).cast(), length) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    /// Asks for a list, and calls `take` with every answer's body.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn list(
        &self,
        kind: u16,
        body: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.request(kind, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, body)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = self.receive(&mut buffer, 0)?;
            if messages(buffer.get(..length).unwrap_or_default(), &mut take)? {
                return Ok(());
            }
        }
    }

    /// Asks for one thing; the answer's body.
    ///
    /// # Errors
    /// As the kernel says: `ENOENT` when there is no such thing.
    pub(crate) fn get(&self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.request(kind, libc::NLM_F_REQUEST, body)?;
        let mut buffer = [0; 4096];
        let length = self.receive(&mut buffer, 0)?;
        let mut answer = None;
        messages(buffer.get(..length).unwrap_or_default(), &mut |body| {
            answer = Some(body.to_vec());
        })?;
        answer.ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))
    }

    fn request(&self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        let length = (HEADER + body.len()) as u32;
        let flags = flags as u16;
        let mut request = Vec::with_capacity(length as usize);
        request.extend(length.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend([0; 8]);
        request.extend(body);
        // SAFETY: the request is valid for its length.
        let sent =
            unsafe { libc::send(self.0.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Drops what the groups have told; whether there was anything.
    pub(crate) fn drain(&self) -> bool {
        let mut buffer = [0; 8192];
        let mut any = false;
        loop {
            match self.receive(&mut buffer, libc::MSG_DONTWAIT) {
                Ok(_) => any = true,
                // Something was told that did not fit: that is news, too.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => any = true,
                Err(_) => return any,
            }
        }
    }

    fn receive(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        // SAFETY: the buffer is valid for its length.
        let got = unsafe {
            libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads and drops what a descriptor has; whether there was anything.
pub(crate) fn drain(fd: BorrowedFd<'_>) -> bool {
    let mut buffer = [0_u8; 4096];
    let (fd, to) = (fd.as_raw_fd(), buffer.as_mut_ptr().cast());
    let mut any = false;
    // SAFETY: the buffer is valid for its length.
    while unsafe { libc::read(fd, to, buffer.len()) } > 0 {
        any = true;
    }
    any
}

/// Goes through one datagram of a list; whether it is the end of the list.
fn messages(mut rest: &[u8], take: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (word(rest, 0), half(rest, 4)) {
        let length = length as usize;
        let Some(body) = rest.get(HEADER..length) else { break };
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let errno = word(body, 0).map_or(libc::EPROTO, |e| -e.cast_signed());
                return Err(io::Error::from_raw_os_error(errno));
            }
            _ => take(body),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attributes that follow the fixed part of a body: type and value.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(half(rest, 0)?);
        let (kind, value) = (half(rest, 2)?, rest.get(4..length)?);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
