//! One path and the thread that carries its packets.

use super::packet::{IpPacket, Pool};
use super::{Clock, Recorder, Series};
use crate::error::LabError;
use crate::host::Host;
use crate::spec::PathSpec;
use crate::sys::wait;
use manypath_sim::Instant;
use manypath_sim::{Link, LinkConfig, LinkCounters};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A path that works. Dropping it stops its thread.
pub(crate) struct EmulatedPath {
    shared: Arc<Mutex<Shared>>,
    clock: Clock,
    /// Whether the thread has real-time priority.
    realtime: bool,
    /// A byte wakes the thread; the end of the stream ends it.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the holder both see.
struct Shared {
    /// Indexed by the host that they lead to.
    directions: [Direction; 2],
    recorder: Option<Recorder>,
    failure: Option<String>,
}

struct Direction {
    link: Link<IpPacket>,
    /// Until when what arrives waits for what follows it.
    rests_until: Instant,
    delivered: Series,
    undeliverable: u64,
}

/// One direction as it stands.
pub(crate) struct DirectionState {
    pub config: LinkConfig,
    pub counters: LinkCounters,
    /// Packets that the receiving host did not take.
    pub undeliverable: u64,
    pub queued: usize,
}

impl EmulatedPath {
    /// Starts to carry packets between the two devices, given in the order of [`Host::ALL`].
    /// `seed` decides the random losses.
    pub(crate) fn start(
        name: &str,
        spec: PathSpec,
        devices: [OwnedFd; 2],
        clock: Clock,
        seed: u64,
    ) -> Result<Self, LabError> {
        let (wake, woken) = UnixStream::pair().map_err(LabError::io("socketpair"))?;
        woken.set_nonblocking(true).map_err(LabError::io("socketpair"))?;
        let directions =
            [Direction::new(spec.towards_left, seed), Direction::new(spec.towards_right, !seed)];
        let shared = Shared { directions, recorder: None, failure: None };
        let shared = Arc::new(Mutex::new(shared));
        let carrier = Carrier {
            shared: Arc::clone(&shared),
            devices: devices.map(File::from),
            clock,
            woken,
            pool: Pool::default(),
        };
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("lab-path-{name}"))
            .spawn(move || carrier.run(&tell))
            .map_err(LabError::io("starting a thread"))?;
        // Whoever asks right afterwards is to be told what is true.
        let realtime = told.recv().unwrap_or(false);
        Ok(Self { shared, clock, realtime, wake: Some(wake), thread: Some(thread) })
    }

    /// Changes the direction towards `host` now.
    pub(crate) fn change(&self, host: Host, change: impl FnOnce(&mut LinkConfig)) {
        let mut shared = lock(&self.shared);
        let link = &mut shared.directions[host.index()].link;
        let mut config = link.config().clone();
        change(&mut config);
        link.set_config(self.clock.now(), config);
        drop(shared);
        self.wake();
    }

    pub(crate) fn state(&self, towards: Host) -> DirectionState {
        let shared = lock(&self.shared);
        let Direction { link, undeliverable, .. } = &shared.directions[towards.index()];
        DirectionState {
            config: link.config().clone(),
            counters: link.counters().clone(),
            undeliverable: *undeliverable,
            queued: link.queue_len(),
        }
    }

    /// Bytes delivered to `host` in the buckets `from..to`.
    pub(crate) fn delivered(&self, host: Host, from: u64, to: u64) -> Vec<u64> {
        lock(&self.shared).directions[host.index()].delivered.range(from, to)
    }

    /// Whether the thread runs with real-time priority.
    pub(crate) const fn realtime(&self) -> bool {
        self.realtime
    }

    /// Why the path has stopped to carry packets, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.shared).failure.clone()
    }

    /// Records every packet with `recorder`, or no longer.
    pub(crate) fn set_recorder(&self, recorder: Option<Recorder>) {
        lock(&self.shared).recorder = recorder;
    }

    fn wake(&self) {
        if let Some(mut wake) = self.wake.as_ref() {
            // A full buffer will wake the thread as well.
            let _ = wake.write(&[0]);
        }
    }
}

