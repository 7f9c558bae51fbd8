//! What one path may send now (RFC 9260 section 6.1): what was lost, what is rescheduled, copies, new data. It reads
//! the sender and the paths and changes nothing; `fill` acts on its answers, and asks anew after each chunk.

use super::Sender;
use super::buffer_split::Buffers;
use super::copies::next_copy;
use super::queue::{SendQueue, Taker};
use super::rtx_policy::next_lost;
use crate::config::RetransmissionPolicy;
use crate::path::{Loss, Path, PathId, PathSet, Paths};
use crate::schedule::map::DynamicMap;
use crate::schedule::path::by_smallest_srtt;
use crate::time::Instant;
use crate::tsn::Tsn64;
use manypath_wire::StreamId;

/// Gap Ack Blocks reach this far beyond the cumulative TSN. What is sent beyond could not be
/// acknowledged, so nothing is.
const MAX_TSN_SPAN: usize = 65_535;

/// One path, and what its decision rests on.
pub(super) struct Opportunity<'a> {
    pub(super) sender: &'a Sender,
    pub(super) paths: &'a Paths,
    pub(super) path: &'a Path,
    pub(super) now: Instant,
    /// The paths that may carry data.
    pub(super) usable: PathSet,
    /// The paths that may carry what was lost.
    pub(super) repeaters: PathSet,
    /// What was in flight on the path before the packet that is being built.
    pub(super) flight: usize,
    /// Whether the path should carry something of what waits.
    pub(super) worth: bool,
}

impl Sender {
    /// What path `id` may send in a packet that is empty.
    #[inline]
    pub(super) fn opportunity<'a>(
        &'a self,
        now: Instant,
        id: PathId,
        paths: &'a Paths,
    ) -> Option<Opportunity<'a>> {
        let (path, usable) = (paths.get(id)?, self.choice.usable(paths));
        let repeaters = self.choice.repeaters(paths, usable, self.outstanding.lost());
        let flight = path.in_flight();
        let mut it =
            Opportunity { sender: self, paths, path, now, usable, repeaters, flight, worth: false };
        it.worth = usable.contains(id) && it.is_worth_using();
        Some(it)
    }

    /// Whether [`Self::fill`] would write something into an empty packet for `id`.
    pub(crate) fn has_data_for(&self, now: Instant, id: PathId, paths: &Paths) -> bool {
        let any = |it: Opportunity<'_>| {
            it.repeaters.contains(id) && (it.repeats() || (it.worth && it.next_new().is_some()))
        };
        !self.has_nothing_to_send() && self.opportunity(now, id, paths).is_some_and(any)
    }

    /// Bytes in a packet of the chunk that `id` is to send again next: header and padding, and what every packet with
    /// user data leaves room for.
    pub(crate) fn next_repeat_size(
        &self,
        now: Instant,
        id: PathId,
        paths: &Paths,
    ) -> Option<usize> {
        if self.outstanding.lost() == 0 {
            return None;
        }
        let next = self.opportunity(now, id, paths)?.next_repeat()?;
        let chunk = self.outstanding.get(next)?;
        Some(chunk.wire_len() + self.fragmentation.reserved())
    }
}

