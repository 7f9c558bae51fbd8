//! Quotas of peers: what the connections of a key may move in a day or a month by local rules (`quota`).
//!
//! A relay adds what it has moved to the counter of its peer, which all engine loops of a process share. Once in a second, while there
//! are such relays, one of them looks at all counters: whether a period has ended, what the log is to say, and what is
//! to be written. Who has used up its quota gets no new connection by that rule; open ones go on.

use super::{Usage, UsageFile, Writer, today};
use crate::core::Core;
use crate::keeper::Keeper;
use crate::log;
use crate::timers::Timer;
use manypath_control::status::QuotaStatus;
use manypath_engine::Duration;
use manypath_rules::paths::{Budget, Date};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// The name of the file, beside that of budgets.
pub(crate) const QUOTAS: &str = "quotas";
/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Of a quota, after which the sum is written again while connections last.
const WRITTEN_PERMILLE: u128 = 1;
/// Of a quota, after which the log says so.
const WARNED_PERCENT: u128 = 80;
/// Most counters. With more peers those without connections that have used least are forgotten.
const MAX_COUNTERS: usize = 2048;

/// The counters of a process, which its engine loops share.
#[derive(Clone, Debug, Default)]
pub struct SharedQuotas(Arc<Mutex<Counters>>);

/// By the fingerprint of the key and the words of the quota: rules with the same quota share it.
type Counters = BTreeMap<(String, String), Counted>;

/// Bytes that the connections of a peer have moved in a period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// A connection has moved so many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Counted {
    quota: Budget,
    /// Its name among the authorized peers.
    name: Option<String>,
    counter: Counter,
    /// A day of the period.
    date: Date,
    stage: Stage,
    /// What was used when that was written last.
    written: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Enough,
    Low,
    UsedUp,
}

/// The quotas of a stack.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    shared: SharedQuotas,
    file: Option<UsageFile>,
    /// What earlier stacks have counted, as it was when this one began.
    kept: Vec<Usage>,
    /// Begun with the first thing to write.
    writer: Option<Writer>,
    /// Whether the timer runs.
    looks: bool,
}

impl Quotas {
    /// Reads what earlier stacks have counted.
    pub(crate) fn load(file: Option<UsageFile>, shared: SharedQuotas) -> Self {
        let kept = file.as_ref().map_or_else(Vec::new, |file| {
            file.read().unwrap_or_else(|error| {
                warn!(target: log::CONNECTION, "quotas count from now on: {}: {}", error.path.display(), error.error);
                Vec::new()
            })
        });
        Self { shared, file, kept, ..Self::default() }
    }

    /// The counter of the peer with this key, and perhaps this name, for a quota.
    pub(crate) fn counter(&self, key: &str, name: Option<&str>, quota: Budget) -> Counter {
        self.counter_at(today(), key, name, quota)
    }

    fn counter_at(&self, today: Date, key: &str, name: Option<&str>, quota: Budget) -> Counter {
        let mut counters = lock(&self.shared);
        let id = (key.to_owned(), quota.to_string());
        if !counters.contains_key(&id) {
            make_room(&mut counters);
            let kept = self.kept.iter().find(|usage| usage.is_about_peer(&label(&id)));
            let kept = kept.filter(|usage| quota.period.lasts(usage.date(), today));
            let used = kept.map_or(0, Usage::used);
            let counter = Counter(Arc::new(AtomicU64::new(used)));
            let date = kept.map_or(today, Usage::date);
            let stage = stage(used, quota);
            let (name, written) = (None, used);
            counters.insert(id.clone(), Counted { quota, name, counter, date, stage, written });
        }
        let Some(counted) = counters.get_mut(&id) else { return Counter::default() };
        // Nobody looks while no connection counts.
        counted.begin_anew_if_over(today);
        counted.name = name.map(str::to_owned);
        counted.counter.clone()
    }

    /// Whether the peer with this key has used up its quota.
    pub(crate) fn is_used_up(&self, key: &str, name: Option<&str>, quota: Budget) -> bool {
        self.counter(key, name, quota).used() >= quota.bytes
    }

