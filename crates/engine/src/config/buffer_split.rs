//! What buffer splitting can be.

use crate::names::{UnknownName, named};
use core::fmt;
use core::str::FromStr;

/// Which buffers are split, by what and into what. Named `none`, or by its three parts:
/// `both-queued-equal`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferSplit {
    /// Whose buffers.
    pub sides: SplitSides,
    /// What of a path counts against its share.
    pub measure: SplitMeasure,
    /// How large the shares are.
    pub shares: SplitShares,
}

named! {
    /// Whose buffers are split between the paths.
    pub enum SplitSides as "split buffer" {
        /// Nobody's.
        None = "none",
        /// The send buffer.
        Sender = "sender",
        /// The peer's receive window.
        Receiver = "receiver",
        /// Both.
        Both = "both",
    }
}

named! {
    /// What of a path counts against its share.
    pub enum SplitMeasure as "measure of buffer splitting" {
        /// What is in flight on it.
        Outstanding = "outstanding",
        /// What was sent on it last and is not acknowledged for good (the paper's).
        Queued = "queued",
    }
}

named! {
    /// How large the shares are.
    pub enum SplitShares as "share of buffer splitting" {
        /// One part of n of the paths that carry data.
        Equal = "equal",
        /// In proportion to the congestion windows: a path needs in the buffer what it has under
        /// way in a round trip. Never less than two packets.
        Proportional = "proportional",
    }
}

impl BufferSplit {
    /// No splitting.
    pub const NONE: Self =
        Self { sides: SplitSides::None, measure: SplitMeasure::Queued, shares: SplitShares::Equal };

    /// What can be written.
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "sender-outstanding-equal",
        "sender-outstanding-proportional",
        "sender-queued-equal",
        "sender-queued-proportional",
        "receiver-outstanding-equal",
        "receiver-outstanding-proportional",
        "receiver-queued-equal",
        "receiver-queued-proportional",
        "both-outstanding-equal",
        "both-outstanding-proportional",
        "both-queued-equal",
        "both-queued-proportional",
    ];
}

impl fmt::Display for BufferSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sides, measure, shares } = self;
        match sides {
            SplitSides::None => write!(f, "{sides}"),
            SplitSides::Sender | SplitSides::Receiver | SplitSides::Both => {
                write!(f, "{sides}-{measure}-{shares}")
            }
        }
    }
}

impl FromStr for BufferSplit {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let parts = |name: &str| -> Option<Self> {
            let mut parts = name.split('-');
            let (sides, measure, shares) = (parts.next()?, parts.next()?, parts.next()?);
            let sides = sides.parse().ok().filter(|sides| *sides != SplitSides::None)?;
            let split =
                Self { sides, measure: measure.parse().ok()?, shares: shares.parse().ok()? };
            parts.next().is_none().then_some(split)
        };
        let found = if name == "none" { Some(Self::NONE) } else { parts(name) };
        found.ok_or_else(|| UnknownName {
            choice: "buffer split",
            name: name.into(),
            allowed: Self::NAMES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BufferSplit;
    use alloc::string::ToString;

    #[test]
    fn names_there_and_back() {
        for name in BufferSplit::NAMES {
            assert_eq!(name.parse::<BufferSplit>().unwrap().to_string(), *name);
        }
        for wrong in ["", "both", "none-queued-equal", "both-queued-equal-x", "Both-queued-equal"] {
            assert!(wrong.parse::<BufferSplit>().is_err(), "{wrong}");
        }
    }
}
