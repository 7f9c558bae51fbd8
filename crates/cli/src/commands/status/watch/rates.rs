//! What has moved between two looks.

use manypath_control::status::{AssociationStatus, FlowStatus, PathStatus, StackStatus};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

/// What the stacks have said at a moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) stacks: Vec<StackStatus>,
}

/// Rates of everything that there was at the second look.
#[derive(Serialize, Debug, Default)]
pub(super) struct Rates {
    /// Over which they were taken.
    pub(super) seconds: f64,
    pub(super) stacks: usize,
    pub(super) associations: usize,
    pub(super) paths: Vec<PathRate>,
    /// The busiest first.
    pub(super) connections: Vec<FlowRate>,
}

/// A path's.
#[derive(Serialize, Debug)]
pub(super) struct PathRate {
    pub(super) stack: u32,
    pub(super) association: u64,
    pub(super) interface: String,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: String,
    pub(super) send_mbps: f64,
    pub(super) receive_mbps: f64,
    pub(super) srtt_ms: Option<f64>,
    pub(super) cwnd_bytes: u64,
    pub(super) in_flight_bytes: u64,
    /// Fast retransmits and expiries of the timer, each second.
    pub(super) losses_per_second: f64,
    pub(super) idle: Option<String>,
    /// Sent and received together at the last looks, the newest last; for people alone.
    #[serde(skip)]
    pub(super) history: Vec<f64>,
}

/// How many looks a path's history has.
const HISTORY: usize = 16;

/// A connection's.
#[derive(Serialize, Debug)]
pub(super) struct FlowRate {
    pub(super) stack: u32,
    pub(super) association: u64,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) state: String,
    pub(super) class: String,
    pub(super) send_mbps: f64,
    pub(super) receive_mbps: f64,
    pub(super) waiting_out_bytes: u64,
    pub(super) waiting_in_bytes: u64,
}

/// Which association of which stack.
type Key = (u32, u64);
/// A path lives as long as its addresses are those of the association.
type PathKey = (Key, SocketAddr, SocketAddr);
/// A stream is used again by later connections, each with its generation.
type FlowKey = (Key, u16, u32, bool);

impl Rates {
    /// What has moved between the two.
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        let paths: BTreeMap<PathKey, &PathStatus> =
            of_paths(before).map(|(key, path)| (path_key(key, path), path)).collect();
        let flows: BTreeMap<FlowKey, &FlowStatus> =
            of_flows(before).map(|(key, flow)| (flow_key(key, flow), flow)).collect();
        let mut connections: Vec<FlowRate> = of_flows(now)
            .map(|(key, flow)| {
                flow_rate(key, flow, flows.get(&flow_key(key, flow)).copied(), seconds)
            })
            .collect();
        connections.sort_by(|a, b| b.total().total_cmp(&a.total()));
        Self {
            seconds,
            stacks: now.stacks.len(),
            associations: now.stacks.iter().map(|stack| stack.associations.len()).sum(),
            paths: of_paths(now)
                .map(|(key, path)| {
                    path_rate(key, path, paths.get(&path_key(key, path)).copied(), seconds)
                })
                .collect(),
            connections,
        }
    }
}

impl Rates {
    /// With the rates of the looks before.
    pub(super) fn after(mut self, before: &Self) -> Self {
        for path in &mut self.paths {
            let mut past = before.paths.iter().filter(|it| it.is_same(path));
            path.history = past.next().map(|it| it.history.clone()).unwrap_or_default();
            path.history.push(path.send_mbps + path.receive_mbps);
            let old = path.history.len().saturating_sub(HISTORY);
            path.history.drain(..old);
        }
        self
    }
}

impl PathRate {
    fn is_same(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.stack, it.association, it.local, it.remote);
        of(self) == of(other)
    }
}

impl FlowRate {
    fn total(&self) -> f64 {
        self.send_mbps + self.receive_mbps
    }
}

fn associations(sample: &Sample) -> impl Iterator<Item = (Key, &AssociationStatus)> {
    let of = |stack: &'_ StackStatus| stack.pid;
    sample
        .stacks
        .iter()
        .flat_map(move |stack| stack.associations.iter().map(move |one| ((of(stack), one.id), one)))
}

fn of_paths(sample: &Sample) -> impl Iterator<Item = (Key, &PathStatus)> {
    associations(sample).flat_map(|(key, one)| one.paths.iter().map(move |path| (key, path)))
}

fn of_flows(sample: &Sample) -> impl Iterator<Item = (Key, &FlowStatus)> {
    associations(sample).flat_map(|(key, one)| one.flows.iter().map(move |flow| (key, flow)))
}

fn path_key(key: Key, path: &PathStatus) -> PathKey {
    (key, path.local, path.remote)
}

fn flow_key(key: Key, flow: &FlowStatus) -> FlowKey {
    (key, flow.stream, flow.generation, flow.initiated)
}

/// What has been added, each second. What was not there before, or counts from the beginning again,
/// has no rate yet.
fn per_second(before: Option<u64>, now: u64, seconds: f64) -> f64 {
    let added = before.and_then(|before| now.checked_sub(before)).unwrap_or(0);
    if seconds > 0.0 { added as f64 / seconds } else { 0.0 }
}

fn mbps(before: Option<u64>, now: u64, seconds: f64) -> f64 {
    per_second(before, now, seconds) * 8.0 / 1e6
}

fn path_rate(key: Key, path: &PathStatus, before: Option<&PathStatus>, seconds: f64) -> PathRate {
    let lost = |path: &PathStatus| path.fast_retransmits + path.timeouts;
    PathRate {
        stack: key.0,
        association: key.1,
        interface: path.interface.clone(),
        local: path.local,
        remote: path.remote,
        state: path.state.clone(),
        send_mbps: mbps(before.map(|b| b.bytes_sent), path.bytes_sent, seconds),
        receive_mbps: mbps(before.map(|b| b.bytes_received), path.bytes_received, seconds),
        srtt_ms: path.round_trip.srtt_us.map(|us| us as f64 / 1e3),
        cwnd_bytes: path.cwnd_bytes,
        in_flight_bytes: path.in_flight_bytes,
        losses_per_second: per_second(before.map(lost), lost(path), seconds),
        idle: path.idle.clone(),
        history: Vec::new(),
    }
}

/// A connection that is new has moved all its bytes since the look before.
fn flow_rate(key: Key, flow: &FlowStatus, before: Option<&FlowStatus>, seconds: f64) -> FlowRate {
    let (sent, received) = before.map_or((0, 0), |b| (b.bytes_out, b.bytes_in));
    FlowRate {
        stack: key.0,
        association: key.1,
        source: flow.client.unwrap_or(flow.source),
        destination: flow.destination,
        state: flow.state.clone(),
        class: flow.class.clone(),
        send_mbps: mbps(Some(sent), flow.bytes_out, seconds),
        receive_mbps: mbps(Some(received), flow.bytes_in, seconds),
        waiting_out_bytes: flow.waiting_out_bytes,
        waiting_in_bytes: flow.waiting_in_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::per_second;

    #[test]
    fn a_rate_is_what_was_added_in_the_time() {
        assert_eq!(per_second(Some(100), 300, 2.0), 100.0);
        assert_eq!(per_second(None, 300, 2.0), 0.0);
        assert_eq!(per_second(Some(300), 100, 2.0), 0.0);
        assert_eq!(per_second(Some(0), 100, 0.0), 0.0);
    }
}
