//! Where a relay connects to. What the internet at large reaches is open; everything else is closed unless it is named:
//! private networks and this host's own, and all that IPv6 can spell of them.

use crate::allow::meanings;
use crate::config::RelayTo;
use manypath_rules::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether a relay connects to `destination`. `own` are this host's addresses, each with the network that it is in;
/// `loopback` lets loopback addresses through that are named.
pub(super) fn is_open(
    destination: SocketAddr,
    named: &[RelayTo],
    own: &[Network],
    loopback: bool,
) -> bool {
    destination.port() != 0
        && is_open_at(destination.ip(), destination.port(), named, own, loopback)
}

/// Whether a relay sends packets without ports to `address`: named ports open nothing to them.
pub(super) fn is_open_to_packets(
    address: IpAddr,
    named: &[RelayTo],
    own: &[Network],
    loopback: bool,
) -> bool {
    is_open_at(address, 0, named, own, loopback)
}

fn is_open_at(
    address: IpAddr,
    port: u16,
    named: &[RelayTo],
    own: &[Network],
    loopback: bool,
) -> bool {
    let open = |address: IpAddr| {
        let is_named = named.iter().any(|one| one.names(address, port));
        let never = address.is_unspecified()
            || address.is_multicast()
            || address == IpAddr::V4(Ipv4Addr::BROADCAST)
            || (address.is_loopback() && !loopback);
        let closed = !is_global(address) || own.iter().any(|network| network.contains(address));
        !never && (is_named || !closed)
    };
    // An interface may itself be in a range that maps to IPv4, such as 6to4.
    let as_it_is = Some(address.to_canonical());
    let of_own = as_it_is.filter(|address| own.iter().any(|network| network.contains(*address)));
    meanings(address).into_iter().chain(of_own).all(open)
}

/// Whether the internet at large reaches an address (the registries of RFC 6890).
fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let closed = |(first, prefix): &([u8; 4], u32)| {
                let first = Ipv4Addr::from(*first).to_bits();
                (first ^ v4.to_bits()) >> (32 - prefix) == 0
            };
            !CLOSED_V4.iter().any(closed)
        }
        IpAddr::V6(v6) => {
            let closed = |(first, prefix): &([u16; 2], u32)| {
                let first = Ipv6Addr::new(first[0], first[1], 0, 0, 0, 0, 0, 0).to_bits();
                (first ^ v6.to_bits()) >> (128 - prefix) == 0
            };
            // All of the global unicast addresses that are in use: 2000::/3.
            v6.segments()[0] >> 13 == 1 && !CLOSED_V6.iter().any(closed)
        }
    }
}

const CLOSED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Within 2000::/3: protocol assignments, among them Teredo, and documentation.
const CLOSED_V6: [([u16; 2], u32); 3] =
    [([0x2001, 0], 23), ([0x2001, 0xdb8], 32), ([0x3fff, 0], 20)];

#[cfg(test)]
mod tests {
    use super::*;

    fn open(destination: &str, named: &[&str]) -> bool {
        let named: Vec<RelayTo> = named.iter().map(|one| one.parse().unwrap()).collect();
        let own = ["8.8.4.0/24", "2600:1::/64"].map(|network| network.parse().unwrap());
        is_open(destination.parse().unwrap(), &named, &own, false)
    }

    #[test]
    fn the_internet_is_open() {
        for destination in ["1.1.1.1:443", "[2606:4700::1]:443", "9.255.255.255:1", "172.32.0.1:80"]
        {
            assert!(open(destination, &[]), "{destination}");
        }
        for destination in ["[::ffff:1.1.1.1]:1", "[64:ff9b::1.1.1.1]:1", "[2002:101:101::1]:1"] {
            assert!(open(destination, &[]), "{destination}");
        }
    }

