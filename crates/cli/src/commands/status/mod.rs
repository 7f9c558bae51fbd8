//! `manypath status`: what the stacks of this host do, and why a path is idle.

mod details;
mod summary;
pub(crate) mod watch;

use super::stacks;
use crate::failure::Failure;
use clap::Args;
use manypath_control::counted;
use manypath_control::status::{
    AssociationStatus, BudgetStatus, DoorHostStatus, FallbackReason, IdentityStatus,
    ListenerStatus, QuotaStatus, RelayTried, RelayedPeerStatus, RoundTripStatus, SandboxStatus,
    SearchStatus, StackStatus,
};
use serde::Serialize;
use std::fmt::Write;
use watch::WatchArgs;

/// Show associations, paths and connections.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath status\n  manypath status --watch\n  manypath status --json | jq '.stacks[].associations[].paths'"
)]
pub(crate) struct StatusArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Include stacks in other network namespaces.
    #[arg(long)]
    pub(crate) all: bool,
    /// Show counters of all drops, refusals and fallbacks.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Show every figure of associations, paths and connections.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// What `--json` prints (docs/status.md).
#[derive(Serialize)]
struct Stacks {
    schema: u32,
    stacks: Vec<StackStatus>,
}

/// Asks every stack and prints what it says.
pub(crate) fn status(args: &StatusArgs) -> Result<u8, Failure> {
    if let Some(watch) = args.watch.wanted(args.all, args.json) {
        return watch::watch(&watch);
    }
    let stacks = stacks::query(args.all)?;
    if args.json {
        return super::print(json(stacks)?.as_bytes());
    }
    if stacks.is_empty() {
        println!(
            "no manypath stack is running here (start one with `manypath run` or `manypath serve`)"
        );
    }
    for process in stacks.chunk_by(|one, next| one.pid == next.pid) {
        print!("{}", text(process, args));
    }
    Ok(0)
}

/// All of it as one JSON object, with the newline.
pub(super) fn json(stacks: Vec<StackStatus>) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(&Stacks { schema: super::SCHEMA, stacks });
    Ok(text.map_err(|e| Failure::new(e.to_string()))? + "\n")
}

/// The stack of a process in text, with each of its engine loops.
fn text(loops: &[StackStatus], args: &StatusArgs) -> String {
    let mut out = String::new();
    let Some(first) = loops.first() else { return out };
    head(&mut out, first, loops);
    for one in loops {
        if loops.len() > 1 {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(out, "  loop {}: {}", one.loop_index, load(std::slice::from_ref(one)));
        }
        body(&mut out, one, args);
    }
    out
}

/// How an association is encrypted, if it is.
fn encryption(status: &AssociationStatus) -> String {
    let Some(it) = &status.encryption else { return String::new() };
    match (&it.cipher_suite, &it.peer, &it.standing) {
        (Some(suite), Some(peer), Some(standing)) => {
            let name = it.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
            format!("encrypted by {suite} with {standing} key {peer}{name}")
        }
        _ => "not encrypted yet: keys are being made".to_owned(),
    }
}

/// How many associations and connections there are.
fn load(loops: &[StackStatus]) -> String {
    let associations = || loops.iter().flat_map(|one| &one.associations);
    let connections: usize = associations().map(|one| one.flows.len()).sum();
    let associations = counted(associations().count(), "association", "associations");
    format!("{associations}, {}", counted(connections, "connection", "connections"))
}

fn head(out: &mut String, stack: &StackStatus, loops: &[StackStatus]) {
    let role = match (stack.accepting, stack.allow.is_empty()) {
        (true, true) => "serving listeners".into(),
        (true, false) => format!("serving {}", stack.allow.join(",")),
        (false, true) => "client".to_owned(),
        // A gateway's doors.
        (false, false) => format!("carrying {}", stack.allow.join(",")),
    };
    let draining = if stack.draining { ", draining" } else { "" };
    let seconds = stack.uptime_ms / 1000;
    let second = stack.privileged_port.map(|port| format!(" and {port}")).unwrap_or_default();
    let (several, load) = match loops.len() {
        1 => (String::new(), counted(stack.associations.len(), "association", "associations")),
        count => (format!(", {count} engine loops"), load(loops)),
    };
    let _ = writeln!(
        out,
        "stack {} ({role}, udp {}{second}{several}, up {seconds} s{draining}): {load}",
        stack.pid, stack.udp_port,
    );
    if let Some(why) = &stack.engine_loops.loops_reason {
        let loops = counted(loops.len(), "engine loop", "engine loops");
        let _ = writeln!(out, "  {loops} {why}");
    }
}

