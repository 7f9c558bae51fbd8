//! Where SCTP goes: over UDP or directly over IP, with which addresses of this host.

use manypath_engine::{Config, Endpoint};
use manypath_net::{Driver, Interface, LocalBinding, UdpPort, interfaces};
use mio::{Registry, Token};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The port for SCTP over UDP (RFC 6951 section 5.1).
const UDP_PORT: u16 = 9899;
/// Most associations of a process.
const MOST_ASSOCIATIONS: usize = 1 << 16;

/// Whether sockets have the behavior of Linux.
static FOLLOWS_LINUX: AtomicBool = AtomicBool::new(false);

/// Gives sockets the behavior of Linux where RFC 6458 leaves it open or specifies another. Call it before the first
/// socket is opened.
pub fn follow_linux() {
    FOLLOWS_LINUX.store(true, Ordering::Relaxed);
}

pub(crate) fn follows_linux() -> bool {
    FOLLOWS_LINUX.load(Ordering::Relaxed)
}

/// What the environment says.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) native: bool,
    /// Those of the engine, if they are not those for real use.
    pub(crate) parameters: Option<Config>,
    /// Whether this process is all the SCTP of its host.
    pub(crate) alone: bool,
    own_port: u16,
    /// The UDP port of peers; 0 without encapsulation.
    pub(crate) peer_port: u16,
    /// How long the end of the process waits for associations to end, in milliseconds.
    pub(crate) linger: u64,
}

impl Settings {
    pub(crate) fn from_environment() -> io::Result<Self> {
        let native = match std::env::var("MANYPATH_SCTP_ENCAPSULATION").as_deref() {
            Err(_) | Ok("" | "udp") => false,
            Ok("native") => true,
            Ok(other) => {
                let text = format!("MANYPATH_SCTP_ENCAPSULATION is '{other}', not udp or native");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        let parameters = match std::env::var("MANYPATH_SCTP_PARAMETERS").as_deref() {
            Err(_) | Ok("" | "production") => None,
            Ok("rfc9260") => Some(Config::rfc9260()),
            Ok(other) => {
                let text =
                    format!("MANYPATH_SCTP_PARAMETERS is '{other}', not production or rfc9260");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        let alone = number("MANYPATH_SCTP_ALONE", 0_u8)? != 0;
        let own_port = number("MANYPATH_SCTP_UDP_PORT", UDP_PORT)?;
        let peer_port = if native { 0 } else { number("MANYPATH_SCTP_PEER_UDP_PORT", UDP_PORT)? };
        let linger = number("MANYPATH_SCTP_EXIT_LINGER", 5000)?;
        Ok(Self { native, parameters, alone, own_port, peer_port, linger })
    }
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> io::Result<T> {
    let Ok(text) = std::env::var(name) else { return Ok(default) };
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is '{text}'"));
    text.parse().map_err(|_| bad())
}

/// What was opened.
pub(crate) struct Place {
    /// The engine over sockets of the kernel.
    pub(crate) driver: Driver,
    /// The addresses that it has, with the names of their sockets.
    pub(crate) locals: Vec<(Token, IpAddr)>,
    /// The UDP port that it should have, if another program has it.
    pub(crate) taken: Option<u16>,
}

/// Opens sockets on all addresses of the host.
pub(crate) fn open(registry: &Registry, settings: &Settings) -> io::Result<Place> {
    let config = Config {
        // A raw socket gets the packets of all stacks of the host.
        respond_to_ootb: !settings.native || settings.alone,
        max_associations: MOST_ASSOCIATIONS,
        max_associations_per_address: MOST_ASSOCIATIONS,
        ..settings.parameters.clone().unwrap_or_else(Config::production)
    };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let mut driver = Driver::new(Endpoint::new(config, seed));
    let interfaces = usual_interfaces()?;
    let bindings: Vec<_> = (0..).map(Token).zip(interfaces.iter().map(binding)).collect();
    let locals = (0..).map(Token).zip(interfaces.iter().map(|one| one.addr)).collect();
    if settings.native {
        for (token, binding) in &bindings {
            driver.bind_native(registry, *token, binding)?;
        }
        return Ok(Place { driver, locals, taken: None });
    }
    let fixed = driver.bind_all(registry, &bindings, UdpPort::Fixed(settings.own_port));
    let taken = match fixed {
        // Another program has the port: this one can begin associations all the same.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            driver.bind_all(registry, &bindings, UdpPort::Ephemeral)?;
            Some(settings.own_port)
        }
        other => other.map(|_| None)?,
    };
    Ok(Place { driver, locals, taken })
}

/// The interfaces whose addresses are open always. A link that is not there yet may come: the kernel, too, lets its
/// address be used.
fn usual_interfaces() -> io::Result<Vec<Interface>> {
    Ok(interfaces()?.into_iter().filter(|one| !is_on_link(one)).collect())
}

/// Whether the address is an IPv6 link-local one. Every interface has one, and hosts of containers have hundreds of
/// them: they are opened when a program names one of the interface.
pub(crate) fn is_on_link(interface: &Interface) -> bool {
    matches!(interface.addr, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The routing table chooses the interface, so that addresses of this host reach each other.
pub(crate) fn binding(interface: &Interface) -> LocalBinding {
    LocalBinding { device: None, ..LocalBinding::from(interface) }
}
