//! How much may be sent: grants that follow the reader, and windows that follow the need.
//!
//! A window begins small and doubles when three things come together: the sender says that it is
//! running short (WANT), the reader has kept up with what came, and the budget has room. No clock is
//! needed: a sender is short exactly when the window is small for what is in flight and queued.
//! When the budget runs short, windows shrink again as they are consumed, and idle flows are asked
//! to return what they hold.

use super::FlowMux;
use crate::error::FlowError;
use crate::flow::{Flow, Hints, Phase};
use crate::lanes::LaneKey;
use crate::message::{Credit, Return, Want};
use crate::table::FlowId;

/// Flows looked at in one search for credit to reclaim.
const RECLAIM_SEARCH: usize = 32;

impl FlowMux {
    pub(super) fn handle_credit(&mut self, id: Option<FlowId>, credit: Credit) {
        let flow = id.and_then(|id| self.flows.get_mut(id).map(|flow| (id, flow)));
        let Some((id, flow)) = flow else {
            self.counters.late_messages += 1;
            return;
        };
        if !flow.send.grant(credit.granted, credit.window) {
            self.counters.late_messages += 1;
            return;
        }
        if credit.reclaim && flow.send.give_back() {
            self.hint(id, |hints| hints.give_back = true);
        }
        self.schedule(id);
        self.note_shortage(id);
    }

    pub(super) fn handle_want(&mut self, id: Option<FlowId>, want: Want) {
        let flow = id.and_then(|id| self.flows.get_mut(id).map(|flow| (id, flow)));
        let Some((id, flow)) = flow else {
            self.counters.late_messages += 1;
            return;
        };
        let outdated = want.window != flow.recv.window() || flow.recv.has_ended();
        if outdated || flow.phase != Phase::Open {
            return;
        }
        flow.recv.want_growth();
        self.counters.growths_reader_behind += u64::from(!flow.recv.keeps_up());
        self.grow_if_wanted(id);
    }

    /// Enlarges the window if the sender wants that, once the reader has kept up.
    pub(super) fn grow_if_wanted(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let window = flow.recv.window();
        let larger = window.saturating_mul(2).min(self.config.max_window);
        if larger == window || !flow.recv.takes_growth() {
            return;
        }
        if !self.budget.may_grow(larger - window) {
            self.counters.growths_no_memory += 1;
            self.reclaim();
            return;
        }
        self.counters.window_growths += 1;
        self.with_recv(id, |recv| recv.set_window(larger));
        self.hint(id, |hints| hints.credit = true);
    }

    pub(super) fn handle_return(
        &mut self,
        key: LaneKey,
        id: Option<FlowId>,
        back: Return,
    ) -> Result<(), FlowError> {
        let Some(id) = id else {
            self.counters.late_messages += 1;
            return Ok(());
        };
        match self.with_recv(id, |recv| recv.give_back(back.returned)).flatten() {
            None => Err(FlowError::BadReturn(key.stream)),
            Some(bytes) => {
                self.counters.reclaimed_credit += bytes;
                self.grant_if_due(id);
                Ok(())
            }
        }
    }

    /// Queues a grant if it is worth a message.
    pub(super) fn grant_if_due(&mut self, id: FlowId) {
        let due = |flow: &Flow| flow.phase == Phase::Open && flow.recv.is_grant_due();
        if self.flows.get(id).is_some_and(due) {
            self.hint(id, |hints| hints.credit = true);
        }
    }

    /// Asks for a larger window, and counts, when credit runs short or out.
    pub(super) fn note_shortage(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        self.counters.credit_stalls += u64::from(flow.send.has_stalled());
        if flow.send.should_ask() {
            self.hint(id, |hints| hints.want = true);
        }
    }

    /// A flow that has grown gives way to new ones as its reader goes on, half of its window at a
    /// time.
    pub(super) fn shrink_if_tight(&mut self, id: FlowId) {
        let first = self.config.first_window;
        let can = |flow: &Flow| flow.recv.window() > first && flow.recv.has_shrunk();
        if self.budget.is_tight() && self.flows.get(id).is_some_and(can) {
            self.counters.window_shrinks += 1;
            self.with_recv(id, |recv| recv.set_window((recv.window() / 2).max(first)));
        }
    }

    /// Asks some idle flows with large windows for the credit that they do not use.
    pub(super) fn reclaim(&mut self) {
        for _ in 0..RECLAIM_SEARCH.min(self.flows.slots()) {
            self.reclaim_cursor = (self.reclaim_cursor + 1) % self.flows.slots();
            let first = self.config.first_window;
            let Some((id, flow)) = self.flows.at(self.reclaim_cursor) else { continue };
            let (window, unused) = (flow.recv.window(), flow.recv.credit());
            if window > first && unused >= u64::from(window) / 4 * 3 {
                self.counters.windows_reclaimed += 1;
                self.with_recv(id, |recv| recv.set_window(first));
                self.hint(id, |hints| (hints.credit, hints.reclaim) = (true, true));
            }
        }
    }

    fn hint(&mut self, id: FlowId, set: impl FnOnce(&mut Hints)) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        set(&mut flow.hints);
        if !flow.hints.queued {
            flow.hints.queued = true;
            self.hints.push_back(id);
        }
    }
}
