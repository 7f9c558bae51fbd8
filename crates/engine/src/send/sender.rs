//! The sender: what the user has given, and what of it is where.

use super::abandonment::Abandonment;
use super::buffer::SendBuffer;
use super::buffer_split::Buffers;
use super::copies::Copies;
use super::counts::DataCounts;
use super::forward::Forward;
use super::losses::LossDetection;
use super::message::{Outgoing, SendError};
use super::nagle::Nagle;
use super::outstanding::Outstanding;
use super::path_choice::PathChoice;
use super::queue::{SendQueue, Taker};
use super::reliability::Terms;
use super::rtx_policy::next_lost;
use super::rules::Rules;
use super::scoreboard::Scoreboard;
use super::spurious::Repetitions;
use super::tail::Tail;
use super::window::PeerWindow;
use crate::config::{Config, Demand, Reliability, RetransmissionPolicy, StreamOptions};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::schedule::map::Room;
use crate::schedule::path::{PathOrder, by_smallest_srtt};
use crate::time::Instant;
use crate::tsn::Tsn64;
use manypath_wire::chunk::{Data, IData, types};
use manypath_wire::{StreamId, Tsn};

/// Gap Ack Blocks reach this far beyond the cumulative TSN. What is sent beyond could not be
/// acknowledged, so nothing is.
const MAX_TSN_SPAN: usize = 65_535;

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(super) queue: SendQueue,
    pub(super) outstanding: Outstanding,
    pub(super) scoreboard: Scoreboard,
    pub(super) buffer: SendBuffer,
    pub(super) rules: Rules,
    pub(super) detection: LossDetection,
    /// Messages that may be given up, or were.
    pub(super) abandonment: Abandonment,
    pub(super) forward: Forward,
    /// The peer acknowledges for good what is not next in sequence (NR-SACK).
    non_renegable: bool,
    pub(super) tail: Tail,
    pub(super) nagle: Nagle,
    pub(super) counts: DataCounts,
    pub(super) choice: PathChoice,
    /// What was sent again lately.
    pub(super) repetitions: Repetitions,
    /// Second transmissions of chunks that are under way (redundant transmission).
    pub(super) copies: Copies,
    /// Bytes of a packet that are not for chunks with user data.
    reserved: usize,
    /// Most bytes of a fragment.
    pub(super) fragment_limit: usize,
    pub(super) outbound_streams: u16,
}

impl Sender {
    /// Nothing was sent; the first TSN will be `initial_tsn`. What is known of the peer may be
    /// given later by [`Self::set_peer`].
    pub(crate) fn new(
        config: &Config,
        initial_tsn: Tsn,
        peer_rwnd: u32,
        outbound_streams: u16,
    ) -> Self {
        let window = PeerWindow::new(config.experiment.window_probing, peer_rwnd);
        let outstanding = Outstanding::new(initial_tsn, window);
        Self {
            queue: SendQueue::new(config),
            abandonment: Abandonment::new(config),
            forward: Forward::new(outstanding.cum()),
            outstanding,
            scoreboard: Scoreboard::default(),
            tail: Tail::default(),
            nagle: Nagle::new(config.nagle),
            counts: DataCounts::default(),
            buffer: SendBuffer::new(config),
            rules: Rules::new(config),
            detection: LossDetection::new(config),
            non_renegable: false,
            choice: PathChoice::new(config),
            copies: Copies::new(config.experiment.scheduling(), config.redundancy),
            repetitions: Repetitions::default(),
            reserved: 0,
            fragment_limit: limit(config.fragment_limit),
            outbound_streams,
        }
    }

    /// The peer has announced its window and how many streams it takes. Messages that wait on
    /// streams beyond are dropped; returns their number.
    pub(crate) fn set_peer(&mut self, peer_rwnd: u32, outbound_streams: u16) -> usize {
        self.outstanding.window_mut().restart(peer_rwnd);
        self.outbound_streams = outbound_streams;
        let (messages, bytes) = self.queue.drop_streams_from(outbound_streams);
        self.buffer.give_back(bytes);
        messages
    }

