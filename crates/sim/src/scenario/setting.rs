//! Values of keys: how they are written in a scenario, and how they appear in results.
//!
//! In a scenario times, rates and sizes carry their unit ("75ms", "10mbit", "64KiB", "0.1%"); in
//! results they are plain numbers in seconds, bit/s, bytes and parts of one.

use super::document::{Node, Value};
use manypath_engine::{
    BufferSplit, BurstLimit, CongestionControl, CwndUpdate, Duration, EcnUse, FastRecoveryScope,
    InitialWindow, LossRecovery, NrSack, Pacing, PathMtu, PathScheduling, PathSuspicion,
    ProbeOrder, RetransmissionPolicy, SackPath, SharedBottleneck, SplitFastRetransmit,
    StreamMapping, StreamScheduling, UnknownName,
};

/// A type that keys can have.
pub(crate) trait Setting: Sized {
    /// Reads it; the error says what is expected.
    fn read(node: &Node) -> Result<Self, String>;
    /// It as a column of a result.
    fn show(&self) -> String;
}

/// Bits per second; `None` is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate(pub(crate) Option<u64>);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

/// A probability in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share(pub(crate) u32);

/// Probability that a bit is wrong, per 10^12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BitErrors(pub(crate) u64);

impl Setting for Rate {
    fn read(node: &Node) -> Result<Self, String> {
        const UNITS: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        if node.value == Value::Text("unlimited".into()) {
            return Ok(Self(None));
        }
        let rate = scaled(node, &UNITS, "a rate such as \"10mbit\" or \"unlimited\"")?;
        (1.0..=1e12).contains(&rate).then_some(Self(Some(rate.round() as u64))).ok_or_else(|| {
            "a rate is between 1bit and 1000gbit; set up = false for a dead link".to_owned()
        })
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string())
    }
}

impl Setting for Size {
    fn read(node: &Node) -> Result<Self, String> {
        const UNITS: [(&str, f64); 5] =
            [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1_048_576.0)];
        let hint = "a size in bytes such as 1452, \"64KiB\" or \"5MB\"";
        if let Value::Integer(bytes) = node.value {
            return u64::try_from(bytes).map(Self).map_err(|_| expected(hint, node));
        }
        scaled(node, &UNITS, hint).map(|bytes| Self(bytes.round() as u64))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Setting for Share {
    fn read(node: &Node) -> Result<Self, String> {
        let hint = "a share such as \"0.1%\" or 0.001";
        let share = match node.value {
            Value::Float(share) => share,
            Value::Integer(share) => share as f64,
            Value::Text(_) => scaled(node, &[("%", 0.01)], hint)?,
            Value::Bool(_) | Value::Array(_) | Value::Table(_) => return Err(expected(hint, node)),
        };
        let fits = (0.0..=1.0).contains(&share);
        fits.then_some(Self((share * 1e6).round() as u32)).ok_or_else(|| expected(hint, node))
    }

    fn show(&self) -> String {
        (f64::from(self.0) / 1e6).to_string()
    }
}

impl Setting for BitErrors {
    fn read(node: &Node) -> Result<Self, String> {
        match node.value {
            Value::Integer(0) => Ok(Self(0)),
            Value::Float(rate) if (0.0..=0.01).contains(&rate) => {
                Ok(Self((rate * 1e12).round() as u64))
            }
            _ => Err(expected("a bit error rate such as 1e-6, at most 0.01", node)),
        }
    }

    fn show(&self) -> String {
        (self.0 as f64 / 1e12).to_string()
    }
}

impl Setting for Duration {
    fn read(node: &Node) -> Result<Self, String> {
        const UNITS: [(&str, f64); 5] =
            [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];
        if node.value == Value::Integer(0) {
            return Ok(Self::ZERO);
        }
        let seconds = scaled(node, &UNITS, "a time such as \"10ms\" or \"300s\"")?;
        if seconds > 1e6 {
            return Err("a time is at most 1000000s".to_owned());
        }
        Ok(Self::from_nanos((seconds * 1e9).round() as u64))
    }

