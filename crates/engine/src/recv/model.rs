//! The receiver against naive models: what the fuzz targets `tracker`, `reassembly` and `hostile_data`
//! check.

mod hostile;
mod order;
mod tracker;

use super::interleaved::Interleaved;
use super::receiver::Receiver;
use super::reset::Deferred;

pub use hostile::check as check_hostile_data;
pub use order::check as check_order;
pub use tracker::check as check_tracker;

impl Receiver {
    /// Bytes and chunks that are held, counted anew.
    pub(super) fn recount(&self) -> (usize, usize) {
        let parts = [
            self.reassembly.recount(),
            self.interleaved.as_ref().map_or((0, 0), Interleaved::recount),
            self.deferred.as_ref().map_or((0, 0), Deferred::recount),
        ];
        parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }
}
