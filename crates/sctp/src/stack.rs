//! The sockets, the engine and the network of this process, behind one lock, and the thread that keeps
//! them going.

use crate::descriptor::Signal;
use crate::lock::{Guard, Lock};
use crate::place::{self, Settings};
use crate::process::stranger;
use manypath_engine::{AssociationId, Instant};
use manypath_net::{Clock, Driver};
use manypath_sockets::{Errno, Host, SocketId, Sockets};
use mio::{Events, Poll, Token, Waker};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;

const WAKER: Token = Token(usize::MAX);

/// What the threads of a program share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Whoever waits for it hears that something has happened.
    state: Lock<State>,
    waker: Waker,
    pub(crate) settings: Settings,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    driver: Driver,
    pub(crate) sockets: Sockets,
    pub(crate) descriptors: BTreeMap<RawFd, SocketId>,
    pub(crate) signals: BTreeMap<SocketId, Signal>,
    clock: Clock,
    /// Until when the thread sleeps; for ever without.
    sleeps_until: Option<Instant>,
}

impl Shared {
    /// Opens the network and starts the thread.
    pub(crate) fn start() -> io::Result<&'static Self> {
        let settings = Settings::from_environment()?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (driver, locals) = place::open(poll.registry(), &settings)?;
        let mut seed = [0; 2];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let sockets = Sockets::new(locals, settings.peer_port, u16::from_ne_bytes(seed));
        let sockets = match &settings.parameters {
            Some(parameters) => sockets.with_parameters(parameters.clone()),
            None => sockets,
        };
        let state = State {
            driver,
            sockets,
            descriptors: BTreeMap::new(),
            signals: BTreeMap::new(),
            clock: Clock::start(),
            sleeps_until: None,
        };
        let shared = Self { state: Lock::new(state), waker, settings };
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

    /// Does something to the sockets, and what follows from it.
    pub(crate) fn with<T>(&'static self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        if self.settings.alone {
            state.take_arrivals();
            self.settle(&mut state);
        }
        let result = act(&mut state);
        self.settle(&mut state);
        result
    }

    fn settle(&self, state: &mut State) {
        if state.pump() {
            self.state.notify_all();
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

    fn run(&'static self, mut poll: Poll) {
        let mut events = Events::with_capacity(256);
        loop {
            let sleep = {
                let mut state = self.lock();
                state.sleeps_until = state.due();
                state.clock.until(state.sleeps_until)
            };
            if poll.poll(&mut events, sleep).is_err() {
                events.clear();
            }
            let mut state = self.lock();
            let now = state.clock.now();
            for event in &events {
                state.driver.handle_event(now, event);
            }
            state.driver.handle_timeout(now);
            if state.pump() {
                self.state.notify_all();
            }
        }
    }
}

impl State {
    /// The sockets, and what their calls need.
    pub(crate) fn parts(&mut self) -> (&mut Sockets, Host<'_>) {
        let now = self.clock.now();
        (&mut self.sockets, Host { now, endpoint: self.driver.endpoint_mut() })
    }

    /// When there is something to do next, if nothing happens before.
    fn due(&self) -> Option<Instant> {
        [self.driver.timeout(), self.sockets.timeout()].into_iter().flatten().min()
    }

    /// The socket that a descriptor stands for.
    pub(crate) fn socket(&self, fd: RawFd) -> Result<SocketId, Errno> {
        self.descriptors.get(&fd).copied().ok_or_else(stranger)
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

    /// Gives a new socket a descriptor.
    pub(crate) fn describe(&mut self, id: SocketId, flags: i32) -> Result<RawFd, Errno> {
        match Signal::new(flags) {
            Ok(signal) => {
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

    /// Works in what has arrived and not been read by the thread yet.
    fn take_arrivals(&mut self) {
        let now = self.clock.now();
        self.driver.handle_arrivals(now);
        self.driver.handle_timeout(now);
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

/// The signals of the process are for the program's own threads.
struct SignalMask(libc::sigset_t);

impl SignalMask {
    fn block_all() -> Self {
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
