//! Rate traces in the format of Mahimahi's `mm-link` (Netravali et al.: "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015): a line for each opportunity to deliver
//! [`OPPORTUNITY_BYTES`], the time in whole milliseconds from the start of the trace. Times do not
//! decrease; after the last one the trace repeats.

mod error;
mod opportunities;
#[cfg(test)]
mod tests;

pub use error::TraceError;
pub(super) use opportunities::Opportunities;

use error::Problem;
use manypath_engine::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Bytes that an opportunity can carry.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// When a link can deliver. A clone shares the times.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Trace {
    name: Arc<str>,
    /// In milliseconds, not decreasing; the last one is not zero.
    times: Arc<[u32]>,
}

impl Trace {
    /// A trace of these times in milliseconds; `name` is what results and errors call it.
    ///
    /// # Errors
    /// No time at all, one that is earlier than the one before it, or nothing but zeros.
    pub fn new(name: &str, times: Vec<u32>) -> Result<Self, TraceError> {
        let wrong = |line, problem| Err(TraceError::new(name, line, problem));
        if let Some(at) = times.windows(2).position(|pair| pair[0] > pair[1]) {
            return wrong(at + 2, Problem::Decreasing { time: times[at + 1], before: times[at] });
        }
        match times.last() {
            None => wrong(0, Problem::Empty),
            Some(0) => wrong(times.len(), Problem::ZeroLength),
            Some(_) => Ok(Self { name: name.into(), times: times.into() }),
        }
    }

    /// Reads the text of a file; `name` names it in results and errors.
    ///
    /// # Errors
    /// As [`Trace::new`], and a line that is no number.
    pub fn parse(name: &str, text: &str) -> Result<Self, TraceError> {
        let time = |(line, text): (usize, &str)| {
            let text = text.trim_end();
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let time = text.parse().ok().filter(|_| is_number);
            time.ok_or_else(|| TraceError::new(name, line, Problem::NotANumber(text.to_owned())))
        };
        let times = (1..).zip(text.lines()).map(time).collect::<Result<_, _>>()?;
        Self::new(name, times)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Trace::parse`], and a file that cannot be read.
    pub fn load(file: &Path) -> Result<Self, TraceError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| TraceError::new(&name, 0, Problem::Unreadable(error.to_string())))?;
        Self::parse(&name, &text)
    }

    /// Whether one is a clone of the other, not only equal.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.times, &other.times)
    }

    /// An equal one that is no clone: a link that has this one begins with it anew.
    pub(crate) fn anew(&self) -> Self {
        Self { times: Arc::from(&*self.times), ..self.clone() }
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        self.times.iter().map(|time| format!("{time}\n")).collect()
    }

    /// Opportunities of one period, in milliseconds.
    pub fn times(&self) -> &[u32] {
        &self.times
    }

    /// Time after which it repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Capacity in bits per second, averaged over a period; at least 1.
    pub fn mean_rate_bps(&self) -> u64 {
        let bits = self.times.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8;
        (bits * 1000 / self.period_ms()).max(1)
    }

    /// Opportunities after `from` and until `to`, both counted from the start of the trace.
    pub fn opportunities_between(&self, from: Duration, to: Duration) -> u64 {
        self.count_until(to).saturating_sub(self.count_until(from))
    }

    /// Opportunities from the start of the trace until `elapsed`.
    fn count_until(&self, elapsed: Duration) -> u64 {
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let within = elapsed % self.period_ms();
        let passed = self.times.partition_point(|time| u64::from(*time) <= within);
        elapsed / self.period_ms() * self.times.len() as u64 + passed as u64
    }

    /// When opportunity `number` comes, counted from 0 and over all periods.
    fn time_of(&self, number: u64) -> Duration {
        let len = self.times.len() as u64;
        let within = self.times[(number % len) as usize];
        Duration::from_millis((number / len).saturating_mul(self.period_ms()) + u64::from(within))
    }

    fn period_ms(&self) -> u64 {
        // `new` has made sure that there is a last time, and that it is not zero.
        self.times.last().map_or(1, |last| u64::from(*last).max(1))
    }
}

/// Short, and different for traces of the same name: the ids of runs are made from it.
impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mix = |hash: u64, time: &u32| (hash ^ u64::from(*time)).wrapping_mul(0x0100_0000_01B3);
        let hash = self.times.iter().fold(0xCBF2_9CE4_8422_2325, mix);
        write!(f, "Trace({:?}, {} opportunities, {hash:016x})", self.name, self.times.len())
    }
}

/// A trace on its way to another process.
#[derive(Serialize, Deserialize)]
struct Parts {
    name: String,
    times: Vec<u32>,
}

impl TryFrom<Parts> for Trace {
    type Error = TraceError;

    fn try_from(parts: Parts) -> Result<Self, TraceError> {
        Self::new(&parts.name, parts.times)
    }
}

impl From<Trace> for Parts {
    fn from(trace: Trace) -> Self {
        Self { name: trace.name.to_string(), times: trace.times.to_vec() }
    }
}
