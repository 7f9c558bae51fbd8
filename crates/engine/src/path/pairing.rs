//! Which local address goes with which remote address: the paths of an association.
//!
//! Both endpoints apply the same rules to the same two address lists, so both see the same pairs.

use crate::config::LocalAddress;
use crate::path::{PathAddr, PathRole, PathRule, scope};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Most addresses of a peer that are taken from its INIT or INIT ACK, and most of our own that are
/// announced. Bounds what a single packet can make an endpoint keep.
pub(crate) const MAX_ADDRESSES: usize = 16;

/// Most ways to a peer over which an INIT leaves at once.
const MAX_AT_ONCE: usize = 4;

/// The pairs of an association whose handshake ran over `handshake`, which is the first of them.
///
/// Each address of the peer is paired with the local address in whose network it lies, else with
/// the local address that the handshake used. Then each local address that is in no pair yet is
/// paired with the peer's primary address of its family, which makes two uplinks to a server with a
/// single address two paths. The peer's other addresses have the handshake's UDP port until a
/// packet from them tells otherwise (RFC 6951 section 5.4).
pub fn pairs(handshake: PathAddr, locals: &[LocalAddress], remotes: &[IpAddr]) -> Vec<PathAddr> {
    let mut pairs = alloc::vec![handshake];
    let others = remotes
        .iter()
        .filter(|remote| **remote != handshake.remote.ip() && acceptable(&handshake, **remote));
    for remote in others {
        let remote = SocketAddr::new(*remote, handshake.remote.port());
        if let Some(local) = local_for(&pairs, handshake, locals, remote.ip()) {
            push_new(&mut pairs, PathAddr { local, remote });
        }
    }
    for local in locals {
        if !pairs.iter().any(|pair| pair.local.ip() == local.addr.ip())
            && let Some(remote) = primary_for(handshake, local, remotes)
        {
            push_new(&mut pairs, PathAddr { local: local.addr, remote });
        }
    }
    let pairs = pairs.into_iter().map(|pair| like_handshake(pair, &handshake)).collect();
    one_family_per_interface(pairs, locals)
}

/// UDP is used at both ends or at none: without an encapsulation port of the peer (0) packets leave
/// as native SCTP, whatever port we have.
fn encapsulated_alike(mut pair: PathAddr) -> PathAddr {
    if pair.remote.port() == 0 {
        pair.local.set_port(0);
    }
    pair
}

/// UDP ports that only privileged processes have.
const PRIVILEGED_PORTS: core::ops::Range<u16> = 1..1024;

/// Whether `addr` is at a UDP port that only a privileged process of its host has.
pub(crate) fn is_privileged(addr: &SocketAddr) -> bool {
    PRIVILEGED_PORTS.contains(&addr.port())
}

/// A pair of an association over `handshake`. A peer that has reached us at a privileged port hears us from that
/// port alone, at all of our addresses: it proves who we are.
pub(crate) fn like_handshake(mut pair: PathAddr, handshake: &PathAddr) -> PathAddr {
    if is_privileged(&handshake.local) {
        pair.local.set_port(handshake.local.port());
    }
    encapsulated_alike(pair)
}

/// Leaves out pairs whose interface already has a path of the other family: both would share one
/// link, each with a congestion window of its own.
fn one_family_per_interface(mut pairs: Vec<PathAddr>, locals: &[LocalAddress]) -> Vec<PathAddr> {
    let interface = |pair: &PathAddr| {
        let local = locals.iter().find(|local| local.addr.ip() == pair.local.ip());
        local.map_or(0, |local| local.interface)
    };
    let first_family = pairs.first().is_some_and(|handshake| handshake.local.is_ipv4());
    let mut kept: Vec<PathAddr> = Vec::new();
    // Stable: the handshake's pair stays first, its family goes before the other.
    pairs.sort_by_key(|pair| pair.local.is_ipv4() != first_family);
    for pair in pairs {
        let shares = |other: &PathAddr| {
            other.local.is_ipv4() != pair.local.is_ipv4() && interface(other) == interface(&pair)
        };
        if interface(&pair) == 0 || !kept.iter().any(shares) {
            kept.push(pair);
        }
    }
    kept
}

