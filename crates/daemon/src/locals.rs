//! The local addresses that carry paths.

use crate::config::{self, Encapsulation, LocalName, StackConfig};
use crate::privileged;
use crate::token::Source;
use manypath_engine::{Instant, LocalAddress};
use manypath_net::{Carrier, Carriers, Driver, Interface, LocalBinding, UdpPort};
use mio::{Registry, Token};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Loopback addresses that carry paths pair up as networks of this prefix length: 127.0.1.1 with
/// 127.0.1.2.
const LOOPBACK_PREFIX: u8 = 24;
/// What stands in the place of an interface where packets go through a relay.
const BEHIND_RELAY: &str = "relay";
/// IP packet size on loopback paths: what real paths have.
const LOOPBACK_MTU: u16 = 1500;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Local {
    pub(crate) address: LocalAddress,
    pub(crate) interface: String,
    /// Whether the interface has a link.
    pub(crate) up: bool,
    /// Names its socket.
    pub(crate) socket: u64,
    /// Names its sockets at other ports: the privileged one, and those of carriers.
    pub(crate) beside: Vec<u64>,
}

impl Local {
    /// It is open on `interface`.
    pub(crate) fn new(address: LocalAddress, interface: &Interface, socket: u64) -> Self {
        let (interface, up, beside) = (interface.name.clone(), interface.up, Vec::new());
        Self { address, interface, up, socket, beside }
    }

    /// Names its sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.socket).chain(self.beside.iter().copied())
    }

    /// Whether it is the address of `interface`.
    pub(crate) fn is_at(&self, interface: &Interface) -> bool {
        self.address.addr.ip() == interface.addr && self.interface == interface.name
    }
}

/// What is open, and which addresses are this host's own; at first no socket is.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    pub(crate) open: Vec<Local>,
    pub(crate) own: Vec<IpAddr>,
    /// Addresses that could not be used, each reported once.
    pub(crate) failed: BTreeSet<IpAddr>,
    /// Whether sockets were to be opened yet.
    begun: bool,
    /// The UDP port of the sockets, kept when none is open for a while.
    port: u16,
    /// The privileged port at which there are sockets beside those.
    pub(crate) second_port: Option<u16>,
    /// The carriers with which the stack began, whatever the settings have become.
    pub(crate) tried: Carriers,
    /// The carriers by which peers are served beside those.
    pub(crate) carriers: Vec<Carrier>,
    /// The address that stands for the key of this host, once associations use it.
    pub(crate) own_key: Option<IpAddr>,
    /// How many sockets have been opened.
    sockets: u64,
}

impl Locals {
    /// Whether peers can reach this stack, as far as this host has addresses.
    pub(crate) const fn is_open(&self) -> bool {
        self.begun
    }

    /// Whether `addr` is an address of this host.
    pub(crate) fn is_own(&self, addr: IpAddr) -> bool {
        self.own.contains(&addr) || self.open.iter().any(|local| local.address.addr.ip() == addr)
    }

    /// The interface that has `addr`.
    pub(crate) fn interface(&self, addr: IpAddr) -> &str {
        if self.own_key == Some(addr) {
            return BEHIND_RELAY;
        }
        let local = self.open.iter().find(|local| local.address.addr.ip() == addr);
        local.map_or("", |local| &local.interface)
    }

    /// Whether some local address is of the family of `addr`.
    pub(crate) fn has_family_of(&self, addr: IpAddr) -> bool {
        self.open.iter().any(|local| local.address.addr.is_ipv4() == addr.is_ipv4())
    }

    /// Whether all of them are at one interface, so that a peer with one address has one path.
    pub(crate) fn is_one_interface(&self) -> bool {
        self.open.windows(2).all(|pair| pair[0].interface == pair[1].interface)
    }

    /// The UDP port of the own sockets, also while none is open; 0 before there was one.
    pub(crate) const fn udp_port(&self) -> u16 {
        self.port
    }

    /// Whether the address of `interface` is neither open nor known to be of no use.
    pub(crate) fn is_new(&self, interface: &Interface) -> bool {
        let addr = interface.addr;
        let open = self.open.iter().any(|local| local.address.addr.ip() == addr);
        !open && !self.failed.contains(&addr)
    }

    /// A name for the next socket: none is given twice.
    pub(crate) const fn next_socket(&mut self) -> u64 {
        self.sockets += 1;
        self.sockets - 1
    }

    /// A socket is open.
    pub(crate) fn keep(&mut self, local: Local) {
        self.port = local.address.addr.port();
        self.open.push(local);
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
        (Encapsulation::Udp, _) => privileged::bind_fixed(config, driver, registry, &bindings)?,
    };
    // The first scan finds out who has no link.
    let open = bound.iter().zip(&chosen).zip(0..).map(|((address, (interface, _)), socket)| {
        let (interface, beside) = (interface.clone(), Vec::new());
        Local { address: *address, interface, up: true, socket, beside }
    });
    let (open, own): (Vec<_>, _) = (open.collect(), addresses(&interfaces));
    let port = open.first().map_or(config.udp_port, |local| local.address.addr.port());
    let sockets = open.len() as u64;
    let mut locals = Locals { open, own, begun: true, port, sockets, ..Locals::default() };
    let bindings = chosen.into_iter().map(|(_, binding)| binding).collect();
    bind_beside(config, driver, registry, bindings, &mut locals);
    Ok(locals)
}

