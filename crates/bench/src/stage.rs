//! Both ends of a run, and what it shows.

use crate::job::Times;
use crate::side::{Carried, Side};
use crate::usage::Usage;
use serde::Serialize;
use std::time::Duration;

/// What a run has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// Length of what was measured.
    pub seconds: f64,
    /// Payload bytes that arrived in this time.
    pub bytes: u64,
    /// What the client's side has used in this time, and the server's.
    pub client: Usage,
    /// See `client`.
    pub server: Usage,
    /// Answers received, or connections made, in this time.
    pub operations: u64,
    /// How long these took.
    pub times: Option<Times>,
    /// Bytes that arrived in each interval.
    pub intervals: Vec<Interval>,
    /// What manypath says that it has carried.
    pub carried: Option<Carried>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Since the beginning of what is measured, in seconds.
    pub start: f64,
    /// Likewise.
    pub end: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
}

/// Both ends of a run, and who is interested in it.
pub(crate) struct Stage<'a> {
    pub(crate) client: &'a mut dyn Side,
    pub(crate) server: &'a mut dyn Side,
    /// Told of every interval.
    pub(crate) on_interval: &'a mut dyn FnMut(&Interval),
    /// Whether the user wants an end.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// The longest round trip of the path.
    pub(crate) rtt: Duration,
}
