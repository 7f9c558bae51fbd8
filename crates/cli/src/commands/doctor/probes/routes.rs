//! The kernel's routes, and routers that there might be.

use super::super::findings::{PathFinding, RouteFinding};
use super::reach::on_link;
use super::uplinks::Uplink;
use manypath_net::{LocalBinding, Probes, interfaces, links, route_to, routes};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How long a router may take to say that it has an address.
const NEIGHBOUR: Duration = Duration::from_millis(300);
/// Where nobody listens: what is sent there only makes the kernel ask who has the address.
const DISCARD: u16 = 9;
/// Hosts of a network that are asked for.
const MOST_HOSTS: u32 = 14;

/// The way of packets from an uplink to the peer.
pub(super) fn finding(uplink: &Uplink, remote: IpAddr) -> RouteFinding {
    let interface = &uplink.interface;
    let there = route_to(remote, Some(interface.addr), Some(interface.index));
    let back = route_to(remote, Some(interface.addr), None).ok();
    let reverse = back.map(|route| route.interface).filter(|index| *index != interface.index);
    let mut finding = RouteFinding {
        on_link: on_link(uplink, remote) || is_point_to_point(interface.index),
        reverse: reverse.map(name),
        rp_filter: rp_filter(&interface.name),
        ..RouteFinding::default()
    };
    match there {
        Ok(route) => finding.gateway = route.gateway,
        Err(error) => {
            finding.unforbid = unforbid(&error, interface.addr, remote);
            finding.error = Some(error.to_string());
        }
    }
    finding
}

/// Whether the kernel has no way to the peer for a socket that is bound to nothing, as those of programs are. Asked for
/// the way through an interface, it takes every host to be on its link.
pub(super) fn is_unrouted(remote: IpAddr) -> bool {
    let route = route_to(remote, None, None);
    route.is_err_and(|error| error.kind() == io::ErrorKind::NetworkUnreachable)
}

fn is_point_to_point(index: u32) -> bool {
    let links = links().unwrap_or_default();
    links.iter().any(|link| link.index == index && link.point_to_point)
}

fn name(index: u32) -> String {
    let links = links().unwrap_or_default();
    let found = links.into_iter().find(|link| link.index == index);
    found.map_or_else(|| format!("interface {index}"), |link| link.name)
}

/// What holds for an interface: the larger of its own value and that for all (ip-sysctl.rst).
fn rp_filter(interface: &str) -> u8 {
    let value = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    value("all").max(value(interface))
}

/// The command that takes away what forbids the way: a rule about the address, or a route.
fn unforbid(error: &io::Error, local: IpAddr, remote: IpAddr) -> Option<String> {
    // prohibit, unreachable, blackhole.
    let forbidden = [libc_errno::EACCES, libc_errno::EHOSTUNREACH, libc_errno::EINVAL];
    if !forbidden.contains(&error.raw_os_error()?) {
        return None;
    }
    let family = if remote.is_ipv4() { "-4" } else { "-6" };
    let rules = said(&[family, "rule", "show"]);
    if let Some(number) = rules.lines().find_map(|line| forbidding(line, local)) {
        return Some(format!("ip {family} rule del pref {number}"));
    }
    ["prohibit", "unreachable", "blackhole"].into_iter().find_map(|kind| {
        let routes = said(&[family, "route", "show", "type", kind, "match", &remote.to_string()]);
        let prefix = routes.lines().next()?.split_whitespace().nth(1)?;
        Some(format!("ip {family} route del {kind} {prefix}"))
    })
}

/// The numbers of errors, of which std tells no names.
mod libc_errno {
    pub(super) const EACCES: i32 = 13;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EHOSTUNREACH: i32 = 113;
}

/// The number of a rule that forbids packets from `local`: `100: from 10.0.0.1 prohibit`.
fn forbidding(line: &str, local: IpAddr) -> Option<u32> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_suffix(':')?.parse().ok()?;
    let words: Vec<_> = words.collect();
    let from = words.iter().skip_while(|word| **word != "from").nth(1)?;
    let about = *from == "all" || from.split('/').next()?.parse() == Ok(local);
    let forbids = ["prohibit", "unreachable", "blackhole"].contains(words.last()?);
    (about && forbids).then_some(number)
}

fn said(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
}