    /// How they stand.
    pub(crate) fn status(&self) -> Vec<QuotaStatus> {
        let status = |((key, _), counted): (&(String, String), &Counted)| QuotaStatus {
            key: key.clone(),
            name: counted.name.clone(),
            limit_bytes: counted.quota.bytes,
            period: counted.quota.period.name().to_owned(),
            used_bytes: counted.counter.used(),
            used_up: counted.counter.used() >= counted.quota.bytes,
        };
        lock(&self.shared).iter().map(status).collect()
    }

    /// Begins periods anew, and tells which counters have come to another stage.
    fn look(&self, today: Date) -> Vec<String> {
        let mut said = Vec::new();
        for ((key, _), counted) in lock(&self.shared).iter_mut() {
            counted.begin_anew_if_over(today);
            let now = stage(counted.counter.used(), counted.quota);
            if std::mem::replace(&mut counted.stage, now) < now {
                said.push(counted.words(key));
            }
        }
        said
    }

    /// What has to be written: sums that have grown by much, or whose connections are over.
    fn unwritten(&self) -> Vec<Usage> {
        let mut unwritten = Vec::new();
        for (id, counted) in lock(&self.shared).iter_mut().filter(|(_, it)| it.is_unwritten()) {
            counted.written = counted.counter.used();
            unwritten.push(Usage::of_peer(&label(id), counted.written, counted.date));
        }
        unwritten
    }

    /// What could not be handed over is written the next time.
    fn keep(&mut self) -> bool {
        if self.file.is_none() {
            return true;
        }
        let unwritten = self.unwritten();
        unwritten.is_empty() || self.hand_over(unwritten)
    }

    fn hand_over(&mut self, usages: Vec<Usage>) -> bool {
        if let Some(keeper) = Keeper::current() {
            return keeper.keep_quotas(usages).unwrap_or(false);
        }
        if self.writer.is_none() {
            self.writer = self.file.clone().and_then(|file| Writer::start(file).ok());
        }
        self.writer.as_ref().is_some_and(|writer| writer.take(usages))
    }

    fn are_in_use(&self) -> bool {
        lock(&self.shared).values().any(Counted::is_in_use)
    }
}

impl Counted {
    /// What was moved in an earlier period counts no more.
    fn begin_anew_if_over(&mut self, today: Date) {
        if !self.quota.period.lasts(self.date, today) {
            self.counter.0.store(0, Ordering::Relaxed);
            (self.date, self.stage) = (today, Stage::Enough);
        }
    }

    /// Whether a connection counts here.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.counter.0) > 1
    }

    fn is_unwritten(&self) -> bool {
        let more = u128::from(self.counter.used().abs_diff(self.written));
        let much = more * 1000 >= u128::from(self.quota.bytes) * WRITTEN_PERMILLE;
        more > 0 && (much || !self.is_in_use())
    }

    fn words(&self, key: &str) -> String {
        let who = self.name.as_deref().unwrap_or(key);
        let (quota, used) = (self.quota, self.counter.used());
        match self.stage {
            Stage::UsedUp => {
                format!("{who} has used up its quota of {quota}: it gets no new connections")
            }
            Stage::Enough | Stage::Low => {
                let percent = u128::from(used) * 100 / u128::from(quota.bytes.max(1));
                format!("{who} has used {percent} % of its quota of {quota}")
            }
        }
    }
}

/// A connection counts for a quota.
pub(crate) fn follow_quotas(core: &mut Core) {
    if !std::mem::replace(&mut core.quotas.looks, true) {
        core.after(PAUSE, Timer::Quotas);
    }
}

pub(crate) fn on_quotas_timer(core: &mut Core) {
    for line in core.quotas.look(today()) {
        warn!(target: log::CONNECTION, "{line}");
        core.count("quota_warnings");
    }
    let in_use = core.quotas.are_in_use();
    if !core.quotas.keep() {
        core.count("quotas_not_kept");
    }
    core.quotas.looks = in_use;
    if in_use {
        core.after(PAUSE, Timer::Quotas);
    }
}

fn stage(used: u64, quota: Budget) -> Stage {
    let (used, limit) = (u128::from(used), u128::from(quota.bytes));
    match () {
        () if used >= limit => Stage::UsedUp,
        () if used * 100 >= limit * WARNED_PERCENT => Stage::Low,
        () => Stage::Enough,
    }
}

