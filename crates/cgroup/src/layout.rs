//! What the kernel's programs and this process tell each other, as bytes: the structures of
//! `bpf/manypath.bpf.c`, which are made of 32-bit words, addresses in network order, ports in host
//! order.

use manypath_control::SocketOptions;
use manypath_gate::Told;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address as words; IPv4 in its mapped form.
pub(crate) type Address = [u32; 4];

/// Why a connect was left alone, in the order of `enum reason`; the first was carried.
pub(crate) const REASONS: [&str; 21] = [
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
    "hears-errors",
    "older-socket",
    "sctp-only",
    "marked",
    "egress-policy",
];

/// Most rules that `rules`, and `options`, can hold.
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
    /// Its program has set an option that means something to the stack, on the socket of this identity.
    Option(u64, Setting),
    /// Its program has asked for what `ways` tells, the first time since that was told.
    Asked(WayKey),
}

/// What `ways` tells of a connection by: a `struct end`, or the identity of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WayKey([u32; 6]);

impl WayKey {
    /// Of a socket that was taken to the gate. No connection has port zero.
    pub(crate) const fn of_socket(cookie: u64) -> Self {
        Self([cookie as u32, (cookie >> 32) as u32, 0, 0, 0, 0])
    }

    /// Of the connection from `from` to a listening program at `to`.
    pub(crate) fn of_ends(from: SocketAddr, to: SocketAddr) -> Self {
        let [a, b, c, d] = address(from.ip());
        Self([a, b, c, d, from.port().into(), to.port().into()])
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        bytes(self.0)
    }
}

/// An option that a program has set, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    TrafficClass(u8),
    UserTimeout(u32),
}

impl Setting {
    /// Puts it among the options of a socket.
    pub(crate) fn put(self, options: &mut SocketOptions) {
        match self {
            Self::TrafficClass(class) => options.traffic_class = class,
            Self::UserTimeout(time) => options.user_timeout_ms = time,
        }
    }
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
    /// The address from which the destination is reached.
    pub(crate) source: IpAddr,
    /// Whether the program has bound it to an address.
    pub(crate) bound: bool,
    /// The port of its gate.
    pub(crate) gate: u16,
    /// The sequence number of its SYN.
    pub(crate) isn: u32,
    /// What the program had asked for before.
    pub(crate) options: SocketOptions,
    /// Who has called connect.
    pub(crate) actor: Actor,
}

/// `struct actor`: the thread that connects, by its cgroup and its real user and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Actor([u32; 4]);

impl Actor {
    /// The real group.
    pub(crate) const fn group(self) -> u32 {
        self.0[3]
    }
}

impl Connecting {
    /// Whether it is a SYN that `first` has told of already: after a second without an answer the kernel
    /// sends it again, and tells as for the first one, when the sequence number counts the SYN.
    pub(crate) fn is_sent_again(&self, first: &Self) -> bool {
        let (isn, options) = (first.isn, first.options);
        let same = Self { isn, options, ..*self } == *first;
        same && self.isn.wrapping_sub(first.isn) <= 1
    }
}

pub(crate) fn address(ip: IpAddr) -> Address {
    let octets = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| octets[at + i]));
    [word(0), word(4), word(8), word(12)]
}

