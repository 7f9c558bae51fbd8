//! Quotas of peers: what the connections of a key may move in a day or a month by local rules (`quota`).
//!
//! A relay adds what it has moved to the counter of its peer, which all engine loops of a process share. Once in a second, while there
//! are such relays, one of them looks at all counters: whether a period has ended, what the log is to say, and what is
//! to be written. Who has used up its quota gets no new connection by that rule; open ones go on.
//!
//! Two processes may write the file, as before and after a restart. Each sum has the first day of its period, so that of
//! two sums of a period the larger one stays.

use super::{Stage, Usage, UsageFile, Writer, hand_over, today};
use crate::counters;
use crate::keeper::Keeper;
use crate::log;
use crate::timers::{Timer, Timers};
use manypath_control::status::QuotaStatus;
use manypath_engine::{Duration, Instant};
use manypath_rules::paths::{Budget, Date, Period};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Of a quota, after which the sum is written again while connections last.
const WRITTEN_PERMILLE: u128 = 1;
/// Most counters. With more peers those without connections that have used least are forgotten.
const MAX_COUNTERS: usize = 2048;
/// Sums that are handed over together: a message to the keeper has room for them.
const MAX_TOGETHER: usize = 256;

/// The counters of a process, which its engine loops share.
#[derive(Clone, Debug, Default)]
pub struct SharedQuotas(Arc<Mutex<Counters>>);

/// The fingerprint of the key and the words of the quota: rules with the same quota share a counter.
type Id = (String, String);
type Counters = BTreeMap<Id, Counted>;

/// Bytes that the connections of a peer have moved in a period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// A connection has moved so many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        let add = |used: u64| Some(used.saturating_add(bytes));
        let _always = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
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
    /// The first day of the period.
    date: Date,
    stage: Stage,
    /// What was used when that was written last.
    written: u64,
}

