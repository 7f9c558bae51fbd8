//! Which path takes data: which ones may (`usable`), in which order (chosen by name in `kind`), and
//! whether a slow one should be left out near the end of a transfer (`earliest_completion`).

mod earliest_completion;
mod kind;
mod least_recently_used;
mod order;
mod smallest_srtt;
mod usable;

pub(crate) use earliest_completion::is_worth_using;
pub use kind::PathScheduling;
pub(crate) use least_recently_used::by_least_recently_used;
pub(crate) use order::PathOrder;
pub(crate) use smallest_srtt::by_smallest_srtt;
pub(crate) use usable::usable;

#[cfg(test)]
pub(crate) mod testing;
