//! The ports that a rule speaks of.

use crate::error::RuleError;
use std::fmt;
use std::str::FromStr;

/// One port, or a contiguous range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port that a connection can name.
    pub const ALL: Self = Self { first: 1, last: u16::MAX };

    /// The ports `first` to `last`, both included.
    ///
    /// # Errors
    /// When the range is empty or holds port 0, which no connection names.
    pub fn new(first: u16, last: u16) -> Result<Self, RuleError> {
        if first == 0 {
            return Err(RuleError::new("port 0 names nothing: ports are 1 to 65535"));
        }
        if last < first {
            return Err(RuleError::new(format!(
                "ports {first}-{last}: the smaller number comes first"
            )));
        }
        Ok(Self { first, last })
    }

    /// The smallest port.
    #[must_use]
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The largest port.
    #[must_use]
    pub fn last(&self) -> u16 {
        self.last
    }

    /// Whether the port is one of them.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = RuleError;

    /// `PORT`, `FIRST-LAST`, or `FIRST:LAST` as the thesis writes it.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
        Self::new(parse_port(first)?, parse_port(last)?)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

fn parse_port(text: &str) -> Result<u16, RuleError> {
    text.parse().map_err(|_| {
        RuleError::new(format!("\"{text}\" is no port: write a number from 1 to 65535"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range() {
        let range: Ports = "1000-2000".parse().unwrap();
        assert_eq!(range, "1000:2000".parse().unwrap());
        assert!(range.contains(1000) && range.contains(2000) && !range.contains(2001));
        assert_eq!("22".parse::<Ports>().unwrap().to_string(), "22");
    }

    #[test]
    fn impossible_ports_are_refused() {
        for wrong in ["0", "0-5", "9-3", "65536", "ssh", "1-", ""] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
    }
}
