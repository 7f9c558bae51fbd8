//! How the way of a program's connection is, for the launcher to tell the program.

use super::Base;
use crate::parameters;
use manypath_control::Way;
use manypath_engine::{AssociationId, AssociationStatus, PathState, PathStatus};
use manypath_flow::FlowId;
use std::time::Duration;

/// What a packet needs besides the program's bytes at most: IPv6, UDP and SCTP headers and that of
/// one I-DATA chunk.
const HEADERS: u32 = 40 + 8 + 12 + 20;

impl Base {
    /// The way of a flow, whatever becomes of it.
    pub(crate) fn way_of_flow(&self, association: AssociationId, flow: FlowId) -> Option<Way> {
        let buffer = parameters::of_stack(&self.core.config).receive_buffer.into();
        let flows = &self.get(&association)?.mux;
        let window = flows.offered_window(flow, buffer);
        let status = self.core.status_of(association)?;
        Some(way(&status, window.unwrap_or(buffer)))
    }
}

fn way(status: &AssociationStatus, window: u64) -> Way {
    let used = || status.paths.iter().filter(|path| path.state == PathState::Active);
    let slowest = used().max_by_key(|path| path.srtt);
    let mtu = used().map(|path| u32::from(path.mtu)).min().unwrap_or_default();
    let longest = |time: fn(&PathStatus) -> Option<Duration>| slowest.and_then(time).map(micros);
    Way {
        window_bytes: window,
        rtt_us: longest(|path| path.srtt).unwrap_or_default(),
        rtt_variation_us: longest(|path| path.rtt_spread.rttvar).unwrap_or_default(),
        least_rtt_us: used()
            .filter_map(|path| path.rtt_spread.min_rtt)
            .min()
            .map(micros)
            .unwrap_or_default(),
        rto_us: used().map(|path| micros(path.rto)).max().unwrap_or_default(),
        mss: mtu.saturating_sub(HEADERS),
        mtu,
        cwnd_bytes: used().map(|path| u64::from(path.cwnd)).sum(),
        ssthresh_bytes: used().map(|path| u64::from(path.ssthresh)).sum(),
        in_flight_bytes: status.outstanding as u64,
        peer_window_bytes: status.peer_rwnd.into(),
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
