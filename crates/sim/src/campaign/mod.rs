//! Many runs: on all processors of a machine, spread over machines, taken up again after a stop.
//!
//! ```text
//! Plan ─▶ runs of this shard ─▶ not yet in the journal ─▶ threads ─▶ journal (one line per run)
//!                                                                      └▶ results.csv, manifest.json
//! ```
//!
//! Each run has an id made of its parameters, its seed and the version of what simulates it. The journal
//! is only ever appended to, so that a campaign can be stopped at any time; shards have journals of
//! their own, and merging puts journals together. Runs know nothing of each other: which machine or
//! thread does one makes no difference to its figures.

mod compare;
mod execute;
mod journal;
mod record;
mod statistics;
mod table;

pub use compare::{Comparison, compare};
pub use execute::{CampaignError, Options, Progress, Runner, Shard, execute, execute_by};
pub use journal::merge;
pub use record::{Record, id, point};
pub use statistics::{Median, Summary, median, student_t_975, summarise};
pub use table::to_csv;

/// Which engine and which simulator do the runs: their version, and a digest of their sources, which is the same
/// on every machine and by every compiler.
pub const VERSION: &str =
    concat!("manypath ", env!("CARGO_PKG_VERSION"), " ", env!("MANYPATH_SIM_SOURCES"));
