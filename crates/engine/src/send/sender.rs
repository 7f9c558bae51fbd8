//! The sender: what the user has given, and what of it is where.

use super::abandonment::Abandonment;
use super::buffer::SendBuffer;
use super::copies::Copies;
use super::counts::DataCounts;
use super::forward::Forward;
use super::fragmentation::Fragmentation;
use super::losses::LossDetection;
use super::message::{Outgoing, SendError};
use super::nagle::Nagle;
use super::opportunity::prober;
use super::outstanding::Outstanding;
use super::path_choice::PathChoice;
use super::queue::{SendQueue, Taker};
use super::reliability::Terms;
use super::rules::Rules;
use super::scoreboard::Scoreboard;
use super::spurious::Repetitions;
use super::tail::Tail;
use super::window::PeerWindow;
use crate::config::{Config, Demand, Reliability};
use crate::path::{Path, Paths};
use crate::schedule::map::Room;
use crate::schedule::path::{PathOrder, by_smallest_srtt};
use crate::time::Instant;
use manypath_wire::Tsn;

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
    pub(super) fragmentation: Fragmentation,
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
        let mut queue = SendQueue::new(config);
        queue.limit_streams(outbound_streams);
        Self {
            queue,
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
            fragmentation: Fragmentation::new(config),
        }
    }

    /// The peer has announced its window and how many streams it takes, and acknowledges for good what is not next in
    /// sequence if it is `non_renegable` (NR-SACK). Messages that wait on streams beyond are dropped; returns their
    /// number.
    pub(crate) fn set_peer(
        &mut self,
        peer_rwnd: u32,
        outbound_streams: u16,
        non_renegable: bool,
    ) -> usize {
        self.outstanding.window_mut().restart(peer_rwnd);
        self.non_renegable = non_renegable;
        let (messages, bytes) = self.queue.limit_streams(outbound_streams);
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
        if message.stream.0 >= self.queue.stream_count() {
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

    /// Size of the largest message that [`Self::enqueue`] would take now.
    pub(crate) fn space(&self) -> usize {
        self.buffer.space(self.queue.messages() + self.outstanding.held())
    }

    /// Bytes sent and not yet acknowledged for good.
    pub(crate) fn unacked(&self) -> usize {
        self.buffer.used() - self.queue.bytes()
    }

    /// The send buffer.
    pub(crate) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// What waits to be sent.
    pub(crate) fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// What waits to be sent.
    pub(crate) fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// The table of TSNs.
    pub(crate) fn outstanding(&self) -> &Outstanding {
        &self.outstanding
    }

    /// The table of TSNs.
    pub(crate) fn outstanding_mut(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    /// Whether small messages wait for more.
    pub(crate) fn nagle_mut(&mut self) -> &mut Nagle {
        &mut self.nagle
    }

    /// How large fragments are.
    pub(crate) fn fragmentation_mut(&mut self) -> &mut Fragmentation {
        &mut self.fragmentation
    }

    /// Which paths carry data.
    pub(crate) fn choice(&self) -> &PathChoice {
        &self.choice
    }

    /// Whether everything that was queued is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.messages() == 0 && self.outstanding.is_empty()
    }

    /// The paths in the order in which they are to be served; none if nothing waits.
    pub(crate) fn path_order(&mut self, now: Instant, paths: &Paths) -> PathOrder {
        let (usable, demand) = (self.choice.usable(paths), self.demand());
        self.choice.observe(now, paths, usable, demand);
        let room = (self.buffer.limit(), self.room());
        let SendQueue { mapping, streams, .. } = &mut self.queue;
        mapping.replan(now, (paths, usable), room, streams);
        if self.has_nothing_to_send() {
            return PathOrder::none();
        }
        let served = self.choice.repeaters(paths, usable, self.outstanding.lost());
        let order = match self.queue.mapping().dynamic() {
            Some(_) => by_smallest_srtt(paths, served),
            None => self.choice.order(paths, served, self.scoreboard.path(), demand),
        };
        if paths.is_regulated() { order.cheapest_first(paths) } else { order }
    }

    /// When something may be sent that may not be sent now: the next probe of a closed window, or
    /// new data on a path or of a stream that is held back.
    pub(crate) fn deadline(&self, paths: &Paths) -> Option<Instant> {
        let streams = self.queue.deadline();
        if self.queue.messages() == 0 {
            return streams;
        }
        let held_back = paths.iter().filter_map(|path| path.pacer().held_back()).min();
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
        let probes = |path: &&Path| path.in_flight() == 0 && !path.health().is_suspended();
        let limit = self.fragment_size(paths);
        let prober = prober(&self.queue, limit, usable, paths).filter(probes)?;
        let len = self.queue.next_len(Taker::alone(prober.id(), usable), limit)?;
        // Pacing may hold the probe back, and so may the path.
        let later = prober.pacer().deadline().max(prober.pacer().held_back()).unwrap_or_default();
        let due = || self.outstanding.window().probe_due(prober.rtt()).max(later);
        (len > self.outstanding.rwnd_for_new()).then(due)
    }

    /// The buffers, for the dynamic mapping.
    pub(super) fn room(&self) -> Room {
        let window = self.outstanding.window();
        let under_way = self.outstanding.in_flight() + self.outstanding.lost();
        let here = self.unacked().saturating_sub(under_way);
        let there = window.most().saturating_sub(window.rwnd() + self.outstanding.in_flight());
        Room {
            window: self.buffer.limit().min(window.most()),
            waiting: here.max(there),
            non_renegable: self.non_renegable,
        }
    }

    /// Largest payload that travels as one chunk on every path.
    pub(crate) fn fragment_size(&self, paths: &Paths) -> usize {
        self.fragmentation.size(self.queue.header_len(), paths)
    }

    /// What waits. When the peer's window is nearly used up, a chunk on a slow path holds up the
    /// fast ones just as at the end of a transfer.
    pub(super) fn demand(&self) -> Demand {
        let left = (self.queue.bytes() + self.outstanding.lost()).saturating_add(self.tail.backlog);
        let window = (self.outstanding.window().rwnd() + self.outstanding.in_flight())
            .min(self.buffer.limit());
        Demand { left, sendable: left.min(self.outstanding.window().rwnd()), window }
    }

    /// The user holds back so many bytes more than it has queued.
    pub(crate) fn set_backlog(&mut self, bytes: usize) {
        self.tail.backlog = bytes;
    }
}
