//! Listening sockets of the programs, and the door that leads peers to them.

use super::Redirector;
use super::ways::Whose;
use crate::layout::WayKey;
use crate::listening::{listeners, someone_waits};
use libc::pollfd;
use manypath_control::{Listener, Reply, Request};
use manypath_gate::door::Door;
use manypath_gate::poll::poll;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often listening sockets are looked for that nobody has told of.
const SCAN: Duration = Duration::from_secs(2);
/// The listener that stands for those to come.
const TO_COME: u64 = 0;
/// How long the end waits for servers that do not accept.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How often peers can have us look for listening sockets: that walks all cgroups and sockets.
const LOOK_PAUSE: Duration = Duration::from_millis(25);

/// The two ends of a connection that the door makes.
type Ends = (SocketAddr, SocketAddr);

/// Everything about servers.
#[derive(Debug)]
pub(super) struct Servers {
    door: Door,
    /// By inode, with the identity that the door knows.
    known: BTreeMap<u64, (u64, Listener)>,
    /// The listener that counts for a port, and how many TCP clients the door knows to have come.
    tallied: BTreeMap<u16, (u64, u64)>,
    /// Connections that were led here and are not over.
    led: BTreeSet<Ends>,
    last: u64,
    scan_at: Instant,
    /// Before this nothing is looked for because a peer has come.
    look_from: Instant,
    /// Whether the door has said that peers find it, or why not.
    answered: bool,
    /// Whether the door has not taken the listeners yet, while connections go on that it has led here.
    refused: bool,
    /// Whether the door has let go of our programs.
    resigned: bool,
    /// Questions of the door that are to be answered.
    looks: Vec<u64>,
}

impl Servers {
    pub(super) fn new(door: Door) -> Self {
        let (known, tallied, led, looks) = Default::default();
        let (now, last) = (Instant::now(), TO_COME);
        let (scan_at, look_from) = (now, now);
        let (answered, refused, resigned) = Default::default();
        Self {
            door,
            known,
            tallied,
            led,
            last,
            scan_at,
            look_from,
            answered,
            refused,
            resigned,
            looks,
        }
    }

    pub(super) fn interest(&self) -> pollfd {
        self.door.interest()
    }

    pub(super) fn next_deadline(&self) -> Instant {
        let look = (!self.looks.is_empty()).then_some(self.look_from);
        let others = [self.door.deadline(true), look];
        others.into_iter().flatten().fold(self.scan_at, Instant::min)
    }

    /// Why nothing is offered, once.
    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.door.take_notice()
    }

    fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Asks the door about a connection that it has led here.
    pub(super) fn ask_door(&mut self, request: Request) {
        self.door.send(request);
    }

    /// Whether peers may find the door before long.
    pub(super) fn is_opening(&self) -> bool {
        self.door.is_open() && !self.answered
    }

    /// Lets go of the listeners; those who were led to them keep their names.
    fn retire(&mut self) {
        for (_, (id, _)) in std::mem::take(&mut self.known) {
            self.door.send(Request::Withdraw { id });
        }
        self.door.retire();
    }

    fn announce_all(&mut self) {
        self.refused = false;
        self.door.send(Request::Expect { id: TO_COME });
        self.tallied.clear();
        for (id, listener) in self.known.values() {
            self.door.send(Request::Listen { id: *id, listener: listener.clone() });
        }
    }
}

impl Redirector {
    /// Listeners are the successor's to offer.
    pub(super) fn retire_door(&mut self) {
        self.servers.retire();
    }

    /// Offers the listeners again. The door of before is still there if it has connections that it has led here.
    pub(super) fn resume_door(&mut self, now: Instant) {
        self.servers.door.resume();
        match self.servers.door.is_open() {
            true => self.servers.announce_all(),
            false => self.open_door(now),
        }
    }

    /// Whether nobody is left who was led to a server.
    pub(super) fn serves_nobody(&self) -> bool {
        self.servers.led.is_empty()
    }

