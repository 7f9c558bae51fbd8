//! Questions to the kernel about routes and links, and its answers (rtnetlink(7)).

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::time::Duration;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of an answer that are read in one go.
const ANSWER: usize = 32 << 10;
/// Datagrams of an answer: what does not fit into so many is not looked at.
const DATAGRAMS: usize = 256;
/// The kernel answers at once.
const LIMIT: Duration = Duration::from_secs(1);

/// One question.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A message of type `kind` that begins with `header`.
    pub(crate) fn new(kind: u16, flags: libc::c_int, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        bytes.extend(header);
        Self(bytes)
    }

    /// Sets a byte of the message's header.
    pub(crate) fn set(&mut self, at: usize, value: u8) {
        self.0[HEADER + at] = value;
    }

    /// Every value is a multiple of four bytes long.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
    }

    /// Asks, and reads the answers of type `wanted`.
    pub(crate) fn ask<T>(mut self, wanted: u16, read: fn(&[u8]) -> T) -> io::Result<Vec<T>> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let kind = Type::RAW.cloexec();
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let mut socket = Socket::new_raw(Domain::from(libc::AF_NETLINK), kind, Some(protocol))?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.send(&self.0)?;
        let (mut found, mut buffer) = (Vec::new(), vec![0; ANSWER]);
        for _ in 0..DATAGRAMS {
            let length = socket.read(&mut buffer)?;
            if understand(&buffer[..length], wanted, read, &mut found)? {
                break;
            }
        }
        Ok(found)
    }
}

/// Takes in the messages of a datagram. Tells whether they were the last ones.
fn understand<T>(
    mut bytes: &[u8],
    wanted: u16,
    read: fn(&[u8]) -> T,
    found: &mut Vec<T>,
) -> io::Result<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let length = u32_at(header, 0).unwrap_or(0) as usize;
        let (kind, flags) = split(u32_at(header, 4).unwrap_or(0));
        let body = bytes.get(HEADER..length).unwrap_or_default();
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let error = u32_at(body, 0).unwrap_or(0).cast_signed();
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            _ if kind == wanted => found.push(read(body)),
            _ => {}
        }
        if i32::from(flags) & libc::NLM_F_MULTI == 0 {
            return Ok(true);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attributes that `bytes` consist of, with their types.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = split(u32_at(bytes, 0)?);
        let length = usize::from(length).max(4);
        let value = bytes.get(4..length).unwrap_or_default();
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Two 16-bit fields that stand in one word.
fn split(word: u32) -> (u16, u16) {
    let [a, b, c, d] = word.to_ne_bytes();
    (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{attributes, understand};

    #[test]
    fn garbage_is_no_answer_and_ends() {
        for bytes in [&[0; 64][..], &[255; 64], &[1], &[]] {
            let mut found = Vec::new();
            let _ = understand(bytes, libc::RTM_NEWROUTE, <[u8]>::len, &mut found);
            assert!(found.len() <= 4, "{bytes:?}");
            assert!(attributes(bytes).count() <= 16, "{bytes:?}");
        }
    }
}
