//! Names of hosts, resolved by threads beside the loop: a name server may take long to answer.
//!
//! A thread does one name after the other, so there are several. Their queues are bounded: peers may ask for names.

use crate::jobs::{Jobs, Offered, Queue, queue};
use mio::Waker;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads, begun with the first name.
const THREADS: usize = 8;
/// Names that wait for one thread.
const MAX_WAITING: usize = 32;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A connection that a peer wants beyond this host, by its number.
    Onward(u64),
    /// A client of a door, by its number.
    Door(u64),
    /// Whoever looks for this relay.
    Relay(&'static str),
}

/// What was found: no address if there is no such name.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) asker: Asker,
    pub(crate) addresses: Vec<IpAddr>,
}

#[derive(Debug)]
struct Question {
    asker: Asker,
    name: String,
}

/// Where names are asked for.
#[derive(Debug)]
pub(crate) struct Names {
    waker: Arc<Waker>,
    queues: Vec<Queue<Question>>,
    next: usize,
    found: Arc<Mutex<Vec<Found>>>,
}

impl Names {
    /// `waker` tells the loop that something was found.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { waker, queues: Vec::new(), next: 0, found: Arc::default() }
    }

    /// Asks for the addresses of a name. False if too many are asked for.
    pub(crate) fn ask(&mut self, asker: Asker, name: &str) -> bool {
        if self.queues.is_empty() {
            self.queues = (0..THREADS).filter_map(|_| self.begin_thread()).collect();
        }
        for _ in 0..self.queues.len() {
            self.next = (self.next + 1) % self.queues.len();
            let question = Question { asker, name: name.to_owned() };
            if self.queues.get(self.next).map(|queue| queue.offer(question)) == Some(Offered::Taken)
            {
                return true;
            }
        }
        false
    }

    /// What has been found since the last call.
    pub(crate) fn take(&self) -> Vec<Found> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin_thread(&self) -> Option<Queue<Question>> {
        let (queue, jobs) = queue(MAX_WAITING);
        let (found, waker) = (Arc::clone(&self.found), Arc::clone(&self.waker));
        let thread = std::thread::Builder::new().name("names".to_owned());
        thread.spawn(move || resolve(jobs, &found, &waker)).ok()?;
        Some(queue)
    }
}

fn resolve(jobs: Jobs<Question>, found: &Mutex<Vec<Found>>, waker: &Waker) {
    for Question { asker, name } in jobs {
        let addresses = (name.as_str(), 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let addresses = addresses.unwrap_or_default();
        let mut known: Vec<IpAddr> = Vec::new();
        for address in addresses.iter().map(|one| one.ip().to_canonical()) {
            if !known.contains(&address) {
                known.push(address);
            }
        }
        let one = Found { asker, addresses: known };
        found.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        // A loop that has ended needs no waking.
        let _ = waker.wake();
    }
}
