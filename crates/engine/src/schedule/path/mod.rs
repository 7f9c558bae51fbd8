//! Which path takes data: which ones may (`usable`), in which order (`smallest_srtt`), and whether
//! a slow one should be left out near the end of a transfer (`earliest_completion`).

mod earliest_completion;
mod smallest_srtt;
mod usable;

pub(crate) use earliest_completion::is_worth_using;
pub(crate) use smallest_srtt::{PathOrder, by_smallest_srtt};
pub(crate) use usable::usable;