    fn show(&self) -> String {
        self.as_secs_f64().to_string()
    }
}

impl Setting for bool {
    fn read(node: &Node) -> Result<Self, String> {
        match node.value {
            Value::Bool(flag) => Ok(flag),
            _ => Err(expected("true or false", node)),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn read(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(expected("a text in quotes", node)),
        }
    }

    fn show(&self) -> String {
        self.clone()
    }
}

macro_rules! whole_number_setting {
    ($($type:ty),* $(,)?) => { $(
        impl Setting for $type {
            fn read(node: &Node) -> Result<Self, String> {
                let most = <$type>::MAX as u64;
                let hint = format!("a whole number or size up to {most}");
                Size::read(node).ok().and_then(|size| <$type>::try_from(size.0).ok())
                    .ok_or_else(|| expected(&hint, node))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )* };
}
whole_number_setting!(u8, u16, u32, u64, usize);

/// The engine's choices by name tell themselves what is allowed.
macro_rules! named_setting {
    ($($type:ty),* $(,)?) => { $(
        impl Setting for $type {
            fn read(node: &Node) -> Result<Self, String> {
                node.to_string().parse().map_err(|e: UnknownName| e.to_string())
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )* };
}
named_setting!(
    BufferSplit,
    BurstLimit,
    CongestionControl,
    CwndUpdate,
    FastRecoveryScope,
    InitialWindow,
    NrSack,
    Pacing,
    EcnUse,
    PathMtu,
    ProbeOrder,
    PathScheduling,
    RetransmissionPolicy,
    PathSuspicion,
    SharedBottleneck,
    LossRecovery,
    SackPath,
    SplitFastRetransmit,
    StreamMapping,
    StreamScheduling,
);

/// Reads one of several names.
pub(crate) fn one_of<T: Copy>(node: &Node, choices: &[(&str, T)]) -> Result<T, String> {
    let name = node.to_string();
    let found = choices.iter().find(|(choice, _)| *choice == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        expected(&format!("one of {}", names.join(", ")), node)
    })
}

fn expected(what: &str, node: &Node) -> String {
    match &node.value {
        Value::Text(text) => format!("expected {what}, not \"{text}\""),
        _ => format!("expected {what}, not {node}"),
    }
}

fn scaled(node: &Node, units: &[(&str, f64)], hint: &str) -> Result<f64, String> {
    let Value::Text(text) = &node.value else { return Err(expected(hint, node)) };
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = units.iter().find(|(name, _)| *name == unit.trim());
    match (digits.parse::<f64>(), factor) {
        (Ok(value), Some((_, factor))) => Ok(value * factor),
        _ => Err(expected(hint, node)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Place;
    use super::*;

    fn text(text: &str) -> Node {
        Node { at: Place::NONE, value: Value::Text(text.into()) }
    }

    #[test]
    fn units_are_understood_and_results_are_plain_numbers() {
        assert_eq!(Duration::read(&text("75ms")).map(|d| d.show()), Ok("0.075".into()));
        assert_eq!(Rate::read(&text("10mbit")).map(|r| r.show()), Ok("10000000".into()));
        assert_eq!(Size::read(&text("64KiB")).map(|s| s.show()), Ok("65536".into()));
        assert_eq!(Share::read(&text("0.1%")).map(|s| s.show()), Ok("0.001".into()));
        assert_eq!(u32::read(&text("1KiB")), Ok(1024));
    }

    #[test]
    fn impossible_values_are_refused_with_what_is_expected() {
        for wrong in ["10", "-1ms", "ms", "10mbit"] {
            assert!(Duration::read(&text(wrong)).unwrap_err().contains("\"10ms\""), "{wrong}");
        }
        assert!(Share::read(&text("101%")).is_err());
        assert!(Rate::read(&text("0mbit")).is_err());
        assert!(u16::read(&text("65536B")).unwrap_err().contains("65535"));
    }
}
