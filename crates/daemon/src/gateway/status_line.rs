//! The state of a gateway, as a line of JSON from time to time.

use super::printer::Printer;
use crate::core::Core;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_engine::PathState;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of connections that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    from_tcp: u64,
    to_tcp: u64,
}

impl Totals {
    /// A connection has ended after so many bytes sent and received by its TCP end.
    pub(crate) fn add(&mut self, (sent, received): (u64, u64)) {
        self.from_tcp += sent;
        self.to_tcp += received;
    }
}

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

impl Stack {
    pub(crate) fn on_status_line_timer(&mut self) {
        self.print_status_line();
        plan_status_line(&mut self.base.core);
    }

    /// Prints a line, if lines are wanted. Who does not read them misses them.
    pub(crate) fn print_status_line(&mut self) {
        let wanted =
            self.base.core.config.gateway.as_ref().is_some_and(|one| one.status_every.is_some());
        let Some(line) = self.status_line().filter(|_| wanted) else { return };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        let printer = self.clients.callers.printer.take().or_else(|| Printer::start().ok());
        if !printer.as_ref().is_some_and(|printer| printer.print(text)) {
            self.base.core.count("status_lines_lost");
        }
        self.clients.callers.printer = printer;
    }

    /// The last line, if lines are wanted.
    pub(crate) fn print_last_status_line(&mut self) {
        self.print_status_line();
        if self.clients.callers.printer.take().is_some_and(|printer| !printer.finish()) {
            self.base.core.count("status_lines_lost");
        }
    }

    fn status_line(&self) -> Option<StatusLine> {
        let gateway = self.base.core.config.gateway.as_ref()?.to_string();
        let statuses = self.base.ids().into_iter().filter_map(|id| self.base.core.status_of(id));
        let statuses: Vec<_> = statuses.collect();
        let paths = statuses.iter().flat_map(|status| &status.paths);
        let (active, others): (Vec<_>, Vec<_>) =
            paths.partition(|path| path.state == PathState::Active);
        let totals = self.relays.totals();
        let mut counters = crate::status::all_counters(&self.base);
        counters.retain(|_, count| *count > 0);
        Some(StatusLine {
            uptime_ms: self.base.core.age(manypath_engine::Instant::ZERO),
            gateway,
            connections: self.relays.values().count(),
            connecting: self.clients.callers.len() + self.services.dials(),
            associations: statuses.len(),
            paths_active: active.len(),
            paths_not_active: others.len(),
            bytes_from_tcp: totals.from_tcp,
            bytes_to_tcp: totals.to_tcp,
            waiting_for_sctp: statuses.iter().map(|one| one.unsent as u64).sum(),
            waiting_for_tcp: self.relays.values().map(|relay| relay.pending() as u64).sum(),
            ending: !self.base.core.phase.takes_work(),
            counters,
        })
    }
}

/// Sets the time of the next line.
pub(super) fn plan_status_line(core: &mut Core) {
    let every = core.config.gateway.as_ref().and_then(|gateway| gateway.status_every);
    if let Some(every) = every {
        core.after(every, Timer::StatusLine);
    }
}
