//! Figures of published papers, simulated anew: what is simulated and what was published lies under
//! `papers/`, here is how runs become curves and how curves are judged.

mod catalogue;
mod coupled;
mod curves;
mod dreibholz2010;
mod loss_recovery;
mod lsfr;
mod manypath_dynamic;
mod own;
pub mod plot;
mod rapier_windows;
mod series;
mod verdict;

pub use catalogue::{Figure, figures};
pub use curves::{Runs, to_csv};
pub use dreibholz2010::CONTRADICTIONS;
pub use manypath_dynamic::{design, fresh_grid};
pub use own::{check, draw};
pub use series::series_chart;
pub use verdict::Criterion;
