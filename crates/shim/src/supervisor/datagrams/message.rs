//! Messages in the program's memory, and the control messages that come along.

use crate::memory::Memory;
use crate::supervisor::send::{Header, read_header, read_word};
use std::io;
use std::mem;
use std::net::SocketAddr;

/// Control bytes that a program may ask for at most.
const MAX_CONTROL: usize = 16 << 10;

/// Where the parts of a `msghdr` are.
pub(in super::super) struct Message {
    pub(super) at: u64,
    pub(in super::super) header: Header,
    control: u64,
    control_length: usize,
}

impl Message {
    pub(in super::super) fn read(memory: &Memory, at: u64) -> io::Result<Self> {
        let header = read_header(memory, at)?;
        let control = read_word(memory, at + mem::offset_of!(libc::msghdr, msg_control) as u64)?;
        let length_at = at + mem::offset_of!(libc::msghdr, msg_controllen) as u64;
        let length = usize::try_from(read_word(memory, length_at)?).unwrap_or(usize::MAX);
        Ok(Self { at, header, control, control_length: length.min(MAX_CONTROL) })
    }

    /// Room for control messages.
    pub(super) fn control_room(&self) -> usize {
        if self.control == 0 { 0 } else { self.control_length }
    }

    /// The control messages to be sent.
    pub(in super::super) fn control(&self, memory: &Memory) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.control_room()];
        if !bytes.is_empty() {
            memory.read(self.control, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Tells the program what came along and what became of it.
    pub(super) fn write_back(&self, memory: &Memory, control: &[u8], flags: i32) -> io::Result<()> {
        if !control.is_empty() {
            memory.write(self.control, control)?;
        }
        let length_at = self.at + mem::offset_of!(libc::msghdr, msg_controllen) as u64;
        memory.write(length_at, &control.len().to_ne_bytes())?;
        memory.write_int(self.at + mem::offset_of!(libc::msghdr, msg_flags) as u64, flags)
    }
}

/// Spreads what has come over the pieces of the program's memory.
pub(super) fn scatter(
    memory: &Memory,
    pieces: &[(u64, usize)],
    mut bytes: &[u8],
) -> io::Result<()> {
    for &(address, length) in pieces {
        let (now, rest) = bytes.split_at(length.min(bytes.len()));
        if now.is_empty() {
            break;
        }
        memory.write(address, now)?;
        bytes = rest;
    }
    Ok(())
}

/// One control message: its place, level, type and where its data begins and ends.
struct Part {
    begin: usize,
    level: i32,
    kind: i32,
    data: std::ops::Range<usize>,
    next: usize,
}

const WORD: usize = mem::size_of::<usize>();
const HEADER: usize = mem::size_of::<libc::cmsghdr>();

fn parts(control: &[u8]) -> Vec<Part> {
    let mut all = Vec::new();
    let mut begin = 0;
    while let Some(part) = part_at(control, begin) {
        begin = part.next;
        all.push(part);
    }
    all
}

fn part_at(control: &[u8], begin: usize) -> Option<Part> {
    let length = usize::from_ne_bytes(*control.get(begin..)?.first_chunk()?);
    let level = i32::from_ne_bytes(*control.get(begin + WORD..)?.first_chunk()?);
    let kind = i32::from_ne_bytes(*control.get(begin + WORD + 4..)?.first_chunk()?);
    let end = begin.checked_add(length).filter(|end| *end <= control.len())?;
    if length < HEADER {
        return None;
    }
    let next = end.next_multiple_of(WORD);
    Some(Part { begin, level, kind, data: begin + HEADER..end, next })
}

/// What the program says about the source of its datagrams means nothing on the way to the stack.
pub(super) fn without_source(control: &[u8]) -> Vec<u8> {
    let kept = parts(control).into_iter().filter(|part| {
        !matches!(
            (part.level, part.kind),
            (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
        )
    });
    let pieces = kept.map(|part| control.get(part.begin..part.next.min(control.len())));
    pieces.flatten().flatten().copied().collect()
}

/// Where a datagram has come to: the address that the flow has here, instead of loopback.
pub(super) fn with_local(control: &mut [u8], local: SocketAddr) {
    for part in parts(control) {
        let data = control.get_mut(part.data).unwrap_or_default();
        match (part.level, part.kind, local) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO, SocketAddr::V4(local)) => {
                // struct in_pktinfo: index, spec_dst, addr.
                for field in data.chunks_exact_mut(4).skip(1).take(2) {
                    field.copy_from_slice(&local.ip().octets());
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, local) => {
                let ip = match local {
                    SocketAddr::V4(local) => local.ip().to_ipv6_mapped(),
                    SocketAddr::V6(local) => *local.ip(),
                };
                if let Some(field) = data.first_chunk_mut::<16>() {
                    *field = ip.octets();
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    #[test]
    fn the_source_is_left_out_and_the_rest_kept() {
        let segment = part(libc::SOL_UDP, libc::UDP_SEGMENT, &1200_u16.to_ne_bytes());
        let source = part(libc::IPPROTO_IP, libc::IP_PKTINFO, &[0; 12]);
        let all = [source.clone(), segment.clone()].concat();
        assert_eq!(without_source(&all), segment);
        assert!(without_source(&source).is_empty());
        assert!(without_source(&[1, 2, 3]).is_empty());
    }

    #[test]
    fn the_local_address_is_put_in_place_of_loopback() {
        let mut control =
            part(libc::IPPROTO_IP, libc::IP_PKTINFO, &[1, 0, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        with_local(&mut control, "192.0.2.7:9".parse().unwrap());
        let expected = [1, 0, 0, 0, 192, 0, 2, 7, 192, 0, 2, 7];
        assert_eq!(control.get(HEADER..HEADER + 12), Some(expected.as_slice()));
    }

    #[test]
    fn lengths_that_are_wrong_end_the_list() {
        for length in [0, 1, HEADER - 1, 1000, usize::MAX] {
            let mut control = part(libc::IPPROTO_IP, libc::IP_PKTINFO, &[0; 12]);
            control.splice(..WORD, length.to_ne_bytes());
            assert!(parts(&control).is_empty(), "{length}");
        }
    }
}
