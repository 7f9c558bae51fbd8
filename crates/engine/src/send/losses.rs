//! Looking for losses by time (see `flight::rack`) and probing silent tails (`flight::tail_probe`): what SACKs
//! and timers set off in the sender.

use super::Sender;
use super::outstanding::ChunkState;
use super::retransmit::{Loss, is_live};
use crate::path::congestion::{CongestionEvent, Group};
use crate::path::{Extent, LossRecovery, Path, PathId, Paths, Reach, Sent, Verdict};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// What was found to be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    /// Something.
    pub(super) any: bool,
    /// The latest retransmission among it.
    pub(super) repeated: Option<u64>,
}

/// The circumstances under which chunks of a path are judged.
#[derive(Clone, Copy, Debug)]
struct Look {
    now: Instant,
    /// For how long they may be late.
    window: Duration,
    /// The SACK under work, if there is one, acknowledges these transmissions.
    arrived: Option<Extent<u64>>,
    /// So many.
    count: u8,
}

impl Sender {
    /// Whether losses are found by time. Not in redundant transmission: of a chunk that is late on one
    /// path another transmission is under way.
    pub(super) fn is_racking(&self) -> bool {
        self.rules.loss_recovery == LossRecovery::Rack && !self.copies.is_on()
    }

    /// When losses must be looked for, or a silent tail be probed.
    pub(crate) fn loss_deadline(&self, paths: &Paths) -> Option<Instant> {
        if !self.is_racking() {
            return None;
        }
        let times = paths.iter().filter_map(|path| path.cmt.rack.timer().or(self.probe_at(path)));
        times.min()
    }

    /// The probe of a closed window is answered, but not acknowledged, and needs no other one.
    fn probe_at(&self, path: &Path) -> Option<Instant> {
        if path.flight == 0 || !path.is_active() || self.window.probe().is_some() {
            return None;
        }
        let alone = path.flight <= path.congestion.chunk_limit();
        let delay = if alone { self.rules.sack_delay } else { Duration::ZERO };
        let due = path.cmt.tail_probe.due(&path.rtt, path.last_data?, delay)?;
        Some(path.t3.map_or(due, |t3| t3.min(due)))
    }

