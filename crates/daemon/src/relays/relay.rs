//! A relay joins a local TCP socket with a flow.
//!
//! Nothing is read from the socket that the flow does not take at once, and the peer gets new
//! credit only for bytes that the socket has really taken: the two kernels' buffers and the flow's
//! credit are all that can pile up.

use crate::budgets::Counter;
use crate::relays::Early;
use crate::relays::rates::Share;
use crate::relays::socket_options::Patience;
use crate::scratch::Scratch;
use crate::socket::{Moved, Socket};
use bytes::Bytes;
use manypath_control::SocketOptions;
use manypath_engine::AssociationId;
use manypath_flow::{FlowId, Flows};
use manypath_rules::Options;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes that a relay moves in one direction before others have their turn.
const TURN: usize = 256 << 10;
/// Bytes of the program that are dropped after the peer has ended both directions, before the
/// program is told by a reset, as TCP tells it.
const MAX_DROPPED: u64 = 256 << 10;
/// Pieces that one write hands to the kernel: a whole turn of a flow (128 KiB) in packets of 1500 bytes.
const MAX_SLICES: usize = 128;

/// What a relay has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing can move before the next event.
    Waiting,
    /// It has used up its turn.
    More,
    /// Both directions have ended.
    Done,
    /// The local socket broke.
    Broken,
}

/// One direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    Open,
    /// The source has ended; what is left is still on its way.
    Ending,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) association: AssociationId,
    pub(crate) flow: FlowId,
    pub(crate) socket: Socket,
    /// Whether the flow still exists; a socket may outlive it until it has taken the last bytes.
    flow_open: bool,
    outward: Half,
    inward: Half,
    pending: VecDeque<Bytes>,
    /// Bytes at the head of `pending` that are ours and not the flow's.
    greeting: usize,
    /// What a rule says.
    pub(crate) options: Options,
    /// Its part of the rate of its peer, if a rule says so.
    pub(crate) share: Option<Share>,
    /// What it has sent that the peer has not accepted yet.
    early: Option<Early>,
    /// Where what it moves counts, if a rule gives its peer a quota.
    pub(crate) quota: Option<Counter>,
    /// How long the program waits for a silent peer, if it has said so.
    pub(crate) patience: Option<Patience>,
    /// Whether one direction may end before the other.
    half_close: bool,
    /// The program has ended without half-close: what the peer still sends is dropped.
    dropping: bool,
    /// Bytes of the program that were for nobody.
    dropped: u64,
    /// From the socket to the flow.
    sent: u64,
    /// From the flow to the socket.
    received: u64,
}

impl Relay {
    pub(crate) fn new(association: AssociationId, flow: FlowId, socket: Socket) -> Self {
        Self {
            association,
            flow,
            socket,
            flow_open: true,
            outward: Half::Open,
            inward: Half::Open,
            pending: VecDeque::new(),
            greeting: 0,
            options: Options::default(),
            share: None,
            early: None,
            quota: None,
            patience: None,
            half_close: true,
            dropping: false,
            dropped: 0,
            sent: 0,
            received: 0,
        }
    }

    /// Goes by what a rule says.
    pub(crate) fn with(self, options: &Options) -> Self {
        Self { half_close: options.half_close.unwrap_or(true), options: *options, ..self }
    }

    /// Bytes that the local side gets before those of the flow.
    pub(crate) fn greet(mut self, greeting: Bytes) -> Self {
        self.greeting = greeting.len();
        self.pending.push_front(greeting);
        self
    }

    /// Where the peer has not accepted it yet: what is kept until then.
    pub(crate) fn before_answer(self, early: Option<Early>) -> Self {
        Self { early, ..self }
    }

    pub(super) const fn take_early(&mut self) -> Option<Early> {
        self.early.take()
    }

    pub(super) fn adopt(&mut self, options: SocketOptions) {
        if let Some(early) = &mut self.early {
            early.adopt(options);
        }
    }

    /// Whether the peer has accepted nothing and could have read nothing.
    pub(super) fn has_said_nothing(&self) -> bool {
        self.outward == Half::Open && self.early.as_ref().is_some_and(Early::is_empty)
    }

    /// The peer has accepted it; whether it had begun before that.
    pub(super) fn on_accepted(&mut self) -> bool {
        let was_early = self.early.take().is_some();
        if was_early && self.outward == Half::Ended {
            self.drop_answers();
        }
        was_early
    }

    /// The peer has ended its direction and everything was read from the flow.
    pub(crate) fn on_finished(&mut self) {
        if self.inward == Half::Open {
            self.inward = Half::Ending;
        }
    }

    /// The flow is gone. If the program has not ended its direction yet, what it still sends is for
    /// nobody; the socket is not closed at once, which could cost bytes under way to the program.
    pub(crate) fn on_flow_closed(&mut self) {
        self.flow_open = false;
        self.on_finished();
    }

