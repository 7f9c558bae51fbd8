//! A stack that the launchers of a user share: it has a name by which they find it, and outlives them for a while, with its
//! associations, so that the next program connects within a round trip.

use crate::core::Core;
use crate::log;
use crate::timers::Timer;
use manypath_engine::{Duration, Instant};
use tracing::debug;

/// How often a stack without launchers looks whether it is still to be found.
const TICK: Duration = Duration::from_secs(5);

/// Whether launchers are there that share the stack.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Since when none has been there.
    deserted: Option<Instant>,
}

/// Takes the name. Where another stack has it, this one serves its launcher alone.
pub(crate) fn begin(core: &mut Core) {
    let Some(name) = core.config.process.shared.take() else { return };
    match core.control.open_door(&name, &core.registry) {
        Ok(()) => {
            let limits = &mut core.config.limits;
            limits.idle_timeout = limits.idle_timeout.max(limits.shared_pause);
            core.config.process.shared = Some(name);
        }
        Err(error) => {
            core.count("shared_names_taken");
            debug!(target: log::STACK, "{}: {error}", name.display());
        }
    }
}

impl Sharing {
    /// A launcher has gone: perhaps the last one.
    pub(crate) fn watch(&mut self, core: &mut Core) {
        if !core.control.has_launchers() && core.phase.takes_work() {
            self.deserted = Some(core.now);
            core.after(TICK.min(core.config.limits.shared_pause), Timer::Deserted);
        }
    }

    /// Whether the stack is to end: launchers have stayed away for long.
    pub(crate) fn on_timer(&mut self, core: &mut Core) -> bool {
        let Some(since) = self.deserted.filter(|_| core.phase.takes_work()) else { return false };
        if core.control.has_launchers() {
            self.deserted = None;
            return false;
        }
        let found = core.control.second_name().is_some_and(|name| name.is_found());
        if found && core.now.since(since) < core.config.limits.shared_pause {
            core.after(TICK.min(core.config.limits.shared_pause), Timer::Deserted);
            return false;
        }
        self.leave(core)
    }

    /// Gives the name up, unless somebody has come at this moment: who has found it is taken in.
    fn leave(&mut self, core: &mut Core) -> bool {
        if let Some(name) = core.control.second_name() {
            name.hide();
        }
        core.accept_control();
        core.control.close_door(&core.registry);
        if !core.control.has_callers() {
            return true;
        }
        begin(core);
        self.watch(core);
        false
    }
}