/// Every way to send a first packet to `remote`, the best first: the nearest, and of equally near ones that
/// which `rules` want most.
pub(crate) fn candidates(
    locals: &[LocalAddress],
    remote: SocketAddr,
    rules: &[PathRule],
) -> Vec<PathAddr> {
    let fits = |local: &&LocalAddress| {
        may_pair(local.addr.ip(), remote.ip()) || on_one_link(&local.addr, &remote)
    };
    let mut fitting: Vec<_> = locals.iter().filter(fits).collect();
    let pair = |local: &LocalAddress| encapsulated_alike(PathAddr { local: local.addr, remote });
    fitting.sort_by_key(|local| {
        let near = core::cmp::Reverse(local.matching_prefix(remote.ip()));
        (near, PathRule::policy(rules, &pair(local)).reluctance())
    });
    fitting.into_iter().map(pair).collect()
}

/// Puts those of `candidates` to the front that are as near and as much wanted as the first one, each from an interface of
/// its own. Returns how many they are, the first included: that one alone where packets cost money or a role says that
/// they are unwelcome, and for a private address, which may be another host's in the network of another uplink.
pub(crate) fn gather(
    candidates: &mut [PathAddr],
    locals: &[LocalAddress],
    rules: &[PathRule],
) -> usize {
    let traits = |pair: &PathAddr| {
        let local = locals.iter().find(|local| local.addr.ip() == pair.local.ip());
        let near = local.and_then(|local| local.matching_prefix(pair.remote.ip()));
        let interface = local.map_or(0, |local| local.interface);
        (interface, (near, PathRule::policy(rules, pair).reluctance()))
    };
    let Some(first) = candidates.first().map(traits) else { return 0 };
    let policy = PathRule::policy(rules, &candidates[0]);
    let is_welcome = policy.role == PathRole::Normal && policy.metered.is_none();
    let mut interfaces = alloc::vec![first.0];
    let mut together = 1;
    let is_private = candidates.first().is_some_and(|it| scope::is_private(it.remote.ip()));
    let count = if is_private || !is_welcome { 1 } else { candidates.len() };
    for place in 1..count {
        let (interface, worth) = traits(&candidates[place]);
        let is_new = interface == 0 || !interfaces.contains(&interface);
        if is_new && worth == first.1 && together < MAX_AT_ONCE {
            candidates[together..=place].rotate_right(1);
            interfaces.push(interface);
            together += 1;
        }
    }
    together
}

/// The addresses among `remotes` that can be reached from `local`, those of its own network first.
pub(crate) fn by_nearness(local: &LocalAddress, remotes: &[IpAddr]) -> Vec<IpAddr> {
    let fits = |remote: &IpAddr| may_pair(local.addr.ip(), *remote);
    let mut fitting: Vec<_> = remotes.iter().copied().filter(fits).collect();
    fitting.sort_by_key(|remote| core::cmp::Reverse(local.matching_prefix(*remote)));
    fitting
}

/// Our addresses that the peer of an association over `handshake` is told. None at all if the only
/// one is the source of the packet that would tell it: a host behind a NAT does not know its own.
pub(crate) fn announced(handshake: &PathAddr, locals: &[LocalAddress]) -> Vec<IpAddr> {
    let own = handshake.local.ip();
    let mut addresses = alloc::vec![own];
    for local in locals.iter().map(|local| local.addr.ip()) {
        if same_scope(local, own) && !addresses.contains(&local) && addresses.len() < MAX_ADDRESSES
        {
            addresses.push(local);
        }
    }
    if addresses.len() == 1 {
        addresses.clear();
    }
    addresses
}

/// Whether the peer of an association over `handshake` is behind a NAT: it lists its addresses, and the one at which
/// it has answered is not among them.
pub(crate) fn is_translated(handshake: &PathAddr, listed: &[IpAddr]) -> bool {
    !listed.is_empty() && !listed.contains(&handshake.remote.ip())
}

