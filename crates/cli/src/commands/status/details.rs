//! Every figure of an association: `manypath status -v`.

use super::super::path::words;
use super::{bytes, encryption, last_data, round_trip, times};
use manypath_control::counted;
use manypath_control::path::PathPolicy;
use manypath_control::status::{AssociationStatus, DatagramStatus, FlowStatus, PathStatus};
use std::fmt::Write;

/// An association with its paths, flows and datagrams.
pub(super) fn association(out: &mut String, status: &AssociationStatus) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "  association {} {} ({}): unsent {}, outstanding {}, peer window {}, waiting to be read {}",
        status.id,
        status.state,
        status.form,
        bytes(status.unsent_bytes),
        bytes(status.outstanding_bytes),
        bytes(status.peer_rwnd_bytes),
        bytes(status.receive_queued_bytes)
    );
    if let Some(it) = &status.encryption {
        let _ = writeln!(
            out,
            "    {}{}: epoch {}, {} sealed, {} opened, {} not authentic",
            encryption(status),
            if it.resumed { ", resumed" } else { "" },
            it.epoch,
            counted(it.packets_sealed, "packet", "packets"),
            it.packets_opened,
            it.packets_dropped
        );
    }
    if let Some(why) = status.withheld_addresses {
        let _ = writeln!(out, "    one path from here: {}", why.text());
    }
    if let Some(limits) = &status.path_limits {
        let _ = writeln!(out, "    uplinks by rule: {limits}");
    }
    let profile = status.profile.as_ref().map(|name| format!("profile {name}"));
    // A stack of an earlier version says nothing of it.
    let congestion = Some(&status.congestion).filter(|name| !name.is_empty());
    let congestion = congestion.map(|name| format!("congestion {name}"));
    let parameters: Vec<String> = profile.into_iter().chain(congestion).collect();
    if !parameters.is_empty() {
        let _ = writeln!(out, "    {}{}", parameters.join(", "), lacking(status));
    }
    status.paths.iter().for_each(|p| path(out, p));
    status.flows.iter().for_each(|f| flow(out, f));
    status.datagrams.iter().for_each(|d| datagrams(out, d));
}

/// What an association has not of the profile that a rule gives its peer.
pub(super) fn lacking(status: &AssociationStatus) -> String {
    status.profile_lacks.as_ref().map_or_else(String::new, |what| {
        format!(", without {what}: that is settled before the key of the peer is known")
    })
}

fn path(out: &mut String, path: &PathStatus) {
    let primary = if path.primary { ", primary" } else { "" };
    let srtt = round_trip(&path.round_trip);
    let policy = wanted(path);
    let carrier = path.carrier.as_ref().map_or(String::new(), |by| format!(" by {by}"));
    let idle = path.idle.as_ref().map_or(String::new(), |why| format!(", idle: {why}"));
    let _ = writeln!(
        out,
        "    path {} {}{carrier} {} -> {} {}{primary}: srtt {srtt}, cwnd {}, in flight {}, sent {}, received {}, \
         {}, {}, {} ({} in vain), suspected {} ({} wrongly), {}, {} in vain, ECN {} ({} in, {} told, {}), \
         {}{policy}{idle}",
        path.id,
        path.interface,
        path.local,
        path.remote,
        path.state,
        bytes(path.cwnd_bytes),
        bytes(path.in_flight_bytes),
        bytes(path.bytes_sent),
        bytes(path.bytes_received),
        counted(path.fast_retransmits, "fast retransmit", "fast retransmits"),
        counted(path.timeouts, "timeout", "timeouts"),
        counted(path.probes, "probe", "probes"),
        path.spurious_probes,
        times(path.suspicions),
        path.spurious_suspicions,
        counted(path.tail_probes, "tail probe", "tail probes"),
        counted(path.spurious_retransmits, "retransmit", "retransmits"),
        path.ecn,
        counted(path.ce_received, "mark", "marks"),
        path.ecne_received,
        counted(path.ecn_reductions, "reduction", "reductions"),
        last_data(path.since_data_sent_ms, path.since_data_received_ms)
    );
}

/// What either end wants of a path.
fn wanted(path: &PathStatus) -> String {
    let of = |who, policy: &PathPolicy| {
        if policy.is_default() { String::new() } else { format!(", {who} {}", words(policy)) }
    };
    of("policy", &path.policy) + &of("peer's policy", &path.peer_policy)
}

fn flow(out: &mut String, flow: &FlowStatus) {
    let (from, to) = (flow.client.unwrap_or(flow.source), flow.destination);
    let to = flow.beyond.clone().unwrap_or(to.to_string());
    let ways = if flow.redundant { " over every path" } else { "" };
    let relayed = if flow.beyond.is_some() { " by relay" } else { "" };
    let _ = writeln!(
        out,
        "    flow {} {from} -> {to} {}{ways}{relayed}: in {}, out {}, waiting {} in {} out, credit {}, {} {}",
        flow.stream,
        flow.state,
        bytes(flow.bytes_in),
        bytes(flow.bytes_out),
        bytes(flow.waiting_in_bytes),
        bytes(flow.waiting_out_bytes),
        bytes(flow.credit_bytes),
        flow.class,
        flow.weight
    );
}

fn datagrams(out: &mut String, flow: &DatagramStatus) {
    let state = if flow.accepted { "open" } else { "opening" };
    let ways = if flow.redundant { " over every path" } else { "" };
    let _ = writeln!(
        out,
        "    datagrams {} {} -> {} {state}{ways}: lifetime {} ms, sent {} ({}), expired {}, dropped {} for newer \
         {} by the kernel {} too long, waiting {}, received {} ({}), delivered {}, undelivered {}",
        flow.number,
        flow.source,
        flow.destination,
        flow.lifetime_ms,
        flow.sent,
        bytes(flow.sent_bytes),
        flow.expired,
        flow.dropped_for_newer,
        flow.dropped_by_kernel,
        flow.dropped_too_long,
        flow.waiting,
        flow.received,
        bytes(flow.received_bytes),
        flow.delivered,
        flow.undelivered
    );
}
