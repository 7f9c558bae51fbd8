//! What HEARTBEATs tell the peer of our policy for their path.
//!
//! The Heartbeat Info is "a sender-specific opaque field" (RFC 9260 section 3.3.5) that any peer sends back as
//! it came; behind what only we understand it has, where there is something to say:
//!
//! ```text
//! | "mp-path" 1 (8) | Number (4) | Role (1) | Flags (1) | Cost (2) | Allowance (8) |
//!
//! Number     counts the changes; an older one is not looked at
//! Role       0 normal, 1 backup, 2 disabled
//! Flags      1: metered, and Allowance is in bytes per second; 2: primary
//! ```
//!
//! A peer that does not know of it only echoes it, and the echo tells that it has got there.

use super::{PathPolicy, PathRole};

/// What the notice begins with: our name and the version of its layout.
const MAGIC: [u8; 8] = *b"mp-path\x01";
const METERED: u8 = 1;
const PRIMARY: u8 = 2;

/// The policy of one end for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notice {
    /// How often it had changed.
    pub(crate) number: u32,
    /// The policy.
    pub(crate) policy: PathPolicy,
}

impl Notice {
    /// Its length in bytes.
    pub(crate) const LEN: usize = 24;

    /// As it is sent.
    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let PathPolicy { role, cost, metered, primary } = self.policy;
        let metering = if metered.is_some() { METERED } else { 0 };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12] = code(role);
        bytes[13] = metering | if primary { PRIMARY } else { 0 };
        bytes[14..16].copy_from_slice(&cost.to_be_bytes());
        bytes[16..].copy_from_slice(&metered.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// What `bytes` begin with; `None` if that is nothing of ours, or has a role that we do not know.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (number, rest) = rest.split_first_chunk()?;
        let ([role, flags], rest) = rest.split_first_chunk()?;
        let (cost, rest) = rest.split_first_chunk()?;
        let (allowance, _) = rest.split_first_chunk()?;
        let allowance = u64::from_be_bytes(*allowance);
        let policy = PathPolicy {
            role: PathRole::ALL.iter().copied().find(|known| code(*known) == *role)?,
            cost: u16::from_be_bytes(*cost),
            metered: (flags & METERED != 0).then_some(allowance),
            primary: flags & PRIMARY != 0,
        };
        Some(Self { number: u32::from_be_bytes(*number), policy })
    }
}

fn code(role: PathRole) -> u8 {
    match role {
        PathRole::Normal => 0,
        PathRole::Backup => 1,
        PathRole::Disabled => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, PathPolicy, PathRole};

    #[test]
    fn what_is_written_is_read() {
        for role in PathRole::ALL {
            for metered in [None, Some(0), Some(u64::MAX)] {
                let policy = PathPolicy { role: *role, cost: 300, metered, primary: true };
                let notice = Notice { number: 7, policy };
                let mut bytes = notice.to_bytes().to_vec();
                bytes.extend([0; 100]);
                assert_eq!(Notice::from_bytes(&bytes), Some(notice));
                assert_eq!(Notice::from_bytes(&bytes[..Notice::LEN - 1]), None);
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let mut bytes = Notice::default().to_bytes();
        bytes[12] = 3;
        assert_eq!(Notice::from_bytes(&bytes), None);
        assert_eq!(Notice::from_bytes(&[0; 64]), None);
    }
}
