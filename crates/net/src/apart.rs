//! Interfaces that are networks apart: what goes through them is not to go elsewhere, and what goes elsewhere is not to
//! go through them.

use crate::route::routes;
use manypath_netlink::{Netlink, ROUTE, Request, attributes, u16_at, u32_at};
use std::fmt;
use std::io;

/// Bytes of `struct ifinfomsg`.
const LINK: usize = 16;
/// What an interface is made for (`IFLA_INFO_KIND` of linux/if_link.h).
const INFO_KIND: u16 = 1;
/// The link type of an Ethernet device.
const ETHERNET: u16 = 1;
/// The link type of a device that has said nothing else (`ARPHRD_NONE`).
const NO_LINK_TYPE: u16 = 0xfffe;
/// Kinds of interfaces that put packets into other packets, or hand them to a program that does.
const TUNNELS: [&str; 22] = [
    "amneziawg",
    "amt",
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "gtp",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "ovpn",
    "ovpn-dco",
    "sit",
    "tun",
    "vti",
    "vti6",
    "vxlan",
    "wireguard",
    "xfrm",
];

/// Why an interface is a network apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// It is a tunnel, such as that of a VPN.
    Tunnel,
    /// It is a bridge through which no gateway is reached, such as that of containers or virtual machines.
    Bridge,
    /// It belongs to another routing domain (VRF) than programs use on their own.
    Vrf,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tunnel => "tunnel",
            Self::Bridge => "bridge without a gateway",
            Self::Vrf => "VRF",
        })
    }
}

/// An interface that is a network apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApartInterface {
    /// Its number.
    pub index: u32,
    /// The network that it is, or is a part of: interfaces of one VRF are one network.
    pub network: String,
    /// Why.
    pub why: Apart,
}

/// A link as the kernel describes it.
#[derive(Debug, Default)]
struct Described {
    index: u32,
    name: String,
    kind: String,
    link_type: u16,
    /// Number of what it is a part of, 0 for none.
    master: u32,
}

/// The interfaces of the caller's network namespace that are networks apart.
///
/// # Errors
/// Where the system permits no netlink sockets.
pub fn interfaces_apart() -> io::Result<Vec<ApartInterface>> {
    let links = links()?;
    let mut gateways = None;
    let apart = links.iter().filter_map(|link| {
        let vrf = links.iter().find(|it| it.index == link.master && it.kind == "vrf");
        let why = match () {
            () if link.is_tunnel() => Apart::Tunnel,
            () if vrf.is_some() || link.kind == "vrf" => Apart::Vrf,
            () if link.kind == "bridge" => {
                let reached = gateways.get_or_insert_with(interfaces_with_gateways);
                (!reached.contains(&link.index)).then_some(Apart::Bridge)?
            }
            () => return None,
        };
        let network = vrf.filter(|_| why == Apart::Vrf).unwrap_or(link).name.clone();
        Some(ApartInterface { index: link.index, network, why })
    });
    Ok(apart.collect())
}

/// Whether there is a bridge of this name in the caller's network namespace.
///
/// # Errors
/// Where the system permits no netlink sockets.
pub fn is_bridge(name: &str) -> io::Result<bool> {
    Ok(links()?.iter().any(|link| link.name == name && link.kind == "bridge"))
}

fn links() -> io::Result<Vec<Described>> {
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; LINK]);
    let mut links = Vec::new();
    Netlink::open(ROUTE, 0)?.ask(request, |body| links.push(describe(body)))?;
    Ok(links)
}

impl Described {
    /// A TUN device that has been given the type of a real link stands for one, such as a modem or a link of
    /// `manypath lab`.
    fn is_tunnel(&self) -> bool {
        let is_link = !matches!(self.link_type, ETHERNET | NO_LINK_TYPE);
        TUNNELS.contains(&self.kind.as_str()) && !(self.kind == "tun" && is_link)
    }
}

/// Numbers of interfaces through which a gateway is reached.
fn interfaces_with_gateways() -> Vec<u32> {
    let all = [true, false].into_iter().flat_map(|ipv4| routes(ipv4).unwrap_or_default());
    all.filter(|route| route.gateway.is_some()).map(|route| route.interface).collect()
}

fn describe(body: &[u8]) -> Described {
    let mut link = Described {
        index: u32_at(body, 4).unwrap_or(0),
        link_type: u16_at(body, 2).unwrap_or(0),
        ..Described::default()
    };
    for (attribute, value) in attributes(body.get(LINK..).unwrap_or_default()) {
        match attribute {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MASTER => link.master = u32_at(value, 0).unwrap_or(0),
            libc::IFLA_LINKINFO => {
                let kind = attributes(value).find(|(attribute, _)| *attribute == INFO_KIND);
                link.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    link
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Apart, interfaces_apart};
    use crate::interfaces::number_of;
    use crate::namespace::{in_namespace, ip};

    fn why(name: &str) -> Option<Apart> {
        let all = interfaces_apart().unwrap();
        all.iter().find(|it| it.index == number_of(name)).map(|it| it.why)
    }

    #[test]
    fn tunnels_and_bridges_without_a_gateway_are_networks_apart() {
        in_namespace(|| {
            ip("link add one type veth peer name two");
            ip("link set one up");
            ip("link set two up");
            ip("tuntap add dev vpn mode tun");
            ip("tuntap add dev guest mode tap");
            ip("link add pod type bridge");
            ip("link set pod up");
            ip("address add 10.1.2.3/24 dev pod");
            let found = ["one", "vpn", "guest", "pod", "lo"].map(why);
            let (tunnel, bridge) = (Some(Apart::Tunnel), Some(Apart::Bridge));
            assert_eq!(found, [None, tunnel, tunnel, bridge, None]);
            assert!(super::is_bridge("pod").unwrap() && !super::is_bridge("lo").unwrap());
        });
    }

    #[test]
    fn a_bridge_through_which_a_gateway_is_reached_is_an_uplink() {
        in_namespace(|| {
            ip("link add lan type bridge");
            ip("link set lan up");
            ip("address add 10.1.2.3/24 dev lan");
            assert_eq!(why("lan"), Some(Apart::Bridge));
            ip("route add default via 10.1.2.1 dev lan");
            assert_eq!(why("lan"), None);
        });
    }
}
