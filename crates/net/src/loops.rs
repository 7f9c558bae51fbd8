//! Several loops of one process at the same UDP addresses: each has an endpoint, associations and timers of its own, and
//! one socket at each address. The kernel chooses the socket (`steering.rs`).
//!
//! What is shared is here: the sockets of an address, which are opened together because their order names the loops; and
//! for each loop a box in which the others put what is not theirs (`stray.rs`), and whether it is to end.

use crate::listeners::Listeners;
use crate::open::open_group;
use crate::stray::Stray;
use mio::Waker;
use socket2::Socket;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Strays that may wait for a loop.
const MAX_STRAYS: usize = 256;

/// The loops of a process.
#[derive(Debug)]
pub struct Loops {
    groups: Mutex<BTreeMap<Place, Group>>,
    /// Sockets at which all loops accept connections.
    listeners: Listeners,
    boxes: Vec<Inbox>,
    begun: Instant,
}

/// An address, and the interface to which its sockets are bound.
type Place = (SocketAddr, Option<String>);

/// The sockets of an address. They stay open until no loop uses one any more, so that their order does not change.
#[derive(Debug)]
struct Group {
    sockets: Vec<Socket>,
    is_used: Vec<bool>,
    device_error: Option<String>,
}

/// What the other loops have for one.
#[derive(Debug, Default)]
struct Inbox {
    strays: Mutex<VecDeque<Stray>>,
    /// How many strays there are, for a look without the lock.
    count: AtomicUsize,
    /// How often it was told to end, and has not noticed.
    stops: AtomicUsize,
    /// The same of reading rules and settings again.
    reloads: AtomicUsize,
    waker: OnceLock<Arc<Waker>>,
    /// Whether it has ended.
    is_over: AtomicBool,
    /// When it has last said how it is, in milliseconds since the loops began, and its associations and connections then.
    reported: AtomicU64,
    load: [AtomicUsize; 2],
}

/// One loop among others.
#[derive(Clone, Debug)]
pub struct Seat {
    loops: Arc<Loops>,
    index: usize,
}

impl Loops {
    /// Places for `count` loops, the first of which comes first.
    #[must_use]
    pub fn seats(count: usize) -> Vec<Seat> {
        let boxes = (0..count).map(|_| Inbox::default()).collect();
        let (groups, listeners, begun) = (Mutex::default(), Listeners::default(), Instant::now());
        let loops = Arc::new(Self { groups, listeners, boxes, begun });
        (0..count).map(|index| Seat { loops: loops.clone(), index }).collect()
    }

    /// Whether the kernel lets several loops share an address.
    ///
    /// # Errors
    /// Why not.
    pub fn check() -> io::Result<()> {
        open_group((Ipv4Addr::LOCALHOST, 0).into(), None, 2).map(drop)
    }

    fn age(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Inbox {
    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // It fails only where the poll is gone, and with it the loop.
            let _ = waker.wake();
        }
    }
}

