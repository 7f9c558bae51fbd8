//! What a lab shall be: its paths and how its hosts are isolated.

use crate::error::LabError;
use crate::host::{Isolation, MAX_PATHS};
use crate::units;
use manypath_sim::{LinkConfig, RedConfig, Trace};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// A lab to be started.
#[derive(Clone, Debug)]
pub struct LabSpec {
    /// With a name, other processes reach the lab by it; without, only this process does.
    pub name: Option<String>,
    /// The paths A, B, C ..; 1 to 26 of them.
    pub paths: Vec<PathSpec>,
    /// How the hosts are isolated.
    pub isolation: Isolation,
}

impl LabSpec {
    /// A lab with these paths, known to this process only.
    pub fn new(paths: Vec<PathSpec>) -> Self {
        Self { name: None, paths, isolation: Isolation::Auto }
    }

    /// The same lab, which other processes can reach by `name`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.paths.is_empty() || self.paths.len() > MAX_PATHS {
            return Err(LabError::Invalid(format!(
                "a lab has 1 to {MAX_PATHS} paths, not {}",
                self.paths.len()
            )));
        }
        self.name.as_deref().map_or(Ok(()), check_name)
    }
}

/// Whether `name` can be part of a file name.
pub(crate) fn check_name(name: &str) -> Result<(), LabError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 32 || name.starts_with('.') || !name.chars().all(good) {
        return Err(LabError::Invalid(format!(
            "'{name}' is no name for a lab: use up to 32 letters, digits, '-', '_' and '.'"
        )));
    }
    Ok(())
}

/// One path, each direction on its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathSpec {
    /// From left to right.
    pub towards_right: LinkConfig,
    /// From right to left.
    pub towards_left: LinkConfig,
}

impl PathSpec {
    /// The same in both directions.
    pub fn symmetric(link: LinkConfig) -> Self {
        Self { towards_right: link.clone(), towards_left: link }
    }
}

impl std::str::FromStr for PathSpec {
    type Err = LabError;

    /// Items separated by commas, each a value whose unit says what it is (`20mbit,10ms,0.1%,100`:
    /// rate, one-way delay, loss, queue in packets) or a key and a value (`rate=20mbit,queue=100`).
    /// `X/Y` as a value gives the directions separately, first towards the right:
    /// `rate=20mbit/5mbit`. Names of files have slashes of their own: `trace=FILE` is for both
    /// directions, `trace_back=FILE` for the one towards the left.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let mut spec = Self::default();
        let mut capacities = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or_else(|| (kind_of(item), item));
            spec.change(key, value)?;
            capacities.extend(["rate", "trace", "trace_back"].into_iter().filter(|k| *k == key));
        }
        if capacities.contains(&"rate") && capacities.len() > 1 {
            return Err(LabError::Invalid(format!(
                "'{text}': a trace replaces the rate: remove one of the two"
            )));
        }
        Ok(spec)
    }
}

impl PathSpec {
    /// Sets a key in both directions, or in that which it names.
    fn change(&mut self, key: &str, value: &str) -> Result<(), LabError> {
        let (right, left) = match key {
            "trace_back" => {
                Change::parse("trace", value)?.apply(&mut self.towards_left);
                return Ok(());
            }
            "trace" => (value, None),
            _ => value.split_once('/').map_or((value, None), |(right, left)| (right, Some(left))),
        };
        let change = Change::parse(key, right)?;
        let back = left.map_or_else(|| Ok(change.clone()), |left| Change::parse(key, left))?;
        change.apply(&mut self.towards_right);
        back.apply(&mut self.towards_left);
        Ok(())
    }
}

/// What a value without a key is, by its unit.
fn kind_of(item: &str) -> &str {
    let value = item.to_ascii_lowercase();
    if !value.starts_with(|c: char| c.is_ascii_digit()) && value != "unlimited" {
        item
    } else if value.ends_with('%') {
        "loss"
    } else if value.ends_with("bit") || value == "unlimited" {
        "rate"
    } else if value.ends_with('s') {
        "delay"
    } else {
        "queue"
    }
}

