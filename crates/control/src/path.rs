//! What a stack says about single paths: what is wanted of them, why they are idle, what happens to them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// What one end wants of a path.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathPolicy {
    /// `normal`, `backup` or `disabled`.
    pub role: String,
    /// What it costs beside others: cheaper paths are used first.
    pub cost: u16,
    /// Bytes per second that it may carry in each direction; absent where bytes do not count.
    pub metered_bytes_per_s: Option<u64>,
    /// Whether it is to be the primary path.
    pub primary: bool,
}

impl PathPolicy {
    /// Whether it is what holds without any policy.
    #[must_use]
    pub fn is_default(&self) -> bool {
        matches!(self.role.as_str(), "" | "normal")
            && (self.cost, self.metered_bytes_per_s, self.primary) == (0, None, false)
    }
}

/// As it is given to `manypath path`.
impl fmt::Display for PathPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("normal");
        }
        let mut words = Vec::new();
        if !matches!(self.role.as_str(), "" | "normal") {
            words.push(self.role.clone());
        }
        if self.cost > 0 {
            words.push(format!("cost {}", self.cost));
        }
        match self.metered_bytes_per_s {
            Some(0) => words.push("metered".to_owned()),
            Some(rate) => words.push(format!("metered {}", in_bits(rate))),
            None => {}
        }
        if self.primary {
            words.push("primary".to_owned());
        }
        f.write_str(&words.join(" "))
    }
}

/// A rate of bytes per second in the units of tc: `5mbit`.
fn in_bits(bytes_per_s: u64) -> String {
    let bits = bytes_per_s.saturating_mul(8);
    match bits {
        0 => "0bit".to_owned(),
        _ if bits.is_multiple_of(1_000_000_000) => format!("{}gbit", bits / 1_000_000_000),
        _ if bits.is_multiple_of(1_000_000) => format!("{}mbit", bits / 1_000_000),
        _ if bits.is_multiple_of(1_000) => format!("{}kbit", bits / 1_000),
        _ => format!("{bits}bit"),
    }
}

/// Why a path sends nothing now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleReason {
    /// Nothing waits to be sent.
    NoData,
    /// Acknowledgements are awaited.
    CongestionWindow,
    /// The next packet waits for its time.
    Burst,
    /// The path's share of the buffers is used up.
    BufferShare,
    /// The peer's receive window is used up.
    ReceiveWindow,
    /// The peer has not answered there yet.
    Unconfirmed,
    /// It is taken for potentially failed.
    Suspended,
    /// It has failed.
    Inactive,
    /// What waits is of streams that use other paths.
    OtherStreams,
    /// Another path is primary, and one is used at a time.
    Standby,
    /// The rest arrives sooner over faster paths.
    FasterPath,
    /// It is a backup, and a normal path works.
    Backup,
    /// Cheaper paths carry everything.
    Cost,
    /// Its allowance is used up, or it has none.
    Metered,
    /// The user of one end has disabled it.
    Disabled,
}

impl IdleReason {
    /// The reason for people, where `losses` in a row were counted on the path.
    #[must_use]
    pub fn text(self, losses: u32) -> String {
        match self {
            Self::NoData => "no data to send",
            Self::CongestionWindow => "congestion window used up",
            Self::Burst => "the next packet would make a burst",
            Self::BufferShare => "share of the buffers used up",
            Self::ReceiveWindow => "peer's receive window used up",
            Self::Unconfirmed => "peer's address not confirmed yet",
            Self::Suspended => "suspended until a probe is answered",
            Self::Inactive => return format!("inactive after {losses} losses in a row"),
            Self::OtherStreams => "what waits belongs to streams of other paths",
            Self::Standby => "another path is primary",
            Self::FasterPath => "faster paths deliver the rest sooner",
            Self::Backup => "backup, and a normal path works",
            Self::Cost => "costs more than paths that carry everything",
            Self::Metered => "metered, and the allowance is used up",
            Self::Disabled => "disabled",
        }
        .to_owned()
    }
}

/// Something has happened to a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathEvent {
    /// What.
    pub event: PathChange,
    /// Process of the stack.
    pub pid: u32,
    /// The association.
    pub association: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The interface that has our address.
    pub interface: String,
    /// The state of the path, as in the status.
    pub state: String,
    /// What this end wants of it.
    pub policy: PathPolicy,
    /// What the peer wants of it.
    pub peer_policy: PathPolicy,
}

/// What has happened to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathChange {
    /// There is one more.
    Added,
    /// It works: the peer has answered there, for the first time or again.
    Confirmed,
    /// It is suspected to have failed.
    Suspended,
    /// It has failed.
    Inactive,
    /// Something else is wanted of it.
    Policy,
    /// It is gone, perhaps with its association.
    Removed,
}

impl PathChange {
    /// Its name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Confirmed => "confirmed",
            Self::Suspended => "suspended",
            Self::Inactive => "inactive",
            Self::Policy => "policy",
            Self::Removed => "removed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PathPolicy;

    #[test]
    fn policies_read_as_they_are_given() {
        let policy = |role: &str, cost, metered_bytes_per_s, primary| PathPolicy {
            role: role.to_owned(),
            cost,
            metered_bytes_per_s,
            primary,
        };
        for (policy, text) in [
            (PathPolicy::default(), "normal"),
            (policy("normal", 0, None, true), "primary"),
            (policy("backup", 10, Some(625_000), false), "backup cost 10 metered 5mbit"),
            (policy("disabled", 0, Some(0), false), "disabled metered"),
            (policy("normal", 0, Some(16_000), false), "metered 128kbit"),
        ] {
            assert_eq!(policy.to_string(), text);
        }
    }
}
