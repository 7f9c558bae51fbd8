//! Plain UDP for sockets that are connected to the sink and whose datagrams are not carried: they cannot go
//! back, so a socket of ours stands for them.

use super::Redirector;
use super::datagrams::Key;
use crate::datagram::Datagram;
use crate::plain::{answers, towards};
use libc::pollfd;
use manypath_gate::poll::interest;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// The longest datagram.
const LONGEST: usize = 1 << 16;

/// One socket of a program.
#[derive(Debug)]
struct Detour {
    /// Towards the peer.
    far: UdpSocket,
    /// Towards the program, from the sink's address.
    near: UdpSocket,
    source: SocketAddr,
    sink: SocketAddr,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Detours(BTreeMap<Key, Detour>);

impl Detours {
    pub(super) fn interests(&self) -> impl Iterator<Item = pollfd> {
        self.0.values().map(|detour| interest(detour.far.as_raw_fd()))
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// The program's socket is closed.
    pub(super) fn remove_socket(&mut self, cookie: u64) {
        self.0.retain(|key, _| key.0 != cookie);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Detour {
    fn new(sink: SocketAddr, datagram: &Datagram) -> io::Result<Self> {
        let source = datagram.source;
        Ok(Self { far: towards(datagram.peer)?, near: answers(sink, source)?, source, sink })
    }

    /// Brings answers to the program; whether the peer has refused.
    fn bring_answers(&self, room: &mut [u8]) -> bool {
        loop {
            match self.far.recv(room) {
                // It may have closed its socket.
                Ok(length) => drop(self.near.send(room.get(..length).unwrap_or_default())),
                Err(error) => return error.kind() == io::ErrorKind::ConnectionRefused,
            }
        }
    }
}

impl Redirector {
    /// Sends what came to the sink as plain UDP.
    pub(super) fn detour(&mut self, sink: SocketAddr, datagram: &Datagram) {
        let key = (datagram.cookie, datagram.peer);
        if !self.detours.contains(key) {
            match Detour::new(sink, datagram) {
                Ok(made) => drop(self.detours.0.insert(key, made)),
                Err(_) => return self.lose(1),
            }
        }
        let Some(detour) = self.detours.0.get(&key) else { return };
        let lost = datagram.pieces().filter(|piece| detour.far.send(piece).is_err()).count();
        self.lose(lost as u64);
    }

    /// Takes what peers have answered.
    pub(super) fn handle_detours(&self) {
        if self.detours.0.is_empty() {
            return;
        }
        let mut room = vec![0; LONGEST];
        for detour in self.detours.0.values() {
            if detour.bring_answers(&mut room) {
                // Whoever sends again hears of it again.
                let _ = self.refuser.unreachable(detour.source, detour.sink);
            }
        }
    }
}
