//! What a host tells when its run is over: one line of JSON.

use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// Name and value of each figure; none where it has no value.
    pub(super) figures: Vec<(String, Option<f64>)>,
    /// Why the association ended too early.
    pub(super) failure: Option<String>,
    /// Packets sent and received.
    pub(super) packets: u64,
}

impl Report {
    /// The value of a figure; NaN if there is none.
    pub(super) fn figure(&self, name: &str) -> f64 {
        let found = self.figures.iter().find(|(other, _)| other == name);
        found.and_then(|(_, value)| *value).unwrap_or(f64::NAN)
    }
}
