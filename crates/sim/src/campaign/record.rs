use crate::scenario::Run;
use crate::simulation::Outcome;
use serde::{Deserialize, Serialize};

/// A run and what has come out of it: one line of a journal, one row of a result.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Stands for what is simulated and by which version.
    pub id: String,
    /// Stands for what is simulated alone: scenario, setup, case, every parameter, seed. Empty in journals that have none.
    #[serde(default)]
    pub point: String,
    /// By which version ([`super::VERSION`]); empty in journals that do not tell.
    #[serde(default)]
    pub version: String,
    /// Place of the run in its plan.
    pub index: usize,
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the setup, empty if the scenario has none.
    #[serde(default)]
    pub setup: String,
    /// Name of the case, empty if the scenario has none.
    pub case: String,
    /// Seed.
    pub seed: u64,
    /// Every parameter and its value.
    pub parameters: Vec<(String, String)>,
    /// Every figure and its value, if it has one.
    pub figures: Vec<(String, Option<f64>)>,
    /// Stands for every packet of the run.
    pub trace_hash: String,
    /// Why the association ended early; empty if it did not.
    pub failure: String,
    /// Packets simulated.
    pub packets: u64,
    /// Simulated time in seconds.
    pub simulated_s: f64,
    /// Processor time of the thread that did it, in seconds: the only value that another machine may change.
    #[serde(alias = "wall_s")]
    pub processor_s: f64,
}

impl Record {
    pub(super) fn new(
        run: &Run,
        index: usize,
        version: &str,
        outcome: &Outcome,
        processor_s: f64,
    ) -> Self {
        let number =
            |(name, value): &(String, f64)| (name.clone(), value.is_finite().then_some(*value));
        Self {
            id: id(run, version),
            point: point(run),
            version: version.to_owned(),
            index,
            scenario: run.scenario.name.clone(),
            setup: run.setup.clone(),
            case: run.case.clone(),
            seed: run.seed,
            parameters: run.scenario.parameters(),
            figures: outcome.figures.iter().map(number).collect(),
            trace_hash: format!("{:016x}", outcome.trace_hash),
            failure: outcome.failure.clone().unwrap_or_default(),
            packets: outcome.packets,
            simulated_s: outcome.simulated_s,
            processor_s,
        }
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The value of a figure; NaN if the run has none.
    pub fn figure(&self, name: &str) -> f64 {
        let found = self.figures.iter().find(|(other, _)| other == name);
        found.and_then(|(_, value)| *value).unwrap_or(f64::NAN)
    }
}

/// The id of a run in results that a program of the given version ([`super::VERSION`]) makes.
pub fn id(run: &Run, version: &str) -> String {
    let mut hash = Fnv::new();
    hash.text(version);
    hash.text(&point(run));
    format!("{:016x}", hash.0)
}

/// Stands for what a run simulates, whoever does it. Two runs that differ in anything have different ones.
pub fn point(run: &Run) -> String {
    let mut hash = Fnv::new();
    hash.text(&run.scenario.name);
    hash.text(&run.setup);
    hash.text(&run.case);
    hash.text(&run.seed.to_string());
    for (name, value) in run.scenario.parameters() {
        hash.text(&name);
        hash.text(&value);
    }
    hash.text(&format!("{:?}{:?}", run.scenario.paths, run.scenario.config));
    format!("{:016x}", hash.0)
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