/// One change of a direction of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Back to work.
    Up,
    /// A black hole; what is under way is lost.
    Down,
    /// Capacity in bits per second, or unlimited.
    Rate(Option<u64>),
    /// Capacity that varies, instead of a rate. It begins when the path gets it.
    Trace(Trace),
    /// One-way delay.
    Delay(Duration),
    /// Random loss in parts per million.
    Loss(u32),
    /// Queue limit in packets.
    Queue(usize),
    /// Additional random delay up to this, in order.
    Jitter(Duration),
    /// Packets that arrive twice, in parts per million.
    Duplicate(u32),
    /// Packets that others overtake, in parts per million.
    Reorder(u32),
    /// Packets with flipped bits, in parts per million.
    Corrupt(u32),
    /// Random early detection between two average lengths of the queue in packets, near the second one of
    /// so many packets per million. ECN-capable ones are marked, others dropped. `None`: a full queue
    /// drops, and nothing else.
    Red(Option<(usize, usize, u32)>),
}

impl Change {
    /// Reads words as of a command line: `down`, `up`, `rate 5mbit`, `delay 40ms loss 1%`.
    pub fn parse_all(words: &[String]) -> Result<Vec<Self>, LabError> {
        let mut changes = Vec::new();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            changes.push(match word {
                "up" => Self::Up,
                "down" => Self::Down,
                key => {
                    let missing = || LabError::Invalid(format!("'{key}' needs a value; {HELP}"));
                    check_key(key)?;
                    Self::parse(key, words.next().ok_or_else(missing)?)?
                }
            });
        }
        if changes.is_empty() {
            return Err(LabError::Invalid(format!("nothing to change; {HELP}")));
        }
        Ok(changes)
    }

    fn parse(key: &str, value: &str) -> Result<Self, LabError> {
        Ok(match key {
            "rate" => Self::Rate(units::rate(value)?),
            "trace" => Self::Trace(trace(value)?),
            "delay" => Self::Delay(units::delay(value)?),
            "loss" => Self::Loss(units::share(value)?),
            "queue" => Self::Queue(units::packets(value)?),
            "jitter" => Self::Jitter(units::delay(value)?),
            "duplicate" => Self::Duplicate(units::share(value)?),
            "reorder" => Self::Reorder(units::share(value)?),
            "corrupt" => Self::Corrupt(units::share(value)?),
            "red" => Self::Red(red(value)?),
            _ => return check_key(key).map(|()| Self::Up),
        })
    }

    pub(crate) fn apply(&self, link: &mut LinkConfig) {
        match self {
            Self::Up => link.up = true,
            Self::Down => link.up = false,
            Self::Rate(rate) => (link.rate_bps, link.trace) = (*rate, None),
            Self::Trace(trace) => link.trace = Some(trace.clone()),
            Self::Delay(delay) => link.delay = *delay,
            Self::Loss(ppm) => link.loss_ppm = *ppm,
            Self::Queue(packets) => link.queue_packets = *packets,
            Self::Jitter(jitter) => link.jitter = *jitter,
            Self::Duplicate(ppm) => link.duplicate_ppm = *ppm,
            Self::Reorder(ppm) => link.reorder_ppm = *ppm,
            Self::Corrupt(ppm) => link.corrupt_ppm = *ppm,
            Self::Red(red) => link.red = red.map(red_config),
        }
    }
}

/// Reads a file of opportunities. Its name is relative to the folder of the command; what goes to the
/// process that holds the lab are the opportunities.
fn trace(file: &str) -> Result<Trace, LabError> {
    Trace::load(Path::new(file)).map_err(|error| LabError::Invalid(error.to_string()))
}

/// Reads `off`, or two lengths of the queue and a share: `5:15:10%`.
fn red(value: &str) -> Result<Option<(usize, usize, u32)>, LabError> {
    if value == "off" {
        return Ok(None);
    }
    let parts: Vec<_> = value.split(':').collect();
    let [least, most, share] = parts[..] else {
        return Err(LabError::Invalid(format!("'{value}' is not like 5:15:10% or off")));
    };
    Ok(Some((units::packets(least)?, units::packets(most)?, units::share(share)?)))
}

fn red_config((least, most, probability_ppm): (usize, usize, u32)) -> RedConfig {
    RedConfig { least, most, probability_ppm, weight_ppm: 2000, marks: true }
}

