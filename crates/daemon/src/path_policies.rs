//! What this host wants of its paths: lines about addresses, interfaces and peers, as rules of the engine.

use crate::budgets::Budgets;
use crate::locals::Locals;
use crate::log;
use crate::timers::{Timer, Timers};
use manypath_control::counted;
use manypath_engine::{
    AssociationId, Duration, Endpoint, Instant, PathPolicy, PathRole, PathRule, PathStatus,
};
use manypath_rules::paths::{Budget, PathEntry, PathWish, PathsFile, Role};
use manypath_rules::{FileError, PathLimits};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracing::info;

/// Time between two looks at the clock, for lines that hold at some hours alone.
const CLOCK_PAUSE: Duration = Duration::from_secs(10);

/// The lines that hold, and for which local addresses the engine knows of them.
#[derive(Debug, Default)]
pub(crate) struct PathPolicies {
    file: Option<PathsFile>,
    entries: Vec<PathEntry>,
    /// Addresses with their interfaces when the engine was told last.
    told: Vec<(IpAddr, String)>,
    /// The minute of the day when the engine was told last.
    minute: u16,
    /// When to look at the clock again; a timer that comes sooner has been overtaken.
    next_look: Instant,
    /// The address that stands for the key of this host, once associations use it.
    pub(crate) own_key: Option<IpAddr>,
    /// Associations that may use some uplinks alone.
    limited: BTreeMap<AssociationId, PathLimits>,
}

impl PathPolicies {
    /// Reads the file, if there is one to read.
    pub(crate) fn load(file: Option<PathsFile>) -> Result<Self, FileError> {
        let mut policies = Self { file, ..Self::default() };
        policies.entries = policies.read()?;
        Ok(policies)
    }

    /// The lines that hold.
    pub(crate) fn entries(&self) -> &[PathEntry] {
        &self.entries
    }

    /// Reads the file again.
    pub(crate) fn read(&self) -> Result<Vec<PathEntry>, FileError> {
        self.file.as_ref().map_or_else(|| Ok(Vec::new()), PathsFile::read)
    }

    /// The rules of the engine for a host with these addresses.
    fn rules(&self, locals: &[(IpAddr, String)], budgets: &Budgets) -> Vec<PathRule> {
        let used_up = locals.iter().filter_map(|(addr, name)| {
            let policy = used_up_policy(budgets.used_up(name)?);
            Some(PathRule { local: Some(*addr), remote: None, policy })
        });
        let is_now = |entry: &&PathEntry| entry.wish.hours.is_none_or(|it| it.contain(self.minute));
        let rules = self.entries.iter().filter(is_now).flat_map(|entry| {
            let selector = &entry.selector;
            let rule =
                |local| PathRule { local, remote: selector.peer, policy: policy(&entry.wish) };
            let everywhere = selector.local.is_none() && selector.device.is_none();
            let fitting = locals
                .iter()
                .filter(move |(addr, name)| !everywhere && selector.fits_local(*addr, name));
            let local = everywhere.then(|| rule(None));
            local.into_iter().chain(fitting.map(move |(addr, _)| rule(Some(*addr))))
        });
        self.own_key.map(behind_relay).into_iter().chain(used_up).chain(rules).collect()
    }

    /// The association may use some uplinks alone.
    pub(crate) fn limit(&mut self, id: AssociationId, limits: PathLimits) {
        if !limits.is_none() {
            self.limited.insert(id, limits);
        }
    }

