//! What a relay does for peers.

use super::StackConfig;
use manypath_rules::paths::Budget;
use manypath_rules::{Encrypt, Network, Ports};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

/// What a relay does for peers that are authorized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayConfig {
    /// What it connects to besides the internet at large.
    pub to: Vec<RelayTo>,
    /// Connections that a peer may have at a time.
    pub connections: usize,
    /// What a peer may move in a day or a month.
    pub quota: Option<Budget>,
}

impl RelayConfig {
    /// Connections of a peer unless told otherwise: as many as streams of an association carry from its beginning.
    pub const CONNECTIONS: usize = 1024;

    /// Whether a stack may relay at all.
    ///
    /// # Errors
    /// It would be open, or tell nobody apart.
    pub(crate) fn check(config: &StackConfig) -> io::Result<()> {
        let authorized = config.keys.as_ref().is_some_and(|keys| keys.authorized_peers.is_some());
        if config.relay.is_none() || (authorized && config.encrypt == Encrypt::Require) {
            return Ok(());
        }
        let text = "a relay needs encrypt = require and a list of the keys that may use it: --authorized FILE";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// A network, or some of its ports, to which a relay connects although it is closed otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayTo {
    /// The network.
    pub network: Network,
    /// The ports; all when absent.
    pub ports: Option<Ports>,
}

/// Why a text is not a [`RelayTo`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayToError(String);

impl fmt::Display for RelayToError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "'{text}' is not NETWORK[:PORTS] (for example 10.0.0.0/8, 192.0.2.1:80-90, [fd00::/8]:443)"
        )
    }
}

impl std::error::Error for RelayToError {}

impl FromStr for RelayTo {
    type Err = RelayToError;

    fn from_str(text: &str) -> Result<Self, RelayToError> {
        let (network, ports) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((network, "")) => (network, None),
            Some((network, ports)) => (network, ports.strip_prefix(':').or(Some(""))),
            None if text.parse::<Network>().is_ok() => (text, None),
            None => text.rsplit_once(':').map_or((text, None), |(it, ports)| (it, Some(ports))),
        };
        let error = |_| RelayToError(text.to_owned());
        let ports = ports.map(str::parse::<Ports>).transpose().map_err(error)?;
        Ok(Self { network: network.parse().map_err(error)?, ports })
    }
}

impl RelayTo {
    pub(crate) fn names(&self, address: IpAddr, port: u16) -> bool {
        self.network.contains(address) && self.ports.is_none_or(|ports| ports.contains(port))
    }
}
