//! Clients that the door leads here, before and after their connections are accepted.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Connections that are over and are remembered for a while, because the program may still ask for
/// their peers.
const REMEMBERED: usize = 1024;

/// The two ends of a connection that the door makes.
type Ends = (SocketAddr, SocketAddr);

/// Connections in accept queues.
#[derive(Debug, Default)]
pub(super) struct Arrivals(BTreeMap<Ends, SocketAddr>);

impl Arrivals {
    pub(super) fn add(&mut self, from: SocketAddr, to: SocketAddr, client: SocketAddr) {
        self.0.insert((from, to), client);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// For whom the connection stands; told once.
    pub(super) fn remove(&mut self, from: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        self.0.remove(&(from, to))
    }
}

/// Accepted connections, by the socket's cookie.
#[derive(Debug, Default)]
pub(super) struct Served {
    by_cookie: BTreeMap<u64, Entry>,
    by_ends: BTreeMap<Ends, u64>,
    over: VecDeque<u64>,
}

#[derive(Debug)]
struct Entry {
    ends: Ends,
    client: SocketAddr,
    v6_socket: bool,
}

impl Served {
    pub(super) fn add(&mut self, cookie: u64, ends: Ends, client: SocketAddr, v6_socket: bool) {
        self.by_ends.insert(ends, cookie);
        self.by_cookie.insert(cookie, Entry { ends, client, v6_socket });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_cookie.is_empty()
    }

    pub(super) fn peer_of(&self, cookie: u64) -> Option<(SocketAddr, bool)> {
        self.by_cookie.get(&cookie).map(|entry| (entry.client, entry.v6_socket))
    }

    /// The ends of a connection that is not over.
    pub(super) fn ends_of(&self, cookie: u64) -> Option<Ends> {
        let ends = self.by_cookie.get(&cookie)?.ends;
        (self.by_ends.get(&ends) == Some(&cookie)).then_some(ends)
    }

    /// The connection is over; its name is kept for a while.
    pub(super) fn end(&mut self, from: SocketAddr, to: SocketAddr) {
        let Some(cookie) = self.by_ends.remove(&(from, to)) else { return };
        self.over.push_back(cookie);
        if self.over.len() > REMEMBERED
            && let Some(oldest) = self.over.pop_front()
        {
            self.by_cookie.remove(&oldest);
        }
    }

    /// The door is gone, and with it all connections.
    pub(super) fn end_all(&mut self) {
        let ends: Vec<Ends> = self.by_ends.keys().copied().collect();
        for (from, to) in ends {
            self.end(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> Ends {
        (SocketAddr::from(([10, 0, 0, 2], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    #[test]
    fn names_of_ended_connections_are_kept_for_a_while() {
        let client = SocketAddr::from(([10, 0, 0, 1], 5000));
        let mut served = Served::default();
        for n in 0..REMEMBERED as u16 + 2 {
            let (from, to) = ends(1000 + n);
            served.add(n.into(), (from, to), client, false);
            assert_eq!(served.ends_of(n.into()), Some((from, to)));
            served.end(from, to);
            assert_eq!(served.ends_of(n.into()), None);
        }
        assert_eq!(served.peer_of(0), None);
        assert_eq!(served.peer_of(1), None);
        assert_eq!(served.peer_of(2), Some((client, false)));
        assert_eq!(served.by_cookie.len(), REMEMBERED);
    }

    #[test]
    fn an_arrival_is_told_once() {
        let client = SocketAddr::from(([10, 0, 0, 1], 5000));
        let mut arrivals = Arrivals::default();
        let (from, to) = ends(1000);
        arrivals.add(from, to, client);
        assert_eq!(arrivals.remove(to, from), None);
        assert_eq!(arrivals.remove(from, to), Some(client));
        assert_eq!(arrivals.remove(from, to), None);
    }
}
