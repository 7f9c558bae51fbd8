//! Faults of the processes of manypath.

use super::faults::{Act, Fault, seconds};
use crate::soak::deaths::{namespace, worker_of};
use crate::soak::dice::Dice;
use crate::soak::hosts::Daemons;
use crate::soak::ledger::Scope;
use crate::soak::vitals::processes;
use manypath_lab::Host;
use std::time::Duration;

/// A process, and whose transfers use it.
pub(super) struct Victim {
    pub(super) host: Host,
    pub(super) role: String,
    pub(super) pid: u32,
    /// Of no transfer: a process of an agent.
    pub(super) scope: Option<Scope>,
}

fn role(pid: u32) -> String {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1).unwrap_or_default().to_owned()
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

fn descends(pid: u32, from: u32) -> bool {
    let mut line = std::iter::successors(Some(pid), |pid| parent(*pid).filter(|pid| *pid > 1));
    line.any(|pid| pid == from)
}

fn scope(daemons: &Daemons, host: Host, pid: u32) -> Option<Scope> {
    let attach = daemons.group.as_ref().map(crate::common::cgroup::Group::pid);
    match host {
        Host::Right if descends(pid, daemons.serve.id()) => Some(Scope::Server),
        Host::Right => Some(Scope::Door),
        Host::Left if attach.is_some_and(|attach| descends(pid, attach)) => Some(Scope::Attach),
        Host::Left => worker_of(pid).map(Scope::Worker),
    }
}

/// A process of manypath on either host, each role as often as the others. Agents are left alone, so that what
/// they use can be compared.
fn any_victim(daemons: &Daemons, dice: &mut Dice, kills: bool) -> Option<Victim> {
    let host = *dice.pick(&Host::ALL);
    let network = match host {
        Host::Left => namespace(daemons.agents.plain.pid()),
        Host::Right => namespace(daemons.serve.id()),
    };
    let victim = |pid| Victim { host, role: role(pid), pid, scope: scope(daemons, host, pid) };
    let all = processes(&network).into_iter().map(victim).filter(|one| one.scope.is_some());
    // The server under `manypath run` is not started again.
    let all = all.filter(|one| !(kills && host == Host::Right && one.role == "run"));
    let mut all: Vec<_> = all.filter(|one| one.role != "status").collect();
    all.sort_by(|a, b| (&a.role, a.pid).cmp(&(&b.role, b.pid)));
    let mut roles: Vec<String> = all.iter().map(|one| one.role.clone()).collect();
    roles.dedup();
    if roles.is_empty() {
        return None;
    }
    let role = dice.pick(&roles);
    all.retain(|one| one.role == *role);
    let index = dice.range(0, all.len() as u64);
    Some(all.swap_remove(usize::try_from(index).expect("an index")))
}

/// `kinds` are those that may happen.
pub(super) fn any(daemons: &Daemons, dice: &mut Dice, kinds: &[&'static str]) -> Option<Fault> {
    let kind = *dice.pick(kinds);
    let kills = matches!(kind, "killed" | "limit of memory");
    let victim = any_victim(daemons, dice, kills)?;
    let pid = victim.pid;
    let lasts = match kind {
        "suspended for long" => Duration::from_millis(dice.range(8_000, 25_000)),
        _ => seconds(dice),
    };
    let limit = |option: &str, now: u64, usual: &str| {
        let set = |to: &str| Act::Limit(format!("prlimit --pid {pid} --{option}={to}:"));
        (set(&now.to_string()), set(usual))
    };
    let (begin, mend) = match kind {
        "killed" => (Act::Signal(pid, "-KILL"), Act::Nothing),
        "limit of memory" => limit("as", address_space(pid) + (1 << 20), "unlimited"),
        "limit of descriptors" => {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(64, Iterator::count);
            limit("nofile", open as u64 + 1, "1024")
        }
        _ => (Act::Signal(pid, "-STOP"), Act::Signal(pid, "-CONT")),
    };
    let what = format!("{kind}: {} of {}, {lasts:?}", victim.role, victim.host);
    Some(Fault { kind, what, victim: Some(victim), lasts, begin, mend })
}

fn address_space(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Whether the process has ended.
pub(super) fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']))
        || stat.is_empty()
}