impl Opportunity<'_> {
    /// Whether it would send something that was sent before, here or elsewhere.
    #[inline]
    pub(super) fn repeats(&self) -> bool {
        self.next_repeat().is_some()
            || self.to_reschedule().is_some()
            || next_copy(&self.sender.outstanding, self.now, self.path, self.flight).is_some()
    }

    /// Whether the path should carry something of what waits.
    fn is_worth_using(&self) -> bool {
        let Self { sender, paths, path, usable, .. } = *self;
        sender.choice.is_worth_using(paths, usable, path.id(), sender.demand())
            || sender.queue.is_tied(self.taker())
    }

    /// The path as one that asks for something to send. It may help paths that are held up.
    pub(super) fn taker(&self) -> Taker {
        let Self { sender, paths, path: helper, usable, .. } = *self;
        let (id, queue) = (helper.id(), &sender.queue);
        let mut taker = Taker::alone(id, usable);
        // A closed window is probed over one path alone.
        taker.late = sender.choice.is_late(paths, usable, id, queue.sparse())
            && sender.outstanding.rwnd_for_new() >= sender.fragment_size(paths);
        if let Some(shares) = queue.mapping().dynamic().map(DynamicMap::shares)
            && shares.admitted().contains(id)
        {
            taker.ends = !shares.is_joint();
            let others = paths.among(usable).filter(|path| path.id() != id);
            for path in others.filter(|path| !self.is_free(path)) {
                let left =
                    queue.mapping().unsent_on(path.id()).min(sender.outstanding.window().rwnd());
                let is_faster = helper.rtt().least() <= path.rtt().least();
                let suits = shares.is_earlier(helper, path, left)
                    && (is_faster || shares.allows_joint(helper, sender.room()));
                if left > 0 && suits {
                    taker.helps.insert(path.id());
                }
            }
        }
        taker
    }

    /// Whether nothing holds up new data on `path`.
    fn is_free(&self, path: &Path) -> bool {
        path.subflow().may_send(self.now, path.in_flight()) && self.split_allows(path)
    }

    /// Whether the share of `path` in the buffers of both sides has room.
    pub(super) fn split_allows(&self, path: &Path) -> bool {
        let sender = self.sender;
        if let Some(dynamic) = sender.queue.mapping().dynamic() {
            return dynamic.shares().allows(path, sender.room());
        }
        let receive = sender.outstanding.window().rwnd() + sender.outstanding.in_flight();
        let buffers = Buffers { send: sender.buffer.limit(), receive };
        let split = sender.rules.experiment.buffer_split;
        split.allows(path, self.paths, self.usable, buffers)
    }

    /// The lost chunk that the path may send now.
    #[inline]
    pub(super) fn next_repeat(&self) -> Option<Tsn64> {
        let Self { sender, paths, path, repeaters, .. } = *self;
        if sender.outstanding.lost() == 0 || !path.subflow().may_repeat(self.now, self.flight) {
            return None;
        }
        let experiment = &sender.rules.experiment;
        let tsn = next_lost(experiment, paths, repeaters, path.id())?;
        let last = sender.outstanding.get(tsn)?.record.path;
        // The path on which it timed out does not repeat it, so a slow one must, worth using or not;
        // so must the one that the policy has chosen.
        let timed_out =
            || paths.get(last).is_some_and(|path| path.flight().lost().has_timed_out(tsn));
        let bound =
            || experiment.fast_retransmission_policy != RetransmissionPolicy::Same || timed_out();
        (self.worth || last == path.id() || bound()).then_some(tsn)
    }

    /// What of its own losses the path may repeat now.
    pub(super) fn next_own_repeat(&self) -> Option<Tsn64> {
        let reported = self.path.flight().lost().first(Loss::Reported);
        let policy = self.sender.rules.experiment.fast_retransmission_policy;
        let stays = policy == RetransmissionPolicy::Same;
        reported.filter(|_| stays && self.path.subflow().may_repeat(self.now, self.flight))
    }

    /// The stream of which the path may send a new chunk now, and the size of its payload.
    pub(super) fn next_new(&self) -> Option<(StreamId, usize)> {
        let Self { sender, paths, path, now, usable, .. } = *self;
        let outstanding = &sender.outstanding;
        // What is cheap to ask comes first: this is asked for every packet.
        if !path.subflow().may_send(now, self.flight) || outstanding.len() >= MAX_TSN_SPAN {
            return None;
        }
        // A closed window leaves no share to any path: the split must not keep a probe back.
        let idle = outstanding.is_quiet();
        if path.pacer().is_held_back(now) || (!idle && !self.split_allows(path)) {
            return None;
        }
        let limit = sender.fragment_size(paths);
        let (stream, len) = sender.queue.next(self.taker(), limit)?;
        if self.waits_for_more(stream) {
            return None;
        }
        // If the window is closed: one probe, when nothing is under way (RFC 9260 section 6.1 rule A).
        let probes = || {
            idle && now >= outstanding.window().probe_due(path.rtt())
                && prober(&sender.queue, limit, usable, paths)
                    .is_some_and(|prober| prober.id() == path.id())
        };
        let allowed = if len > outstanding.rwnd_for_new() {
            probes()
        } else {
            !idle || self.split_allows(path)
        };
        allowed.then_some((stream, len))
    }
}

/// The path that probes a closed window: of those that have something to send, the fastest.
pub(super) fn prober<'p>(
    queue: &SendQueue,
    limit: usize,
    usable: PathSet,
    paths: &'p Paths,
) -> Option<&'p Path> {
    let has_data = |path: &PathId| queue.next_len(Taker::alone(*path, usable), limit).is_some();
    by_smallest_srtt(paths, usable).find(has_data).and_then(|id| paths.get(id))
}