    #[test]
    fn private_networks_and_those_of_this_host_are_closed_in_every_spelling() {
        let v4 = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.1.2.3",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "8.8.4.4",
            "203.0.113.1",
        ];
        for text in v4 {
            let address: Ipv4Addr = text.parse().unwrap();
            let [a, b, c, d] = address.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let spellings = [
                format!("{address}:80"),
                format!("[::ffff:{address}]:80"),
                format!("[::{high:x}:{low:x}]:80"),
                format!("[64:ff9b::{address}]:80"),
                format!("[2002:{high:x}:{low:x}::1]:80"),
                format!("[2606:4700::5efe:{address}]:80"),
                format!("[2606:4700::200:5efe:{address}]:80"),
            ];
            for one in spellings {
                assert!(!open(&one, &[]), "{one}");
            }
        }
        for v6 in [
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "64:ff9b:1::1",
            "5f00::1",
            "4000::1",
            "2600:1::5",
            "3fff::1",
        ] {
            assert!(!open(&format!("[{v6}]:80"), &[]), "{v6}");
        }
        assert!(!open("1.1.1.1:0", &[]));
    }

    #[test]
    fn networks_of_this_host_are_closed_where_their_addresses_lead_to_others_elsewhere() {
        let own = ["2002:101:101:1::/64", "64:ff9b::/96"].map(|network| network.parse().unwrap());
        for (neighbour, stranger) in [
            ("[2002:101:101:1::5]:80", "[2002:101:101:2::5]:80"),
            ("[64:ff9b::1.1.1.1]:80", "1.1.1.1:80"),
        ] {
            let (neighbour, stranger) = (neighbour.parse().unwrap(), stranger.parse().unwrap());
            assert!(!is_open(neighbour, &[], &own, false), "{neighbour}");
            assert!(is_open(stranger, &[], &own, false), "{stranger}");
            let named = [RelayTo { network: Network::host(neighbour.ip()), ports: None }];
            assert!(is_open(neighbour, &named, &own, false), "it is named");
        }
    }

    #[test]
    fn what_is_named_is_open_at_the_named_ports_alone() {
        assert!(open("10.1.2.3:80", &["10.0.0.0/8"]));
        assert!(!open("10.1.2.3:80", &["10.0.0.0/8:443", "10.2.0.0/16"]));
        assert!(open("10.1.2.3:85", &["192.168.0.0/16", "10.1.2.3:80-90"]));
        assert!(open("[fd00::1]:443", &["[fd00::/8]:443"]) && open("[fd00::1]:443", &["fd00::/8"]));
        assert!(open("[64:ff9b::10.1.2.3]:80", &["10.0.0.0/8"]));
        assert!(open("8.8.4.4:53", &["8.8.4.4:53"]) && !open("8.8.4.5:53", &["8.8.4.4:53"]));
        // Not even by name.
        for never in ["127.0.0.1:80", "[::1]:80", "0.0.0.0:80", "224.0.0.1:80", "[ff02::1]:80"] {
            assert!(!open(never, &["0.0.0.0/0", "::/0"]), "{never}");
        }
    }

    #[test]
    fn packets_without_ports_go_where_no_port_was_named() {
        let open = |address: &str, named: &[&str]| {
            let named: Vec<RelayTo> = named.iter().map(|one| one.parse().unwrap()).collect();
            is_open_to_packets(address.parse().unwrap(), &named, &[], false)
        };
        assert!(open("1.1.1.1", &[]) && open("10.1.2.3", &["10.0.0.0/8"]));
        assert!(!open("10.1.2.3", &[]) && !open("10.1.2.3", &["10.0.0.0/8:1-65535"]));
        assert!(!open("127.0.0.1", &["0.0.0.0/0"]) && !open("224.0.0.1", &["0.0.0.0/0"]));
    }

    #[test]
    fn networks_are_read_with_ports_and_without() {
        for text in [
            "",
            "10.0.0.0/8:",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "[fd00::/8",
            "[fd00::/8]443",
            "x",
            "10.0.0.0/8:0",
        ] {
            assert!(text.parse::<RelayTo>().is_err(), "{text}");
        }
    }
}
