//! The local addresses that carry paths.

use crate::config::{self, Encapsulation, StackConfig};
use crate::log;
use crate::stack::Stack;
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{Duration, LocalAddress};
use manypath_net::{Driver, Interface, LocalBinding, UdpPort};
use mio::{Registry, Token};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tracing::{info, warn};

/// Loopback addresses that carry paths pair up as networks of this prefix length: 127.0.1.1 with
/// 127.0.1.2.
const LOOPBACK_PREFIX: u8 = 24;
/// IP packet size on loopback paths: what real paths have.
const LOOPBACK_MTU: u16 = 1500;

/// How often new addresses are looked for, unless they are listed.
const RESCAN_INTERVAL: Duration = Duration::from_secs(2);
/// The same while there is none at all: a host that has just begun has links that come up.
const FIRST_SCAN_INTERVAL: Duration = Duration::from_millis(200);

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Local {
    pub(crate) addr: SocketAddr,
    pub(crate) interface: String,
    pub(crate) mtu: u16,
}

/// What is open, and which addresses are this host's own.
#[derive(Debug)]
pub(crate) struct Locals {
    pub(crate) open: Vec<Local>,
    own: Vec<IpAddr>,
    /// Addresses that could not be used, each reported once.
    failed: BTreeSet<IpAddr>,
    /// Whether sockets were to be opened yet.
    begun: bool,
}

impl Locals {
    /// No socket is open yet.
    pub(crate) fn closed() -> Self {
        let (open, own, failed) = Default::default();
        Self { open, own, failed, begun: false }
    }

    /// Whether peers can reach this stack, as far as this host has addresses.
    pub(crate) const fn is_open(&self) -> bool {
        self.begun
    }

    /// Whether `addr` is an address of this host.
    pub(crate) fn is_own(&self, addr: IpAddr) -> bool {
        self.own.contains(&addr) || self.open.iter().any(|local| local.addr.ip() == addr)
    }

    /// The interface that has `addr`.
    pub(crate) fn interface(&self, addr: IpAddr) -> &str {
        let local = self.open.iter().find(|local| local.addr.ip() == addr);
        local.map_or("", |local| &local.interface)
    }

    /// Whether some local address is of the family of `addr`.
    pub(crate) fn has_family_of(&self, addr: IpAddr) -> bool {
        self.open.iter().any(|local| local.addr.is_ipv4() == addr.is_ipv4())
    }

    /// Until new addresses are looked for again.
    const fn rescan_interval(&self) -> Duration {
        if self.open.is_empty() { FIRST_SCAN_INTERVAL } else { RESCAN_INTERVAL }
    }

    pub(crate) fn udp_port(&self) -> u16 {
        self.open.first().map_or(0, |local| local.addr.port())
    }
}

/// Opens a socket on each address that `config` asks for.
pub(crate) fn open(
    config: &StackConfig,
    driver: &mut Driver,
    registry: &Registry,
) -> io::Result<Locals> {
    let interfaces = manypath_net::interfaces()?;
    let chosen = choose(config, &interfaces)?;
    let bindings: Vec<(Token, LocalBinding)> = chosen
        .iter()
        .zip(0..)
        .map(|((_, binding), id)| (Source::Local(id).token(), binding.clone()))
        .collect();
    let bound = match (config.encapsulation, config.udp_port) {
        (Encapsulation::Native, _) => bind_natively(driver, registry, &bindings)?,
        (Encapsulation::Udp, 0) => driver.bind_all(registry, &bindings, UdpPort::Ephemeral)?,
        (Encapsulation::Udp, port) => driver.bind_all(registry, &bindings, UdpPort::Fixed(port))?,
    };
    let open = bound.iter().zip(&chosen).map(|(address, (interface, _))| Local {
        addr: address.addr,
        interface: interface.clone(),
        mtu: address.mtu,
    });
    let (open, own) = (open.collect(), addresses(&interfaces));
    Ok(Locals { open, own, failed: BTreeSet::new(), begun: true })
}

fn bind_natively(
    driver: &mut Driver,
    registry: &Registry,
    bindings: &[(Token, LocalBinding)],
) -> io::Result<Vec<LocalAddress>> {
    let one =
        |(token, binding): &(Token, LocalBinding)| driver.bind_native(registry, *token, binding);
    bindings.iter().map(one).collect()
}

fn addresses(interfaces: &[Interface]) -> Vec<IpAddr> {
    interfaces.iter().map(|interface| interface.addr).collect()
}

impl Stack {
    /// Addresses come and go: those that have come carry the paths of associations to come.
    pub(crate) fn on_rescan_timer(&mut self) {
        self.timers.set(self.now + self.locals.rescan_interval(), Timer::Rescan);
        let Ok(interfaces) = manypath_net::interfaces() else {
            return self.counters.count("interface_scans_failed");
        };
        self.locals.own = addresses(&interfaces);
        for interface in interfaces.iter().filter(|interface| is_usable(interface)) {
            let addr = interface.addr;
            let known = self.locals.open.iter().any(|local| local.addr.ip() == addr);
            if !known && !self.locals.failed.contains(&addr) {
                self.add_local(interface);
            }
        }
    }

