//! The state of a gateway, as a line of JSON from time to time.

use super::Callers;
use super::printer::Printer;
use crate::base::Base;
use crate::core::Core;
use crate::relays::Relays;
use crate::status::all_counters;
use crate::timers::Timer;
use manypath_engine::{Instant, PathState};
use serde::Serialize;
use std::collections::BTreeMap;

/// One line.
#[derive(Serialize)]
struct StatusLine {
    uptime_ms: u64,
    gateway: String,
    /// Clients that are connected through.
    connections: usize,
    /// Clients that wait for the other side.
    connecting: usize,
    associations: usize,
    paths_active: usize,
    paths_not_active: usize,
    bytes_from_tcp: u64,
    bytes_to_tcp: u64,
    /// Bytes that wait here for SCTP, and for TCP.
    waiting_for_sctp: u64,
    waiting_for_tcp: u64,
    ending: bool,
    counters: BTreeMap<String, u64>,
}

impl Callers {
    /// `dials` are connections that are being made to the service.
    pub(crate) fn on_status_line_timer(&mut self, base: &mut Base, relays: &Relays, dials: usize) {
        self.print_status_line(base, relays, dials);
        plan(&mut base.core);
    }

    /// Prints a line, if lines are wanted. Who does not read them misses them.
    fn print_status_line(&mut self, base: &mut Base, relays: &Relays, dials: usize) {
        let wanted =
            base.core.config.gateway.as_ref().is_some_and(|one| one.status_every.is_some());
        let Some(line) = self.status_line(base, relays, dials).filter(|_| wanted) else { return };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        let printer = self.printer.take().or_else(|| Printer::start().ok());
        if !printer.as_ref().is_some_and(|printer| printer.print(text)) {
            base.core.count("status_lines_lost");
        }
        self.printer = printer;
    }

    /// The last line, if lines are wanted.
    pub(crate) fn print_last_status_line(
        &mut self,
        base: &mut Base,
        relays: &Relays,
        dials: usize,
    ) {
        self.print_status_line(base, relays, dials);
        if self.printer.take().is_some_and(|printer| !printer.finish()) {
            base.core.count("status_lines_lost");
        }
    }

    fn status_line(&self, base: &Base, relays: &Relays, dials: usize) -> Option<StatusLine> {
        let gateway = base.core.config.gateway.as_ref()?.to_string();
        let statuses = base.ids().into_iter().filter_map(|id| base.core.status_of(id));
        let statuses: Vec<_> = statuses.collect();
        let paths = statuses.iter().flat_map(|status| &status.paths);
        let (active, others): (Vec<_>, Vec<_>) =
            paths.partition(|path| path.state == PathState::Active);
        let totals = relays.totals();
        let mut counters = all_counters(base);
        counters.retain(|_, count| *count > 0);
        Some(StatusLine {
            uptime_ms: base.core.age(Instant::ZERO),
            gateway,
            connections: relays.values().count(),
            connecting: self.len() + dials,
            associations: statuses.len(),
            paths_active: active.len(),
            paths_not_active: others.len(),
            bytes_from_tcp: totals.from_tcp,
            bytes_to_tcp: totals.to_tcp,
            waiting_for_sctp: statuses.iter().map(|one| one.unsent as u64).sum(),
            waiting_for_tcp: relays.values().map(|relay| relay.pending() as u64).sum(),
            ending: !base.core.phase.takes_work(),
            counters,
        })
    }
}

/// Sets the time of the next line.
pub(super) fn plan(core: &mut Core) {
    let every = core.config.gateway.as_ref().and_then(|gateway| gateway.status_every);
    if let Some(every) = every {
        core.after(every, Timer::StatusLine);
    }
}
