//! What a stack says about single paths: what is wanted of them, why they are idle, what happens to them.

use serde::{Deserialize, Serialize};
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

/// Why a path sends nothing now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleReason {
    /// Nothing waits to be sent.
    NoData,
    /// Acknowledgements are awaited.
    CongestionWindow,
    /// It shares a bottleneck with another path, to which it gives way.
    SharedBottleneck,
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
    /// Its interface has carried what it may in this day or month.
    Budget,
    /// The user of one end has disabled it.
    Disabled,
    /// A rule keeps the connections of the association off it.
    Excluded,
    /// The interface of its local address has no link.
    NoLink,
}

impl IdleReason {
    /// The reason for people, where `losses` in a row were counted on the path.
    #[must_use]
    pub fn text(self, losses: u32) -> String {
        match self {
            Self::NoData => "no data to send",
            Self::CongestionWindow => "congestion window used up",
            Self::SharedBottleneck => "shares a bottleneck with another path",
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
            Self::Budget => "budget of its interface used up",
            Self::Disabled => "disabled",
            Self::Excluded => {
                "a rule keeps these connections off its interface (path, never-metered)"
            }
            Self::NoLink => "its interface has no link",
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