    /// It has ended.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.limited.remove(&id);
    }

    /// Which uplinks the association may use, if that is not all.
    pub(crate) fn limits_of(&self, id: AssociationId) -> Option<PathLimits> {
        self.limited.get(&id).copied()
    }

    /// Replaces the lines; whether they differ from those before.
    pub(crate) fn adopt(&mut self, entries: Vec<PathEntry>) -> bool {
        let differ = self.entries != entries;
        self.entries = entries;
        differ
    }

    /// Looks at the clock from time to time, if lines hold at some hours alone.
    pub(crate) fn follow_hours(&mut self, now: Instant, timers: &mut Timers) {
        if self.entries.iter().any(|entry| entry.wish.hours.is_some()) {
            self.next_look = now + CLOCK_PAUSE;
            timers.set(self.next_look, Timer::Hours);
        }
    }

    /// Whether other lines hold by now.
    pub(crate) fn on_hours_timer(&mut self, now: Instant, timers: &mut Timers) -> bool {
        if now < self.next_look {
            return false;
        }
        self.follow_hours(now, timers);
        self.is_outdated(manypath_net::local_time().minute)
    }

    /// Whether the lines still have to be told of addresses that have come since.
    pub(crate) fn are_behind(&self, locals: &Locals) -> bool {
        let is_current = || {
            let locals =
                locals.open.iter().map(|one| (one.address.addr.ip(), one.interface.as_str()));
            locals.eq(self.told.iter().map(|(addr, name)| (*addr, name.as_str())))
        };
        let speaks = !(self.entries.is_empty() && self.limited.is_empty());
        speaks && !is_current()
    }

    /// Tells the engine of the lines that hold now.
    pub(crate) fn tell(
        &mut self,
        now: Instant,
        locals: &Locals,
        budgets: &Budgets,
        endpoint: &mut Endpoint,
    ) {
        self.minute = manypath_net::local_time().minute;
        self.told = interfaces_of(locals);
        let rules = self.rules(&self.told, budgets);
        for (id, limits) in &self.limited {
            let own = self.limited(&rules, &self.told, *limits);
            endpoint.set_own_path_policies(now, *id, own);
        }
        endpoint.set_path_policies(now, rules);
        let lines = self.entries.len();
        info!(target: log::PATH, "{} about what paths are there for", counted(lines, "line", "lines"));
    }

    /// What an association with these limits wants of its paths.
    pub(crate) fn limited_rules(
        &self,
        locals: &Locals,
        budgets: &Budgets,
        limits: PathLimits,
    ) -> Vec<PathRule> {
        if limits.is_none() {
            return Vec::new();
        }
        let locals = interfaces_of(locals);
        self.limited(&self.rules(&locals, budgets), &locals, limits)
    }

    /// Whether a rule keeps the association off the path.
    pub(crate) fn keep_off(&self, locals: &Locals, id: AssociationId, path: &PathStatus) -> bool {
        let Some(limits) = self.limits_of(id) else { return false };
        let local = path.addr.local.ip();
        let interface = locals.interface(local);
        let is_metered = path.policy.metered.is_some() || self.has_budget(interface);
        !limits.allow(interface, local, is_metered)
    }

    /// Whether the bytes of an interface count, whatever its policy is at this hour.
    fn has_budget(&self, interface: &str) -> bool {
        let of = |entry: &PathEntry| entry.selector.device.as_deref() == Some(interface);
        self.entries.iter().any(|entry| of(entry) && entry.wish.budget.is_some())
    }

    /// What an association with these limits wants of its paths where `rules` hold for all: each address of this host
    /// has its rules, because whether a path is metered may depend on the peer's address.
    fn limited(
        &self,
        rules: &[PathRule],
        locals: &[(IpAddr, String)],
        limits: PathLimits,
    ) -> Vec<PathRule> {
        let mut all = Vec::new();
        for (addr, name) in locals {
            let has_budget = self.has_budget(name);
            let fitting = rules.iter().filter(|rule| rule.local.is_none_or(|it| it == *addr));
            let usual = PathRule { local: None, remote: None, policy: PathPolicy::default() };
            all.extend(fitting.chain([&usual]).map(|rule| {
                let is_metered = has_budget || rule.policy.metered.is_some();
                let is_allowed = limits.allow(name, *addr, is_metered);
                let policy = limited_policy(rule.policy, is_allowed, limits);
                PathRule { local: Some(*addr), policy, ..*rule }
            }));
        }
        // Of an address that comes nothing is known yet.
        let unknown = limited_policy(PathPolicy::default(), false, limits);
        all.push(PathRule { local: None, remote: None, policy: unknown });
        self.own_key.map(behind_relay).into_iter().chain(all).collect()
    }

    /// Whether a line holds that did not, or the other way round, since the engine was told.
    fn is_outdated(&self, minute: u16) -> bool {
        let mut hours = self.entries.iter().filter_map(|entry| entry.wish.hours);
        hours.any(|hours| hours.contain(self.minute) != hours.contain(minute))
    }
}

fn policy(wish: &PathWish) -> PathPolicy {
    let role = match wish.role {
        Role::Normal => PathRole::Normal,
        Role::Backup => PathRole::Backup,
        Role::Disabled => PathRole::Disabled,
    };
    PathPolicy { role, cost: wish.cost, metered: wish.metered, primary: wish.primary }
}

/// A path through a relay is there for when no other one works.
fn behind_relay(own_key: IpAddr) -> PathRule {
    let policy = PathPolicy { role: PathRole::Backup, ..PathPolicy::default() };
    PathRule { local: Some(own_key), remote: None, policy }
}

/// What is wanted of a path in an association with these limits. An uplink that a rule names is not kept for when others
/// fail.
fn limited_policy(policy: PathPolicy, is_allowed: bool, limits: PathLimits) -> PathPolicy {
    let role = match (is_allowed, policy.role) {
        (true, PathRole::Backup) if limits.uplinks.is_some() => PathRole::Normal,
        (true, role) => role,
        (false, role) if limits.is_strict() => role.max(PathRole::Disabled),
        (false, role) => role.max(PathRole::Backup),
    };
    PathPolicy { role, primary: policy.primary && is_allowed, ..policy }
}