/// Looks for routers on the interface of a path that has no way to the peer.
pub(super) fn look_for_gateways(path: &mut PathFinding) {
    let known = path.route.gateway.is_some() || path.route.on_link;
    if known || path.local.is_ipv6() || is_bridge(&path.interface) {
        return;
    }
    let Some(own) = interfaces().unwrap_or_default().into_iter().find(|it| it.addr == path.local)
    else {
        return;
    };
    let routers = routes(true).unwrap_or_default().into_iter();
    let known = routers.filter(|route| route.interface == own.index);
    let mut gateways: Vec<IpAddr> = known.filter_map(|route| route.gateway).collect();
    ask_neighbours(&LocalBinding::from(&own), hosts(path.local, own.prefix_len));
    gateways.extend(neighbours(&own.name));
    let mut seen = Vec::new();
    gateways.retain(|gateway| {
        !seen.contains(gateway) && {
            seen.push(*gateway);
            true
        }
    });
    path.route.gateways = gateways;
}

/// Whether this host itself joins what is in the network, as hosts of containers do: no router is there.
fn is_bridge(interface: &str) -> bool {
    fs::exists(format!("/sys/class/net/{interface}/bridge")).unwrap_or(false)
}

/// Hosts of the network that are likely to be its router: the first ones and the last.
fn hosts(local: IpAddr, prefix_len: u8) -> Vec<Ipv4Addr> {
    let IpAddr::V4(local) = local else { return Vec::new() };
    let free = 32u32.saturating_sub(prefix_len.into()).min(24);
    let (mask, most) = ((1u32 << free) - 1, (1u32 << free).saturating_sub(2));
    let base = local.to_bits() & !mask;
    let first = (1..=most.min(MOST_HOSTS)).map(|host| base | host);
    let all = first.chain((most > MOST_HOSTS).then_some(base | most));
    all.map(Ipv4Addr::from_bits).filter(|host| *host != local).collect()
}

/// Makes the kernel ask who has these addresses.
fn ask_neighbours(binding: &LocalBinding, hosts: Vec<Ipv4Addr>) {
    let mut probes = Probes::default();
    let Ok(socket) = probes.open(binding) else { return };
    for host in hosts {
        let to = SocketAddr::new(host.into(), DISCARD);
        // A host that cannot be asked is no router.
        let _ = probes.send(socket, to, (&[0], 1), manypath_engine::Ecn::NotEct);
    }
    thread::sleep(NEIGHBOUR);
}

/// The neighbours of an interface that have answered.
fn neighbours(interface: &str) -> Vec<IpAddr> {
    let table = fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
    let mut found: Vec<IpAddr> =
        table.lines().skip(1).filter_map(|line| neighbour(line, interface)).collect();
    found.sort_unstable();
    found
}

/// Fields: address, type, flags (2: answered), hardware address, mask, interface.
fn neighbour(line: &str, interface: &str) -> Option<IpAddr> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let answered = fields.get(2)? != &"0x0" && fields.get(5)? == &interface;
    answered.then(|| fields.first()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{forbidding, hosts, neighbour};

    #[test]
    fn rules_that_forbid_are_known_by_their_words() {
        let local = "10.0.0.1".parse().unwrap();
        assert_eq!(forbidding("100:\tfrom 10.0.0.1 prohibit", local), Some(100));
        assert_eq!(forbidding("7:\tfrom all iif eth0 unreachable", local), Some(7));
        assert_eq!(forbidding("100:\tfrom 10.0.0.2 prohibit", local), None);
        assert_eq!(forbidding("0:\tfrom all lookup local", local), None);
    }

    #[test]
    fn routers_are_looked_for_where_they_use_to_be() {
        let text = |local: &str, bits| {
            let hosts = hosts(local.parse().unwrap(), bits);
            hosts.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(text("10.0.0.2", 30), ["10.0.0.1"]);
        let many = text("10.0.7.2", 24);
        assert!(many.len() == 14 && many[0] == "10.0.7.1" && many[13] == "10.0.7.254", "{many:?}");
        assert!(text("10.0.0.2", 32).is_empty());
        let line = "10.0.0.1  0x1  0x2  00:11:22:33:44:55  *  eth0";
        assert_eq!(neighbour(line, "eth0"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(neighbour(line, "eth1"), None);
        assert_eq!(neighbour(&line.replace("0x2", "0x0"), "eth0"), None);
    }
}
