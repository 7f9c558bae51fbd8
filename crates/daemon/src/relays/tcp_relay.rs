//! The relay of a connection that goes on as plain TCP although the program's own socket was
//! already promised to this stack (a non-blocking connect that was pending when SCTP failed).

use super::Progress;
use crate::socket::{Moved, Socket};
use bytes::Bytes;
use std::io::IoSlice;

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
        Self { near, far, outward: Pipe::default(), inward: Pipe::default() }
    }

    /// With bytes of the program that were read before.
    pub(super) fn begin_with(mut self, bytes: Bytes) -> Self {
        self.outward.unwritten = bytes;
        self
    }

    /// Bytes moved so far, in both directions together.
    pub(crate) const fn moved(&self) -> u64 {
        self.outward.moved + self.inward.moved
    }

    /// Bytes that the program has sent and received.
    pub(crate) const fn bytes(&self) -> (u64, u64) {
        (self.outward.moved, self.inward.moved)
    }

    /// Moves what can be moved, as far as one turn goes. `scratch` bounds what is read in one call.
    pub(crate) fn service(&mut self, scratch: &mut [u8]) -> Progress {
        if self.near.is_broken() || self.far.is_broken() {
            return Progress::Broken;
        }
        let sent = self.outward.moved;
        let outward = self.outward.pump(&mut self.near, &mut self.far, scratch);
        if self.outward.moved > sent && self.inward.moved == 0 {
            // The kernel takes a handshake that was deferred for the first turn of a dialogue, and would delay the
            // acknowledgements of the answer: where packets of it are lost, the other end runs into its timeout.
            self.far.acknowledge();
        }
        let inward = self.inward.pump(&mut self.far, &mut self.near, scratch);
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

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    /// What was read and not written yet: nothing, as long as the receiver keeps up.
    unwritten: Bytes,
    ended: bool,
    moved: u64,
}

impl Pipe {
    fn pump(&mut self, from: &mut Socket, to: &mut Socket, scratch: &mut [u8]) -> Progress {
        let mut left = TURN;
        while !self.ended {
            if left == 0 {
                return Progress::More;
            }
            let moved = match self.unwritten.is_empty() {
                true => self.pass_on(from, to, scratch),
                false => self.drain(to),
            };
            match moved {
                Moved::Bytes(bytes) => left = left.saturating_sub(bytes),
                Moved::End => {}
                Moved::Blocked => return Progress::Waiting,
                Moved::Broken => return Progress::Broken,
            }
        }
        Progress::Done
    }

    /// Reads, writes what was read, and keeps what the receiver does not take.
    fn pass_on(&mut self, from: &mut Socket, to: &mut Socket, scratch: &mut [u8]) -> Moved {
        let read = match from.read(scratch) {
            Moved::Bytes(bytes) => &scratch[..bytes],
            Moved::End => {
                to.finish();
                self.ended = true;
                return Moved::End;
            }
            nothing @ (Moved::Blocked | Moved::Broken) => return nothing,
        };
        let written = self.write(to, read);
        let taken = if let Moved::Bytes(bytes) = written { bytes } else { 0 };
        self.unwritten = Bytes::copy_from_slice(&read[taken..]);
        written
    }

    fn drain(&mut self, to: &mut Socket) -> Moved {
        let unwritten = std::mem::take(&mut self.unwritten);
        let written = self.write(to, &unwritten);
        let taken = if let Moved::Bytes(bytes) = written { bytes } else { 0 };
        self.unwritten = unwritten.slice(taken..);
        written
    }

    fn write(&mut self, to: &mut Socket, bytes: &[u8]) -> Moved {
        let written = to.write(&[IoSlice::new(bytes)]);
        match written {
            Moved::Bytes(bytes) => self.moved += bytes as u64,
            Moved::End => return Moved::Broken,
            Moved::Blocked | Moved::Broken => {}
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::connect;
    use mio::{Events, Poll, Token};
    use socket2::SockRef;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_first_answer_is_acknowledged_at_once_although_the_handshake_was_deferred() {
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
        let [service, stack] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut program = TcpStream::connect(stack.local_addr().unwrap()).unwrap();
        let far = connect(None, service.local_addr().unwrap(), true).unwrap();
        let copy = far.try_clone().unwrap();
        let far = Socket::to_another_host(far, poll.registry(), Token(1)).unwrap();
        let near = stack.accept().unwrap().0.into();
        let near = Socket::new(near, poll.registry(), Token(2)).unwrap();
        let mut relay = TcpRelay::new(near, far);
        relay.far.acknowledge();
        program.write_all(b"request").unwrap();
        while relay.moved() < 7 {
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                let near = event.token() == Token(2);
                if near { &mut relay.near } else { &mut relay.far }.on_event(event);
            }
            relay.service(&mut [0; 16]);
        }
        assert!(SockRef::from(&copy).tcp_quickack().unwrap());
    }
}