/// What holds for the paths of an interface that has used up its budget, whatever else is wanted of them.
fn used_up_policy(budget: Budget) -> PathPolicy {
    match budget.hard {
        true => PathPolicy { role: PathRole::Disabled, ..PathPolicy::default() },
        false => PathPolicy { metered: Some(0), ..PathPolicy::default() },
    }
}

fn interfaces_of(locals: &Locals) -> Vec<(IpAddr, String)> {
    let open = locals.open.iter();
    open.map(|one| (one.address.addr.ip(), one.interface.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_rules::paths::PathsDocument;

    #[test]
    fn lines_become_rules_for_the_addresses_that_there_are() {
        let text =
            "dev wwan0 backup\n10.0.0.1 peer 192.0.2.1 cost 3\npeer 192.0.2.9 metered 8mbit\n";
        let entries = PathsDocument::parse(text).entries().unwrap();
        let policies = PathPolicies { entries, ..PathPolicies::default() };
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let locals = ["10.0.0.1 eth0", "10.1.0.1 wwan0", "2001:db8::1 wwan0"].map(|text| {
            let (addr, name) = text.split_once(' ').unwrap();
            (ip(addr), name.to_owned())
        });
        let rules = policies.rules(&locals, &Budgets::default());
        let told: Vec<_> = rules.iter().map(|rule| (rule.local, rule.remote)).collect();
        let expected = [
            (Some(ip("10.0.0.1")), Some(ip("192.0.2.1"))),
            (None, Some(ip("192.0.2.9"))),
            (Some(ip("10.1.0.1")), None),
            (Some(ip("2001:db8::1")), None),
        ];
        assert_eq!(told, expected);
        assert_eq!((rules[0].policy.cost, rules[1].policy.metered), (3, Some(1_000_000)));
        assert_eq!(rules[3].policy.role, PathRole::Backup);
    }

    #[test]
    fn an_association_keeps_to_its_uplinks() {
        let text =
            "dev eth1 metered 8mbit\neth2 primary\ndev eth0 backup\ndev eth3 budget 1GB/day\n";
        let text = text.replace("eth2 ", "10.2.0.1 ");
        let entries = PathsDocument::parse(&text).entries().unwrap();
        let policies = PathPolicies { entries, ..PathPolicies::default() };
        let ip = |number: u8| IpAddr::from([10, number, 0, 1]);
        let locals: Vec<_> = (0..4).map(|number| (ip(number), format!("eth{number}"))).collect();
        let rules = policies.rules(&locals, &Budgets::default());
        let roles = |words: &str| -> Vec<&'static str> {
            let rule: manypath_rules::Rule = format!("remote enable {words}").parse().unwrap();
            let own = policies.limited(&rules, &locals, rule.options.path_limits());
            let first = |local| own.iter().find(|rule| rule.local.is_none_or(|it| it == local));
            (0..5).map(|number| first(ip(number)).unwrap().policy.role.name()).collect()
        };
        let [on, kept, off] = ["normal", "backup", "disabled"];
        let rule: manypath_rules::Rule = "remote enable path=eth0 path-down=any".parse().unwrap();
        let own = policies.limited(&rules, &locals, rule.options.path_limits());
        assert!(!own.iter().any(|rule| rule.policy.primary), "an uplink that is not named");
        assert_eq!(roles("never-metered=on"), [kept, off, on, off, off]);
        assert_eq!(roles("path=eth0"), [on, off, off, off, off]);
        assert_eq!(roles("path=eth0 path-down=any"), [on, kept, kept, kept, kept]);
        assert_eq!(roles("path=eth1,10.2.0.1 never-metered=on"), [off, off, on, off, off]);
    }

    #[test]
    fn lines_with_hours_hold_at_these_alone() {
        let text = "dev wwan0 disabled hours 08:00-18:00\ndev wwan0 peer 192.0.2.1 cost 3\n";
        let entries = PathsDocument::parse(text).entries().unwrap();
        let locals = [("10.1.0.1".parse().unwrap(), "wwan0".to_owned())];
        let at = |minute| PathPolicies { entries: entries.clone(), minute, ..Default::default() };
        let count = |minute| at(minute).rules(&locals, &Budgets::default()).len();
        assert_eq!([479, 480, 1079, 1080].map(count), [1, 2, 2, 1]);
        let is_outdated = |told, now| at(told).is_outdated(now);
        assert!(is_outdated(479, 480) && is_outdated(1079, 1080) && !is_outdated(480, 1079));
    }
}