    /// Nothing waits and nothing is under way: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.queue.release_memory();
        self.outstanding.release_memory();
        self.scoreboard.release_memory();
    }

    /// Messages are interleaved with this peer. Those that are partly sent may take half of its
    /// receive buffer, so that there is always room to complete them.
    pub(crate) fn interleave(&mut self) {
        self.queue.set_interleaving(self.outstanding.window().rwnd() / 2);
    }

    /// Messages that may be given up, or were.
    pub(crate) fn abandonment(&self) -> &Abandonment {
        &self.abandonment
    }

    /// Messages that may be given up, or were.
    pub(crate) fn abandonment_mut(&mut self) -> &mut Abandonment {
        &mut self.abandonment
    }

    /// The peer follows when messages of which a part was sent are given up.
    pub(crate) fn allow_abandoning(&mut self) {
        self.abandonment.agree();
        self.queue.halve_window_of_streams();
    }

    /// What is sent on several paths.
    pub(crate) fn copies_mut(&mut self) -> &mut Copies {
        &mut self.copies
    }

    /// Whether the peer acknowledges for good what is not next in sequence (NR-SACK).
    pub(crate) fn set_non_renegable(&mut self, non_renegable: bool) {
        self.non_renegable = non_renegable;
    }

    /// Queues a message that is reliable, or what was said otherwise of its stream. Others may be
    /// given up to make room for it.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        message: Outgoing,
        reliability: Option<Reliability>,
        paths: &mut Paths,
    ) -> Result<(), SendError> {
        let of_stream = |stream| self.abandonment.reliability(stream, self.queue.options(stream));
        let reliability = reliability.unwrap_or_else(|| of_stream(message.stream));
        let terms = Terms::new(reliability, now);
        let len = message.payload.len();
        if self.queue.unfinished.has(message.stream) {
            return Err(SendError::Unfinished);
        }
        match self.check(&message) {
            Err(SendError::BufferFull) if self.abandoning(now, paths).make_room(len, terms) => {}
            other => other?,
        }
        self.buffer.take(len);
        self.queue.push(message, terms);
        self.nagle.on_queued();
        Ok(())
    }

    pub(super) fn check(&self, message: &Outgoing) -> Result<(), SendError> {
        if message.payload.is_empty() {
            return Err(SendError::Empty);
        }
        if message.stream.0 >= self.outbound_streams {
            return Err(SendError::InvalidStream);
        }
        if message.payload.len() > self.buffer.most() {
            return Err(SendError::TooLarge);
        }
        let fits = self.has_room(message.payload.len());
        if fits { Ok(()) } else { Err(SendError::BufferFull) }
    }

    /// Whether a message of `len` bytes would be taken now. One for which the buffer would have to grow
    /// first is, when nothing else is held.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        len <= self.space() || (self.buffer.is_empty() && len <= self.buffer.most())
    }

    /// The user has other wishes for a stream. False if there is no such stream.
    pub(crate) fn set_stream_options(&mut self, stream: StreamId, options: StreamOptions) -> bool {
        let exists = stream.0 < self.outbound_streams;
        if exists {
            self.queue.set_options(stream, options);
        }
        exists
    }

    /// Size of the largest message that [`Self::enqueue`] would take now.
    pub(crate) fn space(&self) -> usize {
        self.buffer.space(self.held())
    }

    /// Messages and chunks that are held.
    pub(super) fn held(&self) -> usize {
        self.queue.messages() + self.outstanding.held()
    }

    /// Bytes queued and not yet sent.
    pub(crate) fn unsent(&self) -> usize {
        self.queue.bytes()
    }

    /// Bytes sent and not yet acknowledged for good.
    pub(crate) fn unacked(&self) -> usize {
        self.buffer.used() - self.queue.bytes()
    }

    /// The send buffer.
    pub(crate) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// Which paths carry data.
    pub(crate) fn choice(&self) -> &PathChoice {
        &self.choice
    }

    /// Bytes that the peer's receive window takes now.
    pub(crate) fn peer_rwnd(&self) -> usize {
        self.outstanding.window().rwnd()
    }

    /// Whether everything that was queued is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.messages() == 0 && self.outstanding.is_empty()
    }

    /// The paths in the order in which they are to be served; none if nothing waits.
    pub(crate) fn path_order(&mut self, now: Instant, paths: &Paths) -> PathOrder {
        let (usable, demand) = (self.choice.usable(paths), self.demand());
        self.choice.observe(now, paths, usable, demand);
        self.queue.replan(now, paths, usable, (self.buffer.limit(), self.room()));
        if self.has_nothing_to_send() {
            return PathOrder::none();
        }
        let served = self.choice.repeaters(paths, self.outstanding.lost());
        let order = match self.queue.dynamic() {
            Some(_) => by_smallest_srtt(paths, served),
            None => self.choice.order(paths, served, self.scoreboard.path(), demand),
        };
        if paths.is_regulated() { order.cheapest_first(paths) } else { order }
    }

    /// Nothing more may be sent now: is that because the paths that may carry data carry all they can?
    pub(crate) fn note_waiting(&self, now: Instant, paths: &mut Paths) {
        self.note_starved(now, paths);
        if !paths.is_regulated() {
            return;
        }
        let usable = self.choice.usable(paths);
        let is_full = |path: &Path| !path.may_send(now, path.in_flight());
        let waits = (self.queue.messages() > 0 || self.tail.backlog > 0)
            && self.outstanding.rwnd_for_new() >= self.fragment_size(paths)
            && paths.iter().filter(|path| usable.contains(path.id())).all(is_full);
        paths.ceiling_mut().note_waiting(now, waits);
    }

    /// Whether [`Self::fill`] would write something into an empty packet for `id`.
    pub(crate) fn has_data_for(&self, now: Instant, id: PathId, paths: &Paths) -> bool {
        if self.has_nothing_to_send() {
            return false;
        }
        let (usable, repeaters) =
            (self.choice.usable(paths), self.choice.repeaters(paths, self.outstanding.lost()));
        let Some(path) = paths.get(id).filter(|_| repeaters.contains(id)) else { return false };
        let worth = usable.contains(id) && self.is_worth_using(now, paths, usable, id);
        self.next_repeat(now, path, path.in_flight(), worth, paths, repeaters).is_some()
            || self.to_reschedule(now, path, path.in_flight(), usable).is_some()
            || self.next_copy(now, path, path.in_flight()).is_some()
            || (worth && self.next_new(now, path, path.in_flight(), paths, usable).is_some())
    }

    /// When something may be sent that may not be sent now: the next probe of a closed window, or
    /// new data on a path or of a stream that is held back.
    pub(crate) fn deadline(&self, paths: &Paths) -> Option<Instant> {
        let streams = self.queue.deadline();
        if self.queue.messages() == 0 {
            return streams;
        }
        let held_back = paths.iter().filter_map(Path::held_back).min();
        let regulation = paths.regulation_deadline();
        let later = self.next_probe(paths).into_iter().chain(held_back).chain(regulation);
        streams.into_iter().chain(later).min()
    }

    /// Whether neither new data nor lost chunks wait, nor any that may be sent on a second path.
    pub(super) fn has_nothing_to_send(&self) -> bool {
        let copied = self.copies.is_on() && self.outstanding.in_flight() > 0;
        self.queue.messages() == 0 && self.outstanding.lost() == 0 && !copied
    }

    fn next_probe(&self, paths: &Paths) -> Option<Instant> {
        if !self.outstanding.is_quiet() {
            return None;
        }
        let usable = self.choice.usable(paths);
        // Copies that are under way may fill its window; its T3-rtx sees to them.
        let probes = |path: &&Path| path.in_flight() == 0 && !path.is_suspended();
        let prober = self.prober(paths, usable).filter(probes)?;
        let len =
            self.queue.next_len(Taker::alone(prober.id(), usable), self.fragment_size(paths))?;
        // Pacing may hold the probe back, and so may the path.
        let later = prober.pacer().deadline().max(prober.held_back()).unwrap_or_default();
        let due = || self.probe_due(prober).max(later);
        (len > self.outstanding.rwnd_for_new()).then(due)
    }

    /// Whether `id` should carry something of what waits.
    pub(super) fn is_worth_using(
        &self,
        now: Instant,
        paths: &Paths,
        usable: PathSet,
        id: PathId,
    ) -> bool {
        self.choice.is_worth_using(paths, usable, id, self.demand())
            || self.queue.is_tied(self.taker(now, paths, usable, id))
    }

    /// `id` as one that asks for something to send. It may help paths that are held up.
    pub(super) fn taker(&self, now: Instant, paths: &Paths, usable: PathSet, id: PathId) -> Taker {
        let mut taker = Taker::alone(id, usable);
        // A closed window is probed over one path alone.
        taker.late = self.choice.is_late(paths, usable, id, self.queue.sparse())
            && self.outstanding.rwnd_for_new() >= self.fragment_size(paths);
        if let (Some(dynamic), Some(helper)) = (self.queue.dynamic(), paths.get(id))
            && dynamic.shares().admitted().contains(id)
        {
            taker.ends = !dynamic.shares().is_joint();
            let others = paths.iter().filter(|path| path.id() != id && usable.contains(path.id()));
            let held_up = others.filter(|path| !self.is_free(now, path, paths, usable));
            for path in held_up {
                let left = self.queue.unsent_on(path.id()).min(self.outstanding.window().rwnd());
                let shares = dynamic.shares();
                let is_faster = helper.rtt().least() <= path.rtt().least();
                let suits = shares.is_earlier(helper, path, left)
                    && (is_faster || shares.allows_joint(helper, self.room()));
                if left > 0 && suits {
                    taker.helps.insert(path.id());
                }
            }
        }
        taker
    }

    /// The buffers, for the dynamic mapping.
    fn room(&self) -> Room {
        let here =
            self.unacked().saturating_sub(self.outstanding.in_flight() + self.outstanding.lost());
        let there = self
            .outstanding
            .window()
            .most()
            .saturating_sub(self.outstanding.window().rwnd() + self.outstanding.in_flight());
        Room {
            window: self.buffer.limit().min(self.outstanding.window().most()),
            waiting: here.max(there),
            non_renegable: self.non_renegable,
        }
    }

    /// Whether nothing holds up new data on `path`.
    fn is_free(&self, now: Instant, path: &Path, paths: &Paths, usable: PathSet) -> bool {
        path.may_send(now, path.in_flight()) && self.split_allows(path, paths, usable)
    }

    /// Largest payload that travels as one chunk on every path.
    pub(crate) fn fragment_size(&self, paths: &Paths) -> usize {
        let taken = self.header_len() + self.reserved;
        (paths.fragment_size() + Data::HEADER_LEN).saturating_sub(taken).min(self.fragment_limit)
    }

    /// No fragment of a message is to have more than so many bytes.
    pub(crate) fn set_fragment_limit(&mut self, most: Option<u16>) {
        self.fragment_limit = limit(most);
    }

    /// How much of the next fragment of `stream`, which has `len` bytes, goes into `room` bytes of a packet,
    /// the chunk's header among them.
    pub(super) fn fitting(&self, stream: StreamId, len: usize, room: usize) -> Option<usize> {
        let room = room.checked_sub(self.header_len()).filter(|room| *room > 0)?;
        let needs_more = || self.queue.stream(stream).is_some_and(|stream| stream.next_len() > len);
        // Whoever says how large fragments are at most wants them of that size.
        let fills = || {
            self.rules.experiment.fill_packets && self.fragment_limit == usize::MAX && needs_more()
        };
        if len <= room { Some(len) } else { fills().then_some(room) }
    }

    /// Every packet with user data leaves so many bytes for something else.
    pub(crate) fn leave_room(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Whether user data travels in I-DATA chunks.
    pub(crate) fn is_interleaving(&self) -> bool {
        self.queue.is_interleaving()
    }

    /// The type of the chunks with user data.
    pub(super) fn chunk_type(&self) -> u8 {
        if self.queue.is_interleaving() { types::I_DATA } else { types::DATA }
    }

    /// Bytes of a chunk before the user data.
    pub(super) fn header_len(&self) -> usize {
        if self.queue.is_interleaving() { IData::HEADER_LEN } else { Data::HEADER_LEN }
    }

    /// What waits. When the peer's window is nearly used up, a chunk on a slow path holds up the
    /// fast ones just as at the end of a transfer.
    fn demand(&self) -> Demand {
        let left = (self.queue.bytes() + self.outstanding.lost()).saturating_add(self.tail.backlog);
        let window = (self.outstanding.window().rwnd() + self.outstanding.in_flight())
            .min(self.buffer.limit());
        Demand { left, sendable: left.min(self.outstanding.window().rwnd()), window }
    }

    /// The user holds back so many bytes more than it has queued.
    pub(crate) fn set_backlog(&mut self, bytes: usize) {
        self.tail.backlog = bytes;
    }

    /// The lost chunk that `path` may send now, where `flight` was its flight before the packet.
    pub(super) fn next_repeat(
        &self,
        now: Instant,
        path: &Path,
        flight: usize,
        worth: bool,
        paths: &Paths,
        usable: PathSet,
    ) -> Option<Tsn64> {
        if self.outstanding.lost() == 0 || !path.may_repeat(now, flight) {
            return None;
        }
        let tsn = next_lost(&self.rules.experiment, paths, usable, path.id())?;
        let last = self.outstanding.get(tsn)?.record.path;
        // The path on which it timed out does not repeat it, so a slow one must, worth using or not;
        // so must the one that the policy has chosen.
        let timed_out =
            || paths.get(last).is_some_and(|path| path.flight().lost().has_timed_out(tsn));
        let bound = || {
            self.rules.experiment.fast_retransmission_policy != RetransmissionPolicy::Same
                || timed_out()
        };
        (worth || last == path.id() || bound()).then_some(tsn)
    }

    /// Bytes in a packet of the chunk that `id` is to send again next: header and padding, and what
    /// [`Self::leave_room`] is for.
    pub(crate) fn next_repeat_size(
        &self,
        now: Instant,
        id: PathId,
        paths: &Paths,
    ) -> Option<usize> {
        if self.outstanding.lost() == 0 {
            return None;
        }
        let (path, usable) = (paths.get(id)?, self.choice.usable(paths));
        let worth = usable.contains(id) && self.is_worth_using(now, paths, usable, id);
        let next = self.next_repeat(
            now,
            path,
            path.in_flight(),
            worth,
            paths,
            self.choice.repeaters(paths, self.outstanding.lost()),
        )?;
        self.outstanding.get(next).map(|chunk| chunk.wire_len() + self.reserved)
    }

    /// The stream of which `path` may send a new chunk now, and the size of its payload. `flight` was
    /// the flight of the path before the packet.
    pub(super) fn next_new(
        &self,
        now: Instant,
        path: &Path,
        flight: usize,
        paths: &Paths,
        usable: PathSet,
    ) -> Option<(StreamId, usize)> {
        // What is cheap to ask comes first: this is asked for every packet.
        if !path.may_send(now, flight) || self.outstanding.len() >= MAX_TSN_SPAN {
            return None;
        }
        // A closed window leaves no share to any path: the split must not keep a probe back.
        let idle = self.outstanding.is_quiet();
        if path.is_held_back(now) || (!idle && !self.split_allows(path, paths, usable)) {
            return None;
        }
        let taker = self.taker(now, paths, usable, path.id());
        let (stream, len) = self.queue.next(taker, self.fragment_size(paths))?;
        if self.waits_for_more(stream, path.in_flight() != flight, paths) {
            return None;
        }
        // If the window is closed: one probe, when nothing is under way (RFC 9260 section 6.1 rule A).
        let probes = || {
            idle && now >= self.probe_due(path)
                && self.prober(paths, usable).is_some_and(|prober| prober.id() == path.id())
        };
        let allowed = if len > self.outstanding.rwnd_for_new() {
            probes()
        } else {
            !idle || self.split_allows(path, paths, usable)
        };
        allowed.then_some((stream, len))
    }

    /// Whether the share of `path` in the buffers of both sides has room.
    pub(super) fn split_allows(&self, path: &Path, paths: &Paths, usable: PathSet) -> bool {
        if let Some(dynamic) = self.queue.dynamic() {
            return dynamic.shares().allows(path, self.room());
        }
        let receive = self.outstanding.window().rwnd() + self.outstanding.in_flight();
        self.rules.experiment.buffer_split.allows(
            path,
            paths,
            usable,
            Buffers { send: self.buffer.limit(), receive },
        )
    }

    /// The path that probes a closed window: of those that have something to send, the fastest.
    fn prober<'p>(&self, paths: &'p Paths, usable: PathSet) -> Option<&'p Path> {
        let limit = self.fragment_size(paths);
        let has_data =
            |path: &PathId| self.queue.next_len(Taker::alone(*path, usable), limit).is_some();
        by_smallest_srtt(paths, usable).find(has_data).and_then(|id| paths.get(id))
    }

    fn probe_due(&self, prober: &Path) -> Instant {
        self.outstanding.window().probe_due(prober.rtt().rto(), prober.rtt().rto_max())
    }
}

/// Most bytes of a fragment, of which the user has said this.
fn limit(most: Option<u16>) -> usize {
    most.map_or(usize::MAX, |most| usize::from(most).max(1))
}
