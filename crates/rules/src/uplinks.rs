//! Uplinks that a connection may use: `path=NAME[,NAME]`, `path-down=wait|any` and `never-metered=on|off`.

use crate::error::RuleError;
use crate::interned::{Known, keep};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Mutex;

/// Most uplinks that one option names.
const MAX_UPLINKS: usize = 8;
/// Longest name of an interface (`IFNAMSIZ` of netdevice(7), without the end).
const MAX_NAME: usize = 15;

static KNOWN: Known = Mutex::new(Vec::new());

/// Interfaces, or addresses of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uplinks(&'static str);

impl Uplinks {
    /// Whether an address of this host at `interface` is meant.
    #[must_use]
    pub fn name(self, interface: &str, addr: IpAddr) -> bool {
        self.0.split(',').any(|name| name == interface || name.parse() == Ok(addr))
    }
}

impl FromStr for Uplinks {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let odd = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '=');
        let is_interface = |name: &str| (1..=MAX_NAME).contains(&name.len()) && !name.contains(odd);
        let is_name = |name: &str| name.parse::<IpAddr>().is_ok() || is_interface(name);
        let all = || text.split(',');
        if let Some(wrong) = all().find(|name| !is_name(name)) {
            return Err(RuleError::unknown(
                "uplink",
                wrong,
                "an interface or an address of this host",
            ));
        }
        match all().count() > MAX_UPLINKS {
            true => Err(RuleError::new(format!("{text}: more than {MAX_UPLINKS} uplinks"))),
            false => Ok(Self(keep(&KNOWN, text))),
        }
    }
}

impl fmt::Display for Uplinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Uplinks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// What happens while none of the uplinks that a connection may use works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PathDown {
    /// Connections wait for one of them, and new ones fail.
    #[default]
    Wait,
    /// They use any other.
    Any,
}

impl PathDown {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Any];
    /// Their words, in the same order.
    pub const NAMES: &[&str] = &["wait", "any"];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Which uplinks a connection may use. Connections with the same share associations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PathLimits {
    /// These alone.
    pub uplinks: Option<Uplinks>,
    /// None that is metered.
    pub never_metered: bool,
    /// While none of them works.
    pub when_down: PathDown,
}

impl PathLimits {
    /// Whether all may be used.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.uplinks.is_none() && !self.never_metered
    }

    /// Whether others are never used.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        !self.is_none() && self.when_down == PathDown::Wait
    }

    /// Whether the address of this host at `interface` may be used.
    #[must_use]
    pub fn allow(&self, interface: &str, addr: IpAddr, is_metered: bool) -> bool {
        self.uplinks.is_none_or(|uplinks| uplinks.name(interface, addr))
            && !(self.never_metered && is_metered)
    }
}

impl fmt::Display for PathLimits {
    /// As the words of a rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uplinks = self.uplinks.map(|uplinks| format!("path={uplinks}"));
        let metered = self.never_metered.then(|| "never-metered=on".to_owned());
        let down = self.uplinks.map(|_| format!("path-down={}", self.when_down.name()));
        let words: Vec<String> = [uplinks, down, metered].into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}
