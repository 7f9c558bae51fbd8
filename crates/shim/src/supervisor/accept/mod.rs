//! Server mode: one program serves the clients of its kernel and those of manypath.
//!
//! The program keeps its own listening sockets, and clients that come over TCP find them as always.
//! A client that comes over SCTP is led by the stack that serves, the *door*, to the same socket:
//! a loopback connection to the very address that the client used. So there is one accept queue, and
//! select, epoll, threads and prefork work as they do. What the program must not see is the loopback
//! end: `accept` is done here, on a copy of the listening socket, and tells the client's address.
//!
//! ```text
//! listen()  ──▶ listen ──▶ Listen ─────────────▶ door ◀═══ associations
//!                                 ◀── Arriving ──┤
//! accept()  ──▶ take ◀── accept queue ◀── from ──┘
//!                └─▶ arrivals: from ─▶ client ─▶ served: what getpeername tells
//! ```
//!
//! `listen` what becomes of listen(), `take` of accept(), `waiting` the calls that wait, `arrivals`
//! whom the door leads here. No copy of a listening socket is kept while
//! nothing happens: a program that closes its socket has closed it.

mod arrivals;
mod listen;
mod take;
mod waiting;

use arrivals::{Arrivals, Served};
use libc::pollfd;
use listen::Listening;
use manypath_control::{Request, Role};
use manypath_gate::ServerChoice;
use manypath_gate::door::Door;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Instant;
use take::Given;

/// Everything about servers.
#[derive(Debug)]
pub(crate) struct Accepts {
    door: Door,
    /// By the socket's cookie.
    listening: BTreeMap<u64, Listening>,
    arrivals: Arrivals,
    served: Served,
    /// By the notification's identity.
    giving: BTreeMap<u64, Given>,
    last_id: u64,
}

impl Accepts {
    pub(crate) fn new(choice: Option<ServerChoice>) -> Self {
        let door = Door::new(choice, Role::Launcher);
        let (listening, arrivals, served, giving) = Default::default();
        Self { door, listening, arrivals, served, giving, last_id: 0 }
    }

    /// Whether anything was accepted that has a name of its own.
    pub(crate) fn has_served(&self) -> bool {
        !self.served.is_empty()
    }

    /// What `getpeername` tells of an accepted socket, and whether it is of the IPv6 family.
    pub(crate) fn peer_of(&self, cookie: u64) -> Option<(SocketAddr, bool)> {
        self.served.peer_of(cookie)
    }

    /// The two ends of an accepted connection that the door has led here and that is not over.
    pub(crate) fn ends_of(&self, cookie: u64) -> Option<(SocketAddr, SocketAddr)> {
        self.served.ends_of(cookie)
    }

    /// The program has a connection that was given to it.
    pub(crate) fn on_given(&mut self, id: u64) {
        self.giving.remove(&id);
    }

    /// Asks the door about a connection that it has led here.
    pub(crate) fn ask_door(&mut self, request: Request) {
        self.door.send(request);
    }

    /// Asks the door what it has carried for us.
    pub(crate) fn ask_traffic(&mut self) -> bool {
        self.door.ask_traffic()
    }

    /// What to poll for.
    pub(crate) fn interests(&self) -> impl Iterator<Item = pollfd> {
        let watches = self.listening.values().filter_map(|one| one.waiting.watch());
        let watches =
            watches.map(|fd| pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        watches.chain([self.door.interest()])
    }

    /// When time alone changes something.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let listening = self.listening.values().flat_map(Listening::deadlines);
        listening.chain(self.door.deadline(!self.listening.is_empty())).min()
    }

    /// Collects the door's process if it has ended.
    pub(crate) fn reap(&mut self) {
        self.door.reap();
    }

    /// Why the door was lost, or why nothing is offered, once.
    pub(crate) fn take_notice(&mut self) -> Option<String> {
        self.door.take_notice()
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Listening> {
        self.listening.values_mut().find(|one| one.id == id)
    }

    /// Announces every listener to a door that is new.
    fn announce_all(&mut self) {
        for listening in self.listening.values() {
            let (id, listener) = (listening.id, listening.listener.clone());
            self.door.send(Request::Listen { id, listener });
        }
    }
}
