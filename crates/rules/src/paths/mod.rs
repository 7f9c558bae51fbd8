//! What each path is there for: lines such as `dev wwan0 backup`, kept in a file.

mod budget;
mod document;
mod file;
mod hours;
mod parse;

pub use budget::{Budget, Date, Period};
pub use document::PathsDocument;
pub use file::PathsFile;
pub use hours::Hours;
pub(crate) use parse::{rate_text, read_rate};

use crate::error::RuleError;
use std::fmt;
use std::net::IpAddr;

/// Which paths are meant: those that fit everything that is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSelector {
    /// From this address of this host.
    pub local: Option<IpAddr>,
    /// From the addresses of this interface.
    pub device: Option<String>,
    /// To this address of a peer.
    pub peer: Option<IpAddr>,
}

/// What a path is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// To carry data.
    #[default]
    Normal,
    /// To carry data while no normal path is usable.
    Backup,
    /// To carry none.
    Disabled,
}

/// What is wanted of paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathWish {
    /// What they are there for.
    pub role: Role,
    /// What they cost beside others.
    pub cost: u16,
    /// Bytes per second that they may carry where bytes count; 0: only what nothing else carries.
    pub metered: Option<u64>,
    /// To be the primary path.
    pub primary: bool,
    /// Bytes after which they are left alone until the next day or month.
    pub budget: Option<Budget>,
    /// When this holds; always when absent.
    pub hours: Option<Hours>,
}

/// One line: paths, and what is wanted of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathEntry {
    /// The paths.
    pub selector: PathSelector,
    /// What is wanted.
    pub wish: PathWish,
}

/// One change of a wish, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathWord {
    /// `normal`, `enable`, `backup`, `disable`.
    Role(Role),
    /// `cost N`.
    Cost(u16),
    /// `metered RATE`, `metered`, `metered off`.
    Metered(Option<u64>),
    /// `primary`, `primary off`.
    Primary(bool),
    /// `budget SIZE/PERIOD`, `budget SIZE/PERIOD hard`, `budget off`.
    Budget(Option<Budget>),
    /// `hours FROM-UNTIL`, `hours off`.
    Hours(Option<Hours>),
}

impl PathSelector {
    /// Whether it fits a path from an address of an interface.
    #[must_use]
    pub fn fits_local(&self, local: IpAddr, device: &str) -> bool {
        self.local.is_none_or(|wanted| wanted == local)
            && self.device.as_deref().is_none_or(|wanted| wanted == device)
    }

    /// Whether it fits a path to an address.
    #[must_use]
    pub fn fits_peer(&self, peer: IpAddr) -> bool {
        self.peer.is_none_or(|wanted| wanted == peer)
    }

    /// Whether nothing in it says that it means other paths than `other`.
    #[must_use]
    pub fn may_meet(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        agree(self.local.as_ref(), other.local.as_ref())
            && agree(self.device.as_ref(), other.device.as_ref())
            && agree(self.peer.as_ref(), other.peer.as_ref())
    }

    /// Whether it fits every path that `other` fits.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        fn covers<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || one == other
        }
        covers(&self.local, &other.local)
            && covers(&self.device, &other.device)
            && covers(&self.peer, &other.peer)
    }

    /// Whether it says nothing at all, and so means every path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl PathWish {
    /// Lets `words` take effect, one after the other.
    pub fn apply(&mut self, words: &[PathWord]) {
        for word in words {
            match *word {
                PathWord::Role(role) => self.role = role,
                PathWord::Cost(cost) => self.cost = cost,
                PathWord::Metered(metered) => self.metered = metered,
                PathWord::Primary(primary) => self.primary = primary,
                PathWord::Budget(budget) => self.budget = budget,
                PathWord::Hours(hours) => self.hours = hours,
            }
        }
    }
}

/// Reads words such as `10.0.0.2 dev wwan0 peer 192.0.2.1 metered 5mbit`.
///
/// # Errors
/// What is wrong, and what is allowed.
pub fn parse_path(words: &[&str]) -> Result<(PathSelector, Vec<PathWord>), RuleError> {
    parse::words(words)
}

impl Role {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Backup => "backup",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for PathSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local.map(|local| local.to_string());
        let device = self.device.as_ref().map(|device| format!("dev {device}"));
        let peer = self.peer.map(|peer| format!("peer {peer}"));
        let words: Vec<_> = [local, device, peer].into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}

impl fmt::Display for PathWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let is_plain = Self { hours: None, ..*self } == Self::default();
        if self.role != Role::Normal || is_plain {
            words.push(self.role.name().to_owned());
        }
        if self.cost > 0 {
            words.push(format!("cost {}", self.cost));
        }
        match self.metered {
            Some(0) => words.push("metered".to_owned()),
            Some(rate) => words.push(format!("metered {}", rate_text(rate))),
            None => {}
        }
        if self.primary {
            words.push("primary".to_owned());
        }
        words.extend(self.budget.map(|budget| format!("budget {budget}")));
        words.extend(self.hours.map(|hours| format!("hours {hours}")));
        f.write_str(&words.join(" "))
    }
}

impl PathEntry {
    /// What it says of `selector`, if that makes sense.
    ///
    /// # Errors
    /// A budget of anything but an interface: the kernel counts what an interface carries, for whomever it is.
    pub(crate) fn new(selector: PathSelector, wish: PathWish) -> Result<Self, RuleError> {
        let of_interface =
            selector.device.is_some() && selector.local.is_none() && selector.peer.is_none();
        match wish.budget {
            Some(_) if !of_interface => Err(RuleError::new(
                "a budget is one of an interface: write `dev INTERFACE budget SIZE/PERIOD`",
            )),
            _ => Ok(Self { selector, wish }),
        }
    }
}

impl fmt::Display for PathEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.selector, self.wish)
    }
}