    /// Looks for sockets that listen, and for those that do no longer. None is open to peers before the
    /// kernel can tell its program whom they stand for.
    pub(super) fn scan(&mut self) {
        self.servers.scan_at = Instant::now() + SCAN;
        if !self.servers.door.is_wanted() || !self.group.is_attached() {
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
        self.tally();
    }

    /// Tells the door of TCP clients that have come. Which of several sockets at a port has got them is not
    /// known: the first one counts them all.
    fn tally(&mut self) {
        let mut first = BTreeMap::new();
        for (id, listener) in self.servers.known.values() {
            let at = first.entry(listener.addr.port()).or_insert(*id);
            *at = (*at).min(*id);
        }
        for (port, id) in first {
            let plain = self.tables.arrivals(port);
            let before = self.servers.tallied.insert(port, (id, plain));
            if before.unwrap_or((id, 0)) != (id, plain) {
                self.servers.door.send(Request::Tally { id, plain });
            }
        }
    }

    /// The door is opened before anybody listens: a peer that does not find one remembers that.
    pub(super) fn open_door(&mut self, now: Instant) {
        if self.servers.door.open(now) {
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
        self.answer_looks();
    }

    /// Looks once for all who have asked since the last time: peers can ask more often than looking is cheap.
    fn answer_looks(&mut self) {
        let now = Instant::now();
        if self.servers.looks.is_empty() || now < self.servers.look_from {
            return;
        }
        self.servers.look_from = now + LOOK_PAUSE;
        self.scan();
        for id in std::mem::take(&mut self.servers.looks) {
            self.servers.door.send(Request::Looked { id });
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not asked for here is dropped")]
    fn on_door_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Offered { id } => {
                self.servers.door.succeed();
                self.servers.answered = true;
                self.report.listeners += u64::from(*id != TO_COME);
            }
            Reply::NotOffered { retry: false, .. } => {
                self.servers.door.succeed();
                self.servers.answered = true;
            }
            // It has not noticed yet that its own successor is gone.
            Reply::NotOffered { retry: true, .. } if !self.servers.led.is_empty() => {
                self.servers.refused = true;
            }
            Reply::NotOffered { retry: true, why, .. } => self.on_door_lost(why),
            Reply::Resigned => self.servers.resigned = true,
            Reply::Look { id } => self.servers.looks.push(*id),
            Reply::Gone { id } => self.servers.known.retain(|_, (known, _)| known != id),
            Reply::WayFrom { from, to, way } => self.on_way_from(*from, *to, *way),
            Reply::Arriving { from, to, client } => self.on_arriving(*from, *to, *client),
            Reply::Left { from, to } => self.on_left((*from, *to)),
            // Rules are looked up by the door itself; nothing else is asked for here.
            _ => {}
        }
    }

    /// The door makes the connection once the kernel knows for whom it stands. If it cannot know, nothing
    /// is said and the peer's side gives up.
    fn on_arriving(&mut self, from: SocketAddr, to: SocketAddr, client: SocketAddr) {
        if let Err(error) = self.tables.add_client(from, to, client) {
            return (self.options.notice)(&format!("a client of {to} is kept out: {error}"));
        }
        self.servers.led.insert((from, to));
        self.report.accepted_sctp += 1;
        self.servers.door.send(Request::Noted { from, to });
    }

    /// The socket that got the connection has its name for as long as it lives. If none did, whoever comes from
    /// the same address and port next is somebody else.
    fn on_left(&mut self, ends: Ends) {
        self.forget_way(WayKey::of_ends(ends.0, ends.1), Whose::Led(ends.0, ends.1));
        if self.servers.led.remove(&ends) {
            self.tables.remove_client(ends.0, ends.1);
        }
    }

    /// Resets what was led to servers, and waits until they have taken it from their queues: without us they
    /// would be told an address of this host, and could still read what had come.
    pub(super) fn resign(&mut self) {
        let limit = Instant::now() + END_LIMIT;
        self.servers.door.send(Request::Resign);
        let late = || Instant::now() >= limit;
        while self.servers.door.is_open() && !self.servers.resigned && !late() {
            poll(&mut [self.servers.interest()], Some(Duration::from_millis(20)));
            self.handle_door();
        }
        let waits = || someone_waits(&self.group.ids()).unwrap_or(false);
        while self.report.accepted_sctp > 0 && waits() && !late() {
            poll(&mut [], Some(Duration::from_millis(2)));
        }
    }

    fn on_door_lost(&mut self, why: &str) {
        self.servers.door.fail(Instant::now(), why);
        // What it had led here was reset by its death.
        for ends in std::mem::take(&mut self.servers.led) {
            self.forget_way(WayKey::of_ends(ends.0, ends.1), Whose::Led(ends.0, ends.1));
            self.tables.remove_client(ends.0, ends.1);
        }
    }

    /// What time does to servers; true when everything was looked at again.
    pub(super) fn handle_servers_time(&mut self, now: Instant) -> bool {
        self.stack.reap();
        self.servers.door.reap();
        if self.servers.door.deadline(true).is_some_and(|at| now >= at) {
            self.open_door(now);
        }
        let due = now >= self.servers.scan_at;
        if due {
            if std::mem::take(&mut self.servers.refused) {
                self.servers.announce_all();
            }
            self.name_containers();
            self.scan();
        }
        due
    }
}