    /// Bytes of the flow that the socket has not taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.iter().map(Bytes::len).sum()
    }

    /// Bytes moved so far, in both directions together.
    pub(crate) const fn moved(&self) -> u64 {
        self.sent + self.received
    }

    /// Bytes that the local side has sent and received.
    pub(crate) const fn bytes(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Moves what can be moved, as far as one turn goes. Without `flows` the association is gone, and
    /// the flow with it. At most `most` bytes go in each direction.
    pub(crate) fn service(
        &mut self,
        flows: Option<&mut Flows>,
        most: usize,
        scratch: &mut Scratch,
    ) -> Progress {
        let turn = TURN.min(most);
        if self.socket.is_broken() {
            return Progress::Broken;
        }
        let mut flows = flows.filter(|_| self.flow_open);
        let outward = match &mut flows {
            Some(flows) => self.socket_to_flow(flows, turn, scratch),
            None => self.socket_to_nowhere(scratch),
        };
        let inward = self.flow_to_socket(&mut flows, turn);
        if outward == Progress::Broken || inward == Progress::Broken {
            Progress::Broken
        } else if self.outward == Half::Ended && self.inward == Half::Ended {
            Progress::Done
        } else if outward == Progress::More || inward == Progress::More {
            Progress::More
        } else {
            Progress::Waiting
        }
    }

    fn socket_to_flow(&mut self, mux: &mut Flows, turn: usize, scratch: &mut Scratch) -> Progress {
        let mut left = turn;
        while self.outward == Half::Open && self.socket.is_readable() {
            let room = mux.writable(self.flow).min(scratch.len()).min(left);
            let room = self.early.as_ref().map_or(room, |early| room.min(early.room()));
            if room == 0 {
                return if left == 0 { Progress::More } else { Progress::Waiting };
            }
            match self.socket.read(&mut scratch[..room]) {
                Moved::Bytes(bytes) => {
                    left -= bytes;
                    self.sent += bytes as u64;
                    if let Some(early) = &mut self.early {
                        early.note(&scratch[..bytes]);
                    }
                    if mux.write(self.flow, scratch.take(bytes)).is_err() {
                        return Progress::Broken;
                    }
                }
                Moved::End => self.end_outward(mux),
                Moved::Blocked => break,
                Moved::Broken => return Progress::Broken,
            }
        }
        Progress::Waiting
    }

    /// Lets the program come to its end.
    fn socket_to_nowhere(&mut self, scratch: &mut [u8]) -> Progress {
        while self.outward == Half::Open && self.socket.is_readable() {
            match self.socket.read(scratch) {
                Moved::Bytes(bytes) => self.dropped += bytes as u64,
                Moved::End => self.outward = Half::Ended,
                Moved::Blocked => break,
                Moved::Broken => return Progress::Broken,
            }
            if self.dropped > MAX_DROPPED {
                return Progress::Broken;
            }
        }
        Progress::Waiting
    }

    /// The program has ended its direction.
    fn end_outward(&mut self, mux: &mut Flows) {
        mux.finish(self.flow);
        self.outward = Half::Ended;
        // Until the peer has accepted, it may still become plain TCP, whose answers the program gets.
        if self.early.is_none() {
            self.drop_answers();
        }
    }

    /// The program has ended without half-close.
    fn drop_answers(&mut self) {
        if !self.half_close && !self.dropping {
            self.dropping = true;
            self.socket.finish();
        }
    }

    /// The peer has ended its direction, and the program has all of it.
    fn end_inward(&mut self, flows: &mut Option<&mut Flows>) {
        self.socket.finish();
        self.inward = Half::Ended;
        if !self.half_close && self.outward == Half::Open {
            if let Some(flows) = flows {
                flows.finish(self.flow);
            }
            self.outward = Half::Ended;
        }
    }

    fn flow_to_socket(&mut self, flows: &mut Option<&mut Flows>, turn: usize) -> Progress {
        if self.dropping {
            return self.flow_to_nowhere(flows);
        }
        let mut left = turn;
        loop {
            self.refill(flows);
            if self.pending.is_empty() || !self.socket.is_writable() {
                break;
            }
            if left == 0 {
                return Progress::More;
            }
            match self.write_pending(left) {
                Moved::Bytes(bytes) => {
                    left -= bytes;
                    let ours = self.greeting.min(bytes);
                    self.greeting -= ours;
                    if let Some(flows) = flows {
                        flows.consumed(self.flow, bytes - ours);
                    }
                }
                Moved::Blocked => break,
                Moved::End | Moved::Broken => return Progress::Broken,
            }
        }
        if self.inward == Half::Ending && self.pending.is_empty() {
            self.end_inward(flows);
        }
        Progress::Waiting
    }

    /// Lets the peer send on, so that it can come to its end.
    fn flow_to_nowhere(&mut self, flows: &mut Option<&mut Flows>) -> Progress {
        self.refill(flows);
        let bytes = self.pending();
        self.pending.clear();
        let ours = std::mem::take(&mut self.greeting);
        if let Some(flows) = flows {
            flows.consumed(self.flow, bytes - ours);
        }
        if self.inward == Half::Ending {
            self.inward = Half::Ended;
        }
        if bytes > 0 { Progress::More } else { Progress::Waiting }
    }

    fn refill(&mut self, flows: &mut Option<&mut Flows>) {
        let Some(flows) = flows else { return };
        while self.pending.len() < MAX_SLICES {
            match flows.read(self.flow) {
                Some(piece) => self.pending.push_back(piece),
                None => break,
            }
        }
    }

    /// At most `most` bytes.
    fn write_pending(&mut self, most: usize) -> Moved {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let (mut count, mut room) = (0, most);
        for (slice, piece) in slices.iter_mut().zip(&self.pending) {
            if room == 0 {
                break;
            }
            let len = piece.len().min(room);
            *slice = IoSlice::new(&piece[..len]);
            (count, room) = (count + 1, room - len);
        }
        let moved = self.socket.write(&slices[..count]);
        if let Moved::Bytes(bytes) = moved {
            self.received += bytes as u64;
            advance(&mut self.pending, bytes);
        }
        moved
    }
}

/// Drops `bytes` bytes from the front of the queue.
fn advance(queue: &mut VecDeque<Bytes>, mut bytes: usize) {
    while bytes > 0 {
        let Some(first) = queue.front_mut() else { return };
        if bytes < first.len() {
            let _ = first.split_to(bytes);
            return;
        }
        bytes -= first.len();
        queue.pop_front();
    }
}
