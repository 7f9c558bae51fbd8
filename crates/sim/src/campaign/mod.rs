//! Many runs: on all processors of a machine, spread over machines, taken up again after a stop.
//!
//! ```text
//! Plan ─▶ runs of this shard ─▶ not yet in the journal ─▶ threads ─▶ journal (one line per run)
//!                                                                      └▶ results.csv, manifest.json
//! ```
//!
//! Each run has an id made of its parameters, its seed and the program that simulates it. The journal
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
pub use record::Record;
pub use statistics::{Summary, student_t_975, summarise};
pub use table::to_csv;
