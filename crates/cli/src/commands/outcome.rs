//! "Did it work?": what became of a program's connections, in one sentence.

use manypath_control::counted;
use manypath_control::status::FallbackReason;
use manypath_shim::Report;
use std::collections::BTreeMap;

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

/// Such as "3 connections over SCTP, 1 over plain TCP: the peer did not answer in time".
pub(super) fn sentence(report: &Report) -> String {
    let mut parts = Vec::new();
    let sctp = report.sctp + report.accepted_sctp;
    if sctp > 0 {
        parts.push(format!("{} over SCTP", counted(sctp, "connection", "connections")));
    }
    let left = plain(&report.left);
    let tcp = left.values().sum::<u64>() + report.tcp_relay + report.accepted_plain;
    if tcp > 0 {
        let connections = match sctp {
            0 => counted(tcp, "connection", "connections"),
            _ => tcp.to_string(),
        };
        let why: Vec<String> = left.keys().map(|name| reason(name)).collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        parts.push(format!("{connections} over plain TCP{why}"));
    }
    if report.failed > 0 {
        parts.push(format!("{} failed", report.failed));
    }
    match parts.is_empty() {
        true => "no TCP connections to other hosts".to_owned(),
        false => parts.join(", "),
    }
}

fn plain(left: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
    let other = |name: &str| OTHER_SOCKETS.contains(&name);
    left.iter().filter(|(name, _)| !other(name)).map(|(name, count)| (*name, *count)).collect()
}

/// The reason in words, where it is one of the stack's; else its name, which docs/shim.md explains.
fn reason(name: &str) -> String {
    let known: Result<FallbackReason, _> = serde_json::from_value(name.into());
    known.map_or_else(|_| name.to_owned(), |reason| reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::sentence;
    use manypath_shim::Report;

    #[test]
    fn a_report_is_a_sentence() {
        let mut report = Report::default();
        report.left.insert("other-family", 2);
        assert_eq!(sentence(&report), "no TCP connections to other hosts");
        report.sctp = 3;
        assert_eq!(sentence(&report), "3 connections over SCTP");
        report.left.insert("silent", 1);
        report.failed = 1;
        assert_eq!(
            sentence(&report),
            "3 connections over SCTP, 1 over plain TCP: the peer did not answer in time, 1 failed"
        );
        report.sctp = 0;
        assert!(sentence(&report).starts_with("1 connection over plain TCP: "));
    }
}
