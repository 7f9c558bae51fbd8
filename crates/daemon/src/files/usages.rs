//! What an interface has carried, as it is kept on disk: one JSON object in a line.

use super::Writer;
use crate::log;
use manypath_control::runtime;
use manypath_rules::paths::{Date, Period};
use manypath_rules::{KeptFile, KeptFileError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use tracing::warn;

/// The name of the file of quotas, beside that of budgets.
pub(crate) const QUOTAS: &str = "quotas";
/// Sums that may wait.
const MAX_JOBS: usize = 4;
/// Most interfaces, or peers, that are kept; those that were counted first go first.
const MAX_USAGES: usize = 2048;

/// What an interface has carried in its period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    interface: String,
    /// The network namespace that has it.
    namespace: u64,
    /// The boot of the machine since which the kernel counts.
    boot: String,
    /// The kernel's count at the last look, in bytes.
    counter: u64,
    /// Bytes in the period.
    used: u64,
    /// A day of the period.
    date: Date,
}

impl Usage {
    /// Of an interface that is counted from now on.
    pub(crate) fn new(interface: &str, counter: u64, today: Date) -> Self {
        let (interface, boot) = (interface.to_owned(), boot());
        Self { interface, namespace: namespace(), boot, counter, used: 0, date: today }
    }

    /// Of a peer, with the words of its quota, for a file of its own: it depends on no boot and on no network.
    pub(crate) fn of_peer(peer: &str, used: u64, date: Date) -> Self {
        let (interface, boot) = (peer.to_owned(), String::new());
        Self { interface, namespace: 0, boot, counter: used, used, date }
    }

    /// Whether it is about this peer and quota.
    pub(crate) fn is_about_peer(&self, peer: &str) -> bool {
        self.interface == peer
    }

    /// A day of the period.
    pub(crate) const fn date(&self) -> Date {
        self.date
    }

    /// Whether it is about an interface of this network with this name.
    pub(crate) fn is_of(&self, interface: &str) -> bool {
        self.interface == interface && self.namespace == namespace()
    }

    /// Bytes in the period.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// Takes in the kernel's count. One below the last is that of an interface that was made anew, or of another boot.
    /// What was carried across the end of a period counts in neither.
    pub(crate) fn take(&mut self, counter: u64, period: Period, today: Date) {
        let is_same = self.boot == boot() && counter >= self.counter;
        let news = if is_same { counter - self.counter } else { counter };
        if period.lasts(self.date, today) {
            self.used = self.used.saturating_add(news);
        } else {
            self.used = 0;
        }
        (self.counter, self.date) = (counter, self.date.max(today));
        if !is_same {
            self.boot = boot();
        }
    }

    fn is_about(&self, other: &Self) -> bool {
        (&self.interface, self.namespace) == (&other.interface, other.namespace)
    }

    /// Whether it has seen less than `other`, which another stack has counted.
    fn is_behind(&self, other: &Self) -> bool {
        let same_boot = self.boot == other.boot;
        same_boot && (self.date, self.counter) < (other.date, other.counter)
    }
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageFile(KeptFile);

impl UsageFile {
    pub(crate) fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path).without_sync())
    }

    /// What is kept.
    pub(crate) fn read(&self) -> Result<Vec<Usage>, KeptFileError> {
        self.0.read().map(|text| parse(&text))
    }

    /// Puts these in the place of those about the same interfaces, as far as they have seen more.
    pub(crate) fn put(&self, new: &[Usage]) -> Result<(), KeptFileError> {
        self.0.edit(|text| {
            let mut usages = parse(&text);
            for usage in new {
                let kept = usages.iter().position(|kept| kept.is_about(usage));
                if kept.is_some_and(|at| usage.is_behind(&usages[at])) {
                    continue;
                }
                kept.map(|at| usages.remove(at));
                usages.push(usage.clone());
            }
            let surplus = usages.len().saturating_sub(MAX_USAGES);
            let lines =
                usages[surplus..].iter().filter_map(|usage| serde_json::to_string(usage).ok());
            Ok((lines.map(|line| line + "\n").collect(), ()))
        })
    }

    /// Begins to write sums.
    ///
    /// # Errors
    /// When there are no threads left.
    pub(crate) fn writer(self) -> io::Result<Writer<Vec<Usage>>> {
        let mut failing = false;
        Writer::start("budgets", MAX_JOBS, move |usages: Vec<Usage>| {
            let failed = self.put(&usages).err();
            let news = failed.as_ref().filter(|_| !failing);
            news.inspect(
                |error| warn!(target: log::PATH, "what counts for budgets and quotas is not kept: {}: {}", error.path.display(), error.error),
            );
            failing = failed.is_some();
        })
    }
}

fn parse(text: &str) -> Vec<Usage> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The same for all processes until the machine is booted again.
fn boot() -> String {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(|| read().trim().to_owned()).clone()
}

fn namespace() -> u64 {
    runtime::network_namespace().unwrap_or_default()
}
