//! One run: a scenario becomes a world, applications fill it, and figures come out.
//!
//! ```text
//! Scenario ─▶ network (world, hosts, paths) ─▶ session: events, applications, timers ─▶ Outcome
//!                                                  └▶ ledger: when each message was made and delivered
//! ```

mod apps;
mod background;
mod ceiling;
mod competitors;
mod connections;
mod desk;
mod histogram;
mod ledger;
mod network;
mod outcome;
mod sampler;
mod session;

pub use apps::{Applications, Desk, Way};
pub use ledger::Ledger;
pub use outcome::{Outcome, PERCENTILES, delivery_figures};
pub use session::{RunOptions, figure_names, run};
