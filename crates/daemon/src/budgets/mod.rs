//! Budgets of interfaces: what they may carry in a day or a month.
//!
//! The kernel counts what an interface carries, for whichever program it is, so plain TCP is counted, too, and stacks
//! that count the same interface come to the same result. Each looks once in a second, and the first engine loop keeps
//! the sum on disk.

mod quotas;

pub use quotas::SharedQuotas;
pub(crate) use quotas::{Counter, Quotas};

use crate::counters::Counters;
use crate::files::Writer;
use crate::files::usages::{Usage, UsageFile};
use crate::keeper::{Keeper, hand_over};
use crate::log;
use crate::timers::{Timer, Timers};
use manypath_control::status::BudgetStatus;
use manypath_engine::{Duration, Instant};
use manypath_net::LocalTime;
use manypath_rules::paths::{Budget, Date, PathEntry};
use std::collections::BTreeMap;
use tracing::warn;

/// Time between two looks at what interfaces have carried: so long one may carry more than its budget.
const PAUSE: Duration = Duration::from_secs(1);
/// Of a budget, after which the sum is written again. What is not written is still in the kernel's count.
const WRITTEN_PERMILLE: u128 = 1;
/// Of a budget, after which the user is warned.
const WARNED_PERCENT: u128 = 80;

/// What the interfaces with a budget have carried.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    file: Option<UsageFile>,
    /// Begun with the first thing to write.
    writer: Option<Writer<Vec<Usage>>>,
    /// Of interfaces that have no budget now, and of earlier stacks as it was when this one began.
    kept: Vec<Usage>,
    interfaces: BTreeMap<String, Counted>,
    /// When to look again; a timer that comes sooner has been overtaken.
    pub(crate) next: Instant,
}

/// An interface with a budget.
#[derive(Debug)]
struct Counted {
    budget: Budget,
    usage: Usage,
    stage: Stage,
    /// What was used when that was written last.
    written: Option<u64>,
}

/// How much of a budget is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Enough,
    Low,
    UsedUp,
}

impl Stage {
    fn of(used: u64, budget: Budget) -> Self {
        let (used, limit) = (u128::from(used), u128::from(budget.bytes));
        match () {
            () if used >= limit => Self::UsedUp,
            () if used * 100 >= limit * WARNED_PERCENT => Self::Low,
            () => Self::Enough,
        }
    }
}

impl Budgets {
    /// Reads what earlier stacks have counted.
    pub(crate) fn load(file: Option<UsageFile>) -> Self {
        let kept = file.as_ref().map_or_else(Vec::new, |file| {
            file.read().unwrap_or_else(|error| {
                warn!(target: log::PATH, "budgets count from now on: {}: {}", error.path.display(), error.error);
                Vec::new()
            })
        });
        // The time zone has to be known before the stack gives up its files.
        today();
        Self { file, kept, ..Self::default() }
    }

    /// The budget of an interface that has used it up.
    pub(crate) fn used_up(&self, interface: &str) -> Option<Budget> {
        let counted = self.interfaces.get(interface)?;
        (counted.stage == Stage::UsedUp).then_some(counted.budget)
    }

    /// How they stand.
    pub(crate) fn status(&self) -> Vec<BudgetStatus> {
        let status = |(interface, counted): (&String, &Counted)| BudgetStatus {
            interface: interface.clone(),
            limit_bytes: counted.budget.bytes,
            period: counted.budget.period.name().to_owned(),
            hard: counted.budget.hard,
            used_bytes: counted.usage.used(),
            used_up: counted.stage == Stage::UsedUp,
        };
        self.interfaces.iter().map(status).collect()
    }

    /// Takes in what interfaces have carried, and tells whose stage has changed.
    fn take(&mut self, today: Date, carried: &BTreeMap<String, u64>) -> Vec<String> {
        let mut changed = Vec::new();
        for (name, counted) in &mut self.interfaces {
            let Some(bytes) = carried.get(name) else { continue };
            counted.usage.take(*bytes, counted.budget.period, today);
            let stage = Stage::of(counted.usage.used(), counted.budget);
            if std::mem::replace(&mut counted.stage, stage) != stage {
                changed.push(name.clone());
            }
        }
        changed
    }