pub(crate) fn ip(address: Address) -> IpAddr {
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

/// `struct denial`.
pub(crate) fn denial(actor: Actor, to: SocketAddr) -> Vec<u8> {
    [bytes(actor.0), service(to)].concat()
}

/// `struct flow`: the datagrams of a socket to a destination.
pub(crate) fn flow(cookie: u64, to: SocketAddr) -> Vec<u8> {
    [&cookie.to_ne_bytes()[..], &service(to), &[0; 4]].concat()
}

/// `struct end`: the stack's end of a connection to `to`.
pub(crate) fn end(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let ports = [u32::from(from.port()), u32::from(to.port())];
    bytes(address(from.ip()).into_iter().chain(ports))
}

/// `struct way`, about which nobody has asked yet.
pub(crate) fn way(told: &Told) -> Vec<u8> {
    let Told { window, mss, mtu, rto, unacked, rtt, rtt_variation, least_rtt, .. } = *told;
    let Told { cwnd, ssthresh, peer_window, .. } = *told;
    let asked = 0;
    let first = [asked, window, mss, mtu, rto, unacked, rtt, rtt_variation, least_rtt];
    bytes(first.into_iter().chain([cwnd, ssthresh, peer_window]))
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
        let cookie = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        // The kernel takes the class of eight bits out of any number, and no negative time.
        let (traffic_class, user_timeout_ms) = (word(20)? as u8, word(21)?);
        let time = user_timeout_ms.min(i32::MAX.cast_unsigned());
        match word(18)? {
            0 => {}
            2 => return Some(Self::Option(cookie, Setting::TrafficClass(traffic_class))),
            3 if time == user_timeout_ms => {
                return Some(Self::Option(cookie, Setting::UserTimeout(time)));
            }
            3 => return None,
            4 => {
                let key = [word(2)?, word(3)?, word(4)?, word(5)?, word(14)?, word(15)?];
                return Some(Self::Asked(WayKey(key)));
            }
            _ => return Some(Self::Listening),
        }
        Some(Self::Connecting(Connecting {
            cookie,
            peer: SocketAddr::new(address(2)?, port(14)?),
            own: SocketAddr::new(address(6)?, port(15)?),
            source: address(10)?,
            gate: port(16)?,
            isn: word(17)?,
            bound: word(19)? != 0,
            options: SocketOptions { traffic_class, user_timeout_ms },
            actor: Actor([word(22)?, word(23)?, word(24)?, word(25)?]),
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
        let words = words.chain([80, 40000, 5000, 99, 0, 0, 0x48, 3000]);
        let bytes = bytes(words.chain([77, 1, 1000, 100]));
        assert_eq!(bytes.len(), 104);
        let expected = Connecting {
            cookie: 7,
            peer: SocketAddr::new(peer, 80),
            own: SocketAddr::new(own, 40000),
            source: Ipv6Addr::UNSPECIFIED.into(),
            bound: false,
            gate: 5000,
            isn: 99,
            options: SocketOptions { traffic_class: 0x48, user_timeout_ms: 3000 },
            actor: Actor([77, 1, 1000, 100]),
        };
        assert_eq!(Event::parse(&bytes), Some(Event::Connecting(expected)));
        for length in 0..104 {
            assert_eq!(Event::parse(&bytes[..length]), None);
        }
    }

    #[test]
    fn a_question_names_the_ends_or_the_socket_that_it_is_about() {
        let (from, to) = ("10.0.0.2:40000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        assert_eq!(WayKey::of_ends(from, to).bytes(), end(from, to));
        let asked = |address: Address, ports: [u32; 2]| {
            let words = [0, 0].into_iter().chain(address).chain([0; 8]).chain(ports);
            Event::parse(&bytes(words.chain([0, 0, 4, 0, 0, 0])))
        };
        let ends = asked(address(from.ip()), [40000, 80]);
        assert_eq!(ends, Some(Event::Asked(WayKey::of_ends(from, to))));
        let socket = asked([7, 1, 0, 0], [0, 0]);
        assert_eq!(socket, Some(Event::Asked(WayKey::of_socket(1 << 32 | 7))));
    }

    #[test]
    fn a_way_has_the_words_that_the_kernel_reads() {
        let told = Told { window: 1, mss: 2, cwnd: 9, peer_window: 11, ..Told::default() };
        assert_eq!(way(&told), bytes([0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 0, 11]));
    }

    #[test]
    fn options_are_read_and_a_negative_time_is_none() {
        let event = |kind: u32, value: u32| {
            let words = [7, 0].into_iter().chain([0; 16]).chain([kind, 0, value, value]);
            Event::parse(&bytes(words))
        };
        assert_eq!(event(1, 0), Some(Event::Listening));
        assert_eq!(event(2, 0x148), Some(Event::Option(7, Setting::TrafficClass(0x48))));
        assert_eq!(event(3, 3000), Some(Event::Option(7, Setting::UserTimeout(3000))));
        assert_eq!(event(3, u32::MAX), None);
    }
}
