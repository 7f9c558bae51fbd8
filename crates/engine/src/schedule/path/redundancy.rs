//! Which streams are sent on several paths at once.

use crate::names::named;

named! {
    /// What is sent on every path that may carry data, with the same TSN: it arrives with the first.
    #[derive(Default)]
    pub enum Redundancy as "redundancy" {
        /// Nothing, unless `PathScheduling` says so.
        #[default]
        Off = "off",
        /// Streams of class interactive or realtime.
        Interactive = "interactive",
        /// These, and what streams send of which no more than a large packet waits.
        Sparse = "sparse",
        /// Everything.
        All = "all",
    }
}
