//! Relays by which connections go, as options and settings name them: `HOST[:PORT],...` or `off`.

use crate::error::RuleError;
use crate::interned::{Known, keep};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Most relays that one option names.
const MAX_RELAYS: usize = 8;
/// Longest name of a host (RFC 1035 section 2.3.4, as text).
const MAX_NAME: usize = 253;
const OFF: &str = "off";

/// Relays in the order in which they are tried; none if it is off.
///
/// It is a number in a table of all that this process has read, so that options can be copied. What is read stays:
/// files and commands name few relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Via(&'static str);

/// A host that relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayHost<'a> {
    /// An address or a name.
    pub host: &'a str,
    /// The UDP port at which it accepts associations, unless that is the usual one.
    pub port: Option<u16>,
}

static KNOWN: Known = Mutex::new(Vec::new());

impl Via {
    /// Connections do not go by a relay.
    pub const NONE: Self = Self(OFF);

    /// The relays in order.
    pub fn relays(self) -> impl Iterator<Item = RelayHost<'static>> {
        self.0.split(',').filter_map(|text| relay_host(text).ok())
    }

    /// Whether it names no relay.
    #[must_use]
    pub fn is_off(self) -> bool {
        self.0 == OFF
    }

    /// Its number in this process, for settings, which are numbers: 0 if it is off.
    #[must_use]
    pub fn number(self) -> u64 {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().filter(|kept| **kept != OFF).position(|kept| *kept == self.0);
        at.map_or(0, |at| at as u64 + 1)
    }

    /// The one with that number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = known.iter().filter(|kept| **kept != OFF);
        let at = number.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| named.nth(at)).map_or(Self::NONE, |kept| Self(kept))
    }

    /// Its text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl FromStr for Via {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if text != OFF {
            text.split(',').try_for_each(|one| relay_host(one).map(|_| ()))?;
        }
        if text.split(',').count() > MAX_RELAYS {
            return Err(RuleError::new(format!("{text}: more than {MAX_RELAYS} relays")));
        }
        Ok(Self(keep(&KNOWN, text)))
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Via {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// Reads one of them.
fn relay_host(text: &str) -> Result<RelayHost<'_>, RuleError> {
    let wrong = || {
        RuleError::unknown(
            "relay",
            text,
            "HOST, HOST:PORT, ADDRESS or [IPV6]:PORT, or off for none",
        )
    };
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
        None if text.parse::<IpAddr>().is_ok() => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong));
    let is_name = (1..=MAX_NAME).contains(&host.len())
        && host.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_'));
    let bracketed = text.starts_with('[');
    let fits = match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => true,
        Ok(IpAddr::V4(_)) => !bracketed,
        Err(_) => is_name && !bracketed && host != OFF,
    };
    if fits { Ok(RelayHost { host, port: port.transpose()? }) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relays(text: &str) -> Vec<(&'static str, Option<u16>)> {
        text.parse::<Via>().unwrap().relays().map(|one| (one.host, one.port)).collect()
    }

    #[test]
    fn relays_are_addresses_or_names_with_a_port_or_without_in_order() {
        assert_eq!(
            relays("192.0.2.1,relay.example:443,[2001:db8::1]:9900,2001:db8::2"),
            [
                ("192.0.2.1", None),
                ("relay.example", Some(443)),
                ("2001:db8::1", Some(9900)),
                ("2001:db8::2", None)
            ]
        );
        assert_eq!(relays("192.0.2.1:9899"), [("192.0.2.1", Some(9899))]);
        assert!(Via::NONE.is_off() && "off".parse() == Ok(Via::NONE) && relays("off").is_empty());
    }

    #[test]
    fn what_names_no_relay_is_refused() {
        let many = ["a"; 9].join(",");
        for text in
            ["", ",", "a,", "a:", "a:0", "a:65536", "a b", "[a]:1", "[::1]1", "a/b", "a,off", &many]
        {
            assert!(text.parse::<Via>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_same_text_is_kept_once() {
        let [one, other] = [(); 2].map(|()| "relay.example".parse::<Via>().unwrap());
        assert!(std::ptr::eq(one.as_str(), other.as_str()));
        assert_eq!(Via::of_number(one.number()), one);
        assert_eq!((Via::NONE.number(), Via::of_number(0)), (0, Via::NONE));
    }
}
