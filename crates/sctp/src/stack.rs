//! The sockets, the engine and the network of this process, behind one lock, and the thread that keeps
//! them going.

use crate::descriptor::{Signal, stranger};
use crate::lock::{Guard, Lock};
use crate::place::{self, Place, Settings};
use crate::request::Request;
use crate::system::KeptErrno;
use crate::uplinks::{self, Uplinks};
use manypath_engine::{AssociationId, Instant};
use manypath_net::{Clock, Driver};
use manypath_sockets::address::decode_packed;
use manypath_sockets::constants::SCTP_SOCKOPT_BINDX_ADD;
use manypath_sockets::{Errno, Host, SocketId, Sockets};
use mio::{Events, Poll, Token, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
/// Most times that a call exchanges packets between sockets of this process. A handshake takes four.
const MOST_ROUNDS: usize = 64;

static STACK: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// What the threads of a program share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Whoever waits for it hears that something has happened.
    state: Lock<State>,
    waker: Waker,
    pub(crate) settings: Settings,
    /// The UDP port that another program has, until that is said; else 0.
    taken: AtomicU16,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    driver: Driver,
    uplinks: Uplinks,
    pub(crate) sockets: Sockets,
    pub(crate) descriptors: BTreeMap<RawFd, SocketId>,
    pub(crate) signals: BTreeMap<SocketId, Signal>,
    /// How many children of forks may use a socket.
    pub(crate) holders: BTreeMap<SocketId, usize>,
    /// Our ends of the lines to them.
    pub(crate) lines: BTreeSet<RawFd>,
    clock: Clock,
    /// Until when the thread sleeps; for ever without.
    sleeps_until: Option<Instant>,
    thread: Thread,
}

/// The stack, if there is one.
pub(crate) fn running() -> Option<&'static Shared> {
    let stack = STACK.load(Ordering::Acquire);
    // SAFETY: it is null, or was leaked by `Shared::start` and is never freed.
    unsafe { stack.as_ref() }
}

/// This is the stack of the process from now on; or it has none.
pub(crate) fn set_running(stack: Option<&'static Shared>) {
    let stack = stack.map_or(std::ptr::null_mut(), |stack| std::ptr::from_ref(stack).cast_mut());
    STACK.store(stack, Ordering::Release);
}

impl Shared {
    /// Says once that nobody finds what listens here, if that is so.
    pub(crate) fn say_if_hidden(&self) {
        let port = self.taken.swap(0, Ordering::Relaxed);
        if port != 0 {
            eprintln!(
                "manypath: UDP port {port} is in use by another program: peers do not find what listens here \
                 (manypath run --sctp --port, or MANYPATH_SCTP_UDP_PORT, chooses another one)"
            );
        }
    }

    /// Opens the network and starts the thread.
    pub(crate) fn start() -> io::Result<&'static Self> {
        let settings = Settings::from_environment()?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let watch = uplinks::watch(poll.registry());
        let Place { driver, locals: open, taken } = place::open(poll.registry(), &settings)?;
        let locals = open.iter().map(|(_, address)| *address).collect();
        let registry = poll.registry().try_clone()?;
        let uplinks = Uplinks::new(watch, registry, open, settings.native);
        let mut seed = [0; 2];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let sockets = Sockets::new(locals, settings.peer_port, u16::from_ne_bytes(seed));
        let sockets = match &settings.parameters {
            Some(parameters) => sockets.with_parameters(parameters.clone()),
            None => sockets,
        };
        let sockets = match place::follows_linux() {
            true => sockets.following_linux(),
            false => sockets,
        };
        let state = State {
            driver,
            uplinks,
            sockets,
            descriptors: BTreeMap::new(),
            signals: BTreeMap::new(),
            holders: BTreeMap::new(),
            lines: BTreeSet::new(),
            clock: Clock::start(),
            sleeps_until: None,
            thread: Thread::Runs,
        };
        let taken = AtomicU16::new(taken.unwrap_or_default());
        let shared = Self { state: Lock::new(state), waker, settings, taken };
        // It lives as long as the process: its thread may be in it until the last moment.
        let shared: &'static Self = Box::leak(Box::new(shared));
        let thread = std::thread::Builder::new().name("manypath-sctp".into());
        let mask = SignalMask::block_all();
        let started = thread.spawn(move || shared.run(poll));
        drop(mask);
        started.map(|_| shared)
    }

    pub(crate) fn lock(&'static self) -> Guard<State> {
        self.state.lock()
    }

    /// As [`lock`](Self::lock), unless that takes longer than so long.
    pub(crate) fn lock_within(&'static self, most: Duration) -> Option<Guard<State>> {
        self.state.lock_within(most)
    }

    /// Does something to the sockets, and what follows from it.
    pub(crate) fn with<T>(&'static self, act: impl FnOnce(&mut State) -> T) -> T {
        let _kept = KeptErrno::new();
        let mut state = self.lock();
        if self.settings.alone {
            state.take_arrivals();
            self.settle(&mut state);
        }
        let result = act(&mut state);
        self.settle(&mut state);
        // As in the kernel, whose loopback delivers before a call returns: a handshake within the process is complete
        // then.
        for _ in 0..MOST_ROUNDS {
            if !(self.settings.alone && state.take_arrivals()) {
                break;
            }
            self.settle(&mut state);
        }
        result
    }

    fn settle(&self, state: &mut Guard<State>) {
        if state.pump() {
            state.notify_all();
        }
        let due = state.due();
        let sleeps_past = match (due, state.sleeps_until) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(due), Some(until)) => due < until,
        };
        if sleeps_past {
            state.sleeps_until = due;
            // It fails only if the thread is being woken anyway.
            let _woken = self.waker.wake();
        }
    }

    /// Lets the thread end in good order, before the process takes it away while it has the lock.
    pub(crate) fn end_thread(&'static self) {
        self.lock().thread = Thread::Ends;
        // It fails only if the thread is being woken anyway.
        let _woken = self.waker.wake();
    }

    fn run(&'static self, mut poll: Poll) {
        let mut events = Events::with_capacity(256);
        loop {
            let sleep = {
                let mut state = self.lock();
                if state.thread != Thread::Runs {
                    state.thread = Thread::Ended;
                    return state.notify_all();
                }
                state.sleeps_until = state.due();
                state.clock.until(state.sleeps_until)
            };
            if poll.poll(&mut events, sleep).is_err() {
                events.clear();
            }
            let mut state = self.lock();
            let now = state.clock.now();
            for event in &events {
                if event.token() == uplinks::NEWS {
                    state.follow_addresses();
                }
                state.driver.handle_event(now, event);
            }
            state.driver.handle_timeout(now);
            if state.pump() {
                state.notify_all();
            }
        }
    }
}