    fn add_local(&mut self, interface: &Interface) {
        let mut binding = LocalBinding::from(interface);
        if self.locals.open.is_empty() {
            binding.addr.set_port(self.config.udp_port);
        }
        let token = Source::Local(self.locals.open.len() as u64).token();
        let bound = match self.config.encapsulation {
            Encapsulation::Udp => self.driver.bind(&self.registry, token, binding),
            Encapsulation::Native => self.driver.bind_native(&self.registry, token, &binding),
        };
        match bound {
            Ok(bound) => {
                info!(target: log::STACK, "using {} ({})", interface.addr, interface.name);
                let (addr, mtu) = (bound.addr, bound.mtu);
                self.locals.open.push(Local { addr, interface: interface.name.clone(), mtu });
            }
            Err(error) => {
                warn!(target: log::STACK, "{} is not used: {error}", interface.addr);
                self.counters.count("addresses_not_usable");
                self.locals.failed.insert(interface.addr);
            }
        }
    }
}

type Chosen = Vec<(String, LocalBinding)>;

fn choose(config: &StackConfig, interfaces: &[Interface]) -> io::Result<Chosen> {
    match &config.locals {
        config::Locals::Auto => {
            let usable = interfaces.iter().filter(|interface| is_usable(interface));
            Ok(usable.map(|one| (one.name.clone(), LocalBinding::from(one))).collect())
        }
        config::Locals::List(addrs) if addrs.is_empty() => {
            let text = "the list of local addresses is empty";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        config::Locals::List(addrs) => {
            let one = |addr: &IpAddr| find(*addr, interfaces, config.loopback_paths);
            addrs.iter().map(one).collect()
        }
    }
}

fn is_usable(interface: &Interface) -> bool {
    let link_local = match interface.addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    };
    interface.up && !interface.loopback && !interface.addr.is_loopback() && !link_local
}

fn find(
    addr: IpAddr,
    interfaces: &[Interface],
    loopback: bool,
) -> io::Result<(String, LocalBinding)> {
    if addr.is_loopback() {
        return if loopback { Ok(loopback_binding(addr)) } else { Err(refuse_loopback(addr)) };
    }
    let found = interfaces.iter().find(|interface| interface.addr == addr);
    let interface = found.ok_or_else(|| {
        let text = format!("{addr} is not an address of this host");
        io::Error::new(io::ErrorKind::AddrNotAvailable, text)
    })?;
    Ok((interface.name.clone(), LocalBinding::from(interface)))
}

/// Not bound to the device: every address of 127.0.0.0/8 is local without being configured.
fn loopback_binding(addr: IpAddr) -> (String, LocalBinding) {
    let prefix_len = if addr.is_ipv4() { LOOPBACK_PREFIX } else { 128 };
    let addr = SocketAddr::new(addr, 0);
    ("lo".to_owned(), LocalBinding { addr, device: None, prefix_len, mtu: LOOPBACK_MTU })
}

fn refuse_loopback(addr: IpAddr) -> io::Error {
    let text = format!("{addr} is a loopback address: it leads to no other host");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, addr: &str, up: bool) -> Interface {
        let addr: IpAddr = addr.parse().unwrap();
        let (prefix_len, mtu, loopback) = (24, 1500, addr.is_loopback());
        Interface { name: name.into(), index: 1, addr, prefix_len, mtu, up, loopback }
    }

    fn chosen(locals: config::Locals, loopback_paths: bool) -> Result<Vec<String>, io::ErrorKind> {
        let host = [
            interface("lo", "127.0.0.1", true),
            interface("eth0", "10.0.0.1", true),
            interface("eth0", "fe80::1", true),
            interface("eth1", "169.254.0.1", true),
            interface("wlan0", "10.1.0.1", true),
            interface("wlan0", "2001:db8::1", true),
            interface("wwan0", "10.2.0.1", false),
        ];
        let config = StackConfig { locals, loopback_paths, ..StackConfig::default() };
        let chosen = choose(&config, &host).map_err(|error| error.kind())?;
        Ok(chosen.iter().map(|(name, local)| format!("{name} {}", local.addr.ip())).collect())
    }

    fn list(addr: &str) -> config::Locals {
        config::Locals::List(vec![addr.parse().unwrap()])
    }

    #[test]
    fn without_a_list_every_address_that_leads_outside_is_used() {
        let expected = ["eth0 10.0.0.1", "wlan0 10.1.0.1", "wlan0 2001:db8::1"].map(String::from);
        assert_eq!(chosen(config::Locals::Auto, true), Ok(expected.to_vec()));
    }

    #[test]
    fn a_list_is_taken_exactly() {
        assert_eq!(chosen(list("10.1.0.1"), false), Ok(vec!["wlan0 10.1.0.1".into()]));
        assert_eq!(chosen(list("10.9.0.1"), false), Err(io::ErrorKind::AddrNotAvailable));
        let none = config::Locals::List(Vec::new());
        assert_eq!(chosen(none, false), Err(io::ErrorKind::InvalidInput));
    }

    #[test]
    fn loopback_addresses_are_used_only_when_told() {
        assert_eq!(chosen(list("127.0.1.1"), false), Err(io::ErrorKind::InvalidInput));
        assert_eq!(chosen(list("127.0.1.1"), true), Ok(vec!["lo 127.0.1.1".into()]));
    }
}
