//! A stack under a service manager: what it is told of begin, end, reloads and health.
//!
//! Without a manager nothing is said.

use crate::base::Base;
use crate::core::Core;
use crate::log;
use crate::relays::Relays;
use crate::timers::Timer;
use manypath_control::counted;
use manypath_control::manager::{self, News};
use manypath_engine::Duration;
use tracing::{info, warn};

/// How often the manager is told how the stack is, if it does not watch more closely.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// The line to the manager.
#[derive(Debug)]
pub(crate) struct Service {
    /// Whether there is a manager.
    managed: bool,
    /// Whether this is the loop of the process that speaks with it.
    tells: bool,
    /// Until it is told again.
    interval: Duration,
}

impl Service {
    /// Of a stack that is the service itself, if `wanted`; else nobody is told anything, because the
    /// variables may be those of a service of which the stack is a part.
    pub(crate) fn new(wanted: bool, is_first_loop: bool) -> Self {
        let managed = wanted && manager::is_present();
        let tells = managed && is_first_loop;
        if tells {
            manager::connect();
        }
        // Half of its patience, as sd_watchdog_enabled(3) recommends.
        let watchdog = manager::patience().filter(|_| managed);
        let interval = watchdog.map_or(STATUS_INTERVAL, |patience| {
            let nanos = u64::try_from(patience.as_nanos() / 2).unwrap_or(u64::MAX);
            Duration::from_nanos(nanos).min(STATUS_INTERVAL)
        });
        Self { managed, tells, interval }
    }

    /// Whether SIGHUP means that files are to be read again: there is no terminal that could be gone.
    pub(crate) const fn is_managed(&self) -> bool {
        self.managed
    }

    fn tell(&self, news: &[News<'_>]) {
        if self.tells {
            manager::tell(news);
        }
    }

    /// The sockets are open: peers are answered from now on.
    pub(crate) fn tell_ready(&self, core: &mut Core) {
        self.tell(&[News::Ready]);
        if self.managed {
            core.timers.set(core.now, Timer::Service);
        }
    }

    /// Only a loop that turns gets here: whoever does not hear of all loops in time may start us anew.
    pub(crate) fn on_timer(&self, base: &mut Base, relays: &Relays) {
        let (mut load, mut turns) = ([base.values().count(), relays.flow_count(base)], true);
        if let Some(seat) = &base.core.config.process.seat {
            seat.report(load[0], load[1]);
            load = seat.load();
            turns = seat.others_turn(self.interval * 2);
        }
        let status = News::Status(&status_for_manager(load));
        match turns {
            true => self.tell(&[News::Alive, status]),
            false => self.tell(&[status]),
        }
        base.core.after(self.interval, Timer::Service);
    }

    pub(crate) fn tell_stopping(&self) {
        self.tell(&[News::Stopping]);
    }

    pub(crate) fn tell_reloading(&self) {
        self.tell(&[News::Reloading]);
    }

    /// Rules and settings were read again, or why they were not.
    pub(crate) fn tell_reloaded(&self, result: &Result<usize, String>) {
        let status = match result {
            Ok(count) => format!("settings and {} read", rules(*count)),
            Err(why) => format!("configuration unchanged: {why}"),
        };
        self.tell(&[News::Ready, News::Status(&status)]);
    }
}

/// Says in counters and log what came of reading rules and settings again.
pub(crate) fn note_reload(core: &mut Core, result: &Result<usize, String>) {
    match result {
        Ok(count) => {
            core.count("reloads");
            info!(target: log::CONTROL, "settings and {} read", rules(*count));
        }
        Err(why) => {
            core.count("reloads_refused");
            warn!(target: log::CONTROL, "configuration unchanged: {why}");
        }
    }
}

fn status_for_manager([peers, connections]: [usize; 2]) -> String {
    let peers = counted(peers, "association", "associations");
    format!("{peers}, {}", counted(connections, "connection", "connections"))
}

fn rules(count: usize) -> String {
    counted(count, "rule", "rules")
}