/// What one loop does.
fn body(out: &mut String, stack: &StackStatus, args: &StatusArgs) {
    stack.listeners.iter().for_each(|l| listener(out, l));
    let write = if args.verbose { details::association } else { summary::association };
    stack.associations.iter().for_each(|a| write(out, a));
    // It is the same for all loops.
    let budgets = stack.budgets.iter().filter(|_| stack.loop_index == 0);
    budgets.for_each(|one| *out += &format!("  {}\n", budget(one)));
    stack.quotas.iter().for_each(|one| *out += &format!("  {}\n", quota(one)));
    stack.door_hosts.iter().for_each(|one| door_host(out, one));
    let memory = &stack.receive_memory;
    let (promised, limit) = (memory.promised_bytes >> 10, memory.limit_bytes >> 10);
    if promised > 0 && args.verbose {
        let _ = writeln!(out, "  windows of {promised} KiB of {limit} KiB");
    }
    // These are the same for all loops.
    if let Some(it) = stack.identity.as_ref().filter(|_| stack.loop_index == 0) {
        *out += &identity(it, args.verbose);
    }
    if stack.loop_index == 0 && (args.verbose || stack.sandbox.user == 0) {
        *out += &sandbox(&stack.sandbox);
    }
    stack.relaying.relayed_peers.iter().for_each(|it| relayed(out, it));
    stack.relaying.searches.iter().for_each(|it| *out += &format!("  {}\n", search(it)));
    for peer in &stack.peers {
        let port = peer.port.map_or(String::new(), |p| format!(":{p}"));
        let _ = writeln!(
            out,
            "  {}{port}: plain TCP for {} s more: {}",
            peer.addr,
            peer.expires_ms / 1000,
            peer.reason
        );
    }
    for (reason, count) in &stack.fallbacks {
        let _ = writeln!(out, "  plain TCP {}: {reason}", times(*count));
    }
    if args.counters {
        for (name, count) in stack.counters.iter().filter(|(_, count)| **count > 0) {
            let _ = writeln!(out, "  {name} {count}");
        }
    }
}

/// By which key peers know the stack, where that is of interest.
fn identity(status: &IdentityStatus, verbose: bool) -> String {
    match &status.unkept {
        Some(why) => format!("  the key of this stack is not kept: {why}\n"),
        None if verbose => {
            let tickets = counted(status.tickets, "ticket", "tickets");
            format!("  key {}, {tickets} for further associations\n", status.key)
        }
        None => String::new(),
    }
}

/// What was relayed for a peer.
fn relayed(out: &mut String, peer: &RelayedPeerStatus) {
    let _ = writeln!(
        out,
        "  relayed for {}: {} now, {} so far, {} denied, {} failed, {} to destinations, {} from them",
        peer.peer,
        counted(peer.open, "connection", "connections"),
        peer.opened,
        peer.denied,
        peer.failed,
        bytes(peer.to_destinations_bytes),
        bytes(peer.from_destinations_bytes),
    );
}

/// What relays have said of a host that is known by its key.
pub(super) fn search(search: &SearchStatus) -> String {
    let told = |tried: &RelayTried| {
        let reason = serde_json::from_value::<FallbackReason>(tried.outcome.clone().into());
        match (&*tried.outcome, reason) {
            ("not-registered", _) => format!("{} does not know the host", tried.relay),
            ("no-answer", _) => format!("{} does not answer", tried.relay),
            ("not-relay", _) => format!("{} is no relay for this host", tried.relay),
            ("not-authorized", _) => {
                let list = "add what `manypath key show` prints to its file of --authorized";
                format!("{} does not authorize the key of this host ({list})", tried.relay)
            }
            ("refused", _) | (_, Err(_)) => format!("{} refuses", tried.relay),
            (_, Ok(reason)) => format!("{} cannot be used ({reason})", tried.relay),
        }
    };
    let tried: Vec<String> = search.tried.iter().map(told).collect();
    let tried = tried.join(", ");
    match (search.relay, tried.is_empty()) {
        (Some(relay), _) => format!("{}: by relay {relay}: {tried}", search.host),
        (None, true) => format!("{}: no relay has an address", search.host),
        (None, false) => format!("{}: no relay leads there: {tried}", search.host),
    }
}

/// What became of the rights of root, if root has started the stack.
fn sandbox(status: &SandboxStatus) -> String {
    let SandboxStatus { user, capabilities, seccomp, landlock, missing, .. } = status;
    if *user == 0 && !seccomp {
        return "  runs with the rights of root\n".to_owned();
    }
    if !seccomp && !landlock {
        return String::new();
    }
    let capabilities =
        if capabilities.is_empty() { "no capabilities" } else { &capabilities.join(" ") };
    let measures = [(*seccomp, "seccomp"), (*landlock, "Landlock")];
    let measures = measures.iter().filter(|(taken, _)| *taken).map(|(_, name)| *name);
    let measures = measures.collect::<Vec<_>>().join(" and ");
    let mut line = format!("  sandbox: user {user}, {capabilities}, {measures}");
    if !missing.is_empty() {
        line = format!("{line}; missing: {}", missing.join(", "));
    }
    line + "\n"
}