/// The quotas of a stack.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    shared: SharedQuotas,
    file: Option<UsageFile>,
    /// What earlier stacks have counted, as it was when this one began.
    kept: Vec<Usage>,
    /// Begun with the first thing to write.
    writer: Option<Writer<Vec<Usage>>>,
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
            let date = first_day(quota.period, kept.map_or(today, Usage::date));
            let stage = Stage::of(used, quota);
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

    /// How those stand of which rules speak: `is_ruled` tells of a quota whether a rule has it.
    pub(crate) fn status(&self, is_ruled: impl Fn(Budget) -> bool) -> Vec<QuotaStatus> {
        self.status_at(today(), is_ruled)
    }

    fn status_at(&self, today: Date, is_ruled: impl Fn(Budget) -> bool) -> Vec<QuotaStatus> {
        let mut counters = lock(&self.shared);
        counters.values_mut().for_each(|counted| counted.begin_anew_if_over(today));
        let ruled = counters.iter().filter(|(_, counted)| is_ruled(counted.quota));
        ruled.map(|((key, _), counted)| counted.status(key)).collect()
    }

    /// Begins periods anew, and tells which counters have come to another stage.
    fn look(&self, today: Date) -> Vec<String> {
        let mut said = Vec::new();
        for ((key, _), counted) in lock(&self.shared).iter_mut() {
            counted.begin_anew_if_over(today);
            let now = Stage::of(counted.counter.used(), counted.quota);
            if std::mem::replace(&mut counted.stage, now) < now {
                said.push(counted.words(key));
            }
        }
        said
    }

    /// What has to be written: sums that have grown by much, or whose connections are over.
    fn unwritten(&self) -> Vec<(Id, Usage)> {
        let counters = lock(&self.shared);
        let unwritten = counters.iter().filter(|(_, counted)| counted.is_unwritten());
        unwritten.map(|(id, counted)| (id.clone(), counted.usage(id))).collect()
    }

    fn note_written(&self, written: &[(Id, Usage)]) {
        let mut counters = lock(&self.shared);
        for (id, usage) in written {
            counters.get_mut(id).into_iter().for_each(|counted| counted.written = usage.used());
        }
    }

    /// What could not be handed over is written the next time.
    fn keep(&mut self) -> bool {
        let Some(file) = self.file.clone() else { return true };
        self.unwritten().chunks(MAX_TOGETHER).all(|some| {
            let usages = some.iter().map(|(_, usage)| usage.clone()).collect();
            let start = || file.clone().writer();
            let is_taken = hand_over(usages, Keeper::keep_quotas, &mut self.writer, start);
            if is_taken {
                self.note_written(some);
            }
            is_taken
        })
    }

    /// The stack ends: its connections are over.
    pub(crate) fn finish(&mut self) {
        let _too_late = self.keep();
    }

    /// A connection counts for a quota.
    pub(crate) fn follow(&mut self, now: Instant, timers: &mut Timers) {
        if !std::mem::replace(&mut self.looks, true) {
            timers.set(now + PAUSE, Timer::Quotas);
        }
    }

    pub(crate) fn on_timer(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        counters: &mut counters::Counters,
    ) {
        for line in self.look(today()) {
            warn!(target: log::CONNECTION, "{line}");
            counters.count("quota_warnings");
        }
        let in_use = self.are_in_use();
        let kept = self.keep();
        if !kept {
            counters.count("quotas_not_kept");
        }
        self.looks = in_use || !kept;
        if self.looks {
            timers.set(now + PAUSE, Timer::Quotas);
        }
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
            (self.date, self.stage) = (first_day(self.quota.period, today), Stage::Enough);
            self.written = 0;
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

    fn status(&self, key: &str) -> QuotaStatus {
        let used = self.counter.used();
        QuotaStatus {
            key: key.to_owned(),
            name: self.name.clone(),
            limit_bytes: self.quota.bytes,
            period: self.quota.period.name().to_owned(),
            used_bytes: used,
            used_up: used >= self.quota.bytes,
        }
    }

    fn usage(&self, id: &Id) -> Usage {
        Usage::of_peer(&label(id), self.counter.used(), self.date)
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

/// A peer that nobody authorizes can make as many keys as it likes.
fn make_room(counters: &mut Counters) {
    if counters.len() < MAX_COUNTERS {
        return;
    }
    let idle = counters.iter().filter(|(_, counted)| !counted.is_in_use());
    let least = idle.min_by_key(|(_, counted)| counted.counter.used()).map(|(id, _)| id.clone());
    least.map(|id| counters.remove(&id));
}

/// That of the period in which `day` is.
const fn first_day(period: Period, day: Date) -> Date {
    match period {
        Period::Day => day,
        Period::Month => Date { day: 1, ..day },
    }
}

/// Its name in the file.
fn label((key, quota): &Id) -> String {
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

    fn status(quotas: &Quotas) -> Vec<QuotaStatus> {
        quotas.status_at(day(11, 30), |_| true)
    }

    fn written(quotas: &Quotas) -> Vec<Usage> {
        let unwritten = quotas.unwritten();
        quotas.note_written(&unwritten);
        unwritten.into_iter().map(|(_, usage)| usage).collect()
    }

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
        let status = status(&quotas);
        assert_eq!(status.iter().map(|it| it.used_up).collect::<Vec<_>>(), [true, false]);
        let later = quotas.status_at(day(12, 1), |_| true);
        assert!(
            later.iter().all(|it| it.used_bytes == 0),
            "another month, though nobody has looked"
        );
        assert!(quotas.status_at(day(12, 1), |quota| quota != QUOTA).is_empty(), "no rule has it");
        let counter = quotas.counter_at(day(12, 1), "SHA256:a", None, QUOTA);
        assert_eq!(counter.used(), 0);
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
        let unwritten = written(&first);
        assert_eq!(unwritten.len(), 1, "its connections are over");
        assert!(written(&first).is_empty(), "nothing has come since");
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
        assert_eq!(quotas.unwritten().len(), 1, "nobody has taken it to be written");
    }

    #[test]
    fn of_two_processes_in_a_period_the_one_that_has_counted_more_is_believed() {
        let folder = std::env::temp_dir().join(format!("manypath-quotas-2-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = UsageFile::named(folder.join("quotas"));
        let before = Quotas::default();
        before.counter_at(day(11, 3), "SHA256:a", None, QUOTA).add(700_000);
        let after = Quotas::default();
        after.counter_at(day(11, 27), "SHA256:a", None, QUOTA).add(10);
        file.put(&written(&before)).unwrap();
        file.put(&written(&after)).unwrap();
        let next = Quotas::load(Some(file), SharedQuotas::default());
        assert_eq!(next.counter_at(day(11, 28), "SHA256:a", None, QUOTA).used(), 700_000);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn clocks_that_are_set_back_and_sums_at_their_end_give_nothing_back() {
        let quotas = Quotas::default();
        let at = |year| Date { year, month: 11, day: 27 };
        quotas.counter_at(at(2026), "SHA256:a", None, QUOTA).add(u64::MAX - 5);
        let counter = quotas.counter_at(at(1970), "SHA256:a", None, QUOTA);
        counter.add(10);
        assert_eq!(counter.used(), u64::MAX);
        assert_eq!(quotas.counter_at(at(2026), "SHA256:a", None, QUOTA).used(), u64::MAX);
    }

    #[test]
    fn keys_without_end_take_no_memory_without_end() {
        let quotas = Quotas::default();
        let busy = quotas.counter_at(day(11, 27), "SHA256:busy", None, QUOTA);
        for number in 0..2 * MAX_COUNTERS {
            quotas.counter_at(day(11, 27), &format!("SHA256:{number}"), None, QUOTA).add(1);
        }
        assert!(status(&quotas).len() <= MAX_COUNTERS);
        busy.add(3);
        assert!(status(&quotas).iter().any(|it| (&*it.key, it.used_bytes) == ("SHA256:busy", 3)));
    }
}
