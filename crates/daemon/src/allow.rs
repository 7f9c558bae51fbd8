//! What a peer may reach through this host. Closed by default.

use crate::rules::Rules;
use manypath_rules::{
    Chain, Client, Encrypt, Network, Options, Policy, Ports, Protocol, Query, Rule,
};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// One entry of the allow list: a port at every address that carries paths, or at one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allow {
    /// The address; `None` stands for each address that the peer's association uses.
    pub addr: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whose port.
    pub protocol: Protocol,
}

impl Allow {
    /// Whether peers can ever reach what it names.
    pub fn is_reachable(&self) -> bool {
        !self.addr.is_some_and(is_never_reachable)
    }
}

impl From<Allow> for Rule {
    fn from(entry: Allow) -> Self {
        Self {
            network: entry.addr.map(Network::host),
            ports: Ports::new(entry.port, entry.port).ok(),
            protocol: entry.protocol,
            ..Self::open(Chain::Local, Policy::Enable)
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addr {
            Some(addr) => SocketAddr::new(addr, self.port).fmt(f),
            None => self.port.fmt(f),
        }?;
        if self.protocol == Protocol::Udp { f.write_str("/udp") } else { Ok(()) }
    }
}

/// Why a text is not an [`Allow`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowError(String);

impl fmt::Display for AllowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not PORT or ADDR:PORT (for example 22, 192.0.2.1:80, [2001:db8::1]:80, 53/udp)",
            self.0
        )
    }
}

impl std::error::Error for AllowError {}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        let error = || AllowError(text.to_owned());
        let (place, protocol) = match text.strip_suffix("/udp") {
            Some(place) => (place, Protocol::Udp),
            None => (text.strip_suffix("/tcp").unwrap_or(text), Protocol::Tcp),
        };
        let entry = match place.parse::<u16>() {
            Ok(port) => Self { addr: None, port, protocol },
            Err(_) => {
                let addr: SocketAddr = place.parse().map_err(|_| error())?;
                Self { addr: Some(addr.ip().to_canonical()), port: addr.port(), protocol }
            }
        };
        if entry.port == 0 { Err(error()) } else { Ok(entry) }
    }
}

/// Why a destination is not dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// Loopback, unspecified or multicast: never the business of a peer.
    NotReachable,
    /// Not one of our addresses that the peer's association uses.
    ForeignAddress,
    /// One of our addresses at which the peer has not proved to reach us, and which no rule names.
    Unconfirmed,
    /// No rule opens it.
    NotListed,
    /// A program that is not under `manypath run` would get the connection, and take its client for a
    /// local one.
    NotCovered,
    /// The service is open to the other form of carrying connections.
    Form,
    /// The service is open to encrypted associations only.
    NotEncrypted,
    /// The peer has as many connections as a rule lets it have.
    TooMany,
    /// The peer has used up what a rule lets it move in a day or a month.
    OverQuota,
    /// The peer is at no verified address of the service's family now.
    NoClientAddress,
}

impl Denied {
    /// The name of the counter.
    pub(crate) const fn counter(self) -> &'static str {
        match self {
            Self::NotReachable => "dial_denied_not_reachable",
            Self::ForeignAddress => "dial_denied_foreign_address",
            Self::Unconfirmed => "dial_denied_unconfirmed_address",
            Self::NotListed => "dial_denied_not_listed",
            Self::NotCovered => "dial_denied_not_covered",
            Self::Form => "dial_denied_form",
            Self::NotEncrypted => "dial_denied_not_encrypted",
            Self::TooMany => "dial_denied_too_many_of_peer",
            Self::OverQuota => "dial_denied_over_quota",
            Self::NoClientAddress => "dial_denied_no_client_address",
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReachable => "loopback, unspecified and multicast addresses never are",
            Self::ForeignAddress => "not an address that this association uses",
            Self::Unconfirmed => "the peer has not reached this host at that address yet",
            Self::NotListed => "no rule opens it to peers",
            Self::NotCovered => "a program outside `manypath run` would get it",
            Self::Form => "it is open to the other form",
            Self::NotEncrypted => "it is open to encrypted associations only",
            Self::TooMany => "the peer has as many connections as a rule lets it have",
            Self::OverQuota => "the peer has used up its quota",
            Self::NoClientAddress => "the client has no verified address of its family",
        })
    }
}