/// Opens a second socket for each of `bindings`, at the privileged port, if this process may.
fn bind_beside(
    config: &StackConfig,
    driver: &mut Driver,
    registry: &Registry,
    bindings: Vec<LocalBinding>,
    locals: &mut Locals,
) {
    let Some(port) = config.second_port() else { return };
    if locals.udp_port() == port {
        return;
    }
    locals.second_port = Some(port);
    for (at, binding) in bindings.into_iter().enumerate() {
        let socket = locals.next_socket();
        if let Err(error) = privileged::bind(driver, registry, socket, (binding, port)) {
            privileged::report(config, &error);
            return close(driver, locals);
        }
        locals.open[at].beside.push(socket);
    }
}

/// An association needs the port at each of our addresses.
fn close(driver: &mut Driver, locals: &mut Locals) {
    locals.second_port = None;
    for socket in locals.open.iter_mut().flat_map(|local| local.beside.drain(..)) {
        driver.unbind(Instant::ZERO, Source::Local(socket).token());
    }
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

pub(crate) fn addresses(interfaces: &[Interface]) -> Vec<IpAddr> {
    interfaces.iter().map(|interface| interface.addr).collect()
}

/// Whether a stack would find the local addresses that `config` names.
///
/// # Errors
/// When one of them is not an address of this host, or leads to no other one.
pub fn check_locals(config: &StackConfig) -> io::Result<()> {
    choose(config, &manypath_net::interfaces()?).map(drop)
}

type Chosen = Vec<(String, LocalBinding)>;

fn choose(config: &StackConfig, interfaces: &[Interface]) -> io::Result<Chosen> {
    match &config.locals {
        config::Locals::Auto | config::Locals::Except(_) => {
            let wanted = interfaces.iter().filter(|one| is_wanted(&config.locals, one));
            Ok(wanted.map(|one| (one.name.clone(), LocalBinding::from(one))).collect())
        }
        config::Locals::List(addrs) if addrs.is_empty() => {
            let text = "the list of local addresses is empty";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        config::Locals::List(addrs) => {
            let one = |addr: &IpAddr| find(*addr, interfaces, config.loopback_paths);
            addrs.iter().map(one).collect()
        }
        config::Locals::Named(names) => {
            let mut chosen = Chosen::new();
            for name in names {
                let found = match name {
                    LocalName::Address(addr) => {
                        vec![find(*addr, interfaces, config.loopback_paths)?]
                    }
                    LocalName::Interface(name) => of_interface(name, interfaces)?,
                };
                // An address and its interface may both be named.
                let new = found.into_iter().filter(|it| !chosen.contains(it)).collect::<Chosen>();
                chosen.extend(new);
            }
            Ok(chosen)
        }
    }
}

/// Whether the address is to be used as far as the settings go.
pub(crate) fn is_wanted(locals: &config::Locals, interface: &Interface) -> bool {
    match locals {
        config::Locals::Auto => is_usable(interface),
        config::Locals::Except(names) => is_usable(interface) && !names.contains(&interface.name),
        config::Locals::List(addrs) => interface.up && addrs.contains(&interface.addr),
        config::Locals::Named(names) => names.iter().any(|name| match name {
            LocalName::Address(_) => interface.up && name.fits(interface),
            LocalName::Interface(_) => is_usable(interface) && name.fits(interface),
        }),
    }
}

fn of_interface(name: &str, interfaces: &[Interface]) -> io::Result<Chosen> {
    let found = interfaces.iter().filter(|one| one.name == name && is_usable(one));
    let found: Chosen = found.map(|one| (one.name.clone(), LocalBinding::from(one))).collect();
    if found.is_empty() {
        let text = format!("{name} is no interface of this host that is up and has an address");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    Ok(found)
}

pub(crate) fn is_usable(interface: &Interface) -> bool {
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
        let without = config::Locals::Except(vec!["wlan0".into(), "br0".into()]);
        assert_eq!(chosen(without, true), Ok(vec!["eth0 10.0.0.1".into()]));
    }

    #[test]
    fn a_list_is_taken_exactly() {
        assert_eq!(chosen(list("10.1.0.1"), false), Ok(vec!["wlan0 10.1.0.1".into()]));
        assert_eq!(chosen(list("10.9.0.1"), false), Err(io::ErrorKind::AddrNotAvailable));
        let none = config::Locals::List(Vec::new());
        assert_eq!(chosen(none, false), Err(io::ErrorKind::InvalidInput));
    }

    #[test]
    fn the_addresses_of_a_named_interface_are_used() {
        let named = |names: &str| {
            let names = names.split(',').map(|name| name.parse().unwrap()).collect();
            chosen(config::Locals::Named(names), false)
        };
        let mut both = vec!["wlan0 10.1.0.1".to_owned(), "wlan0 2001:db8::1".to_owned()];
        assert_eq!(named("wlan0"), Ok(both.clone()));
        both.reverse();
        assert_eq!(named("2001:db8::1,wlan0"), Ok(both), "in the order in which they are named");
        assert_eq!(named("wwan0"), Err(io::ErrorKind::AddrNotAvailable), "it is down");
        assert_eq!(named("wg0"), Err(io::ErrorKind::AddrNotAvailable));
        assert!("fe80::1%eth0".parse::<LocalName>().is_err());
        assert!("10.0.0.1/24".parse::<LocalName>().is_err());
    }

    #[test]
    fn loopback_addresses_are_used_only_when_told() {
        assert_eq!(chosen(list("127.0.1.1"), false), Err(io::ErrorKind::InvalidInput));
        assert_eq!(chosen(list("127.0.1.1"), true), Ok(vec!["lo 127.0.1.1".into()]));
    }
}
