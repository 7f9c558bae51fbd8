//! Names of hosts, resolved by threads beside the loop: a name server may take long to answer, and a peer may choose
//! a slow one on purpose.
//!
//! A thread does one name after the other, so there are several. A party gets another one only while more are free than
//! it has: its slow names never take the last free threads from others, nor fill the queue.

use crate::jobs::{Offered, Queue, worker};
use manypath_keys::PublicKey;
use manypath_rules::Network;
use mio::Waker;
use std::collections::VecDeque;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads, begun with the first name.
const THREADS: usize = 8;
/// Names that wait for a thread.
const MAX_WAITING: usize = 256;
/// Those of one party. This host itself asks for few, and each of them once.
const MAX_WAITING_OF_PARTY: usize = 32;

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

/// On whose behalf a name is resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Party {
    /// This host itself.
    Own,
    /// Clients of doors, at this address.
    Clients(IpAddr),
    /// The peer with this key.
    Peer(PublicKey),
}

impl Party {
    /// Clients of doors at `host`. One host may have all addresses of an IPv6 /64.
    pub(crate) fn clients(host: IpAddr) -> Self {
        Self::Clients(Network::around(host.to_canonical(), 64).address())
    }
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

    /// Asks for the addresses of a name, once for each asker that waits. False if too many are asked for.
    pub(crate) fn ask(&mut self, asker: Asker, party: Party, name: &str) -> bool {
        if self.waiting.iter().any(|question| question.asker == asker) {
            return true;
        }
        if self.threads.is_empty() {
            self.threads = (0..THREADS).map_while(|number| self.begin_thread(number)).collect();
        }
        let of_party = self.waiting.iter().filter(|question| question.party == party).count();
        let is_full = of_party >= MAX_WAITING_OF_PARTY || self.waiting.len() >= MAX_WAITING;
        if self.threads.is_empty() || (party != Party::Own && is_full) {
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
        let having = |threads: &[Thread], party: Option<Party>| {
            threads.iter().filter(|thread| thread.busy == party).count()
        };
        while let Some(free) = self.threads.iter().position(|thread| thread.busy.is_none()) {
            let free_threads = having(&self.threads, None);
            let next = self
                .waiting
                .iter()
                .position(|question| having(&self.threads, Some(question.party)) < free_threads);
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
    use super::{Asker, MAX_WAITING_OF_PARTY, Names, Party, THREADS};
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
        let [slow, fast] = [1, 2].map(|host| Party::clients(Ipv4Addr::new(10, 0, 0, host).into()));
        for id in 0..20 {
            assert!(names.ask(Asker::Door(id), slow, "slow"));
        }
        for id in 100..140 {
            assert!(names.ask(Asker::Door(id), fast, "fast"));
            assert_eq!(next(&mut names), [Asker::Door(id)]);
        }
        ANSWERS.store(true, Ordering::Relaxed);
        let mut rest = Vec::new();
        while rest.len() < 20 {
            rest.extend(next(&mut names));
        }
        rest.sort_by_key(|asker| format!("{asker:?}"));
        rest.dedup();
        assert_eq!(rest.len(), 20, "each is resolved once");
        ANSWERS.store(false, Ordering::Relaxed);
        let taken = (0..1000).filter(|id| names.ask(Asker::Door(*id), slow, "slow")).count();
        assert_eq!(taken, THREADS / 2 + MAX_WAITING_OF_PARTY);
        assert!(names.ask(Asker::Door(taken as u64 - 1), slow, "slow"), "it waits already");
        assert!(names.ask(Asker::Door(2000), fast, "fast"));
        assert_eq!(next(&mut names), [Asker::Door(2000)]);
        let own = (0..100).filter(|id| names.ask(Asker::Onward(*id), Party::Own, "fast")).count();
        assert_eq!(own, 100, "this host asks for all it needs");
        ANSWERS.store(true, Ordering::Relaxed);
    }

    #[test]
    fn several_parties_leave_a_thread_to_others() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let busy = |name: &str| {
            if name == "busy" {
                loop {
                    std::thread::park();
                }
            }
            vec![ADDRESS]
        };
        let mut names = Names { resolve: busy, ..Names::new(waker) };
        for id in 0..16 {
            let host = Ipv4Addr::new(10, 0, 0, 1 + (id / 8) as u8);
            assert!(names.ask(Asker::Door(id), Party::clients(host.into()), "busy"));
        }
        let third = Party::clients(Ipv4Addr::new(10, 0, 0, 3).into());
        assert!(names.ask(Asker::Door(100), third, "fast"));
        assert_eq!(next(&mut names), [Asker::Door(100)]);
    }

    #[test]
    fn a_host_is_one_party_by_whichever_address_of_its_network() {
        let party = |host: &str| Party::clients(host.parse().unwrap());
        assert_eq!(party("2001:db8::1"), party("2001:db8::2:0:0:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_ne!(party("::ffff:10.0.0.1"), party("::ffff:10.0.0.2"));
        assert_eq!(party("::ffff:10.0.0.1"), party("10.0.0.1"));
    }
}
