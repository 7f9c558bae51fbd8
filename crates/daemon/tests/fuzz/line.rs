//! One end of a program's TCP connection: what it has written, what it has read, and how it ended.

use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Bytes at the beginning that name the pattern.
const NAME: usize = 4;

/// How the reading direction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The other side has ended its direction in good order.
    Finished,
    Reset,
}

#[derive(Debug)]
pub(crate) struct Line {
    socket: Option<TcpStream>,
    /// The pattern that this end writes, once it is known.
    writes: Option<u32>,
    /// The pattern that it reads; an end that serves learns it from the first bytes.
    expects: Option<u32>,
    head: Vec<u8>,
    /// Whether the bytes that are read are checked: those of a hostile peer are not.
    checks: bool,
    pub(crate) wanted: usize,
    pub(crate) written: usize,
    pub(crate) read: usize,
    pub(crate) finishing: bool,
    pub(crate) finished: bool,
    pub(crate) reads: bool,
    pub(crate) end: Option<End>,
}

/// The byte at `offset` of a pattern: its number first, then bytes that differ from place to place.
fn byte_at(pattern: u32, offset: usize) -> u8 {
    match pattern.to_be_bytes().get(offset) {
        Some(byte) => *byte,
        None => (offset.wrapping_mul(0x9E37_79B1) >> 7) as u8 ^ pattern as u8,
    }
}

impl Line {
    /// The end of the program that has asked for connection `number`.
    pub(crate) fn of_client(socket: TcpStream, number: u32) -> Self {
        Self::new(socket, Some(2 * number), Some(2 * number + 1))
    }

    /// The end of a service.
    pub(crate) fn of_service(socket: TcpStream) -> Self {
        Self::new(socket, None, None)
    }

    fn new(socket: TcpStream, writes: Option<u32>, expects: Option<u32>) -> Self {
        socket.set_nonblocking(true).unwrap();
        // The kernel is not to remember the connections of thousands of runs.
        SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        Self {
            socket: Some(socket),
            writes,
            expects,
            head: Vec::new(),
            checks: true,
            wanted: 0,
            written: 0,
            read: 0,
            finishing: false,
            finished: false,
            reads: true,
            end: None,
        }
    }

    /// The same where a hostile peer is at the other end.
    pub(crate) fn with_anybody(mut self) -> Self {
        (self.checks, self.writes) = (false, self.writes.or(Some(0)));
        self
    }

    /// The number of the connection, once a service has read it.
    pub(crate) fn number(&self) -> Option<u32> {
        self.writes.map(|pattern| pattern / 2)
    }

    /// Both directions have ended, or the connection was reset.
    pub(crate) fn is_over(&self) -> bool {
        self.socket.is_none()
    }

    pub(crate) fn reset(&mut self) {
        if self.socket.take().is_some() {
            self.end = Some(End::Reset);
        }
    }

    /// Moves what can be moved; whether something has.
    pub(crate) fn service(&mut self) -> bool {
        let moved = self.write_some() | (self.reads && self.read_some());
        if self.finished && self.end == Some(End::Finished) || self.end == Some(End::Reset) {
            self.socket = None;
        }
        moved
    }

    fn write_some(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let mut moved = false;
        while let Some(pattern) =
            self.writes.filter(|_| self.written < self.wanted && !self.finished)
        {
            let until = self.wanted.min(self.written + 8192);
            let bytes: Vec<u8> = (self.written..until).map(|at| byte_at(pattern, at)).collect();
            match socket.write(&bytes) {
                Ok(count) => (self.written, moved) = (self.written + count, true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return moved,
                Err(_) => {
                    self.end = Some(End::Reset);
                    return true;
                }
            }
        }
        if self.finishing && !self.finished {
            (self.finished, moved) = (true, true);
            let _ = socket.shutdown(Shutdown::Write);
        }
        moved
    }

    fn read_some(&mut self) -> bool {
        let mut buffer = [0; 8192];
        let mut moved = false;
        while let (Some(socket), None) = (&mut self.socket, self.end) {
            match socket.read(&mut buffer) {
                Ok(0) => self.end = Some(End::Finished),
                Ok(count) => {
                    if self.checks {
                        self.check(&buffer[..count]);
                    }
                    self.read += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.end = Some(End::Reset),
            }
            moved = true;
        }
        moved
    }

    /// Every byte is the one that belongs at its place.
    fn check(&mut self, bytes: &[u8]) {
        let missing = (NAME - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        if let (None, Ok(name)) = (self.expects, self.head.as_slice().try_into()) {
            let pattern = u32::from_be_bytes(name);
            (self.expects, self.writes) = (Some(pattern), Some(pattern + 1));
        }
        if let Some(pattern) = self.expects {
            for (at, byte) in (self.read..).zip(bytes) {
                assert_eq!(*byte, byte_at(pattern, at), "pattern {pattern}, byte {at}");
            }
        }
    }
}