fn listener(out: &mut String, status: &ListenerStatus) {
    let ListenerStatus { addr, program, sctp, plain, .. } = status;
    let open = if status.offered { "open to peers" } else { "closed by a rule" };
    let _ = writeln!(
        out,
        "  listener {addr} of {program}, {open}: accepted {sctp} over sctp, {plain} over tcp"
    );
}

/// How the budget of an interface stands.
pub(super) fn budget(status: &BudgetStatus) -> String {
    let BudgetStatus { interface, limit_bytes, period, hard, used_bytes, used_up } = status;
    let percent = u128::from(*used_bytes) * 100 / u128::from((*limit_bytes).max(1));
    let then = match (used_up, hard) {
        (false, _) => "",
        (true, false) => ": it carries data only where no other path is usable",
        (true, true) => ": it carries no data",
    };
    let (used, limit) = (bytes(*used_bytes), bytes(*limit_bytes));
    format!("{interface}: {used} of {limit} used this {period} ({percent} %){then}")
}

/// How much of its quota a peer has used.
fn quota(status: &QuotaStatus) -> String {
    let QuotaStatus { key, name, limit_bytes, period, used_bytes, used_up } = status;
    let percent = u128::from(*used_bytes) * 100 / u128::from((*limit_bytes).max(1));
    let who = name.as_ref().unwrap_or(key);
    let then = if *used_up { ": it gets no new connections" } else { "" };
    let (used, limit) = (bytes(*used_bytes), bytes(*limit_bytes));
    format!("peer {who}: {used} of {limit} used this {period} ({percent} %){then}")
}

fn door_host(out: &mut String, status: &DoorHostStatus) {
    let DoorHostStatus { host, open, carried, plain, failed, refused, .. } = status;
    let (sent, received) = (bytes(status.sent_bytes), bytes(status.received_bytes));
    let _ = writeln!(
        out,
        "  client {host}: {open} open, ended: {carried} over sctp, {plain} over tcp; {failed} failed, {refused} refused; \
         {received} received, {sent} sent"
    );
}

/// How long a round trip takes, and by how much those over TCP have lately exceeded the shortest one.
fn round_trip(status: &RoundTripStatus) -> String {
    let millis = |us: u64| format!("{:.1} ms", us as f64 / 1e3);
    let usual = status.srtt_us.map_or("-".to_owned(), millis);
    // Less would be shown as none.
    let hold_up = status.hold_up_us.filter(|us| *us >= 50).map(millis);
    let hold_up =
        hold_up.map_or(String::new(), |time| format!(", lately up to {time} longer over TCP"));
    usual + &hold_up
}

/// When data went over a path last.
pub(super) fn last_data(sent_ms: Option<u64>, received_ms: Option<u64>) -> String {
    let ago =
        |ms: Option<u64>| ms.map_or("never".into(), |ms| format!("{:.1} s ago", ms as f64 / 1e3));
    format!("data sent {}, received {}", ago(sent_ms), ago(received_ms))
}

fn times(count: u64) -> String {
    counted(count, "time", "times")
}

/// A number of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        1_000_000_000.. => format!("{:.2} GB", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{RelayTried, RoundTripStatus, SearchStatus, bytes, last_data, round_trip, search};

    #[test]
    fn the_last_data_is_told_in_seconds() {
        assert_eq!(last_data(Some(1240), None), "data sent 1.2 s ago, received never");
    }

    #[test]
    fn a_round_trip_over_tcp_is_told_with_how_much_longer_others_took() {
        let told = |srtt_us, hold_up_us| {
            round_trip(&RoundTripStatus { srtt_us, hold_up_us, ..Default::default() })
        };
        assert_eq!(told(None, None), "-");
        assert_eq!(told(Some(20_400), None), "20.4 ms");
        assert_eq!(told(Some(20_400), Some(0)), "20.4 ms");
        assert_eq!(
            told(Some(20_400), Some(81_260)),
            "20.4 ms, lately up to 81.3 ms longer over TCP"
        );
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 9_999, 10_000, 1_345_678, 2_345_678_901].map(bytes),
            ["0 B", "9999 B", "10.0 kB", "1.3 MB", "2.35 GB"]
        );
    }

    #[test]
    fn why_relays_lead_nowhere_is_told_with_the_cure() {
        let relay = "192.0.2.1".parse().unwrap();
        let told = |outcome: &str| {
            let tried = vec![RelayTried { relay, outcome: outcome.to_owned() }];
            let found = SearchStatus { host: "2001:20::1".parse().unwrap(), relay: None, tried };
            search(&found).split_once("192.0.2.1 ").unwrap().1.to_owned()
        };
        assert_eq!(told("no-answer"), "does not answer");
        assert!(told("not-authorized").contains("manypath key show"));
        assert_eq!(told("key-changed"), "cannot be used (the peer's key has changed)");
        assert_eq!(told("of a later version"), "refuses");
    }
}
