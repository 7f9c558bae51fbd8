//! Figures of published papers, simulated anew: what is simulated and what was published lies under
//! `papers/`, here is how runs become curves and how curves are judged.

mod catalogue;
mod curves;
mod dreibholz2010;
pub mod plot;
mod verdict;

pub use catalogue::{Figure, figures};
pub use curves::{Runs, to_csv};
pub use verdict::Criterion;
