//! What a stack has carried for the programs of one launcher.

use crate::status::FallbackReason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Paths and destinations that are told apart, so that an answer fits a packet.
const MAX_NAMES: usize = 64;

/// What a stack has carried for the programs of one launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Connections over SCTP.
    pub connections: u64,
    /// Those among them that are still open: their bytes so far are counted.
    pub open: u64,
    /// Bytes that programs have sent over SCTP.
    pub sent_bytes: u64,
    /// Bytes that programs have received over SCTP.
    pub received_bytes: u64,
    /// Bytes of both directions by path: the name of its interface, and the peer's address where several paths share
    /// the interface. A connection's bytes are split as the packets with data of its association were, while it was
    /// open.
    pub path_bytes: BTreeMap<String, u64>,
    /// Connections that the stack relays as plain TCP.
    pub relayed: Vec<Relayed>,
}

/// Connections that a stack relays as plain TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    /// Where they go.
    pub destination: SocketAddr,
    /// Why not over SCTP.
    pub reason: Option<FallbackReason>,
    /// How many.
    pub connections: u64,
}

impl Traffic {
    /// Counts bytes of a path.
    pub fn add_path(&mut self, name: String, bytes: u64) {
        if self.path_bytes.len() < MAX_NAMES || self.path_bytes.contains_key(&name) {
            *self.path_bytes.entry(name).or_default() += bytes;
        }
    }

    /// Counts relayed connections.
    pub fn add_relayed(&mut self, relayed: Relayed) {
        let is_same = |one: &&mut Relayed| {
            (one.destination, one.reason) == (relayed.destination, relayed.reason)
        };
        let has_room = self.relayed.len() < MAX_NAMES;
        match self.relayed.iter_mut().find(is_same) {
            Some(known) => known.connections += relayed.connections,
            None if has_room => self.relayed.push(relayed),
            None => {}
        }
    }

    /// Adds what another stack has carried.
    pub fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.open += other.open;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        other.path_bytes.into_iter().for_each(|(name, bytes)| self.add_path(name, bytes));
        other.relayed.into_iter().for_each(|one| self.add_relayed(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_stacks_have_carried_adds_up_and_names_are_bounded() {
        let destination = SocketAddr::from(([10, 0, 0, 2], 80));
        let relayed = Relayed { destination, reason: None, connections: 2 };
        let mut one = Traffic { connections: 1, sent_bytes: 5, ..Traffic::default() };
        one.add_path("wlan0".into(), 5);
        one.add_relayed(relayed.clone());
        let mut sum = one.clone();
        sum.add(one);
        assert_eq!((sum.connections, sum.sent_bytes, sum.path_bytes["wlan0"]), (2, 10, 10));
        assert_eq!(sum.relayed, [Relayed { connections: 4, ..relayed }]);
        (0..100).for_each(|n| sum.add_path(n.to_string(), 1));
        assert_eq!(sum.path_bytes.len(), MAX_NAMES);
    }
}
