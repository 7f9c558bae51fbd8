//! Whom a rule for services is about: where a peer is, and who.

use crate::error::RuleError;
use crate::network::Network;
use base64ct::{Base64Unpadded, Encoding};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

const PREFIX: &str = "SHA256:";
/// Bytes of a SHA-256.
const SHA256_LEN: usize = 32;

/// What a rule wants to know of a peer; all match what is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The peer has proved to be at an address of it.
    pub network: Option<Network>,
    /// The peer has proved to be it.
    pub identity: Option<Identity>,
}

/// A peer, by what it has proved in the key exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The fingerprint of its key, as `SHA256:...`.
    Key(String),
    /// Its name among the authorized peers, with hyphens for blanks.
    Peer(String),
}

/// A peer that asks for a service: what it has proved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Client {
    /// The addresses at which it is.
    pub addresses: Vec<IpAddr>,
    /// The fingerprint of its key, if its association is encrypted.
    pub key: Option<String>,
    /// The name of that key among the authorized ones.
    pub name: Option<String>,
}

impl Source {
    /// Whether it leaves open who the peer is.
    #[must_use]
    pub fn is_anyone(&self) -> bool {
        *self == Self::default()
    }

    /// Reads one of `from=`, `key=` and `peer=`; whether it was one.
    pub(crate) fn set(&mut self, word: &str) -> Result<bool, RuleError> {
        let Some((what, value)) = word.split_once('=') else { return Ok(false) };
        let twice = match what {
            "from" => self.network.replace(value.parse()?).is_some(),
            "key" => self.identity.replace(Identity::Key(fingerprint(value)?)).is_some(),
            "peer" => self.identity.replace(Identity::Peer(name(value)?)).is_some(),
            _ => return Ok(false),
        };
        match twice {
            false => Ok(true),
            true => Err(RuleError::new(format!("{word}: the rule names its peers already"))),
        }
    }

    /// Whether a peer matches.
    #[must_use]
    pub fn admits(&self, client: Option<&Client>) -> bool {
        self.mismatch(client).is_none()
    }

    /// Why a peer does not match; absent when it does.
    pub(crate) fn mismatch(&self, client: Option<&Client>) -> Option<&'static str> {
        if self.is_anyone() {
            return None;
        }
        let Some(client) = client else {
            return Some("names peers: tried again for each connection");
        };
        let is_inside = |network: &Network| client.addresses.iter().any(|it| network.contains(*it));
        match (&self.network, &self.identity) {
            (Some(network), _) if !is_inside(network) => Some("other source"),
            (_, Some(identity)) if !identity.is(client) => Some("other peer"),
            _ => None,
        }
    }

    /// Whether every peer that matches `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let networks = self.network.as_ref().zip(other.network.as_ref());
        let inside = self.network.is_none() || networks.is_some_and(|(all, one)| all.covers(one));
        inside && (self.identity.is_none() || self.identity == other.identity)
    }
}

impl Identity {
    fn is(&self, client: &Client) -> bool {
        match self {
            Self::Key(key) => client.key.as_ref() == Some(key),
            Self::Peer(name) => client.name.as_ref().is_some_and(|own| hyphenated(own) == *name),
        }
    }
}

/// A name as rules write it, which are words.
fn hyphenated(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("-")
}

fn fingerprint(value: &str) -> Result<String, RuleError> {
    let digits = value.strip_prefix(PREFIX).unwrap_or_default();
    match Base64Unpadded::decode(digits, &mut [0; SHA256_LEN]) {
        Ok(bytes) if bytes.len() == SHA256_LEN => Ok(value.to_owned()),
        Ok(_) | Err(_) => Err(RuleError::unknown(
            "key",
            value,
            "a fingerprint, SHA256:..., as `manypath key show` prints it",
        )),
    }
}

fn name(value: &str) -> Result<String, RuleError> {
    match value {
        "" => Err(RuleError::new("peer= needs a name of the file of `--authorized`")),
        _ => Ok(value.to_owned()),
    }
}

impl fmt::Display for Source {
    /// Each condition after a blank, as the words of a rule have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(network) = self.network {
            write!(f, " from={network}")?;
        }
        match &self.identity {
            Some(Identity::Key(key)) => write!(f, " key={key}"),
            Some(Identity::Peer(name)) => write!(f, " peer={name}"),
            None => Ok(()),
        }
    }
}
