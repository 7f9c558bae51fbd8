//! One rule: what it matches and what it decides.

use crate::network::Network;
use crate::options::Options;
use crate::ports::Ports;
use crate::source::{Client, Source};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// The side of a connection that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Chain {
    /// Services of this host, looked up by the address that a peer uses.
    Local,
    /// Connections that programs of this host make, looked up by their destination.
    Remote,
}

/// Whether a connection is carried over SCTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Carried, with plain TCP as the fallback.
    Enable,
    /// Left to the kernel.
    Disable,
}

/// The protocol that the program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams; never carried unless a rule enables it.
    Udp,
}

/// One rule. What it leaves open matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The side it is about.
    pub chain: Chain,
    /// What it decides.
    pub policy: Policy,
    /// The protocol it is about.
    pub protocol: Protocol,
    /// The addresses it matches; all when absent.
    pub network: Option<Network>,
    /// The ports it matches; all when absent.
    pub ports: Option<Ports>,
    /// The peers it matches, of those that ask for services of this host.
    pub source: Source,
    /// How what it enables is carried.
    pub options: Options,
}

/// A connection that somebody asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Query<'a> {
    /// [`Chain::Remote`] for a connect, [`Chain::Local`] for a service.
    pub chain: Chain,
    /// The protocol.
    pub protocol: Protocol,
    /// The destination of a connect; the address of a service. The unspecified address stands for
    /// a service on every address: rules that name one are then not about it.
    pub address: SocketAddr,
    /// The peer that asks for the service. Without it, rules that name peers match nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<&'a Client>,
}

impl<'a> Query<'a> {
    /// Asks whether a connect, or datagrams, of this host are carried, and how.
    #[must_use]
    pub const fn remote(protocol: Protocol, address: SocketAddr) -> Self {
        Self { chain: Chain::Remote, protocol, address, client: None }
    }

    /// Asks whether `client` may reach a service of this host, and how.
    #[must_use]
    pub const fn local(
        protocol: Protocol,
        address: SocketAddr,
        client: Option<&'a Client>,
    ) -> Self {
        Self { chain: Chain::Local, protocol, address, client }
    }
}

impl Rule {
    /// Whether it is about what is asked.
    #[must_use]
    pub fn matches(&self, query: &Query<'_>) -> bool {
        self.mismatch(query).is_none()
    }

    /// Why it is not about what is asked; absent when it is.
    pub(crate) fn mismatch(&self, query: &Query<'_>) -> Option<&'static str> {
        let (address, port) = (query.address.ip(), query.address.port());
        if self.protocol != query.protocol {
            return Some("other protocol");
        }
        if self.network.is_some_and(|network| !network.contains(address)) {
            return Some("other address");
        }
        if self.ports.is_some_and(|ports| !ports.contains(port)) {
            return Some("other port");
        }
        self.source.mismatch(query.client)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Remote => "remote",
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for Rule {
    /// The words that [`crate::Document`] and the command line read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.chain, self.policy)?;
        if self.protocol == Protocol::Udp {
            write!(f, " udp")?;
        }
        match self.network {
            Some(network) if network.is_host() => write!(f, " host {network}")?,
            Some(network) => write!(f, " net {network}")?,
            None => {}
        }
        match self.ports {
            Some(ports) if ports.first() == ports.last() => write!(f, " port {ports}")?,
            Some(ports) => write!(f, " ports {ports}")?,
            None => {}
        }
        write!(f, "{}{}", self.source, self.options)
    }
}
