//! One connection in the loop of a source, a sink, or what answers.

use super::counters::Counters;
use crate::job::Task;
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};

/// Calls in a turn, after which it is the other flows' turn.
const CALLS: usize = 16;

#[derive(Debug)]
pub(super) struct Flow {
    stream: TcpStream,
    task: Task,
    readable: bool,
    writable: bool,
    /// The other side has ended: what there is to read ends with an end of file.
    ending: bool,
    /// Answers that wait for room.
    owed: usize,
}

/// What a flow's turn has led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// It could go on at once.
    Busy,
    /// Nothing can be done before something happens.
    Waits,
    /// It is over.
    Over,
}

impl Flow {
    pub(super) fn new(stream: TcpStream, task: Task) -> Self {
        Self { stream, task, readable: true, writable: true, ending: false, owed: 0 }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Something has happened.
    pub(super) fn wake(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable();
        self.ending |= event.is_read_closed() || event.is_error();
    }

    /// Does some work. `limit`: bytes after which all flows together stop sending.
    pub(super) fn turn(
        &mut self,
        counters: &Counters,
        buffer: &mut [u8],
        limit: Option<u64>,
    ) -> io::Result<After> {
        let mut busy = false;
        if matches!(self.task, Task::Send | Task::Both) {
            busy |= self.send(counters, buffer, limit)?;
        }
        // A source must see that the sink has gone.
        if self.task != Task::Send || self.ending {
            match self.receive(counters, buffer)? {
                After::Over => return Ok(After::Over),
                after @ (After::Busy | After::Waits) => busy |= after == After::Busy,
            }
        }
        Ok(if busy { After::Busy } else { After::Waits })
    }

    /// Whether more could be sent at once.
    fn send(&mut self, counters: &Counters, buffer: &[u8], limit: Option<u64>) -> io::Result<bool> {
        for _ in 0..CALLS {
            let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(counters.sent()));
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            if !self.writable || most == 0 {
                return Ok(false);
            }
            match self.stream.write(&buffer[..most]) {
                Ok(bytes) => drop(counters.add_sent(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.writable)
    }

    fn receive(&mut self, counters: &Counters, buffer: &mut [u8]) -> io::Result<After> {
        for _ in 0..CALLS {
            if !self.readable || !self.pay(counters)? {
                return Ok(After::Waits);
            }
            match self.stream.read(buffer) {
                Ok(0) => return Ok(After::Over),
                Ok(bytes) => {
                    counters.add_received(bytes);
                    self.owed += if self.task == Task::Answer { bytes } else { 0 };
                    // Less than there was room for: there is no more now.
                    self.readable = bytes == buffer.len() || self.ending;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.pay(counters)?;
        Ok(if self.readable { After::Busy } else { After::Waits })
    }

    /// Sends the answers that are owed; whether that was possible.
    fn pay(&mut self, counters: &Counters) -> io::Result<bool> {
        const ANSWER: [u8; 4096] = [0x21; 4096];
        while self.owed > 0 {
            match self.stream.write(&ANSWER[..self.owed.min(ANSWER.len())]) {
                Ok(bytes) => {
                    counters.add_sent(bytes);
                    self.owed -= bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