    /// Counts for the budgets of these lines. An interface that is new here begins with the sum that was kept of it, or at 0.
    fn adopt(&mut self, today: Date, entries: &[PathEntry], carried: &BTreeMap<String, u64>) {
        let mut before = std::mem::take(&mut self.interfaces);
        let budgets = entries
            .iter()
            .filter_map(|entry| Some((entry.selector.device.clone()?, entry.wish.budget?)));
        for (name, budget) in budgets {
            if self.interfaces.contains_key(&name) {
                continue;
            }
            let kept = || self.kept.iter().find(|usage| usage.is_of(&name)).cloned();
            let anew = || Usage::new(&name, carried.get(&name).copied().unwrap_or(0), today);
            let begun = || {
                let usage = kept().unwrap_or_else(anew);
                Counted { budget, usage, stage: Stage::Enough, written: None }
            };
            let counted = before.remove(&name).unwrap_or_else(begun);
            self.interfaces.insert(name, Counted { budget, ..counted });
        }
        for (name, counted) in before {
            self.kept.retain(|usage| !usage.is_of(&name));
            self.kept.push(counted.usage);
        }
    }

    /// Lets the sums be written if they have grown by much; what is not taken now is in the next ones.
    fn keep(&mut self) -> bool {
        let Some(file) = &self.file else { return true };
        if !self.interfaces.values().any(Counted::is_unwritten) {
            return true;
        }
        let all = self.interfaces.values().map(|counted| counted.usage.clone());
        let (all, start) = (all.collect(), || file.clone().writer());
        let is_taken = hand_over(all, Keeper::keep_usages, &mut self.writer, start);
        if is_taken {
            self.interfaces.values_mut().for_each(|one| one.written = Some(one.usage.used()));
        }
        is_taken
    }

    /// Looks at what interfaces have carried, and sets the time of the next look, if one of `entries` has a budget.
    /// `keeps`: this loop writes the sums. Whether somebody has begun or used up a budget.
    pub(crate) fn follow(
        &mut self,
        entries: &[PathEntry],
        (now, timers): (Instant, &mut Timers),
        counters: &mut Counters,
        keeps: bool,
    ) -> bool {
        if !entries.iter().any(|entry| entry.wish.budget.is_some()) {
            self.adopt(today(), &[], &BTreeMap::new());
            return false;
        }
        let carried = manypath_net::carried();
        let changed = match &carried {
            Ok(carried) => {
                self.adopt(today(), entries, carried);
                self.take(today(), carried)
            }
            Err(_) => {
                counters.count("budget_looks_failed");
                Vec::new()
            }
        };
        changed.iter().for_each(|name| self.say_stage(name, counters));
        if carried.is_ok() && keeps && !self.keep() {
            counters.count("budgets_not_kept");
        }
        self.next = now + PAUSE;
        timers.set(self.next, Timer::Budgets);
        !changed.is_empty()
    }

    fn say_stage(&self, name: &str, counters: &mut Counters) {
        let Some(counted) = self.interfaces.get(name) else { return };
        let Budget { bytes, period, hard } = counted.budget;
        let (used, period) = (counted.usage.used(), period.name());
        let percent = u128::from(used) * 100 / u128::from(bytes);
        match counted.stage {
            Stage::Enough => {
                warn!(target: log::PATH, "{name} has a new budget: a {period} has begun");
            }
            Stage::Low => {
                warn!(target: log::PATH, "{name} has used {percent} % of its budget of this {period}");
            }
            Stage::UsedUp => {
                let then = match hard {
                    true => "it carries no data until the next one",
                    false => {
                        "it carries data only where no other path is usable, until the next one"
                    }
                };
                warn!(target: log::PATH, "{name} has used up its budget of this {period}: {then}");
                counters.count("budgets_used_up");
            }
        }
    }
}

impl Counted {
    fn is_unwritten(&self) -> bool {
        self.written.is_none_or(|written| {
            let more = u128::from(self.usage.used().abs_diff(written));
            more * 1000 >= u128::from(self.budget.bytes) * WRITTEN_PERMILLE
        })
    }
}

/// Where this host is.
fn today() -> Date {
    let LocalTime { year, month, day, .. } = manypath_net::local_time();
    Date { year, month, day }
}

#[cfg(test)]
mod tests;
