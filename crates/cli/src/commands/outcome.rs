//! "Did it work?": what became of a program's connections, in sentences.

use super::status::bytes;
use manypath_control::status::FallbackReason;
use manypath_control::{Traffic, counted};
use manypath_shim::Report;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Reasons that are named one by one.
const MAX_REASONS: usize = 3;

/// Sockets that were never meant to reach another host by TCP.
const OTHER_SOCKETS: [&str; 9] = [
    "other-family",
    "not-tcp",
    "udp",
    "mptcp",
    "loopback",
    "local-address",
    "not-unicast",
    "port-zero",
    "wrong-family",
];

/// Connections by plain TCP to one destination.
#[derive(Serialize)]
pub(super) struct Plain<'a> {
    destination: SocketAddr,
    /// Why not over SCTP.
    reason: Option<&'a str>,
    connections: u64,
    /// Whether the stack relays them; otherwise they are the kernel's.
    relayed: bool,
}

/// Such as "3 connections, 25.0 MB, over 2 paths (wlan0 17.4 MB, wwan0 7.6 MB)" and "1 by plain TCP (bytes not
/// counted): 10.0.0.2 has no manypath"; at least one.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let sctp = report.sctp + report.accepted_sctp;
    let mut sentences = Vec::new();
    if sctp > 0 {
        sentences.push(carried(sctp, report.traffic.as_ref()));
    }
    let plain: u64 = plain(report).values().sum();
    let connections = |count: u64| match sctp {
        0 => counted(count, "connection", "connections"),
        _ => count.to_string(),
    };
    if plain > 0 {
        let why = reasons(report);
        sentences.push(format!("{} by plain TCP (bytes not counted){why}", connections(plain)));
    }
    if report.accepted_plain > 0 {
        let count = connections(report.accepted_plain);
        sentences.push(format!("{count} accepted by plain TCP (bytes not counted)"));
    }
    if report.failed > 0 {
        sentences.push(format!("{} failed", connections(report.failed)));
    }
    if sentences.is_empty() {
        sentences.push("no TCP connections to other hosts".to_owned());
    }
    sentences
}

fn carried(connections: u64, traffic: Option<&Traffic>) -> String {
    let count = counted(connections, "connection", "connections");
    let Some(traffic) = traffic else {
        return format!(
            "{count} over SCTP (bytes unknown: the stack has ended, or is of an earlier version)"
        );
    };
    let mut paths: Vec<(&String, u64)> =
        traffic.path_bytes.iter().map(|(name, count)| (name, *count)).collect();
    paths.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let over = match paths.as_slice() {
        [] => "SCTP".to_owned(),
        [(name, _)] => format!("1 path ({name})"),
        several => {
            let each: Vec<_> =
                several.iter().map(|(name, n)| format!("{name} {}", bytes(*n))).collect();
            format!("{} paths ({})", several.len(), each.join(", "))
        }
    };
    let mut sentence =
        format!("{count}, {}, over {over}", bytes(traffic.sent_bytes + traffic.received_bytes));
    if traffic.open > 0 {
        sentence += &format!("; {} still open, counted so far", traffic.open);
    }
    if let Some(lost @ 1..) = connections.checked_sub(traffic.connections) {
        sentence += &format!("; bytes of {lost} unknown, because their stack has ended");
    }
    sentence
}

/// Connections by plain TCP, by reason; those that a stack relays have none here.
fn plain(report: &Report) -> BTreeMap<&str, u64> {
    let left = report.left.iter().map(|(name, count)| (*name, *count));
    let left = left.filter(|(name, _)| !OTHER_SOCKETS.contains(name));
    left.chain([("", report.tcp_relay)]).filter(|(_, count)| *count > 0).collect()
}

/// The same by destination, as far as they are known.
pub(super) fn plain_by_destination(report: &Report) -> Vec<Plain<'_>> {
    let left = report.left_to.iter().filter(|((name, _), _)| !OTHER_SOCKETS.contains(name));
    let left = left.map(|((name, to), count)| Plain {
        destination: *to,
        reason: Some(*name),
        connections: *count,
        relayed: false,
    });
    let relayed = report.traffic.iter().flat_map(|traffic| &traffic.relayed);
    let relayed = relayed.map(|one| Plain {
        destination: one.destination,
        reason: one.reason.map(FallbackReason::name),
        connections: one.connections,
        relayed: true,
    });
    left.chain(relayed).collect()
}

