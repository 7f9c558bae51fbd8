//! What the paths of a scenario could carry at best: payload in the packets that their rates let
//! through, or their traces. A measure for what a scheduler makes of them.

use crate::link::{LinkConfig, OPPORTUNITY_BYTES};
use crate::scenario::{AppKind, AppSpec, PathSpec, Scenario};
use manypath_engine::{Duration, Instant};

/// IPv4, SCTP common header; UDP in addition if SCTP travels in it; DATA chunk header.
const PACKET_HEADERS: u64 = 20 + 12;
const UDP_HEADER: u64 = 8;
const CHUNK_HEADER: u64 = 16;

/// Bit/s of payload between two times, counted from `start`, when the association begins; `None` if a
/// path has no rate.
pub(super) fn between(
    scenario: &Scenario,
    start: Instant,
    (from, to): (Duration, Duration),
) -> Option<f64> {
    if to <= from {
        return None;
    }
    let (from, to) = (start + from, start + to);
    let bits = |path| bits(scenario, path, start, (from, to));
    let bits: Option<f64> = scenario.paths.iter().map(bits).sum();
    bits.map(|bits| bits / to.since(from).as_secs_f64())
}

/// When the network changes for the last time, if it does.
pub(super) fn last_change(scenario: &Scenario) -> Option<Duration> {
    scenario.paths.iter().flat_map(|path| &path.changes).map(|change| change.at).max()
}

fn bits(
    scenario: &Scenario,
    path: &PathSpec,
    start: Instant,
    (from, to): (Instant, Instant),
) -> Option<f64> {
    if path.shares.is_some() {
        return Some(0.0);
    }
    let mut stretch = Stretch { link: &path.forth, trace_start: Instant::ZERO };
    let payload = |stretch: &Stretch<'_>, from, to| {
        Some(stretch.bits(from, to)? * payload_share(scenario, path, stretch.link))
    };
    let (mut at, mut sum) = (from, 0.0);
    for change in &path.changes {
        let until = (start + change.at).clamp(from, to);
        sum += payload(&stretch, at, until)?;
        stretch = stretch.then(&change.forth, start + change.at);
        at = until;
    }
    Some(sum + payload(&stretch, at, to)?)
}

/// A link between two changes.
struct Stretch<'a> {
    link: &'a LinkConfig,
    trace_start: Instant,
}

impl<'a> Stretch<'a> {
    fn then(&self, link: &'a LinkConfig, at: Instant) -> Self {
        // A trace that stays goes on.
        let goes_on = link.goes_on_with_trace_of(self.link);
        let trace_start = if goes_on { self.trace_start } else { at };
        Stretch { link, trace_start }
    }

    /// Bits that arrive of what the link can carry.
    fn bits(&self, from: Instant, to: Instant) -> Option<f64> {
        if !self.link.up {
            return Some(0.0);
        }
        let sent = match &self.link.trace {
            Some(trace) => {
                let [from, to] = [from, to].map(|at| at.since(self.trace_start));
                trace.opportunities_between(from, to) as f64 * f64::from(8 * OPPORTUNITY_BYTES)
            }
            None => self.link.rate_bps? as f64 * to.since(from).as_secs_f64(),
        };
        Some(sent * (1.0 - f64::from(self.link.loss_ppm) / 1e6))
    }
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
