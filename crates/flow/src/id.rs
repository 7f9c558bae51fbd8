//! The names of flows.

use core::fmt;

/// Names a flow of one mux. Never used again after the flow is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId {
    pub(crate) serial: u32,
    pub(crate) slot: u32,
}

impl FlowId {
    /// The flow of an association that has only one.
    pub(crate) const SOLE: Self = Self { serial: 0, slot: 0 };
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serial.fmt(f)
    }
}