impl State {
    /// Whether nobody keeps timers and packets going any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread == Thread::Ended
    }

    /// The sockets, and what their calls need.
    pub(crate) fn parts(&mut self) -> (&mut Sockets, Host<'_>) {
        let now = self.clock.now();
        (&mut self.sockets, Host { now, endpoint: self.driver.endpoint_mut() })
    }

    /// Opens addresses that are to be bound to and not open always: of loopback, and of links.
    pub(crate) fn open_own(&mut self, wanted: &[SocketAddr]) {
        let now = self.clock.now();
        self.uplinks.open_loopback(now, &mut self.driver, &mut self.sockets, wanted);
        self.uplinks.open_links(now, &mut self.driver, &mut self.sockets, wanted);
    }

    /// Opens addresses from which these can be reached.
    pub(crate) fn open_towards(&mut self, peers: &[SocketAddr]) {
        let now = self.clock.now();
        self.uplinks.open_links(now, &mut self.driver, &mut self.sockets, peers);
    }

    /// Opens the addresses that a request needs.
    pub(crate) fn open_for(&mut self, request: &Request) {
        match request {
            Request::Send(sending) => self.open_towards(&sending.to),
            // As the sctp_bindx of libsctp asks.
            Request::SetOption { option: (libc::IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD), value } => {
                self.open_own(&decode_packed(value).unwrap_or_default());
            }
            Request::SetOption { .. }
            | Request::Option { .. }
            | Request::Receive { .. }
            | Request::OwnName
            | Request::PeerName
            | Request::Addresses { .. }
            | Request::ShutDown(..)
            | Request::Pending
            | Request::Close
            | Request::Fork
            | Request::Accept(_) => {}
        }
    }

    /// When there is something to do next, if nothing happens before.
    fn due(&self) -> Option<Instant> {
        [self.driver.timeout(), self.sockets.timeout()].into_iter().flatten().min()
    }

    /// The socket that a descriptor stands for.
    pub(crate) fn socket(&self, fd: RawFd) -> Result<SocketId, Errno> {
        self.descriptors.get(&fd).copied().ok_or_else(|| stranger(fd))
    }

    /// Whether associations are left.
    pub(crate) fn has_associations(&self) -> bool {
        !self.driver.endpoint().associations().is_empty()
    }

    /// Whether one of these is left.
    pub(crate) fn has_any(&self, associations: &[AssociationId]) -> bool {
        let left = self.driver.endpoint().associations();
        associations.iter().any(|one| left.contains(one))
    }

    /// Gives a new socket a descriptor, which shows at once what has happened before there was one.
    pub(crate) fn describe(&mut self, id: SocketId, flags: i32) -> Result<RawFd, Errno> {
        match Signal::new(flags) {
            Ok(mut signal) => {
                let (sockets, mut host) = self.parts();
                signal.show(sockets.readiness(&mut host, id), false);
                let fd = signal.first();
                self.descriptors.insert(fd, id);
                self.signals.insert(id, signal);
                Ok(fd)
            }
            Err(error) => {
                let (sockets, mut host) = self.parts();
                let _gone = sockets.close(&mut host, id);
                Err(error)
            }
        }
    }

    fn follow_addresses(&mut self) {
        let now = self.clock.now();
        self.uplinks.follow(now, &mut self.driver, &mut self.sockets);
    }

    /// Processes what has arrived and the thread has not read yet. Returns whether there was something.
    fn take_arrivals(&mut self) -> bool {
        let now = self.clock.now();
        let came = self.driver.handle_arrivals(now);
        self.driver.handle_timeout(now);
        came
    }

    /// What has happened becomes known to sockets and descriptors, and packets leave. Whether something
    /// has.
    fn pump(&mut self) -> bool {
        let (sockets, mut host) = self.parts();
        sockets.handle_timeout(&mut host);
        while let Some((id, event)) = host.endpoint.poll_event() {
            sockets.on_event(&mut host, id, event);
        }
        let changed = self.sockets.take_changed();
        for (id, news) in &changed {
            let (sockets, mut host) = self.parts();
            let readiness = sockets.readiness(&mut host, *id);
            if let Some(signal) = self.signals.get_mut(id) {
                signal.show(readiness, *news);
            }
        }
        let now = self.clock.now();
        self.driver.flush(now);
        !changed.is_empty()
    }
}

/// The thread that keeps timers and packets going.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thread {
    Runs,
    Ends,
    Ended,
}

/// The signals of the process are for the program's own threads.
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    pub(crate) fn block_all() -> Self {
        // SAFETY: all zeroes is a legal sigset_t; the calls only write into the two.
        unsafe {
            let (mut all, mut old): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
            Self(old)
        }
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: the mask is what the thread had before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}