/// Whether a peer may reach `destination`, when `locals` are our addresses that it may name.
/// Returns the address to dial: the same, with IPv4-mapped IPv6 made plain so that no spelling of
/// an address escapes the tests.
///
/// `loopback` lets loopback addresses through that a rule names with address and port.
pub(crate) fn admit(
    query: Query<'_>,
    locals: &[IpAddr],
    rules: &Rules,
    loopback: bool,
) -> Result<(SocketAddr, Options), Denied> {
    let service = canonical(query.address);
    check_address(service.ip(), locals, loopback)?;
    let options = open_service(Query { address: service, ..query }, rules);
    let options = options.ok_or(Denied::NotListed)?;
    check_encryption(&options, query.client)?;
    Ok((service, options))
}

/// Whether the peer's association is encrypted if it must be.
pub(crate) fn check_encryption(options: &Options, client: Option<&Client>) -> Result<(), Denied> {
    let is_encrypted = client.is_some_and(|client| client.key.is_some());
    match options.encrypt == Some(Encrypt::Require) && !is_encrypted {
        true => Err(Denied::NotEncrypted),
        false => Ok(()),
    }
}

/// The addresses that one may lead to: a translator or a tunnel takes an IPv4 address out of some IPv6 ones.
pub(crate) fn meanings(address: IpAddr) -> Vec<IpAddr> {
    let address = address.to_canonical();
    let IpAddr::V6(v6) = address else { return vec![address] };
    let bits = v6.to_bits();
    let v4 = |shift: u32| IpAddr::V4(Ipv4Addr::from_bits((bits >> shift) as u32));
    match v6.segments() {
        // IPv4-compatible (RFC 4291 section 2.5.5.1), but not :: and ::1, which are what they are.
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => vec![v4(0)],
        // NAT64 (RFC 6052 section 2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => vec![v4(0)],
        // 6to4 (RFC 3056 section 2).
        [0x2002, ..] => vec![v4(80)],
        // ISATAP (RFC 5214 section 6.1) in a network that may be global.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => vec![address, v4(0)],
        _ => vec![address],
    }
}

/// The address with an IPv4-mapped IPv6 one made plain.
pub(crate) fn canonical(destination: SocketAddr) -> SocketAddr {
    SocketAddr::new(destination.ip().to_canonical(), destination.port())
}

/// Whether a peer may name this address at all, whatever listens there.
pub(crate) fn check_address(addr: IpAddr, locals: &[IpAddr], loopback: bool) -> Result<(), Denied> {
    if is_never_reachable(addr) && !(loopback && addr.is_loopback()) {
        return Err(Denied::NotReachable);
    }
    if locals.iter().any(|local| local.to_canonical() == addr) {
        Ok(())
    } else {
        Err(Denied::ForeignAddress)
    }
}

fn is_never_reachable(addr: IpAddr) -> bool {
    addr.is_unspecified() || addr.is_multicast() || addr.is_loopback()
}

