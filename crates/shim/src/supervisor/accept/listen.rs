//! `listen`, and what the door says of listeners.

use super::waiting::Waiting;
use crate::address;
use crate::report::Report;
use crate::seccomp::Answer;
use crate::seccomp::Servers;
use crate::socket;
use crate::supervisor::Supervisor;
use crate::supervisor::questions::Whose;
use crate::supervisor::reach;
use crate::trap::Trap;
use manypath_control::{Listener, Reply, Request};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// A listening socket of the program that peers may reach.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) id: u64,
    pub(super) listener: Listener,
    /// Calls of `listen` that wait for the door's word.
    asking: Vec<Trap>,
    /// When they stop waiting.
    until: Option<Instant>,
    pub(super) waiting: Waiting,
    /// Accepted connections that the door has not made, and how many of them it was told of.
    pub(super) plain: u64,
    pub(super) told: u64,
    /// Whether peers could reach it once.
    offered: bool,
    /// Whether a rule keeps peers from it.
    denied: bool,
    /// When it is to be told.
    pub(super) tell_at: Option<Instant>,
}

impl Listening {
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        [self.until, self.waiting.deadline(), self.tell_at].into_iter().flatten()
    }
}

impl Supervisor {
    /// The kernel's `listen` is done at once, so that TCP clients wait for nobody; the answer
    /// waits until the door has heard of it, so that clients find it open when the program says it is.
    pub(crate) fn on_listen(&mut self, trap: &Trap) -> Option<Answer> {
        if !self.accepts.door.is_wanted() {
            return Some(Answer::Continue);
        }
        let socket = match self.descriptors.of(trap.thread, trap.args[0] as RawFd) {
            Ok(socket) => socket,
            Err(e) if e.raw_os_error() == Some(libc::EBADF) => return Some(Answer::Continue),
            Err(e) => {
                self.note_without_socket(trap.thread, &e);
                return Some(self.leave_listener("out-of-reach"));
            }
        };
        if !self.listener.is_waiting(trap.id) {
            return None;
        }
        if !socket::is_tcp_listener(socket.as_fd()) {
            return Some(Answer::Continue);
        }
        if let Err(reason) = self.check_listener(socket.as_fd()) {
            return Some(self.leave_listener(reason));
        }
        if self.listener.servers() == Servers::Never {
            self.note_server();
            return Some(self.leave_listener("old-kernel"));
        }
        match listen(&socket, trap.args[1] as i32) {
            Ok(()) => self.announce(trap, &socket),
            Err(e) => Some(Answer::Error(e.raw_os_error().unwrap_or(libc::EINVAL))),
        }
    }

    fn leave_listener(&mut self, reason: &'static str) -> Answer {
        self.report.leave_listener(reason);
        Answer::Continue
    }