const KEYS: [&str; 10] =
    ["rate", "trace", "delay", "loss", "queue", "jitter", "duplicate", "reorder", "corrupt", "red"];
const HELP: &str = "a change is up, down, rate 5mbit, trace FILE, delay 40ms, loss 1%, queue 100, \
                    jitter 5ms, duplicate 1%, reorder 1%, corrupt 1% or red 5:15:10%";

fn check_key(key: &str) -> Result<(), LabError> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    Err(LabError::Invalid(format!("'{key}' is nothing that a path has; {HELP}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn paths_by_unit_and_by_key_are_the_same() {
        let short: PathSpec = "20mbit,10ms,100".parse().unwrap();
        let long: PathSpec = "rate=20mbit,delay=10ms,queue=100".parse().unwrap();
        assert_eq!(short, long);
        assert_eq!(short.towards_left.rate_bps, Some(20_000_000));
        assert_eq!(short.towards_left.delay, Duration::from_millis(10));
        assert_eq!("0.1%".parse::<PathSpec>().unwrap().towards_right.loss_ppm, 1000);
        assert_eq!("unlimited".parse::<PathSpec>().unwrap().towards_right.rate_bps, None);
    }

    #[test]
    fn directions_may_differ() {
        let spec: PathSpec = "rate=20mbit/5mbit,delay=10ms".parse().unwrap();
        assert_eq!(spec.towards_right.rate_bps, Some(20_000_000));
        assert_eq!(spec.towards_left.rate_bps, Some(5_000_000));
    }

    #[test]
    fn mistakes_are_named() {
        let text = |spec: &str| spec.parse::<PathSpec>().unwrap_err().to_string();
        assert!(text("speed=1mbit").contains("'speed' is nothing that a path has"));
        assert!(text("20mb").contains("packets"));
        assert!(text("fast,10ms").contains("'fast' is nothing that a path has"));
        assert!(text("rate=fast").contains("a rate like"));
        assert!(Change::parse_all(&words("rate")).unwrap_err().to_string().contains("value"));
        assert!(Change::parse_all(&[]).is_err());
        assert!(LabSpec::new(vec![]).check().is_err());
        assert!(LabSpec::new(vec![PathSpec::default()]).named("../x").check().is_err());
    }

    #[test]
    fn traces_are_files_for_both_directions_or_one() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/traces");
        let spec = |text: &str| text.replace("DIR", folder).parse::<PathSpec>();
        let both = spec("trace=DIR/leo.trace,20ms").unwrap();
        let name = |link: &LinkConfig| link.trace.as_ref().map(|trace| trace.name().to_owned());
        assert_eq!(name(&both.towards_right), Some(format!("{folder}/leo.trace")));
        assert_eq!(both.towards_right, both.towards_left);
        let mixed = spec("trace=DIR/leo.trace,trace_back=DIR/dsl.trace").unwrap();
        assert_eq!(name(&mixed.towards_right), Some(format!("{folder}/leo.trace")));
        assert_eq!(name(&mixed.towards_left), Some(format!("{folder}/dsl.trace")));
        let text = |text: &str| spec(text).unwrap_err().to_string();
        assert!(text("trace=none.trace").starts_with("none.trace: cannot read the trace"));
        assert!(text("20mbit,trace=DIR/leo.trace").contains("a trace replaces the rate"));
        assert!(text("trace=DIR/README.md").contains("README.md:1: "));
    }

    #[test]
    fn a_rate_replaces_a_trace_and_the_other_way_round() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/traces/leo.trace");
        let mut link = LinkConfig::default();
        let mut change = |text: &str| {
            Change::parse_all(&words(text)).unwrap().iter().for_each(|c| c.apply(&mut link));
            link.clone()
        };
        assert!(change(&format!("rate 5mbit trace {file}")).trace.is_some());
        let rate = change("rate 2mbit");
        assert_eq!((rate.trace, rate.rate_bps), (None, Some(2_000_000)));
    }

    #[test]
    fn changes_are_read_and_applied() {
        let changes = Change::parse_all(&words("down rate 5mbit loss 1%")).unwrap();
        let mut link = LinkConfig::default();
        changes.iter().for_each(|change| change.apply(&mut link));
        assert_eq!((link.up, link.rate_bps, link.loss_ppm), (false, Some(5_000_000), 10_000));
    }
}
