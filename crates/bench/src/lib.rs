//! Measures what manypath reaches and what it costs, beside TCP, multipath TCP and others on the same
//! path.
//!
//! ```text
//! campaign: rounds of A B A B .. ─▶ run ─▶ Side (client) ─▶ worker processes ═ the path ═ worker processes ◀─ Side (server)
//!                                             │ sampled over pipes, /proc tells what they use
//! results: medians, ratios ◀─ runs ◀──────────┘
//! ```
//!
//! A [`Place`] is loopback, a veth pair or a lab; or two real hosts, one of which [serves](serve) the
//! other. What is measured are workers: processes of their own, which know nothing of
//! manypath. Everything that is started ends with what has started it, also if that is killed.
#![forbid(unsafe_code)]

mod campaign;
mod case;
mod chart;
mod congestion;
mod folder;
mod guard;
mod iperf;
mod job;
mod local;
mod place;
mod remote;
mod result;
mod run;
mod running;
mod side;
mod stage;
mod statistics;
mod usage;
mod worker;

pub use campaign::{Campaign, Observer};
pub use case::{Direction, Settings, Transport, Workload};
pub use chart::chart;
pub use congestion::Pinned;
pub use guard::guard;
pub use job::Times;
pub use place::Place;
pub use remote::{Remote, serve};
pub use result::{Results, Row, Skipped};
pub use side::{Carried, Outcome};
pub use stage::{Interval, Run};
pub use usage::{Usage, Used};
pub use worker::work;
