//! What every room of the stack works with: the engine, the time, the poll, deadlines, counts and settings.

use crate::budgets::{Budgets, Quotas};
use crate::config::StackConfig;
use crate::control_server::ControlServer;
use crate::counters::Counters;
use crate::drain::Phase;
use crate::locals::Locals;
use crate::names::Names;
use crate::path_policies::PathPolicies;
use crate::rules::Rules;
use crate::scopes::LocalScopes;
use crate::timers::{Timer, Timers};
use manypath_control::Reply;
use manypath_engine::{AssociationId, AssociationStatus, Duration, Instant};
use manypath_net::Driver;
use manypath_rules::{Encrypt, Options};
use mio::Registry;
use std::collections::VecDeque;

/// The state that the rooms share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: StackConfig,
    /// The time of this turn.
    pub(crate) now: Instant,
    pub(crate) registry: Registry,
    pub(crate) control: ControlServer,
    pub(crate) driver: Driver,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    pub(crate) locals: Locals,
    /// For which peers the local addresses are there.
    pub(crate) scopes: LocalScopes,
    pub(crate) rules: Rules,
    pub(crate) path_policies: PathPolicies,
    pub(crate) budgets: Budgets,
    pub(crate) quotas: Quotas,
    pub(crate) phase: Phase,
    pub(crate) last_id: u64,
    pub(crate) names: Names,
    /// What is said to the room of onward connections, as to a launcher.
    pub(crate) to_onward: VecDeque<Reply>,
}

impl Core {
    pub(crate) fn count(&mut self, name: &'static str) {
        self.counters.count(name);
    }

    /// Sets a timer that is due in a while.
    pub(crate) fn after(&mut self, pause: Duration, timer: Timer) {
        self.timers.set(self.now + pause, timer);
    }

    /// Sets a timer for the next turn: one that is due now comes in this one.
    pub(crate) fn in_next_turn(&mut self, timer: Timer) {
        self.after(Duration::from_nanos(1), timer);
    }

    /// Whether a connection with these options is encrypted.
    pub(crate) fn encrypt_for(&self, options: &Options) -> Encrypt {
        options.encrypt.unwrap_or(self.config.encrypt)
    }

    /// How associations of peers are encrypted: rules that name their keys need them.
    pub(crate) fn encrypt_of_peers(&self) -> Encrypt {
        let needed = if self.rules.names_keys() { Encrypt::Opportunistic } else { Encrypt::Off };
        self.config.encrypt.max(needed)
    }

    pub(crate) fn status_of(&self, id: AssociationId) -> Option<AssociationStatus> {
        self.driver.endpoint().status(self.now, id)
    }

    pub(crate) fn abort(&mut self, id: AssociationId, reason: &[u8]) {
        self.driver.endpoint_mut().abort(self.now, id, reason);
    }
}
