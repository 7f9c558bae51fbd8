//! A stack that the launchers of a user share: it has a name by which they find it, and outlives them for a while, with its
//! associations, so that the next program connects within a round trip.

use crate::core::Core;
use crate::log;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_engine::Duration;
use tracing::debug;

/// How often a stack without launchers looks whether it is still to be found.
const TICK: Duration = Duration::from_secs(5);

impl Core {
    /// Takes the name. Where another stack has it, this one serves its launcher alone.
    pub(crate) fn begin_sharing(&mut self) {
        let Some(name) = self.config.process.shared.take() else { return };
        match self.control.open_door(&name, &self.registry) {
            Ok(()) => {
                self.config.limits.idle_timeout =
                    self.config.limits.idle_timeout.max(self.config.limits.shared_pause);
                self.config.process.shared = Some(name);
            }
            Err(error) => {
                self.count("shared_names_taken");
                debug!(target: log::STACK, "{}: {error}", name.display());
            }
        }
    }
}

impl Stack {
    /// A launcher has gone: perhaps the last one.
    pub(crate) fn watch_deserted(&mut self) {
        if !self.base.core.control.has_launchers() && self.base.core.phase.takes_work() {
            self.deserted = Some(self.base.core.now);
            self.base
                .core
                .after(TICK.min(self.base.core.config.limits.shared_pause), Timer::Deserted);
        }
    }

    pub(crate) fn on_deserted_timer(&mut self) {
        let Some(since) = self.deserted.filter(|_| self.base.core.phase.takes_work()) else {
            return;
        };
        if self.base.core.control.has_launchers() {
            self.deserted = None;
            return;
        }
        let found = self.base.core.control.second_name().is_some_and(|name| name.is_found());
        if found && self.base.core.now.since(since) < self.base.core.config.limits.shared_pause {
            self.base
                .core
                .after(TICK.min(self.base.core.config.limits.shared_pause), Timer::Deserted);
        } else {
            self.leave_launchers();
        }
    }

    /// Ends, unless somebody has come at this moment: who has found the name is taken in.
    fn leave_launchers(&mut self) {
        if let Some(name) = self.base.core.control.second_name() {
            name.hide();
        }
        self.base.core.accept_control();
        if !self.base.core.control.has_callers() {
            self.base.core.control.close_door(&self.base.core.registry);
            return self.drain(self.base.core.config.limits.drain_timeout);
        }
        self.base.core.control.close_door(&self.base.core.registry);
        self.base.core.begin_sharing();
        self.watch_deserted();
    }
}
