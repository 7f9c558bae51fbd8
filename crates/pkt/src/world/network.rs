//! Addresses and ports: those that packetdrill uses, so that scripts may name them.

use crate::language::Why;
use crate::language::ast::Script;
use manypath_engine::{
    BurstLimit, Config, Duration, EcnUse, HmacAlgorithms, LocalAddress, PathAddr,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The SCTP port that a socket is bound to if the script leaves it open, and that of the peer.
pub(crate) const PORT: u16 = 8080;
/// Largest IP packet if the script does not say.
const MTU: u16 = 1500;

/// The least that IPv4 demands.
const LEAST_MTU: u16 = 576;

/// Where the stack is and what it talks to.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// The address of the stack.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// Further addresses of the stack.
    pub more_locals: Vec<IpAddr>,
    /// UDP ports here and there, 0 for native SCTP.
    pub udp: (u16, u16),
    /// Largest IP packet.
    pub mtu: u16,
    /// How far a packet may be from its time.
    pub tolerance: Duration,
}

impl Network {
    /// What the options of a script say.
    pub(crate) fn new(script: &Script) -> Result<Self, Why> {
        let mut network = Self {
            local: Ipv4Addr::new(192, 168, 0, 1).into(),
            remote: Ipv4Addr::new(192, 0, 2, 1).into(),
            more_locals: Vec::new(),
            udp: (0, 0),
            mtu: MTU,
            tolerance: Duration::from_millis(4),
        };
        for (name, value) in &script.options {
            network.set(name, value.as_deref().unwrap_or_default())?;
        }
        Ok(network)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Why> {
        let bad = || Why::syntax(format!("bad value of --{name}: '{value}'"));
        match name {
            "tolerance_usecs" => {
                self.tolerance = Duration::from_micros(value.parse().map_err(|_| bad())?);
            }
            "mtu" => {
                let mtu = value.parse().map_err(|_| bad())?;
                self.mtu = Some(mtu).filter(|mtu| *mtu >= LEAST_MTU).ok_or_else(bad)?;
            }
            "local_ip" => self.local = value.parse().map_err(|_| bad())?,
            "remote_ip" => self.remote = value.parse().map_err(|_| bad())?,
            "more_local_ip" => self.more_locals.push(value.parse().map_err(|_| bad())?),
            "ip_version" => match value {
                "ipv4" => {}
                "ipv6" => {
                    self.local = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1).into();
                    self.remote = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
                }
                _ => return Err(Why::gap(format!("--ip_version={value} is not simulated"))),
            },
            "udp_encapsulation" if value == "sctp" => self.udp = (9899, 9899),
            // Names that #ifdef finds: read before the script was parsed.
            "define" => {}
            _ => return Err(Why::gap(format!("option --{name}={value} is not known"))),
        }
        Ok(())
    }

    /// The addresses of the stack, for an endpoint.
    pub(crate) fn locals(&self) -> Vec<LocalAddress> {
        let all = std::iter::once(&self.local).chain(&self.more_locals);
        let one = |ip: &IpAddr| LocalAddress {
            addr: SocketAddr::new(*ip, self.udp.0),
            prefix_len: if ip.is_ipv4() { 24 } else { 64 },
            interface: 0,
            mtu: self.mtu,
        };
        all.map(one).collect()
    }

    /// The path of a packet to the stack.
    pub(crate) fn path(
        &self,
        addresses: Option<(IpAddr, IpAddr)>,
        udp: Option<(u16, u16)>,
    ) -> PathAddr {
        let (remote, local) = addresses.unwrap_or((self.remote, self.local));
        let (from, to) = udp.unwrap_or((self.udp.1, self.udp.0));
        PathAddr { local: SocketAddr::new(local, to), remote: SocketAddr::new(remote, from) }
    }

    /// The options of RFC 9260, which scripts are written for.
    #[allow(clippy::unused_self, reason = "the options belong to the network that they are for")]
    pub(crate) fn config(&self) -> Config {
        Config {
            port: PORT,
            streams: 16,
            inbound_streams: Some(2048),
            // As FreeBSD has them unless a script says otherwise.
            receive_buffer: 1_864_135,
            ecn: EcnUse::On,
            authentication: true,
            hmac_algorithms: HmacAlgorithms::Sha1Sha256,
            address_reconfiguration: true,
            report_undelivered: true,
            // Scripts send the least INIT, and expect an INIT ACK with all extensions.
            amplification_limit: u32::MAX,
            // What calls and SACKs of one instant let leave has no other instant to leave at.
            burst_limit: BurstLimit::Flight,
            ..Config::rfc9260()
        }
    }
}
