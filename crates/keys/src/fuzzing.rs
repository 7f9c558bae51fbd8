//! What the fuzz targets run of the insides of this crate, and tests on their corpora. With the feature `fuzzing` only.

pub use crate::tickets::model::check as check_tickets;
