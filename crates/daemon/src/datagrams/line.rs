//! Datagrams that a redirector has taken from the sockets of its programs: one line for all of them.

use super::relay::TURN;
use super::{Datagrams, Step};
use crate::base::Base;
use crate::ids::{Client, DatagramId};
use crate::token::Source;
use mio::Interest;
use mio::net::UnixDatagram;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// Datagrams that may come before the socket for their answers does.
const EARLY: usize = 256;
/// Datagrams of a redirector that has gone which are still taken.
const LAST: usize = 4096;

/// The lines, by control connection.
#[derive(Debug, Default)]
pub(super) struct Lines {
    sockets: BTreeMap<u64, UnixDatagram>,
    /// Those that may have something.
    ready: BTreeSet<u64>,
}

impl Lines {
    pub(super) fn have_work(&self) -> bool {
        !self.ready.is_empty()
    }
}

impl Datagrams {
    /// A redirector hands over its line.
    pub(crate) fn add_line(&mut self, base: &mut Base, control: u64, fd: OwnedFd) {
        let line = std::os::unix::net::UnixDatagram::from(fd);
        let taken = line.set_nonblocking(true).and_then(|()| {
            let mut line = UnixDatagram::from_std(line);
            let token = Source::Line(control).token();
            base.core.registry.register(&mut line, token, Interest::READABLE)?;
            Ok(line)
        });
        match taken {
            Ok(line) => drop(self.lines.sockets.insert(control, line)),
            Err(_) => base.core.count("attaches_failed"),
        }
    }

    pub(crate) fn on_line(&mut self, control: u64) {
        self.lines.ready.insert(control);
    }

    pub(super) fn service_lines(&mut self, base: &mut Base, room: &mut [u8]) {
        for control in std::mem::take(&mut self.lines.ready) {
            if self.read_line(base, control, room, TURN) {
                self.lines.ready.insert(control);
            }
        }
    }

    /// Whether there may be more than `most`.
    fn read_line(&mut self, base: &mut Base, control: u64, room: &mut [u8], most: usize) -> bool {
        for _ in 0..most {
            let Some(line) = self.lines.sockets.get(&control) else { return false };
            match line.recv(room) {
                Ok(length) => self.on_taken(base, control, room.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn on_taken(&mut self, base: &mut Base, control: u64, message: &[u8]) {
        let Some((id, payload)) = message.split_first_chunk() else { return };
        let client = Client { control: control.into(), id: u64::from_le_bytes(*id) };
        match self.clients.get(&client).copied() {
            Some(id) if self.relays.contains_key(&id) => self.forward_taken(base, id, payload),
            Some(id) => self.keep_early(base, id, payload),
            None => base.core.count("datagrams_without_flow"),
        }
    }

    fn forward_taken(&mut self, base: &mut Base, id: DatagramId, payload: &[u8]) {
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.last = base.core.now;
        }
        self.forward(base, id, payload);
    }

    /// The line can be faster than the control connection.
    fn keep_early(&mut self, base: &mut Base, id: DatagramId, payload: &[u8]) {
        let attempt = self.attempts.get_mut(&id);
        match attempt.filter(|one| matches!(one.step, Step::Promised(_)) && one.early.len() < EARLY)
        {
            Some(attempt) => attempt.early.push(payload.to_vec()),
            None => base.core.count("datagrams_without_flow"),
        }
    }

    /// A redirector has gone. What its programs have sent before is still taken.
    pub(super) fn end_line(&mut self, base: &mut Base, scratch: &mut [u8], control: u64) {
        self.read_line(base, control, scratch, LAST);
        self.lines.sockets.remove(&control);
        self.lines.ready.remove(&control);
    }
}
