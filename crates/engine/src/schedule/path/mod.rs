//! Which path takes data: which ones may (`usable`), and then, as chosen by name (`kind`), in which
//! order they are served and whether a slow one should be left out (`selector`).

mod blest;
mod custom;
mod earliest_completion;
mod ecf;
mod least_recently_used;
mod lsfr;
mod order;
mod selector;
mod smallest_srtt;
mod usable;

use earliest_completion::{is_late, is_worth_using};
use least_recently_used::by_least_recently_used;
use lsfr::{by_lsfr, without_errors};
pub(crate) use order::PathOrder;
pub(crate) use selector::PathSelector;
pub(crate) use smallest_srtt::by_smallest_srtt;
pub(crate) use usable::usable;
