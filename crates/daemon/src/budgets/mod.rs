//! Budgets of interfaces: what they may carry in a day or a month.
//!
//! The kernel counts what an interface carries, for whichever program it is, so plain TCP is counted, too, and stacks
//! that count the same interface come to the same result. Each looks once in a second, and the first engine loop keeps
//! the sum on disk.

mod quotas;
mod usage;
mod writer;

pub use quotas::SharedQuotas;
pub(crate) use quotas::{Counter, QUOTAS, Quotas, follow_quotas, on_quotas_timer};
pub(crate) use usage::{Usage, UsageFile};
pub(crate) use writer::Writer;

use crate::core::Core;
use crate::keeper::Keeper;
use crate::log;
use crate::timers::Timer;
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
    writer: Option<Writer>,
    /// Of interfaces that have no budget now, and of earlier stacks as it was when this one began.
    kept: Vec<Usage>,
    interfaces: BTreeMap<String, Counted>,
    /// When to look again; a timer that comes sooner has been overtaken.
    next: Instant,
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
            let stage = counted.stage_now();
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
        if self.file.is_none() || !self.interfaces.values().any(Counted::is_unwritten) {
            return true;
        }
        let all = self.interfaces.values().map(|counted| counted.usage.clone());
        let is_taken = self.hand_over(all.collect());
        if is_taken {
            self.interfaces.values_mut().for_each(|one| one.written = Some(one.usage.used()));
        }
        is_taken
    }

    fn hand_over(&mut self, usages: Vec<Usage>) -> bool {
        if let Some(keeper) = Keeper::current() {
            return keeper.keep_usages(usages).unwrap_or(false);
        }
        if self.writer.is_none() {
            self.writer = self.file.clone().and_then(|file| Writer::start(file).ok());
        }
        self.writer.as_ref().is_some_and(|writer| writer.take(usages))
    }
}

impl Counted {
    fn stage_now(&self) -> Stage {
        let (used, limit) = (u128::from(self.usage.used()), u128::from(self.budget.bytes));
        match () {
            () if used >= limit => Stage::UsedUp,
            () if used * 100 >= limit * WARNED_PERCENT => Stage::Low,
            () => Stage::Enough,
        }
    }

    fn is_unwritten(&self) -> bool {
        self.written.is_none_or(|written| {
            let more = u128::from(self.usage.used().abs_diff(written));
            more * 1000 >= u128::from(self.budget.bytes) * WRITTEN_PERMILLE
        })
    }
}

impl Core {
    /// Looks at what interfaces have carried, and goes on doing so as long as one has a budget.
    pub(crate) fn follow_budgets(&mut self) {
        if !self.path_policies.entries().iter().any(|entry| entry.wish.budget.is_some()) {
            return self.budgets.adopt(today(), &[], &BTreeMap::new());
        }
        match manypath_net::carried() {
            Ok(carried) => count(self, &carried),
            Err(_) => self.count("budget_looks_failed"),
        }
        self.budgets.next = self.now + PAUSE;
        self.after(PAUSE, Timer::Budgets);
    }

    pub(crate) fn on_budgets_timer(&mut self) {
        if self.budgets.next <= self.now {
            self.follow_budgets();
        }
    }
}

fn count(core: &mut Core, carried: &BTreeMap<String, u64>) {
    core.budgets.adopt(today(), core.path_policies.entries(), carried);
    let changed = core.budgets.take(today(), carried);
    changed.iter().for_each(|name| say_stage(core, name));
    if !changed.is_empty() {
        core.tell_path_policies();
    }
    if core.config.loop_index() == 0 && !core.budgets.keep() {
        core.count("budgets_not_kept");
    }
}

fn say_stage(core: &mut Core, name: &str) {
    let Some(counted) = core.budgets.interfaces.get(name) else { return };
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
                false => "it carries data only where no other path is usable, until the next one",
            };
            warn!(target: log::PATH, "{name} has used up its budget of this {period}: {then}");
            core.count("budgets_used_up");
        }
    }
}

/// Where this host is.
pub(crate) fn today() -> Date {
    let LocalTime { year, month, day, .. } = manypath_net::local_time();
    Date { year, month, day }
}

#[cfg(test)]
mod tests;