/// How a service is served that rules open to the peer whoever listens there, if they do.
pub(crate) fn open_service(query: Query<'_>, rules: &Rules) -> Option<Options> {
    let (policy, options) = rules.service(query);
    let named = !query.address.ip().is_loopback() || rules.names(query);
    (policy == Policy::Enable && named).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(destination: &str, allow: &str, loopback: bool) -> Result<SocketAddr, Denied> {
        let locals = ["10.0.0.2", "10.1.0.2", "127.0.1.2", "127.0.0.1", "::1", "2001:db8::2"]
            .map(|local| local.parse().unwrap());
        let allow: Vec<Allow> = allow.split(',').map(|entry| entry.parse().unwrap()).collect();
        let rules = Rules::load(None, allow.into_iter().map(Rule::from)).unwrap();
        let query = Query::local(Protocol::Tcp, destination.parse().unwrap(), None);
        let admitted = admit(query, &locals, &rules, loopback);
        admitted.map(|(service, _)| service)
    }

    fn dialled(addr: &str) -> Result<SocketAddr, Denied> {
        Ok(addr.parse().unwrap())
    }

    #[test]
    fn a_port_is_open_at_every_used_address_and_nowhere_else() {
        assert_eq!(check("10.0.0.2:22", "22", false), dialled("10.0.0.2:22"));
        assert_eq!(check("10.1.0.2:22", "22", false), dialled("10.1.0.2:22"));
        assert_eq!(check("[2001:db8::2]:22", "22", false), dialled("[2001:db8::2]:22"));
        assert_eq!(check("10.0.0.2:23", "22", false), Err(Denied::NotListed));
        assert_eq!(check("10.9.0.2:22", "22", false), Err(Denied::ForeignAddress));
    }

    #[test]
    fn an_address_and_port_opens_that_address_only() {
        assert_eq!(check("10.0.0.2:22", "10.0.0.2:22", false), dialled("10.0.0.2:22"));
        assert_eq!(check("10.1.0.2:22", "10.0.0.2:22", false), Err(Denied::NotListed));
        assert_eq!(check("10.0.0.2:80", "10.0.0.2:22,10.1.0.2:80", false), Err(Denied::NotListed));
    }

    #[test]
    fn loopback_is_out_of_reach_in_every_spelling() {
        for destination in ["127.0.0.1:22", "127.0.1.2:22", "[::1]:22", "[::ffff:127.0.0.1]:22"] {
            let allow = "22,127.0.0.1:22,127.0.1.2:22,[::1]:22";
            assert_eq!(check(destination, allow, false), Err(Denied::NotReachable));
        }
    }

    #[test]
    fn datagrams_reach_only_what_a_udp_rule_opens() {
        let locals = ["10.0.0.2".parse().unwrap(), "127.0.1.2".parse().unwrap()];
        let allow =
            ["22", "53/udp", "127.0.1.2:54/udp"].map(|entry| entry.parse::<Allow>().unwrap());
        let rules = Rules::load(None, allow.into_iter().map(Rule::from)).unwrap();
        let check = |protocol, to: &str| {
            let query = Query::local(protocol, to.parse().unwrap(), None);
            let admitted = admit(query, &locals, &rules, false);
            admitted.map(|(service, _)| service)
        };
        assert_eq!(check(Protocol::Udp, "10.0.0.2:53"), dialled("10.0.0.2:53"));
        assert_eq!(check(Protocol::Tcp, "10.0.0.2:53"), Err(Denied::NotListed));
        assert_eq!(check(Protocol::Udp, "10.0.0.2:22"), Err(Denied::NotListed));
        assert_eq!(check(Protocol::Udp, "10.9.0.2:53"), Err(Denied::ForeignAddress));
        assert_eq!(check(Protocol::Udp, "127.0.1.2:54"), Err(Denied::NotReachable));
    }

    #[test]
    fn unspecified_and_multicast_are_out_of_reach() {
        for destination in
            ["0.0.0.0:22", "[::]:22", "224.0.0.1:22", "[ff02::1]:22", "[::ffff:0.0.0.0]:22"]
        {
            assert_eq!(check(destination, "22", true), Err(Denied::NotReachable));
        }
    }

    #[test]
    fn with_loopback_paths_a_loopback_service_must_be_named() {
        assert_eq!(check("127.0.1.2:22", "127.0.1.2:22", true), dialled("127.0.1.2:22"));
        assert_eq!(check("127.0.1.2:22", "22", true), Err(Denied::NotListed));
        assert_eq!(check("127.0.1.2:22", "127.0.0.1:22", true), Err(Denied::NotListed));
        assert_eq!(check("127.0.1.3:22", "127.0.1.3:22", true), Err(Denied::ForeignAddress));
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        assert_eq!(check("[::ffff:10.0.0.2]:22", "10.0.0.2:22", false), dialled("10.0.0.2:22"));
    }

    #[test]
    fn entries_are_read_and_written() {
        assert_eq!("22/tcp".parse::<Allow>(), "22".parse());
        for text in ["22", "192.0.2.1:80", "[2001:db8::1]:80", "53/udp", "[2001:db8::1]:53/udp"] {
            assert_eq!(text.parse::<Allow>().unwrap().to_string(), text);
        }
        for text in ["", "0", "65536", "ssh", "192.0.2.1", "192.0.2.1:0", "2001:db8::1", "53/sctp"]
        {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
    }
}
