//! For which peers a local address is there.

use core::net::IpAddr;

/// For which peers a local address is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// For all: every peer is told the address and may use it.
    #[default]
    Open,
    /// For all, but peers at public addresses are not told it: it means nothing to them, and is none of their
    /// business. Behind a NAT it makes a path all the same, because it introduces itself (RFC 5061 section 4.2.1).
    Private,
    /// Only for associations whose handshake uses an address of the same realm, such as a tunnel. They use no
    /// address outside of it.
    Isolated(u32),
}

/// The scopes of addresses; the others are open.
pub(crate) type Scopes = [(IpAddr, Scope)];

/// The scope of `address`.
pub(crate) fn scope_of(scopes: &Scopes, address: IpAddr) -> Scope {
    let found = scopes.iter().find(|(other, _)| *other == address);
    found.map_or(Scope::Open, |(_, scope)| *scope)
}

/// The realm of `address`; none outside of all realms.
pub(crate) fn realm_of(scopes: &Scopes, address: IpAddr) -> Option<u32> {
    match scope_of(scopes, address) {
        Scope::Isolated(realm) => Some(realm),
        Scope::Open | Scope::Private => None,
    }
}

/// Whether a peer at `remote` may be told `address`.
pub(crate) fn may_tell(scopes: &Scopes, address: IpAddr, remote: IpAddr) -> bool {
    scope_of(scopes, address) != Scope::Private || is_private(remote)
}

/// Whether `address` means something in one network alone: RFC 1918, RFC 6598 (carrier-grade NAT), RFC 4193, link-local
/// and loopback addresses.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let shared = first == 100 && second & 0xc0 == 64;
            shared || v4.is_private() || v4.is_link_local() || v4.is_loopback()
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn private_addresses_are_those_that_are_not_routed_everywhere() {
        let private = ["10.0.0.1", "172.16.0.1", "172.31.255.1", "192.168.1.1", "169.254.0.1"];
        let also = ["100.64.0.1", "100.127.255.254", "fd00::1", "fc00::1", "fe80::1", "127.0.0.1"];
        for text in private.into_iter().chain(also) {
            assert!(is_private(ip(text)), "{text}");
        }
        let public = ["192.0.2.1", "203.0.113.1", "172.32.0.1", "100.63.0.1", "100.128.0.1"];
        for text in public.into_iter().chain(["2001:db8::1", "8.8.8.8"]) {
            assert!(!is_private(ip(text)), "{text}");
        }
    }

    #[test]
    fn a_private_address_is_told_to_private_peers_alone() {
        let scopes = [(ip("10.0.0.1"), Scope::Private), (ip("10.8.0.1"), Scope::Isolated(3))];
        assert!(!may_tell(&scopes, ip("10.0.0.1"), ip("203.0.113.1")));
        assert!(may_tell(&scopes, ip("10.0.0.1"), ip("192.168.0.1")));
        assert!(may_tell(&scopes, ip("10.0.0.2"), ip("203.0.113.1")), "named");
        assert_eq!(realm_of(&scopes, ip("10.8.0.1")), Some(3));
        assert_eq!(realm_of(&scopes, ip("10.0.0.1")), None);
    }
}
