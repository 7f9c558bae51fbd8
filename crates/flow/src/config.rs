//! The limits of one mux, with their defaults.

use crate::INITIAL_CREDIT;
use manypath_window::{Budget, Window, WindowConfig};

/// Limits of one [`FlowMux`](crate::FlowMux).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// Window of a flow that begins while less than a sixteenth of the memory is promised, in bytes; later ones begin
    /// with a quarter of it. At least [`INITIAL_CREDIT`].
    pub first_window: u32,
    /// Largest window of a flow, in bytes, if memory has room for it. 256 MiB carry 7 Gbit/s over 300 ms.
    pub max_window: u32,
    /// Memory promised to all peers' writers together, in bytes, if the mux has a budget of its own
    /// ([`FlowMux::new`](crate::FlowMux::new)): the sum of all windows never exceeds it. Windows grow only within three
    /// quarters, the rest is kept for new flows. 160 MiB have room for `max_flows` at once: 450 that begin with the first
    /// window or a quarter of it, and 640 with [`INITIAL_CREDIT`].
    pub receive_budget: u64,
    /// Bytes that `write` takes and holds for one flow.
    pub send_buffer: usize,
    /// Bytes that `write` holds for all flows together, beyond a small floor that each flow always
    /// has, so that flows that cannot send never keep the others from it.
    pub send_budget: usize,
    /// As many flows begin with more than [`INITIAL_CREDIT`], so that memory for many is left.
    pub first_windows: usize,
    /// Most flows opened here, and most flows opened by the peer, at a time.
    pub max_flows: usize,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            first_window: 1 << 20,
            max_window: 256 << 20,
            receive_budget: 160 << 20,
            send_buffer: 256 << 10,
            send_budget: 32 << 20,
            first_windows: 1024,
            max_flows: 1024,
        }
    }
}

impl FlowConfig {
    /// The same with values that contradict each other brought in line.
    pub(crate) fn normalised(self) -> Self {
        let first_window = self.first_window.max(INITIAL_CREDIT);
        Self { first_window, max_window: self.max_window.max(first_window), ..self }
    }

    /// The window of a flow that begins now, if there is memory.
    pub(crate) fn open_window(&self, budget: &Budget) -> Option<Window> {
        let plenty = budget.promised() < budget.limit() / 16;
        let first = if plenty { self.first_window } else { self.first_window / 4 };
        let config = WindowConfig {
            first: first.into(),
            least: INITIAL_CREDIT.into(),
            cap: self.max_window.into(),
            ..WindowConfig::default()
        };
        Window::open_least(config, budget)
    }
}
