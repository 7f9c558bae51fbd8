//! What a user wants of each path: which carry data beside others, which only in place of others, and
//! what they may cost.
//!
//! A rule names paths by their addresses (`table`). On each path that one speaks of, or of which the peer has
//! said something, the wishes of both ends hold together (`regime`): the peer learns ours from the
//! HEARTBEATs of the path itself (`notice`), because the direction that costs is mostly the other one, and
//! because behind an address translator neither end knows the address that the other one sees.
//! `meter` keeps a path within an allowance; `regulated` says which paths may carry data.

mod meter;
mod notice;
mod regime;
mod regulated;
mod table;

pub(crate) use meter::Meter;
pub(crate) use notice::Notice;
pub(crate) use regime::{Rank, Regime};
pub(crate) use regulated::{CostCeiling, no_dearer, standby, usable};
pub use table::PathRule;

crate::names::named! {
    /// What a path is there for.
    #[derive(Default)]
    pub enum PathRole as "role of a path" {
        /// Carries data.
        #[default]
        Normal = "normal",
        /// Carries data while no normal path is usable.
        Backup = "backup",
        /// Carries no data at all.
        Disabled = "disabled",
    }
}

/// What is wanted of a path. The default is what holds without any policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathPolicy {
    /// What it is there for.
    pub role: PathRole,
    /// What it costs beside others, in units of the user: a dearer path carries data only when what waits
    /// has been too much for the cheaper ones for some time.
    pub cost: u16,
    /// Bytes count on the path: it carries so many per second in each direction, headers included, and
    /// more only while nothing else is usable. It is probed less often. `None`: not counted.
    pub metered: Option<u64>,
    /// It is the primary path (RFC 9260 section 6.4), which repeats what has timed out elsewhere.
    pub primary: bool,
}

impl PathPolicy {
    /// How little paths are wanted for the first packets of an association: the least is the best.
    pub(crate) fn reluctance(&self) -> (PathRole, bool, bool, u16) {
        (self.role, self.metered.is_some(), !self.primary, self.cost)
    }

    /// What holds where both ends want something: the stricter of the two, and what both cost.
    fn and(self, other: Self) -> Self {
        let metered = match (self.metered, other.metered) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self {
            role: self.role.max(other.role),
            cost: self.cost.saturating_add(other.cost),
            metered,
            primary: self.primary || other.primary,
        }
    }
}
