//! What processes have used, as /proc tells it.
//!
//! Every process of a run carries a mark in its environment, which its children inherit: so the stack
//! that `manypath run` starts is found, which leaves its parent's session.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Name of the variable that marks processes.
pub(crate) const MARK: &str = "MANYPATH_BENCH";
/// Units of the times in /proc/PID/stat, by Linux's promise to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the processes of one kind have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Processor time, user and system, in seconds.
    pub cpu_s: f64,
    /// The part of it in user mode, to a hundredth of a second.
    pub user_s: f64,
    /// Memory that they occupy now, in bytes.
    pub memory: u64,
}

/// What the processes of one host have used: by kind (`program`, `launcher`, `stack` ..).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage(pub BTreeMap<String, Used>);

impl Usage {
    /// What was used since `before`; memory is that of now.
    pub fn since(&self, before: &Self) -> Self {
        let difference = |(kind, now): (&String, &Used)| {
            let then = before.0.get(kind).copied().unwrap_or_default();
            let used = Used {
                cpu_s: (now.cpu_s - then.cpu_s).max(0.0),
                user_s: (now.user_s - then.user_s).max(0.0),
                memory: now.memory,
            };
            (kind.clone(), used)
        };
        Self(self.0.iter().map(difference).collect())
    }

    /// Processor time of all.
    pub fn cpu_s(&self) -> f64 {
        self.0.values().map(|used| used.cpu_s).sum()
    }

    /// Memory of all.
    pub fn memory(&self) -> u64 {
        self.0.values().map(|used| used.memory).sum()
    }
}

/// Processes with a mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(Vec<(u32, String)>);

impl Processes {
    /// Those that run now with this value of the mark.
    pub(crate) fn marked(value: &str) -> Self {
        let wanted = format!("{MARK}={value}");
        let is_marked = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        Self(all().filter(is_marked).map(|pid| (pid, kind(pid))).collect())
    }

    /// What they have used. Who has ended in the meantime is missing.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for (pid, kind) in &self.0 {
            let Some(used) = used(*pid) else { continue };
            let sum = usage.0.entry(kind.clone()).or_default();
            sum.cpu_s += used.cpu_s;
            sum.user_s += used.user_s;
            sum.memory += used.memory;
        }
        usage
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends all processes with this mark: those that do not end by themselves soon are killed.
    pub(crate) fn end_marked(value: &str, patience: Duration) {
        let begun = Instant::now();
        loop {
            let left = Self::marked(value);
            if left.is_empty() {
                return;
            }
            if begun.elapsed() > patience {
                left.kill();
            }
            if begun.elapsed() > patience + Duration::from_secs(2) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&self) {
        let pids = self.0.iter().map(|(pid, _)| pid.to_string());
        let mut command = std::process::Command::new("kill");
        command.arg("-KILL").args(pids).stderr(std::process::Stdio::null());
        // Those that cannot be killed have just ended.
        let _ = command.status();
    }
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What a process is, by its command line.
fn kind(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(std::ffi::OsStr::from_bytes);
    let program = words.next().map(std::path::Path::new).and_then(std::path::Path::file_name);
    let kind = match words.next().and_then(std::ffi::OsStr::to_str) {
        Some("bench-worker") => "program",
        Some("run") => "launcher",
        Some("stack" | "serve" | "keeper") => "stack",
        Some(_) | None => program.and_then(std::ffi::OsStr::to_str).unwrap_or("other"),
    };
    kind.to_owned()
}

fn used(pid: u32) -> Option<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    let (user_s, system_s) = (seconds()?, seconds()?);
    let cpu_s = scheduled(pid).unwrap_or(user_s + system_s);
    Some(Used { cpu_s, user_s, memory: resident(pid) })
}

/// Processor time of all threads to the nanosecond, where the kernel keeps it.
fn scheduled(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.flatten().map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    Some(times.sum::<Option<f64>>()? / 1e9)
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// The one process with this mark. A program that has just begun may not show its environment yet,
    /// nor its name.
    fn found(mark: &str, name: &str) -> Processes {
        let begun = Instant::now();
        loop {
            let processes = Processes::marked(mark);
            let is_there = processes.0.iter().any(|(_, kind)| kind == name);
            if is_there || begun.elapsed() > Duration::from_secs(10) {
                return processes;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn marked_processes_are_found_and_ended() {
        let mark = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep").arg("60").env(MARK, &mark).spawn().unwrap();
        let processes = found(&mark, "sleep");
        assert_eq!(processes.0, [(child.id(), "sleep".to_owned())]);
        assert!(processes.usage().memory() > 0);
        let reaper = std::thread::spawn(move || child.wait());
        Processes::end_marked(&mark, Duration::ZERO);
        assert!(!reaper.join().unwrap().unwrap().success());
        assert!(Processes::marked(&mark).is_empty());
    }

    #[test]
    fn work_is_charged_to_who_did_it() {
        let mark = format!("work-{}", std::process::id());
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).env(MARK, &mark).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let processes = found(&mark, "sh");
        assert!(!processes.is_empty(), "the process is not found");
        let before = processes.usage();
        // As long as it takes on a busy machine.
        while processes.usage().since(&before).cpu_s() < 0.05 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let used = processes.usage().since(&before);
        assert_eq!(used.0.keys().collect::<Vec<_>>(), ["sh"]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