    /// Does what is due at [`Self::loss_deadline`].
    pub(crate) fn handle_loss_deadline(&mut self, now: Instant, paths: &mut Paths) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !due(self.loss_deadline(paths)) {
            return;
        }
        let group = paths.couple(self.usable(paths));
        for path in paths.iter_mut().filter(|path| due(path.cmt.rack.timer())) {
            let found = self.find_losses(now, None, path);
            let recovering = self.recovery.is_active();
            self.respond(now, (found, recovering), path, &group);
        }
        let silent = |path: &&Path| path.cmt.rack.timer().is_none() && due(self.probe_at(path));
        let silent: alloc::vec::Vec<_> = paths.iter().filter(silent).map(|path| path.id).collect();
        silent.into_iter().for_each(|id| self.probe_tail(now, id, paths));
    }

    /// Looks for losses among what left before the newest transmission that has arrived.
    pub(super) fn find_losses(
        &mut self,
        now: Instant,
        arrived: Option<(Extent<u64>, u8)>,
        path: &mut Path,
    ) -> Found {
        path.cmt.rack.set_timer(None);
        let Some(newest) = path.cmt.rack.newest() else { return Found::default() };
        let window = path.cmt.rack.window(&path.rtt, path.cmt.recovery.is_active());
        let (arrived, count) = (arrived.map(|(extent, _)| extent), arrived.map_or(0, |a| a.1));
        let look = Look { now, window, arrived, count };
        let reach = Reach::Numbers(Extent { least: newest, most: newest });
        let (mut found, mut timer) = (Found::default(), None);
        for again in [false, true] {
            let orders = &mut path.cmt;
            let order = if again { &mut orders.again } else { &mut orders.first };
            let mut order = core::mem::take(order);
            order.retain_reached(reach, true, |sent| match self.judge(&look, sent, path) {
                Some(Verdict::Lost) => {
                    found.any = true;
                    found.repeated = found.repeated.max(again.then_some(sent.number));
                    self.mark_lost(now, sent.tsn, path);
                    false
                }
                Some(Verdict::At(at)) => {
                    timer = Some(timer.map_or(at, |timer: Instant| timer.min(at)));
                    true
                }
                Some(Verdict::Open) => true,
                None => false,
            });
            let orders = &mut path.cmt;
            *(if again { &mut orders.again } else { &mut orders.first }) = order;
        }
        path.cmt.rack.set_timer(timer);
        found
    }

    /// `None` if the transmission is over.
    fn judge(&mut self, look: &Look, sent: Sent, path: &mut Path) -> Option<Verdict> {
        let chunk = self.outstanding.get_mut(sent.tsn)?;
        let is_live = chunk.state == ChunkState::InFlight
            && (chunk.path, chunk.number) == (path.id, sent.number);
        if !is_live {
            return None;
        }
        let transmission = (sent.number, chunk.last_sent);
        if self.horizon.is_some_and(|horizon| sent.tsn > horizon) {
            let verdict = path.cmt.rack.judge(look.now, transmission, &path.rtt, look.window);
            if verdict == Verdict::Lost {
                chunk.hide(path);
                return Some(Verdict::Open);
            }
            return Some(verdict);
        }
        let rack = &path.cmt.rack;
        if let Some(Extent { least, most }) =
            look.arrived.filter(|arrived| sent.number < arrived.most)
        {
            debug_assert!(least <= most);
            let beyond = if sent.number < least { look.count } else { 1 };
            chunk.missing = chunk.missing.saturating_add(beyond);
            if chunk.missing >= self.rules.missing_reports && !rack.reorders() {
                return Some(Verdict::Lost);
            }
        }
        Some(rack.judge(look.now, transmission, &path.rtt, look.window))
    }

    /// Draws the conclusions for the congestion window. A lost retransmission is a second sign of
    /// congestion (RFC 8985 section 9.3), once per window.
    pub(super) fn respond(
        &mut self,
        now: Instant,
        (found, recovering): (Found, bool),
        path: &mut Path,
        group: &Group,
    ) {
        if !found.any {
            return;
        }
        let again = found.repeated.is_some_and(|number| number > path.cmt.cut_at);
        if again {
            path.cmt.recovery.leave();
        }
        if self.enter_recovery(recovering && !again, path) {
            path.cmt.cut_at = path.cmt.transmissions;
            let used = super::sack_processing::used_window(now, path);
            path.congestion.on_loss(&CongestionEvent { used }, group);
            path.cmt.fast_packet = true;
        }
    }

    /// Sends something on a path that has been silent for too long. If there is nothing that may be sent,
    /// T3-rtx is not put off.
    fn probe_tail(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        path.cmt.tail_probe.probe();
        let (has_data, latest) =
            (self.has_data_for(now, id, paths), self.latest_on(now, id, paths));
        let Some(path) = paths.get_mut(id) else { return };
        match latest.filter(|_| !has_data) {
            Some(tsn) => path.cmt.tail_probe.repeat(tsn),
            None if has_data => {}
            None => return path.cmt.tail_probe.on_packet(),
        }
        path.stats.tail_probes += 1;
        path.restart_t3(now);
        if let Some(tsn) = latest.filter(|_| !has_data) {
            self.lose(tsn, paths, Loss::Reported);
        }
    }

    /// The chunk that was sent last on `path`, if it may be repeated.
    fn latest_on(&self, now: Instant, id: PathId, paths: &Paths) -> Option<Tsn64> {
        let path = paths.get(id)?;
        let live = |sent: Sent| is_live(&self.outstanding, path.id, sent);
        let latest = path.cmt.first.latest(live).into_iter().chain(path.cmt.again.latest(live));
        let tsn = latest.max_by_key(|sent| sent.number)?.tsn;
        let chunk = self.outstanding.get(tsn)?;
        chunk.fragment.terms.allow_repeat(now, chunk.transmissions).then_some(tsn)
    }
}
