//! The two hosts: what they are called, which addresses they have, and how to run programs there.

mod anchor;
mod namespaces;
mod plan;

pub(crate) use anchor::{Anchor, HostUp};
pub(crate) use namespaces::Namespaces;
pub use plan::Isolation;
pub(crate) use plan::{Leftover, Plan, hosts_text};

use crate::error::LabError;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Largest packet on every path, in bytes.
pub const MTU: u16 = 1500;
/// Most paths of a lab: they are named by letters.
pub(crate) const MAX_PATHS: usize = 26;

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// The client.
    Left,
    /// The server.
    Right,
}

impl Host {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Left, Self::Right];

    /// "left" or "right", also its hostname.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    /// The host at the other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// Its address on the path with this index: 10.77.(index + 1).1 is left's, .2 right's.
    pub const fn address(self, path_index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, path_index as u8 + 1, self.number())
    }

    /// Its IPv6 address on the path with this index: fd77:(index + 1)::1 is left's, ::2 right's.
    pub const fn address_v6(self, path_index: usize) -> Ipv6Addr {
        Ipv6Addr::new(0xFD77, path_index as u16 + 1, 0, 0, 0, 0, 0, self.number() as u16)
    }

    pub(crate) const fn index(self) -> usize {
        self.number() as usize - 1
    }

    const fn number(self) -> u8 {
        match self {
            Self::Left => 1,
            Self::Right => 2,
        }
    }
}

impl std::str::FromStr for Host {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let invalid = || LabError::Invalid(format!("'{text}' is no host: use left or right"));
        Self::ALL.into_iter().find(|host| host.name() == text).ok_or_else(invalid)
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Name of the path with this index: A, B, C ..
pub(crate) fn path_name(index: usize) -> String {
    char::from(b'A' + index as u8).to_string()
}
