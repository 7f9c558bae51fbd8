//! How a connection that a rule enables is carried.

use crate::error::RuleError;
use serde::Serialize;
use std::fmt;

/// What a rule may say beyond yes and no. What is absent is left as the stack has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    /// Whether one direction may be closed before the other; otherwise the end of one direction
    /// ends the connection, as it does between native SCTP programs.
    pub half_close: Option<bool>,
    /// Whether a service is told the client's address by a PROXY protocol header.
    pub proxy: Option<bool>,
    /// No fallback to TCP: what SCTP cannot reach fails.
    pub sctp_only: Option<bool>,
}

/// What [`Options::set`] reads.
const ALLOWED: &str = "half-close=on|off, proxy=on|off, sctp-only=on|off";

impl Options {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads one `KEY=VALUE`.
    pub(crate) fn set(&mut self, word: &str) -> Result<(), RuleError> {
        let Some((key, value)) = word.split_once('=') else {
            return Err(RuleError::unknown("word", word, crate::parse::WORDS));
        };
        let slot = match key {
            "half-close" => &mut self.half_close,
            "proxy" => &mut self.proxy,
            "sctp-only" => &mut self.sctp_only,
            _ => return Err(RuleError::unknown("option", key, ALLOWED)),
        };
        match slot.replace(switch(key, value)?) {
            None => Ok(()),
            Some(_) => Err(RuleError::new(format!("{word}: the option is given twice"))),
        }
    }
}

fn switch(key: &str, value: &str) -> Result<bool, RuleError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(RuleError::unknown(&format!("value of {key}"), value, "on or off")),
    }
}

impl fmt::Display for Options {
    /// Each option after a blank, as the words of a rule have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words =
            [("half-close", self.half_close), ("proxy", self.proxy), ("sctp-only", self.sctp_only)];
        let mut said = words.iter().filter_map(|(key, value)| Some((key, (*value)?)));
        said.try_for_each(|(key, on)| write!(f, " {key}={}", if on { "on" } else { "off" }))
    }
}
