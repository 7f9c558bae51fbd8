//! An association in a few lines: the peer, its paths, its connections.

use super::super::path::words;
use super::details::lacking;
use super::{bytes, encryption, round_trip};
use manypath_control::counted;
use manypath_control::status::{AssociationStatus, FlowStatus, PathStatus};
use std::fmt::Write;

/// Connections that are named one by one.
const MOST_CONNECTIONS: usize = 8;

/// One association for people.
pub(super) fn association(out: &mut String, status: &AssociationStatus) {
    let peer =
        status.paths.first().map_or("nobody".to_owned(), |path| path.remote.ip().to_string());
    let active = status.paths.iter().filter(|path| path.state == "active").count();
    let received: u64 = status.flows.iter().map(|flow| flow.bytes_in).sum();
    let sent: u64 = status.flows.iter().map(|flow| flow.bytes_out).sum();
    let connections = counted(status.flows.len(), "connection", "connections");
    let paths = counted(active, "path", "paths");
    let moved = format!("{} received, {} sent", bytes(received), bytes(sent));
    // Writing to a string cannot fail, here and below.
    let _ = match status.state.as_str() {
        "established" => writeln!(out, "  {peer}: {connections} over {paths}, {moved}"),
        state => writeln!(out, "  {peer}: {state}, {connections} over {paths}, {moved}"),
    };
    if status.encryption.is_some() {
        let _ = writeln!(out, "    {}", encryption(status));
    }
    if let Some(why) = status.withheld_addresses {
        let _ = writeln!(out, "    one path from here: {}", why.text());
    }
    if let Some(limits) = &status.path_limits {
        let _ = writeln!(out, "    uplinks by rule: {limits}");
    }
    if let Some(profile) = status.profile.as_ref().filter(|_| status.profile_lacks.is_some()) {
        let _ = writeln!(out, "    profile {profile} by rule{}", lacking(status));
    }
    let width = status.paths.iter().map(|path| way(path).len()).max().unwrap_or(0);
    status.paths.iter().for_each(|one| path(out, one, width));
    status.flows.iter().take(MOST_CONNECTIONS).for_each(|one| flow(out, one));
    if let Some(more @ 1..) = status.flows.len().checked_sub(MOST_CONNECTIONS) {
        let _ = writeln!(out, "    and {}", counted(more, "more connection", "more connections"));
    }
    if !status.datagrams.is_empty() {
        let flows = counted(status.datagrams.len(), "flow", "flows");
        let _ = writeln!(out, "    {flows} of datagrams");
    }
}

fn way(path: &PathStatus) -> String {
    let carrier = path.carrier.as_ref().map_or(String::new(), |by| format!(" by {by}"));
    format!("{}  {} -> {}{carrier}", path.interface, path.local.ip(), path.remote.ip())
}

fn path(out: &mut String, path: &PathStatus, width: usize) {
    let (received, sent) = (bytes(path.bytes_received), bytes(path.bytes_sent));
    let policies = [("policy", &path.policy), ("peer's policy", &path.peer_policy)];
    let policies = policies.into_iter().filter(|(_, policy)| !policy.is_default());
    let policies: String =
        policies.map(|(whose, policy)| format!(", {whose} {}", words(policy))).collect();
    let idle = path.idle.as_ref().map_or(String::new(), |why| format!(", idle: {why}"));
    let _ = writeln!(
        out,
        "    {:<width$}  {}: round trip {}, {received} received, {sent} sent{policies}{idle}",
        way(path),
        path.state,
        round_trip(&path.round_trip),
    );
}

fn flow(out: &mut String, flow: &FlowStatus) {
    let client = flow.client.unwrap_or(flow.source);
    // A program that has bound no port has none that its peer could know.
    let from = if client.port() == 0 { String::new() } else { format!("{client} -> ") };
    let state = if flow.state == "open" { String::new() } else { format!("{}, ", flow.state) };
    let ways = if flow.redundant { ", over every path" } else { "" };
    let relayed = if flow.beyond.is_some() { ", by relay" } else { "" };
    let to = flow.beyond.clone().unwrap_or_else(|| flow.destination.to_string());
    let _ = writeln!(
        out,
        "    {from}{to}: {state}{} received, {} sent{ways}{relayed}",
        bytes(flow.bytes_in),
        bytes(flow.bytes_out),
    );
}
