//! Listening sockets of the programs, and the door that leads peers to them.

use super::Redirector;
use crate::listening::listeners;
use libc::pollfd;
use manypath_control::{Listener, Reply, Request};
use manypath_gate::door::Door;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often listening sockets are looked for that nobody has told of.
const SCAN: Duration = Duration::from_secs(2);
/// Connections that are over and are remembered, because a program may still ask for their names.
const REMEMBERED: usize = 4096;

/// The two ends of a connection that the door makes.
type Ends = (SocketAddr, SocketAddr);

/// Everything about servers.
#[derive(Debug)]
pub(super) struct Servers {
    door: Door,
    /// By inode, with the identity that the door knows.
    known: BTreeMap<u64, (u64, Listener)>,
    /// Connections that have names, and when they were made.
    named: BTreeMap<Ends, u64>,
    over: VecDeque<(Ends, u64)>,
    last: u64,
    scan_at: Instant,
}

impl Servers {
    pub(super) fn new(door: Door) -> Self {
        let (known, named, over) = Default::default();
        Self { door, known, named, over, last: 0, scan_at: Instant::now() }
    }

    pub(super) fn interest(&self) -> pollfd {
        self.door.interest()
    }

    pub(super) fn next_deadline(&self) -> Instant {
        let door = self.door.deadline(!self.known.is_empty());
        door.map_or(self.scan_at, |at| at.min(self.scan_at))
    }

    /// Why nothing is offered, once.
    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.door.take_notice()
    }

    fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn announce_all(&mut self) {
        for (id, listener) in self.known.values() {
            self.door.send(Request::Listen { id: *id, listener: listener.clone() });
        }
    }
}

impl Redirector {
    /// Looks for sockets that listen, and for those that do no longer.
    pub(super) fn scan(&mut self) {
        self.servers.scan_at = Instant::now() + SCAN;
        if !self.servers.door.is_wanted() {
            return;
        }
        let found = match listeners(&self.group.ids(), &self.group.name()) {
            Ok(found) => found,
            Err(error) => return (self.options.notice)(&format!("listening sockets: {error}")),
        };
        let gone: Vec<u64> = self
            .servers
            .known
            .keys()
            .filter(|inode| !found.contains_key(*inode))
            .copied()
            .collect();
        for inode in gone {
            if let Some((id, _)) = self.servers.known.remove(&inode) {
                self.servers.door.send(Request::Withdraw { id });
            }
        }
        for (inode, listener) in found {
            if !self.servers.known.contains_key(&inode) {
                let id = self.servers.next_id();
                self.servers.door.send(Request::Listen { id, listener: listener.clone() });
                self.servers.known.insert(inode, (id, listener));
            }
        }
        self.open_door(Instant::now());
    }

    fn open_door(&mut self, now: Instant) {
        if !self.servers.known.is_empty() && self.servers.door.open(now) {
            self.servers.announce_all();
        }
    }

    /// Takes what the door has said since the last time; notices when it is gone.
    pub(super) fn handle_door(&mut self) {
        while let Some(reply) = self.servers.door.receive() {
            self.on_door_reply(&reply);
        }
        if self.servers.door.flush_and_is_lost() {
            self.on_door_lost("the stack that serves has ended");
        }
    }

    fn on_door_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Offered { .. } => {
                self.servers.door.succeed();
                self.report.listeners += 1;
            }
            Reply::NotOffered { retry: false, .. } => self.servers.door.succeed(),
            Reply::NotOffered { retry: true, why, .. } => self.on_door_lost(why),
            Reply::Gone { id } => self.servers.known.retain(|_, (known, _)| known != id),
            Reply::Arriving { from, to, client } => self.on_arriving(*from, *to, *client),
            Reply::Left { from, to } => self.on_left((*from, *to)),
            // Rules are looked up by the door itself; nothing else is asked for here.
            Reply::Welcome { .. }
            | Reply::Pending { .. }
            | Reply::Direct { .. }
            | Reply::Accepted { .. }
            | Reply::Failed { .. }
            | Reply::Plain { .. }
            | Reply::Changed
            | Reply::Closed { .. }
            | Reply::Way { .. }
            | Reply::Unreachable { .. }
            | Reply::StatusPart(_)
            | Reply::Reloaded { .. }
            | Reply::Forgotten { .. }
            | Reply::Watching
            | Reply::Path(_)
            | Reply::Refused { .. } => {}
        }
    }

    /// The door makes the connection once the kernel knows for whom it stands. If it cannot know, nothing
    /// is said and the peer's side gives up.
    fn on_arriving(&mut self, from: SocketAddr, to: SocketAddr, client: SocketAddr) {
        if let Err(error) = self.tables.add_client(from, to, client) {
            return (self.options.notice)(&format!("a client of {to} is kept out: {error}"));
        }
        let number = self.servers.next_id();
        self.servers.named.insert((from, to), number);
        self.report.accepted_sctp += 1;
        self.servers.door.send(Request::Noted { from, to });
    }

    fn on_left(&mut self, ends: Ends) {
        let Some(number) = self.servers.named.get(&ends).copied() else { return };
        self.servers.over.push_back((ends, number));
        while self.servers.over.len() > REMEMBERED {
            let Some((ends, number)) = self.servers.over.pop_front() else { return };
            // The same ports may have been used again meanwhile.
            if self.servers.named.get(&ends) == Some(&number) {
                self.servers.named.remove(&ends);
                self.tables.remove_client(ends.0, ends.1);
            }
        }
    }

    fn on_door_lost(&mut self, why: &str) {
        self.servers.door.fail(Instant::now(), why);
        // What it had led here was reset by its death.
        let all: Vec<Ends> = self.servers.named.keys().copied().collect();
        all.into_iter().for_each(|ends| self.on_left(ends));
    }

    /// What time does to servers; true when everything was looked at again.
    pub(super) fn handle_servers_time(&mut self, now: Instant) -> bool {
        self.stack.reap();
        self.servers.door.reap();
        if self.servers.door.deadline(!self.servers.known.is_empty()).is_some_and(|at| now >= at) {
            self.open_door(now);
        }
        let due = now >= self.servers.scan_at;
        if due {
            self.scan();
        }
        due
    }
}
