//! How much may be sent: grants that follow the reader, and windows that follow the need.
//!
//! How large a window is, `manypath-window` knows: it follows what the reader takes in a round trip, which
//! is measured by asking the sender for a report that comes behind its data. A round trip is not measured
//! for flows that carry a few kilobytes only.
//! When the budget runs short, windows shrink again as they are consumed, and idle flows are asked
//! to return what they hold.

use super::FlowMux;
use crate::error::FlowError;
use crate::flow::{End, Flow, Hints, Phase};
use crate::id::FlowId;
use crate::lanes::LaneKey;
use crate::message::{Body, Credit, Probe, Report, Return, Want};
use core::time::Duration;
use manypath_window::Adjustment;

/// Flows looked at in one search for credit to reclaim.
const RECLAIM_SEARCH: usize = 32;

/// For so long after one flow has measured its round trip, others do so seldom: the answers come between the data and
/// end the runs of equal packets that the kernel takes at once, and what they say changes slowly.
const PROBE_SPACING: Duration = Duration::from_millis(1);

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
        let now = self.now;
        let Some(flow) = id.and_then(|id| self.flows.get_mut(id)) else {
            self.counters.late_messages += 1;
            return;
        };
        if !flow.recv.on_want(now, want.window) {
            self.counters.late_messages += 1;
        }
    }

    /// The receiver of what we send measures a round trip. What we have sent before is to come before the answer, so
    /// that the time is that of a grant until its data can be read; after our end there is none.
    pub(super) fn handle_probe(&mut self, key: LaneKey, id: Option<FlowId>, probe: Probe) {
        let Some(flow) = id.and_then(|id| self.flows.get_mut(id)) else {
            self.counters.late_messages += 1;
            return;
        };
        if flow.send.end != End::Sent && matches!(flow.phase, Phase::Opening | Phase::Open) {
            let queued = flow.send.queued() as u64;
            let report = flow.control(Body::Report(Report { stamp: probe.stamp, queued }));
            self.queue_ordered(key, false, report);
        }
    }

    pub(super) fn handle_report(&mut self, id: Option<FlowId>, report: Report) {
        let (now, sent) = (self.now, Duration::from_nanos(report.stamp));
        let flow = id.and_then(|id| self.flows.get_mut(id));
        let asked = flow.is_some_and(|flow| flow.recv.on_report(now, sent, report.queued));
        let counters = &mut self.counters;
        *(if asked { &mut counters.round_trips_measured } else { &mut counters.late_messages }) +=
            1;
    }

    /// Asks for a report if it is time for the next one.
    pub(super) fn probe_if_due(&mut self, id: FlowId) {
        let now = self.now;
        let crowded = self.probed.is_some_and(|at| now.saturating_sub(at) < PROBE_SPACING);
        let due =
            |flow: &mut Flow| flow.phase == Phase::Open && flow.recv.should_probe(now, crowded);
        if self.flows.get_mut(id).is_some_and(due) {
            self.probed = Some(now);
            self.hint(id, |hints| hints.probe = true);
        }
    }

    /// Counts what has become of a window.
    pub(super) fn note_adjustment(&mut self, adjustment: Adjustment) {
        match adjustment {
            Adjustment::None => {}
            Adjustment::Grew => self.counters.window_growths += 1,
            Adjustment::Shrank => self.counters.windows_lowered += 1,
            Adjustment::GaveWay => self.counters.window_shrinks += 1,
            Adjustment::Denied => {
                self.counters.growths_no_memory += 1;
                self.reclaim();
            }
        }
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
        match self.flows.get_mut(id).and_then(|flow| flow.recv.give_back(back.returned)) {
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

    /// Asks some idle flows with large windows for the credit that they do not use.
    pub(super) fn reclaim(&mut self) {
        for _ in 0..RECLAIM_SEARCH.min(self.flows.slots()) {
            self.reclaim_cursor = (self.reclaim_cursor + 1) % self.flows.slots();
            let first = self.config.first_window;
            let Some((id, _)) = self.flows.at(self.reclaim_cursor) else { continue };
            let Some(flow) = self.flows.get_mut(id) else { continue };
            let (window, unused) = (flow.recv.window(), flow.recv.credit());
            if window > first && unused >= u64::from(window) / 4 * 3 {
                self.counters.windows_reclaimed += 1;
                flow.recv.fall_back();
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