/// A peer that nobody authorizes can make as many keys as it likes.
fn make_room(counters: &mut Counters) {
    if counters.len() < MAX_COUNTERS {
        return;
    }
    let idle = counters.iter().filter(|(_, counted)| !counted.is_in_use());
    let least = idle.min_by_key(|(_, counted)| counted.counter.used()).map(|(id, _)| id.clone());
    least.map(|id| counters.remove(&id));
}

/// Its name in the file.
fn label((key, quota): &(String, String)) -> String {
    format!("{key} {quota}")
}

fn lock(shared: &SharedQuotas) -> MutexGuard<'_, Counters> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_rules::paths::Period;

    const QUOTA: Budget = Budget { bytes: 1_000_000, period: Period::Month, hard: false };

    const fn day(month: u8, day: u8) -> Date {
        Date { year: 2026, month, day }
    }

    #[test]
    fn a_quota_is_warned_of_used_up_and_there_again() {
        let quotas = Quotas::default();
        let counter = quotas.counter_at(day(11, 27), "SHA256:a", Some("alice"), QUOTA);
        let other = quotas.counter_at(day(11, 27), "SHA256:b", None, QUOTA);
        other.add(10);
        counter.add(700_000);
        assert!(quotas.look(day(11, 27)).is_empty());
        counter.add(100_000);
        assert_eq!(quotas.look(day(11, 28)), ["alice has used 80 % of its quota of 1MB/month"]);
        assert!(quotas.look(day(11, 28)).is_empty(), "said once");
        quotas.counter_at(day(11, 28), "SHA256:a", Some("alice"), QUOTA).add(200_000);
        let said = quotas.look(day(11, 30));
        assert!(said[0].starts_with("alice has used up its quota of 1MB/month"), "{said:?}");
        let status = quotas.status();
        assert_eq!(status.iter().map(|it| it.used_up).collect::<Vec<_>>(), [true, false]);
        let counter = quotas.counter_at(day(12, 1), "SHA256:a", None, QUOTA);
        assert_eq!(counter.used(), 0, "another month, though nobody has looked");
        counter.add(900_000);
        assert_eq!(quotas.look(day(12, 2)).len(), 1, "and it is warned of again");
    }

    #[test]
    fn sums_outlast_the_stack() {
        let folder = std::env::temp_dir().join(format!("manypath-quotas-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = UsageFile::named(folder.join("quotas"));
        let first = Quotas::default();
        first.counter_at(day(11, 27), "SHA256:a", None, QUOTA).add(400);
        let unwritten = first.unwritten();
        assert_eq!(unwritten.len(), 1, "its connections are over");
        assert!(first.unwritten().is_empty(), "nothing has come since");
        file.put(&unwritten).unwrap();
        let next = || Quotas::load(Some(file.clone()), SharedQuotas::default());
        assert_eq!(next().counter_at(day(11, 30), "SHA256:a", None, QUOTA).used(), 400);
        assert_eq!(next().counter_at(day(12, 1), "SHA256:a", None, QUOTA).used(), 0);
        let other = Budget { bytes: 5, ..QUOTA };
        assert_eq!(next().counter_at(day(11, 30), "SHA256:a", None, other).used(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_little_is_written_when_connections_are_over() {
        let quotas = Quotas::default();
        let counter = quotas.counter_at(day(11, 27), "SHA256:a", None, QUOTA);
        counter.add(500);
        assert!(quotas.unwritten().is_empty());
        counter.add(500);
        assert_eq!(quotas.unwritten().len(), 1);
    }

    #[test]
    fn keys_without_end_take_no_memory_without_end() {
        let quotas = Quotas::default();
        let busy = quotas.counter_at(day(11, 27), "SHA256:busy", None, QUOTA);
        for number in 0..2 * MAX_COUNTERS {
            quotas.counter_at(day(11, 27), &format!("SHA256:{number}"), None, QUOTA).add(1);
        }
        assert!(quotas.status().len() <= MAX_COUNTERS);
        busy.add(3);
        assert!(quotas.status().iter().any(|it| (&*it.key, it.used_bytes) == ("SHA256:busy", 3)));
    }
}
