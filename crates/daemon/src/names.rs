//! Names of hosts, resolved by threads beside the loop: a name server may take long to answer, and those who ask for
//! names can see to that.
//!
//! A thread does one name after the other, so there are several, and a party has half of them at most: names that take
//! long do not hold up those of others.

use crate::jobs::{Offered, Queue, worker};
use manypath_keys::PublicKey;
use mio::Waker;
use std::collections::VecDeque;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads, begun with the first name.
const THREADS: usize = 8;
/// Those that one party may have at a time.
const MAX_OF_PARTY: usize = THREADS / 2;
/// Names that wait for a thread.
const MAX_WAITING: usize = 256;

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

/// For whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Party {
    /// This host itself.
    Own,
    /// The clients of doors at this host.
    Clients(IpAddr),
    /// The peer with this key.
    Peer(PublicKey),
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
    party: Party,
    name: String,
}

#[derive(Debug)]
struct Thread {
    queue: Queue<Question>,
    /// Whose name it resolves.
    busy: Option<Party>,
}

/// Where names are asked for.
#[derive(Debug)]
pub(crate) struct Names {
    waker: Arc<Waker>,
    threads: Vec<Thread>,
    waiting: VecDeque<Question>,
    /// By the numbers of threads.
    found: Arc<Mutex<Vec<(usize, Found)>>>,
    resolve: fn(&str) -> Vec<IpAddr>,
}

impl Names {
    /// `waker` tells the loop that something was found.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        let (threads, waiting, found) = Default::default();
        Self { waker, threads, waiting, found, resolve }
    }

    /// Asks for the addresses of a name. False if too many are asked for.
    pub(crate) fn ask(&mut self, asker: Asker, party: Party, name: &str) -> bool {
        if self.threads.is_empty() {
            self.threads = (0..THREADS).map_while(|number| self.begin_thread(number)).collect();
        }
        if self.threads.is_empty() || self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back(Question { asker, party, name: name.to_owned() });
        self.hand_out();
        true
    }

    /// What has been found since the last call.
    pub(crate) fn take(&mut self) -> Vec<Found> {
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, _) in &found {
            self.threads[*number].busy = None;
        }
        self.hand_out();
        found.into_iter().map(|(_, found)| found).collect()
    }

    /// Gives threads that are free the names that have waited longest of those whose parties may have one more.
    fn hand_out(&mut self) {
        while let Some(free) = self.threads.iter().position(|thread| thread.busy.is_none()) {
            let next = self.waiting.iter().position(|question| {
                let of_party = |thread: &&Thread| thread.busy == Some(question.party);
                self.threads.iter().filter(of_party).count() < MAX_OF_PARTY
            });
            let Some(question) = next.and_then(|next| self.waiting.remove(next)) else { return };
            let thread = &mut self.threads[free];
            thread.busy = Some(question.party);
            let offered = thread.queue.offer(question);
            debug_assert_eq!(offered, Offered::Taken, "it waits for names");
        }
    }

    fn begin_thread(&self, number: usize) -> Option<Thread> {
        let (found, waker, resolve) =
            (Arc::clone(&self.found), Arc::clone(&self.waker), self.resolve);
        let work = move |Question { asker, name, .. }| {
            let answer = Found { asker, addresses: resolve(&name) };
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
            // A loop that has ended needs no waking.
            let _ = waker.wake();
        };
        worker("names", 1, work).ok().map(|queue| Thread { queue, busy: None })
    }
}

fn resolve(name: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for one in (name, 0).to_socket_addrs().into_iter().flatten() {
        let address = one.ip().to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::{Asker, MAX_WAITING, Names, Party};
    use mio::{Poll, Token, Waker};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// Whether the name server of those who ask for `slow` answers.
    static ANSWERS: AtomicBool = AtomicBool::new(false);

    fn resolve(name: &str) -> Vec<IpAddr> {
        while name == "slow" && !ANSWERS.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        vec![ADDRESS]
    }

    /// The next askers whose names are resolved, as soon as there are any.
    fn next(names: &mut Names) -> Vec<Asker> {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let found = names.take();
            if !found.is_empty() {
                assert!(found.iter().all(|found| found.addresses == [ADDRESS]));
                return found.into_iter().map(|found| found.asker).collect();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no name is resolved");
    }

    #[test]
    fn names_that_take_long_do_not_hold_up_those_of_others() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut names = Names { resolve, ..Names::new(waker) };
        let [slow, fast] = [1, 2].map(|host| Party::Clients(Ipv4Addr::new(10, 0, 0, host).into()));
        for id in 0..40 {
            assert!(names.ask(Asker::Door(id), slow, "slow"));
        }
        for id in 100..140 {
            assert!(names.ask(Asker::Door(id), fast, "fast"));
            assert_eq!(next(&mut names), [Asker::Door(id)]);
        }
        ANSWERS.store(true, Ordering::Relaxed);
        let mut rest = Vec::new();
        while rest.len() < 40 {
            rest.extend(next(&mut names));
        }
        rest.sort_by_key(|asker| format!("{asker:?}"));
        rest.dedup();
        assert_eq!(rest.len(), 40, "each is resolved once");
        let taken = (0..1000).filter(|id| names.ask(Asker::Door(*id), slow, "slow")).count();
        assert!((MAX_WAITING..1000).contains(&taken), "{taken}");
    }
}