    /// Whether a connection from this host's stack could reach the socket.
    fn check_listener(&self, socket: BorrowedFd<'_>) -> Result<(), &'static str> {
        let local = socket::local(socket).map_err(|_| "no-socket")?;
        let carried = self.loopback_paths() && local.is_ipv4();
        if local.ip().is_loopback() && !carried {
            Err("loopback")
        } else if socket::is_bound_to_device(socket) {
            Err("bound-to-device")
        } else if !self.is_in_our_network(socket) {
            Err("other-network-namespace")
        } else {
            Ok(())
        }
    }

    fn announce(&mut self, trap: &Trap, socket: &OwnedFd) -> Option<Answer> {
        let done = Some(Answer::Value(0));
        let Ok(cookie) = socket::cookie(socket.as_fd()) else { return done };
        // Only the length of the queue has changed.
        if self.accepts.listening.contains_key(&cookie) {
            return done;
        }
        let Ok(listener) = describe(trap, socket) else { return done };
        let now = Instant::now();
        self.open_door(now);
        self.accepts.last_id += 1;
        let id = self.accepts.last_id;
        self.accepts.door.send(Request::Listen { id, listener: listener.clone() });
        let asked = self.accepts.door.is_open();
        let patience = if self.accepts.door.is_starting() { 3 } else { 1 };
        let listening = Listening {
            id,
            listener,
            asking: if asked { vec![trap.clone()] } else { Vec::new() },
            until: asked.then(|| now + self.answer_limit() * patience),
            waiting: Waiting::default(),
            plain: 0,
            told: 0,
            tell_at: None,
            offered: false,
            denied: false,
        };
        self.accepts.listening.insert(cookie, listening);
        if asked { None } else { done }
    }

    fn open_door(&mut self, now: Instant) {
        if self.accepts.door.open(now) {
            self.accepts.announce_all();
        }
    }

    /// Takes what the door has said since the last time; notices when it is gone.
    pub(crate) fn handle_door(&mut self) {
        while let Some(reply) = self.accepts.door.receive() {
            self.on_door_reply(&reply);
        }
        if self.accepts.door.flush_and_is_lost() {
            self.on_door_lost("the stack that serves has ended");
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not asked for here is dropped")]
    fn on_door_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Offered { id } => {
                self.accepts.door.succeed();
                self.count_offered(*id);
                self.settle_listen(*id);
            }
            Reply::NotOffered { id, retry: false, .. } => {
                self.report.leave_listener("rule");
                if let Some(listening) = self.accepts.by_id(*id) {
                    listening.denied = true;
                }
                self.accepts.door.succeed();
                self.settle_listen(*id);
            }
            Reply::NotOffered { retry: true, why, .. } => self.on_door_lost(why),
            Reply::Gone { id } => self.forget_listening(*id),
            Reply::Traffic(traffic) => self.on_traffic(traffic.clone()),
            Reply::Arriving { from, to, client } => self.accepts.arrivals.add(*from, *to, *client),
            Reply::WayFrom { from, to, way } => self.on_way(Whose::Led(*from, *to), *way),
            Reply::Left { from, to } => {
                self.accepts.arrivals.remove(*from, *to);
                self.accepts.served.end(*from, *to);
            }
            // The link has looked at the welcome; nothing else is asked for here.
            _ => {}
        }
    }

    /// Programs go on with the clients that their kernel brings. What the door had led here was
    /// reset by its death.
    fn on_door_lost(&mut self, why: &str) {
        self.accepts.door.fail(Instant::now(), why);
        self.accepts.served.end_all();
        self.accepts.arrivals.clear();
        let ids: Vec<u64> = self.accepts.listening.values().map(|one| one.id).collect();
        // While a door is still being looked for, calls of `listen` wait on, as far as they may.
        if self.accepts.door.is_hopeless() {
            ids.into_iter().for_each(|id| self.settle_listen(id));
        }
    }

    /// Listening sockets that no stack has ever offered to peers, nor refused to.
    fn without_door(&self) -> u64 {
        let asked = |one: &&Listening| !one.offered && !one.denied;
        self.accepts.listening.values().filter(asked).count() as u64
    }

    /// What became of connects and listening sockets so far.
    pub(crate) fn report_so_far(&self) -> Report {
        let mut report = self.report.clone();
        report.stacks_replaced = self.stack.replacements();
        let without = self.without_door();
        if without > 0 {
            report.listeners_left.insert("no-door", without);
        }
        report
    }

    fn count_offered(&mut self, id: u64) {
        let Some(listening) = self.accepts.by_id(id) else { return };
        if !std::mem::replace(&mut listening.offered, true) {
            self.report.listeners += 1;
        }
    }

    /// Nobody listens there any more; calls that still wait have lost their descriptor.
    fn forget_listening(&mut self, id: u64) {
        self.settle_listen(id);
        let gone = |(_, one): &(&u64, &Listening)| one.id == id;
        let Some(cookie) = self.accepts.listening.iter().find(gone).map(|(cookie, _)| *cookie)
        else {
            return;
        };
        let Some(mut listening) = self.accepts.listening.remove(&cookie) else { return };
        while let Some(waiter) = listening.waiting.next() {
            self.listener.answer(waiter.trap.id, Answer::Continue);
        }
    }

    fn settle_listen(&mut self, id: u64) {
        let Some(listening) = self.accepts.by_id(id) else { return };
        listening.until = None;
        for trap in std::mem::take(&mut listening.asking) {
            self.listener.answer(trap.id, Answer::Value(0));
        }
    }

    /// What time does to listeners.
    pub(crate) fn handle_listeners_time(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if self
            .accepts
            .door
            .deadline(!self.accepts.listening.is_empty())
            .is_some_and(|at| now >= at)
        {
            self.open_door(now);
        }
        let late = self.accepts.listening.values().filter(|one| due(one.until)).map(|one| one.id);
        let late: Vec<u64> = late.collect();
        late.into_iter().for_each(|id| self.settle_listen(id));
        self.handle_accept_limits(now);
        for listening in self.accepts.listening.values_mut().filter(|one| due(one.tell_at)) {
            (listening.tell_at, listening.told) = (None, listening.plain);
            let (id, plain) = (listening.id, listening.plain);
            self.accepts.door.send(Request::Tally { id, plain });
        }
    }
}

fn listen(socket: &OwnedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    let result = unsafe { libc::listen(socket.as_raw_fd(), backlog) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn describe(trap: &Trap, socket: &OwnedFd) -> io::Result<Listener> {
    let inode = File::from(socket.try_clone()?).metadata()?.ino();
    let addr = address::unmapped(socket::local(socket.as_fd())?);
    let v6_only = addr.is_ipv6() && socket::is_v6_only(socket.as_fd());
    Ok(Listener { addr, v6_only, inode, program: reach::name(trap.thread) })
}
