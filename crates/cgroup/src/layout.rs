//! What the kernel's programs and this process tell each other, as bytes: the structures of
//! `bpf/manypath.bpf.c`, which are made of 32-bit words, addresses in network order, ports in host
//! order.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address as words; IPv4 in its mapped form.
pub(crate) type Address = [u32; 4];

/// Why a connect was left alone, in the order of `enum reason`; the first was carried.
pub(crate) const REASONS: [&str; 16] = [
    "carried",
    "bound-to-device",
    "other-network-namespace",
    "loopback",
    "not-unicast",
    "port-zero",
    "link-local",
    "foreign-source",
    "mptcp",
    "rule",
    "no-route",
    "local-address",
    "remembered",
    "no-gate",
    "no-memory",
    "events-lost",
];

/// Most rules that `rules` can hold.
pub(crate) const MAX_RULES: usize = 64;

/// What `routes` says of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteKind {
    /// It is reached from the source.
    Forward,
    /// It is this host itself.
    Own,
    /// The kernel has an answer of its own: no route, broadcast.
    Reject,
}

/// What the programs tell of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is on its way to the gate.
    Connecting(Connecting),
    /// One listens from now on.
    Listening,
}

/// A connect that was sent to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connecting {
    /// The socket's identity.
    pub(crate) cookie: u64,
    /// Where the program wants to go.
    pub(crate) peer: SocketAddr,
    /// The socket's true address.
    pub(crate) own: SocketAddr,
    /// Whether the program has bound it to an address.
    pub(crate) bound: bool,
    /// The port of its gate.
    pub(crate) gate: u16,
    /// The sequence number of its SYN.
    pub(crate) isn: u32,
}

pub(crate) fn address(ip: IpAddr) -> Address {
    let octets = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| octets[at + i]));
    [word(0), word(4), word(8), word(12)]
}

fn ip(address: Address) -> IpAddr {
    let mut octets = [0; 16];
    for (to, word) in octets.chunks_exact_mut(4).zip(address) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    Ipv6Addr::from(octets).to_canonical()
}

/// Words, one after the other.
pub(crate) fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct service`, which is also what a client is told as.
pub(crate) fn service(to: SocketAddr) -> Vec<u8> {
    bytes(address(to.ip()).into_iter().chain([u32::from(to.port())]))
}

/// `struct end`: the stack's end of a connection to `to`.
pub(crate) fn end(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let ports = [u32::from(from.port()), u32::from(to.port())];
    bytes(address(from.ip()).into_iter().chain(ports))
}

impl Event {
    /// `struct event`; `None` when it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |number: usize| {
            let at = 4 * number;
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let address = |first: usize| {
            Some(ip([word(first)?, word(first + 1)?, word(first + 2)?, word(first + 3)?]))
        };
        let port = |number| u16::try_from(word(number)?).ok();
        if word(18)? != 0 {
            return Some(Self::Listening);
        }
        Some(Self::Connecting(Connecting {
            cookie: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            peer: SocketAddr::new(address(2)?, port(14)?),
            own: SocketAddr::new(address(6)?, port(15)?),
            gate: port(16)?,
            isn: word(17)?,
            bound: word(19)? != 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_and_ipv4_is_mapped() {
        for text in ["192.0.2.1", "2001:db8::7", "::1"] {
            let one: IpAddr = text.parse().unwrap();
            assert_eq!(ip(address(one)), one);
        }
        let mapped = address("192.0.2.1".parse().unwrap());
        assert_eq!(mapped[..3], [0, 0, u32::from_be(0xffff)]);
        assert_eq!(mapped[3].to_ne_bytes(), [192, 0, 2, 1]);
    }

    #[test]
    fn an_event_is_read_as_the_kernel_writes_it() {
        let (peer, own) = ("192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
        let words = [7, 0].into_iter().chain(address(peer)).chain(address(own)).chain([0; 4]);
        let bytes = bytes(words.chain([80, 40000, 5000, 99, 0, 0]));
        assert_eq!(bytes.len(), 80);
        let expected = Connecting {
            cookie: 7,
            peer: SocketAddr::new(peer, 80),
            own: SocketAddr::new(own, 40000),
            bound: false,
            gate: 5000,
            isn: 99,
        };
        assert_eq!(Event::parse(&bytes), Some(Event::Connecting(expected)));
        for length in 0..80 {
            assert_eq!(Event::parse(&bytes[..length]), None);
        }
    }
}
