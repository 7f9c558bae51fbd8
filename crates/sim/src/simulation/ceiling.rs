//! What the paths of a scenario could carry at best: payload in the packets that their rates let
//! through. A measure for what a scheduler makes of them.

use crate::link::LinkConfig;
use crate::scenario::{AppKind, AppSpec, PathSpec, Scenario};
use manypath_engine::Duration;

/// IPv4, SCTP common header; UDP in addition if SCTP travels in it; DATA chunk header.
const PACKET_HEADERS: u64 = 20 + 12;
const UDP_HEADER: u64 = 8;
const CHUNK_HEADER: u64 = 16;

/// Bit/s of payload between two times, counted from the start; `None` if a path has no rate.
pub(super) fn between(scenario: &Scenario, from: Duration, to: Duration) -> Option<f64> {
    if to <= from {
        return None;
    }
    let length = (to - from).as_secs_f64();
    let bits: Option<f64> = scenario.paths.iter().map(|path| bits(scenario, path, from, to)).sum();
    bits.map(|bits| bits / length)
}

/// When the network changes for the last time, if it does.
pub(super) fn last_change(scenario: &Scenario) -> Option<Duration> {
    scenario.paths.iter().flat_map(|path| &path.changes).map(|change| change.at).max()
}

fn bits(scenario: &Scenario, path: &PathSpec, from: Duration, to: Duration) -> Option<f64> {
    if path.shares.is_some() {
        return Some(0.0);
    }
    let (mut at, mut link, mut sum) = (from, &path.forth, 0.0);
    for change in &path.changes {
        let until = change.at.clamp(from, to);
        sum += rate(scenario, path, link)? * until.saturating_sub(at).as_secs_f64();
        (at, link) = (until, &change.forth);
    }
    Some(sum + rate(scenario, path, link)? * to.saturating_sub(at).as_secs_f64())
}

fn rate(scenario: &Scenario, path: &PathSpec, link: &LinkConfig) -> Option<f64> {
    if !link.up {
        return Some(0.0);
    }
    let arrives = 1.0 - f64::from(link.loss_ppm) / 1e6;
    Some(link.rate_bps? as f64 * arrives * payload_share(scenario, path, link))
}

fn payload_share(scenario: &Scenario, path: &PathSpec, link: &LinkConfig) -> f64 {
    let headers = PACKET_HEADERS + if scenario.udp { UDP_HEADER } else { 0 };
    let room = u64::from(path.mtu).saturating_sub(headers);
    let is_saturated = |app: &&AppSpec| matches!(app.kind, AppKind::Saturated { .. });
    let app = scenario.apps.iter().find(is_saturated).or_else(|| scenario.apps.first());
    let message = app.map_or(1, |app| app.message) as u64;
    let payload = message.min(room.saturating_sub(CHUNK_HEADER) / 4 * 4).max(1);
    let chunk = CHUNK_HEADER + payload.next_multiple_of(4);
    let chunks = (room / chunk).max(1);
    let packet = headers + chunks * chunk + link.framing as u64;
    (chunks * payload) as f64 / packet as f64
}
