//! Names of hosts, resolved by threads beside the loop: a name server may take long to answer.
//!
//! A thread does one name after the other, so there are several. Their queues are bounded: peers may ask for names.

use crate::jobs::{Offered, Queue, worker};
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
    /// A destination of datagrams of such a client, by its number.
    DoorDatagrams(u64),
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
        let (found, waker) = (Arc::clone(&self.found), Arc::clone(&self.waker));
        let work = move |question| {
            found.lock().unwrap_or_else(PoisonError::into_inner).push(resolve(question));
            // A loop that has ended needs no waking.
            let _ = waker.wake();
        };
        worker("names", MAX_WAITING, work).ok()
    }
}

fn resolve(Question { asker, name }: Question) -> Found {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for one in (name.as_str(), 0).to_socket_addrs().into_iter().flatten() {
        let address = one.ip().to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Found { asker, addresses }
}