/// Whether an address that a peer of an association over `handshake` lists can be one of its own.
pub(crate) fn acceptable(handshake: &PathAddr, listed: IpAddr) -> bool {
    let of = handshake.remote.ip();
    same_scope(of, listed) && (is_hash_identifier(of) || !is_hash_identifier(listed))
}

/// Whether packets can go from `local` to `remote` at all.
pub(crate) fn may_pair(local: IpAddr, remote: IpAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4()
        && is_hash_identifier(local) == is_hash_identifier(remote)
        && same_scope(local, remote)
}

/// Whether `address` is a cryptographic hash identifier (ORCHIDv2, 2001:20::/28), which names a host and no place in a
/// network (RFC 7343).
fn is_hash_identifier(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.segments()[0] == 0x2001 && v6.segments()[1] & 0xfff0 == 0x0020)
}

/// Whether both are IPv6 link-local addresses at one interface, which the scope names (RFC 4007 section 11). They can
/// carry a handshake, and then are the only path of its association: see [`same_scope`].
fn on_one_link(local: &SocketAddr, remote: &SocketAddr) -> bool {
    let link = link_of(local);
    link.is_some() && link == link_of(remote)
}

/// The number of the interface of an IPv6 link-local address, if it is known.
fn link_of(address: &SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            Some(v6.scope_id()).filter(|scope| *scope != 0)
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => None,
    }
}

/// Whether both are one IPv6 link-local address at two interfaces: two hosts (RFC 4007 section 6).
pub(crate) fn is_on_other_link(one: &SocketAddr, other: &SocketAddr) -> bool {
    let links = link_of(one).zip(link_of(other));
    one.ip() == other.ip() && links.is_some_and(|(one, other)| one != other)
}

/// Loopback reaches only loopback, link-local only link-local. IPv4-mapped IPv6 addresses must not be
/// sent (RFC 9260 section 3.3.2.1.2) and are not used. IPv6 link-local addresses mean
/// nothing without an interface, and an SCTP address parameter has none: never listed, and never used where
/// a peer lists them.
pub(crate) fn same_scope(one: IpAddr, other: IpAddr) -> bool {
    is_unicast(one)
        && is_unicast(other)
        && one.is_loopback() == other.is_loopback()
        && is_link_local(one) == is_link_local(other)
        && !is_mapped(one)
        && !is_mapped(other)
        && !(is_link_local(one) && one.is_ipv6())
        && !(is_link_local(other) && other.is_ipv6())
}

/// Whether `address` can name a single host.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || broadcast)
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The local address to reach `remote` from: the longest matching network, and among equals one
/// that has no path yet.
fn local_for(
    pairs: &[PathAddr],
    handshake: PathAddr,
    locals: &[LocalAddress],
    remote: IpAddr,
) -> Option<SocketAddr> {
    let fitting = || locals.iter().filter(|local| may_pair(local.addr.ip(), remote));
    let unused = |local: &LocalAddress| !pairs.iter().any(|p| p.local.ip() == local.addr.ip());
    let near = fitting()
        .filter(|local| local.is_on_link(remote))
        .rev()
        .max_by_key(|local| (local.matching_prefix(remote), unused(local)))
        .map(|local| local.addr);
    let of_handshake = may_pair(handshake.local.ip(), remote).then_some(handshake.local);
    near.or(of_handshake).or_else(|| fitting().next().map(|local| local.addr))
}

/// The remote address for a local one that is in no pair: the first of its family. None if its own
/// network holds an address of the peer, which then has a nearer local address.
fn primary_for(
    handshake: PathAddr,
    local: &LocalAddress,
    remotes: &[IpAddr],
) -> Option<SocketAddr> {
    let mut all = core::iter::once(handshake.remote.ip()).chain(remotes.iter().copied());
    if all.clone().any(|remote| local.is_on_link(remote)) {
        return None;
    }
    let remote = all.find(|remote| may_pair(local.addr.ip(), *remote))?;
    Some(SocketAddr::new(remote, handshake.remote.port()))
}

fn push_new(pairs: &mut Vec<PathAddr>, pair: PathAddr) {
    if !pairs.contains(&pair) {
        pairs.push(pair);
    }
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