/// ": " and why connections were plain TCP, the most frequent reasons first.
fn reasons(report: &Report) -> String {
    let mut unnamed = plain(report);
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for Plain { destination, reason, connections, relayed } in plain_by_destination(report) {
        let reason = reason.unwrap_or_default();
        if let Some(rest) = unnamed.get_mut(if relayed { "" } else { reason }) {
            *rest = rest.saturating_sub(connections);
            *found.entry(why(reason, destination)).or_default() += connections;
        }
    }
    for (name, rest) in unnamed.into_iter().filter(|(name, rest)| *rest > 0 && !name.is_empty()) {
        *found.entry(name.to_owned()).or_default() += rest;
    }
    let mut found: Vec<(String, u64)> = found.into_iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = found.len().saturating_sub(MAX_REASONS);
    found.truncate(MAX_REASONS);
    let mut reasons: Vec<String> = found.into_iter().map(|(reason, _)| reason).collect();
    if more > 0 {
        reasons.push(counted(more, "more reason", "more reasons"));
    }
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

/// The reason in words, where it is one of the stack's; else its name, which docs/shim.md explains.
fn why(reason: &str, destination: SocketAddr) -> String {
    let (peer, port) = (destination.ip(), destination.port());
    match serde_json::from_value(reason.into()) {
        Ok(FallbackReason::Silent) => {
            format!("{peer} did not answer over SCTP (no manypath there, or UDP is blocked)")
        }
        Ok(FallbackReason::Refused) => format!("{peer} has no manypath"),
        Ok(FallbackReason::NotManypath) => format!("{peer} speaks SCTP, but not manypath"),
        Ok(FallbackReason::NotAllowed) => format!("{peer} does not allow port {port}"),
        Ok(FallbackReason::Remembered) => format!("an earlier attempt at {destination} failed"),
        Ok(FallbackReason::NothingToGain) => {
            format!("a single short path leads to {peer}: SCTP has nothing to gain")
        }
        Ok(FallbackReason::OneOfMany) => {
            format!(
                "{peer} was one of many new hosts at once; later connections to it may be carried"
            )
        }
        Ok(FallbackReason::UnprovenPort) => {
            format!("{peer} has no manypath of root, which port {port} needs")
        }
        Ok(other) => format!("{destination}: {other}"),
        Err(_) if reason.is_empty() => format!("{destination}: SCTP could not be used"),
        Err(_) => format!("{destination}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::sentences;
    use manypath_control::status::FallbackReason;
    use manypath_control::{Relayed, Traffic};
    use manypath_shim::Report;
    use std::net::SocketAddr;

    fn carried(connections: u64) -> Report {
        let mut traffic = Traffic { connections, received_bytes: 25_000_000, ..Traffic::default() };
        traffic.add_path("wwan0".into(), 7_600_000);
        traffic.add_path("wlan0".into(), 17_400_000);
        Report { sctp: connections, traffic: Some(traffic), ..Report::default() }
    }

    #[test]
    fn what_was_carried_is_told_in_bytes_and_paths() {
        let mut report = carried(3);
        assert_eq!(
            sentences(&report),
            ["3 connections, 25.0 MB, over 2 paths (wlan0 17.4 MB, wwan0 7.6 MB)"]
        );
        let traffic = report.traffic.as_mut().unwrap();
        (traffic.open, report.sctp, report.failed) = (1, 5, 1);
        traffic.path_bytes.remove("wwan0");
        assert_eq!(
            sentences(&report),
            [
                "5 connections, 25.0 MB, over 1 path (wlan0); 1 still open, counted so far; bytes of 2 unknown, \
                 because their stack has ended",
                "1 failed"
            ]
        );
        report.traffic = None;
        assert!(sentences(&report)[0].starts_with("5 connections over SCTP (bytes unknown: "));
    }

    #[test]
    fn plain_tcp_is_told_with_peer_and_reason() {
        let mut report = carried(1);
        let [silent, none] = [9, 8].map(|host| SocketAddr::from(([10, 0, 0, host], 80)));
        report.left.extend([("other-family", 2), ("silent", 1), ("32-bit", 1)]);
        report.left_to.insert(("silent", silent), 1);
        report.tcp_relay = 2;
        let reason = Some(FallbackReason::Refused);
        let relayed = Relayed { destination: none, reason, connections: 2 };
        report.traffic.as_mut().unwrap().add_relayed(relayed);
        assert_eq!(
            sentences(&report)[1],
            "4 by plain TCP (bytes not counted): 10.0.0.8 has no manypath; \
             10.0.0.9 did not answer over SCTP (no manypath there, or UDP is blocked); 32-bit"
        );
        report.sctp = 0;
        assert!(sentences(&report)[0].starts_with("4 connections by plain TCP "));
    }

    #[test]
    fn only_connections_to_other_hosts_count() {
        let mut report = Report::default();
        report.left.insert("other-family", 2);
        report.left_to.insert(("loopback", SocketAddr::from(([127, 0, 0, 1], 80))), 1);
        assert_eq!(sentences(&report), ["no TCP connections to other hosts"]);
    }
}