impl Drop for EmulatedPath {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Direction {
    /// The shortest time between two deliveries to a host. Network cards hold interrupts back for as long. If each packet
    /// of a fast path woke this thread and the program that waits for it, two processors could not carry two paths
    /// of 400 Mbit/s. When a packet leaves the bottleneck does not depend on it.
    const MODERATION: Duration = Duration::from_micros(50);

    fn new(config: LinkConfig, seed: u64) -> Self {
        let (rests_until, delivered) = (Instant::ZERO, Series::default());
        Self { link: Link::new(config, seed), rests_until, delivered, undeliverable: 0 }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.link.next_deadline().map(|at| at.max(self.rests_until))
    }
}

/// The thread's side.
struct Carrier {
    shared: Arc<Mutex<Shared>>,
    devices: [File; 2],
    clock: Clock,
    woken: UnixStream,
    pool: Pool,
}

impl Carrier {
    /// Packets taken from a device before what is due is delivered again.
    const BATCH: usize = 64;

    fn run(mut self, tell: &Sender<bool>) {
        let _ = tell.send(wait::be_punctual());
        if let Err(error) = self.carry() {
            lock(&self.shared).failure = Some(error.to_string());
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        let mut readable = [true; 2];
        loop {
            let next = self.step(readable)?;
            let [left, right] = &self.devices;
            let timeout = next.map(|at| at.since(self.clock.now()));
            let fds = [left.as_fd(), right.as_fd(), self.woken.as_fd()];
            let [left, right, woken] = wait::readable(fds, timeout)?;
            if woken && self.told_to_end() {
                return Ok(());
            }
            readable = [left, right];
        }
    }

    /// Takes in what the hosts have sent, delivers what is due; returns when to deliver next.
    fn step(&mut self, readable: [bool; 2]) -> io::Result<Option<Instant>> {
        let mut guard = lock(&self.shared);
        let Shared { directions, recorder, .. } = &mut *guard;
        for from in Host::ALL {
            if readable[from.index()] {
                let link = &mut directions[from.peer().index()].link;
                let device = &self.devices[from.index()];
                take_in(device, link, &mut self.pool, self.clock, recorder.as_ref())?;
            }
        }
        for to in Host::ALL {
            let device = &self.devices[to.index()];
            directions[to.index()].deliver(self.clock.now(), device, &mut self.pool);
        }
        Ok(directions.iter().filter_map(Direction::next_deadline).min())
    }

    /// Empties the wake-up socket; true at its end.
    fn told_to_end(&mut self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match io::Read::read(&mut self.woken, &mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }
}

fn take_in(
    device: &File,
    link: &mut Link<IpPacket>,
    pool: &mut Pool,
    clock: Clock,
    recorder: Option<&Recorder>,
) -> io::Result<()> {
    for _ in 0..Carrier::BATCH {
        let Some(packet) = pool.read(device)? else { return Ok(()) };
        let now = clock.now();
        match recorder {
            None => drop(link.enqueue(now, packet)),
            Some(recorder) => {
                let copy = packet.clone();
                let fate = link.enqueue(now, packet);
                recorder.record(now, copy.bytes(), fate.err());
                pool.give_back(copy);
            }
        }
    }
    Ok(())
}

impl Direction {
    /// Hands the host what is due by `now`, unless it has just had something.
    fn deliver(&mut self, now: Instant, mut device: &File, pool: &mut Pool) {
        if now < self.rests_until {
            return;
        }
        while let Some(packet) = self.link.poll(now) {
            self.rests_until = now + Self::MODERATION;
            match device.write(packet.bytes()) {
                Ok(len) => self.delivered.add(now, len),
                // The host has taken its device down, or has no memory: lost, as on a real host.
                Err(_) => self.undeliverable += 1,
            }
            pool.give_back(packet);
        }
    }
}

/// A poisoned lock means that a path's thread panicked; its counters are still good to read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
