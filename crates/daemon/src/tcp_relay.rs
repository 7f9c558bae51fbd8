//! The relay of a connection that goes on as plain TCP although the program's own socket was
//! already promised to this stack (a non-blocking connect that was pending when SCTP failed).

use crate::relay::Progress;
use crate::socket::{Moved, Socket};
use std::io::IoSlice;

/// Bytes kept between the two sockets, in each direction.
const BUFFER: usize = 64 << 10;
/// Bytes moved in one direction before others have their turn.
const TURN: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct TcpRelay {
    /// The launcher's end.
    pub(crate) near: Socket,
    /// The real connection.
    pub(crate) far: Socket,
    outward: Pipe,
    inward: Pipe,
}

impl TcpRelay {
    pub(crate) fn new(near: Socket, far: Socket) -> Self {
        Self { near, far, outward: Pipe::new(), inward: Pipe::new() }
    }

    /// Bytes moved so far, in both directions together.
    pub(crate) const fn moved(&self) -> u64 {
        self.outward.moved + self.inward.moved
    }

    /// Bytes that the program has sent and received.
    pub(crate) const fn bytes(&self) -> (u64, u64) {
        (self.outward.moved, self.inward.moved)
    }

    /// Moves what can be moved, as far as one turn goes.
    pub(crate) fn service(&mut self) -> Progress {
        if self.near.is_broken() || self.far.is_broken() {
            return Progress::Broken;
        }
        let outward = self.outward.pump(&mut self.near, &mut self.far);
        let inward = self.inward.pump(&mut self.far, &mut self.near);
        match (outward, inward) {
            (Progress::Broken, _) | (_, Progress::Broken) => Progress::Broken,
            (Progress::Done, Progress::Done) => Progress::Done,
            (Progress::More, _) | (_, Progress::More) => Progress::More,
            (Progress::Waiting | Progress::Done, Progress::Waiting | Progress::Done) => {
                Progress::Waiting
            }
        }
    }
}

/// One direction: what was read and not written yet.
#[derive(Debug)]
struct Pipe {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    moved: u64,
}

impl Pipe {
    fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            moved: 0,
        }
    }

    fn pump(&mut self, from: &mut Socket, to: &mut Socket) -> Progress {
        let mut left = TURN;
        while !self.ended {
            if left == 0 {
                return Progress::More;
            }
            let moved = if self.start == self.end { self.fill(from, to) } else { self.drain(to) };
            match moved {
                Moved::Bytes(bytes) => left = left.saturating_sub(bytes),
                Moved::End => {}
                Moved::Blocked => return Progress::Waiting,
                Moved::Broken => return Progress::Broken,
            }
        }
        Progress::Done
    }

    fn fill(&mut self, from: &mut Socket, to: &Socket) -> Moved {
        let moved = from.read(&mut self.buffer);
        match moved {
            Moved::Bytes(bytes) => (self.start, self.end) = (0, bytes),
            Moved::End => {
                to.finish();
                self.ended = true;
            }
            Moved::Blocked | Moved::Broken => {}
        }
        moved
    }

    fn drain(&mut self, to: &mut Socket) -> Moved {
        let moved = to.write(&[IoSlice::new(&self.buffer[self.start..self.end])]);
        match moved {
            Moved::Bytes(bytes) => {
                self.start += bytes;
                self.moved += bytes as u64;
            }
            Moved::End => return Moved::Broken,
            Moved::Blocked | Moved::Broken => {}
        }
        moved
    }
}
