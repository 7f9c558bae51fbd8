//! What the kernel's programs tell of datagrams.

use crate::layout::ip;
use crate::owner::Owner;
use crate::refusal::loopback;
use std::net::SocketAddr;

/// Bytes of `struct datagram`.
const HEAD: usize = 88;

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// It was taken from its socket.
    Datagram(Datagram),
    /// The socket of this identity, of which some were taken, is closed.
    Gone(u64),
}

/// What a program has sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// The socket's identity.
    pub(crate) cookie: u64,
    /// The socket's address.
    pub(crate) source: SocketAddr,
    /// Whether the program has bound it to that.
    pub(crate) bound: bool,
    pub(crate) peer: SocketAddr,
    pub(crate) traffic_class: u8,
    /// What the socket is connected to in place of its peer.
    pub(crate) sink: Option<SocketAddr>,
    /// Whose the socket is.
    pub(crate) owner: Owner,
    /// It is several datagrams (`UDP_SEGMENT`), all but the last as long as this; 0: one.
    segment: usize,
    payload: Vec<u8>,
}

impl Datagram {
    /// Each datagram's payload.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let size = if self.segment == 0 { usize::MAX } else { self.segment };
        let empty = self.payload.is_empty().then_some(&[][..]);
        self.payload.chunks(size).chain(empty)
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }
}

impl News {
    /// `struct datagram` and the payload behind it; `None` when it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |number: usize| {
            let at = 4 * number;
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let address = |first: usize, port: usize| {
            let words = [word(first)?, word(first + 1)?, word(first + 2)?, word(first + 3)?];
            Some(SocketAddr::new(ip(words), u16::try_from(word(port)?).ok()?))
        };
        let cookie = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let (length, segment) = (word(12)? as usize, word(13)? as usize);
        if word(14)? != 0 {
            return Some(Self::Gone(cookie));
        }
        let peer = address(6, 11)?;
        let cgroup = u64::from(word(19)?) << 32 | u64::from(word(18)?);
        let sink = u16::try_from(word(17)?).ok().filter(|port| *port != 0);
        Some(Self::Datagram(Datagram {
            cookie,
            source: address(2, 10)?,
            bound: word(15)? != 0,
            peer,
            sink: sink.map(|port| SocketAddr::new(loopback(peer.ip()), port)),
            traffic_class: word(16)? as u8,
            owner: Owner { user: word(20)?, cgroup },
            segment,
            payload: bytes.get(HEAD..HEAD.checked_add(length)?)?.to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    fn record(kind: u32, segment: u32, payload: &[u8]) -> Vec<u8> {
        let (source, peer) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let words = [7, 0].into_iter().chain(layout::address(source)).chain(layout::address(peer));
        let about = [4000, 53, payload.len() as u32, segment, kind, 1, 0x48, 0, 77, 1, 1000, 0];
        [&layout::bytes(words.chain(about))[..], payload].concat()
    }

    #[test]
    fn a_datagram_is_read_as_the_kernel_writes_it() {
        let bytes = record(0, 0, b"question");
        let Some(News::Datagram(one)) = News::parse(&bytes) else { unreachable!("a datagram") };
        assert_eq!((one.cookie, one.bound, one.traffic_class), (7, true, 0x48));
        assert_eq!(one.sink, None);
        assert_eq!(one.owner, Owner { user: 1000, cgroup: 1 << 32 | 77 });
        assert_eq!(
            (one.source, one.peer),
            ("192.0.2.1:4000".parse().unwrap(), "192.0.2.2:53".parse().unwrap())
        );
        assert_eq!(one.pieces().collect::<Vec<_>>(), [b"question"]);
        for length in 0..bytes.len() {
            assert_eq!(News::parse(&bytes[..length]), None);
        }
        assert_eq!(News::parse(&record(1, 0, b"")), Some(News::Gone(7)));
    }

    #[test]
    fn segments_are_told_apart_and_nothing_is_a_datagram_too() {
        let pieces = |segment, payload: &[u8]| {
            let Some(News::Datagram(one)) = News::parse(&record(0, segment, payload)) else {
                unreachable!("a datagram")
            };
            one.pieces().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert_eq!(pieces(3, b"abcdefgh"), [&b"abc"[..], b"def", b"gh"]);
        assert_eq!(pieces(0, b""), [b""]);
    }
}
