//! What this host wants of its paths, and for which peers its addresses are there: what follows when lines about paths,
//! addresses, hours and budgets change.

use super::Core;
use crate::log;
use crate::scopes::LocalScope;
use manypath_engine::{PathRole, PathRule};
use manypath_net::Interface;
use manypath_rules::paths::PathEntry;
use manypath_rules::{Options, PathLimits};
use std::net::IpAddr;
use tracing::warn;

impl Core {
    /// Looks again for which peers the local addresses are there. Those that have been isolated and are not any more
    /// are offered to the peers of associations.
    pub(crate) fn refresh_scopes(&mut self, interfaces: &[Interface]) {
        let before = self.scopes.all().to_vec();
        let entries = self.path_policies.entries();
        if let Err(error) = self.scopes.look(interfaces, &self.config.locals, entries) {
            if !std::mem::replace(&mut self.scopes.warned, true) {
                warn!(target: log::STACK, "tunnels are taken for uplinks: netlink: {error}");
            }
            self.count("interface_kinds_unknown");
        }
        if self.scopes.all() == before {
            return;
        }
        self.driver.endpoint_mut().set_local_scopes(self.scopes.for_engine());
        let old = |addr| before.iter().find(|local| local.addr == addr);
        for local in self.scopes.all() {
            if old(local.addr).is_some_and(|it| it.scope == local.scope) {
                continue;
            }
            let LocalScope { addr, interface, reason, .. } = local;
            let name = local.name();
            self.config.say_once(format_args!("{addr} ({interface}) is {name}: {reason}"));
            let released =
                old(local.addr).is_some_and(LocalScope::is_isolated) && !local.is_isolated();
            let open = self.locals.open.iter().find(|it| it.address.addr.ip() == local.addr);
            if let Some(open) = open.filter(|it| released && it.up) {
                self.driver.endpoint_mut().announce_local_address(self.now, open.address);
            }
        }
    }

    /// The same where the addresses have to be read first.
    pub(crate) fn reread_scopes(&mut self) {
        match manypath_net::interfaces() {
            Ok(interfaces) => self.refresh_scopes(&interfaces),
            Err(_) => self.count("interface_scans_failed"),
        }
    }

    /// From now on associations with the hosts of keys use `addr`, which stands for this one.
    pub(crate) fn use_own_key(&mut self, addr: IpAddr) {
        self.scopes.own_key = Some(addr);
        self.driver.endpoint_mut().set_local_scopes(self.scopes.for_engine());
    }

    /// Replaces the lines that hold.
    pub(crate) fn adopt_path_policies(&mut self, entries: Vec<PathEntry>) {
        if self.path_policies.adopt(entries) {
            self.reread_scopes();
            self.follow_budgets();
            self.tell_path_policies();
            self.path_policies.follow_hours(self.now, &mut self.timers);
        }
    }

    /// Lets the lines hold for addresses that have come since.
    pub(crate) fn refresh_path_policies(&mut self) {
        if self.path_policies.are_behind(&self.locals) {
            self.tell_path_policies();
        }
    }

    pub(crate) fn tell_path_policies(&mut self) {
        let endpoint = self.driver.endpoint_mut();
        self.path_policies.tell(self.now, &self.locals, &self.budgets, endpoint);
    }

    pub(crate) fn on_hours_timer(&mut self) {
        if self.path_policies.on_hours_timer(self.now, &mut self.timers) {
            self.tell_path_policies();
        }
    }

    /// Looks at what interfaces have carried, and goes on doing so as long as one has a budget.
    pub(crate) fn follow_budgets(&mut self) {
        let (entries, keeps) = (self.path_policies.entries(), self.config.loop_index() == 0);
        let clock = (self.now, &mut self.timers);
        if self.budgets.follow(entries, clock, &mut self.counters, keeps) {
            self.tell_path_policies();
        }
    }

    pub(crate) fn on_budgets_timer(&mut self) {
        if self.budgets.next <= self.now {
            self.follow_budgets();
        }
    }

    /// What an association with these limits wants of its paths.
    pub(crate) fn limited_rules(&self, limits: PathLimits) -> Vec<PathRule> {
        self.path_policies.limited_rules(&self.locals, &self.budgets, limits)
    }

    /// Forbids plain TCP and UDP to a connection that may use some uplinks alone, where the kernel would send it over
    /// another one.
    pub(crate) fn hold_to_uplinks(
        &self,
        options: &mut Options,
        destination: IpAddr,
        source: Option<IpAddr>,
    ) {
        let limits = options.path_limits();
        if limits.is_strict() && !is_routed_within(self, limits, destination, source) {
            options.sctp_only = Some(true);
        }
    }
}

fn is_routed_within(
    core: &Core,
    limits: PathLimits,
    destination: IpAddr,
    source: Option<IpAddr>,
) -> bool {
    let source = source.filter(|source| !source.is_unspecified());
    let Ok(route) = manypath_net::route_to(destination, source, None) else { return false };
    let Some(local) = route.source.or(source) else { return false };
    // Packets may leave by another interface than the one that has their source address. Loopback has no number.
    let leaves = [0, route.interface];
    let mut open = core.locals.open.iter().map(|one| one.address);
    if !open.any(|one| one.addr.ip() == local && leaves.contains(&one.interface)) {
        return false;
    }
    let rules = core.limited_rules(limits);
    let own = rules.iter().filter(|rule| rule.local.is_none_or(|it| it == local));
    let mut fitting = own.filter(|rule| rule.remote.is_none_or(|it| it == destination));
    fitting.next().is_some_and(|rule| rule.policy.role != PathRole::Disabled)
}