impl Seat {
    /// Which loop it is: 0 for the first.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// How many loops there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.loops.boxes.len()
    }

    /// Wakes this loop when another one has something for it; only the first call counts.
    pub fn wake_by(&self, waker: Arc<Waker>) {
        let _ = self.own().waker.set(waker);
    }

    /// Tells all other loops to end.
    pub fn stop_others(&self) {
        self.tell_others(|other| &other.stops);
    }

    /// Tells all other loops to read rules and settings again.
    pub fn reload_others(&self) {
        self.tell_others(|other| &other.reloads);
    }

    fn tell_others(&self, what: impl Fn(&Inbox) -> &AtomicUsize) {
        for other in self.others() {
            what(other).fetch_add(1, Ordering::Relaxed);
            other.wake();
        }
    }

    /// Whether this loop was told to read rules and settings again since the last call.
    #[must_use]
    pub fn take_reload(&self) -> bool {
        self.own().reloads.swap(0, Ordering::Relaxed) > 0
    }

    /// How often this loop was told to end since the last call.
    #[must_use]
    pub fn take_stops(&self) -> usize {
        self.own().stops.swap(0, Ordering::Relaxed)
    }

    /// This loop has ended.
    pub fn leave(&self) {
        self.own().is_over.store(true, Ordering::Relaxed);
    }

    /// Whether every other loop has ended.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.others().all(|other| other.is_over.load(Ordering::Relaxed))
    }

    /// This loop turns, and has so many associations and connections.
    pub fn report(&self, associations: usize, connections: usize) {
        let own = self.own();
        own.load[0].store(associations, Ordering::Relaxed);
        own.load[1].store(connections, Ordering::Relaxed);
        own.reported.store(self.loops.age(), Ordering::Relaxed);
    }

    /// Whether every other loop has ended, or has reported in the last `patience`.
    #[must_use]
    pub fn others_turn(&self, patience: Duration) -> bool {
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let now = self.loops.age();
        let turns = |other: &Inbox| {
            let reported = other.reported.load(Ordering::Relaxed);
            other.is_over.load(Ordering::Relaxed) || now.saturating_sub(reported) <= patience
        };
        self.others().all(turns)
    }

    /// Associations and connections of all loops, as they were reported.
    #[must_use]
    pub fn load(&self) -> [usize; 2] {
        let sum = |at: usize| {
            self.loops.boxes.iter().map(|one| one.load[at].load(Ordering::Relaxed)).sum()
        };
        [sum(0), sum(1)]
    }

    fn others(&self) -> impl Iterator<Item = &Inbox> {
        let boxes = self.loops.boxes.iter().enumerate();
        boxes.filter(|(at, _)| *at != self.index).map(|(_, other)| other)
    }

    fn own(&self) -> &Inbox {
        &self.loops.boxes[self.index]
    }

    /// This loop's socket at an address, and what kept it from being bound to the interface.
    pub(crate) fn open(
        &self,
        addr: SocketAddr,
        device: Option<&str>,
    ) -> io::Result<(Socket, Option<String>)> {
        let mut groups = lock(&self.loops.groups);
        let place = (addr, device.map(str::to_owned));
        if !groups.contains_key(&place) {
            let (sockets, device_error) = open_group(addr, device, self.count())?;
            let is_used = vec![false; sockets.len()];
            groups.insert(place.clone(), Group { sockets, is_used, device_error });
        }
        let group = groups.get_mut(&place).ok_or(io::ErrorKind::NotFound)?;
        let socket = group.sockets[self.index].try_clone()?;
        group.is_used[self.index] = true;
        Ok((socket, group.device_error.clone()))
    }

    /// This loop uses its socket at an address no longer.
    pub(crate) fn close(&self, addr: SocketAddr) {
        lock(&self.loops.groups).retain(|(at, _), group| {
            if *at == addr {
                group.is_used[self.index] = false;
            }
            group.is_used.contains(&true)
        });
    }

    /// The sockets at which all loops accept connections.
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.loops.listeners
    }

    /// Puts a stray into the box of the next loop. False if that is full.
    pub(crate) fn hand_on(&self, stray: Stray) -> bool {
        let next = &self.loops.boxes[(self.index + 1) % self.count()];
        let mut strays = lock(&next.strays);
        if strays.len() >= MAX_STRAYS {
            return false;
        }
        strays.push_back(stray);
        let is_first = strays.len() == 1;
        next.count.store(strays.len(), Ordering::Release);
        drop(strays);
        // It is awake, or about to be, for those before.
        if is_first {
            next.wake();
        }
        true
    }

    /// What others have put into this loop's box.
    pub(crate) fn take_strays(&self) -> VecDeque<Stray> {
        let own = self.own();
        if own.count.load(Ordering::Acquire) == 0 {
            return VecDeque::new();
        }
        let mut strays = lock(&own.strays);
        own.count.store(0, Ordering::Release);
        std::mem::take(&mut strays)
    }
}

/// A loop that has panicked has left nothing half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loop_keeps_its_place_while_another_uses_the_address() {
        let seats = Loops::seats(2);
        let addr: SocketAddr = "127.0.34.8:9736".parse().unwrap();
        let (first, _) = seats[0].open(addr, None).unwrap();
        drop(seats[1].open(addr, None).unwrap());
        let inode = |socket: &Socket| {
            let fd = std::os::fd::AsRawFd::as_raw_fd(socket);
            std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap()
        };
        let before = inode(&first);
        drop(first);
        seats[0].close(addr);
        let (again, _) = seats[0].open(addr, None).unwrap();
        assert_eq!(inode(&again), before, "the other loop has kept the group");
        drop(again);
        seats.iter().for_each(|seat| seat.close(addr));
        assert!(std::net::UdpSocket::bind(addr).is_ok(), "the port is free again");
    }

    #[test]
    fn all_others_hear_of_the_end_once() {
        let seats = Loops::seats(3);
        seats[1].stop_others();
        assert_eq!([0, 1, 2, 2].map(|at: usize| seats[at].take_stops()), [1, 0, 1, 0]);
        seats[1].leave();
        assert!(!seats[0].is_last());
        seats[2].leave();
        assert!(seats[0].is_last());
    }

    #[test]
    fn a_loop_that_does_not_turn_is_noticed() {
        let seats = Loops::seats(3);
        std::thread::sleep(Duration::from_millis(30));
        let patience = Duration::from_millis(20);
        assert!(!seats[0].others_turn(patience));
        seats[1].report(2, 30);
        seats[2].leave();
        seats[0].report(1, 4);
        assert!(seats[0].others_turn(Duration::from_secs(60)));
        assert_eq!(seats[2].load(), [3, 34]);
        std::thread::sleep(Duration::from_millis(30));
        assert!(!seats[0].others_turn(patience), "the second has stopped");
    }
}
