//! What the daemons use: memory, descriptors, threads; and what they still hold when nothing is carried.

use crate::soak::hosts::{Daemons, stacks};
use manypath_lab::Host;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// How long connections that have ended may need to be forgotten: a killed peer of which nothing is wanted is
/// found out by the next HEARTBEAT, half a minute later at most.
const SETTLING: Duration = Duration::from_secs(45);
/// For how long descriptors stay the same before they count for the first time: a busy daemon is late to close the
/// connection of whoever has asked for its status.
const STABLE: Duration = Duration::from_secs(2);
/// What memory may grow by, in part and in bytes, from the first third of the checks to the last one.
const GROWTH: f64 = 1.25;
const SLACK: u64 = 8 << 20;

/// What a daemon uses, with its stack and door.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Use {
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

/// All daemons at one time, by name.
pub(crate) type Vitals = BTreeMap<&'static str, Use>;

/// Whether a condition comes to hold within `limit`.
pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

pub(crate) fn take(daemons: &Daemons) -> Vitals {
    let mut named = vec![
        ("serve", daemons.serve.id()),
        ("server under run, with its door", daemons.served.id()),
        ("run, with its stack", daemons.agents.run.pid()),
    ];
    named.extend(daemons.group.as_ref().map(|group| ("attach, with its stack", group.pid())));
    named.into_iter().map(|(name, pid)| (name, tree(pid))).collect()
}

/// The same as soon as as many descriptors are open as `before`, or after a while in vain: what has come back of the
/// network may just be in the making. Without `before`, as soon as their number rests.
pub(crate) fn take_settled(daemons: &Daemons, before: Option<&Vitals>) -> Vitals {
    let (mut now, mut since) = (take(daemons), Instant::now());
    let open =
        |vitals: &Vitals| -> Vec<usize> { vitals.values().map(|one| one.descriptors).collect() };
    within(Duration::from_secs(20), || {
        let last = std::mem::replace(&mut now, take(daemons));
        if open(&last) != open(&now) {
            since = Instant::now();
        }
        before.map_or(since.elapsed() >= STABLE, |before| open(before) == open(&now))
    });
    now
}

/// A process of manypath and those that it has started.
fn tree(pid: u32) -> Use {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    let all = children.chain([pid]).filter(|pid| is_manypath(*pid)).map(of_process);
    all.fold(Use::default(), |sum, one| Use {
        resident: sum.resident + one.resident,
        descriptors: sum.descriptors + one.descriptors,
        threads: sum.threads + one.threads,
    })
}

/// Whether the process runs the program under test.
pub(crate) fn is_manypath(pid: u32) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe"));
    exe.is_ok_and(|exe| exe.as_os_str() == crate::common::MANYPATH)
}

fn of_process(pid: u32) -> Use {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Use {
        resident: figure("VmRSS:").unwrap_or(0) << 10,
        descriptors,
        threads: figure("Threads:").and_then(|n| n.try_into().ok()).unwrap_or(0),
    }
}

/// Waits until no stack of either host carries a connection, nor wants to; what is left otherwise.
pub(crate) fn settle(daemons: &Daemons) -> Result<(), String> {
    let mut left = Vec::new();
    let settled = within(SETTLING, || {
        left = Host::ALL.iter().flat_map(|host| open_flows(daemons, *host)).collect();
        left.is_empty()
    });
    if settled { Ok(()) } else { Err(format!("open without a program: {left:?}")) }
}

fn open_flows(daemons: &Daemons, host: Host) -> Vec<String> {
    let open = |stack: Value| {
        let associations = stack["associations"].as_array().cloned().unwrap_or_default();
        let flows = |one: &Value| one["flows"].as_array().cloned().unwrap_or_default();
        let flows: Vec<Value> = associations.iter().flat_map(flows).collect();
        let pid = stack["pid"].clone();
        (!flows.is_empty()).then(|| format!("{host}, process {pid}: {flows:?}"))
    };
    stacks(daemons.hosts, host).into_iter().filter_map(open).collect()
}

/// What is wrong with the checks in their order, which were all made of the same processes.
pub(crate) fn growth(checks: &[Vitals]) -> Vec<String> {
    let (Some(first), Some(last)) = (checks.first(), checks.last()) else { return Vec::new() };
    let mut wrong = Vec::new();
    let third = checks.len() / 3;
    for (name, before) in first {
        let after = last.get(name).copied().unwrap_or_default();
        if (after.descriptors, after.threads) != (before.descriptors, before.threads) {
            wrong.push(format!("{name}: {before:?} at first, {after:?} at the end"));
        }
        if third > 0 {
            let early = most(&checks[..third], name);
            let late = most(&checks[checks.len() - third..], name);
            if late as f64 > early as f64 * GROWTH + SLACK as f64 {
                wrong.push(format!("{name}: memory grew from {early} to {late} bytes"));
            }
        }
    }
    wrong
}

fn most(checks: &[Vitals], name: &str) -> u64 {
    let figures = checks.iter().filter_map(|check| check.get(name));
    figures.map(|one| one.resident).max().unwrap_or(0)
}

pub(crate) fn as_json(checks: &[Vitals]) -> Value {
    let one = |check: &Vitals| {
        let rows = check.iter().map(|(name, it)| {
            let Use { resident, descriptors, threads } = it;
            let row = json!({
                "resident_bytes": resident, "descriptors": descriptors, "threads": threads,
            });
            ((*name).to_owned(), row)
        });
        Value::Object(rows.collect())
    };
    Value::Array(checks.iter().map(one).collect())
}

/// Processes of manypath in the network of a host.
pub(crate) fn processes(namespace: &std::path::Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let there =
        |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it == namespace);
    pids.filter(there).filter(|pid| is_manypath(*pid)).collect()
}
