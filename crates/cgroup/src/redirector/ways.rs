//! What programs are told of their connections' ways: written before a connection is there, because no call can
//! wait, and renewed from then on.
//!
//! What has not been asked for is renewed after one second, then after twice as long, and so on: what the first
//! question hears is a second old at most, or about half as old as the connection. A question has its own connection
//! renewed at once unless that was just done, and then the same way from a quarter of a second on.

use super::Redirector;
use crate::layout::WayKey;
use manypath_control::{Request, Way};
use manypath_gate::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The first pause of a connection that nobody has asked about.
const UNASKED: Duration = Duration::from_secs(1);
/// The first pause after a question.
const ASKED: Duration = Duration::from_millis(250);
/// What is not older than this needs not be renewed at once for who asks.
const YOUNG: Duration = Duration::from_millis(100);
/// Most answers that are awaited at a time: what it costs the stack is bounded by this.
const MOST_AWAITED: usize = 64;

/// How a stack knows a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// By the identity of its open: a program has connected.
    Opened(u64),
    /// By its two ends: it was led to a listening socket.
    Led(SocketAddr, SocketAddr),
}

#[derive(Debug, Clone, Copy)]
struct Renewal {
    whose: Whose,
    /// When it was told last.
    told: Instant,
    due: Instant,
    /// What follows once it is due.
    pause: Duration,
}

/// When the way of each connection is to be asked for again.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<WayKey, Renewal>,
    due: BTreeSet<(Instant, WayKey)>,
    awaited: BTreeSet<WayKey>,
}

impl Ways {
    /// The way of a connection was told: unasked if it is the first time.
    fn on_told(&mut self, key: WayKey, whose: Whose, now: Instant) {
        self.awaited.remove(&key);
        match self.known.get_mut(&key).filter(|known| known.whose == whose) {
            Some(known) => known.told = now,
            None => {
                let (due, pause) = (now + UNASKED, 2 * UNASKED);
                self.set(key, Renewal { whose, told: now, due, pause });
            }
        }
    }

    /// A program has asked.
    fn on_asked(&mut self, key: WayKey, now: Instant) {
        if let Some(Renewal { whose, told, .. }) = self.known.get(&key).copied() {
            let due = now.max(told + YOUNG);
            self.set(key, Renewal { whose, told, due, pause: ASKED });
        }
    }

    /// Whether it was known: a socket that has connected anew meanwhile is another connection.
    fn forget(&mut self, key: WayKey, whose: Whose) -> bool {
        let Some(due) = self.known.get(&key).filter(|one| one.whose == whose).map(|one| one.due)
        else {
            return false;
        };
        self.known.remove(&key);
        self.awaited.remove(&key);
        self.due.remove(&(due, key))
    }

    fn set(&mut self, key: WayKey, renewal: Renewal) {
        let due = renewal.due;
        if let Some(before) = self.known.insert(key, renewal) {
            self.due.remove(&(before.due, key));
        }
        self.due.insert((due, key));
    }

    /// When something is due, unless so much is awaited that it must wait for answers.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let first = self.due.first().map(|(due, _)| *due);
        first.filter(|_| self.awaited.len() < MOST_AWAITED)
    }

    /// The next to be asked about; its answer is awaited from now on.
    fn take_due(&mut self, now: Instant) -> Option<Whose> {
        if self.deadline().is_none_or(|due| due > now) {
            return None;
        }
        let (_, key) = self.due.first().copied()?;
        let Renewal { whose, told, pause, .. } = *self.known.get(&key)?;
        self.set(key, Renewal { whose, told, due: now + pause, pause: 2 * pause });
        self.awaited.insert(key);
        Some(whose)
    }
}

impl Redirector {
    /// The stack has told of the way of a program's connect, asked or unasked.
    pub(super) fn on_way(&mut self, id: u64, way: Option<Way>) {
        if let Some(connection) = self.connections.get(id) {
            self.tell_way(WayKey::of_socket(connection.of.cookie), Whose::Opened(id), way);
        }
    }

    /// The door has told of the way of a connection that it leads to a listening socket.
    pub(super) fn on_way_from(&mut self, from: SocketAddr, to: SocketAddr, way: Option<Way>) {
        self.tell_way(WayKey::of_ends(from, to), Whose::Led(from, to), way);
    }

    fn tell_way(&mut self, key: WayKey, whose: Whose, way: Option<Way>) {
        match way {
            Some(way) => {
                // Where the map is full the kernel answers.
                self.tables.set_way(key, &Told::from(&way));
                self.ways.on_told(key, whose, Instant::now());
            }
            None => self.forget_way(key, whose),
        }
    }

    pub(super) fn on_asked(&mut self, key: WayKey) {
        self.ways.on_asked(key, Instant::now());
    }

    /// There is no way any more: the kernel answers from now on.
    pub(super) fn forget_way(&mut self, key: WayKey, whose: Whose) {
        if self.ways.forget(key, whose) {
            self.tables.remove_way(key);
        }
    }

    pub(super) fn renew_ways(&mut self, now: Instant) {
        while let Some(whose) = self.ways.take_due(now) {
            match whose {
                Whose::Opened(id) => self.stack.send(Request::Way { id }, None),
                Whose::Led(from, to) => self.servers.ask_door(Request::WayFrom { from, to }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Answers at once whatever is asked, until `end`; when it was asked, in milliseconds from `begin`.
    fn run(ways: &mut Ways, begin: Instant, end: Duration) -> Vec<u128> {
        let mut times = Vec::new();
        while let Some(due) = ways.deadline().filter(|due| *due <= begin + end) {
            while let Some(whose) = ways.take_due(due) {
                ways.on_told(WayKey::of_socket(1), whose, due);
                times.push((due - begin).as_millis());
            }
        }
        times
    }

    #[test]
    fn pauses_double_and_begin_anew_with_a_question() {
        let (begin, key) = (Instant::now(), WayKey::of_socket(1));
        let mut ways = Ways::default();
        ways.on_told(key, Whose::Opened(7), begin);
        assert_eq!(run(&mut ways, begin, second(10)), [1000, 3000, 7000]);
        ways.on_asked(key, begin + second(10));
        assert_eq!(run(&mut ways, begin, second(12)), [10_000, 10_250, 10_750, 11_750]);
        ways.on_asked(key, begin + Duration::from_millis(11_790));
        assert_eq!(run(&mut ways, begin, second(12)), [11_850], "it was told just before");
        assert!(!ways.forget(key, Whose::Opened(8)) && ways.forget(key, Whose::Opened(7)));
        assert_eq!((ways.deadline(), ways.due.len(), ways.awaited.len()), (None, 0, 0));
        ways.on_asked(key, begin);
        assert_eq!(ways.deadline(), None, "nobody's way");
    }

    #[test]
    fn a_stack_that_does_not_answer_is_not_asked_on() {
        let begin = Instant::now();
        let mut ways = Ways::default();
        let many = MOST_AWAITED as u64 + 10;
        for id in 0..many {
            ways.on_told(WayKey::of_socket(id), Whose::Opened(id), begin);
        }
        let asked = std::iter::from_fn(|| ways.take_due(begin + second(1))).count();
        assert_eq!((asked, ways.deadline()), (MOST_AWAITED, None));
        assert!(ways.forget(WayKey::of_socket(0), Whose::Opened(0)));
        assert!(ways.deadline().is_some());
        // A socket that has connected anew is another connection.
        ways.on_told(WayKey::of_socket(1), Whose::Opened(many), begin + second(2));
        assert_eq!(ways.known[&WayKey::of_socket(1)].due, begin + second(3));
    }
}
