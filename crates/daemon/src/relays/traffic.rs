//! What was carried for the programs of each launcher, for its report.

use super::Relays;
use crate::base::Base;
use crate::ids::RelayId;
use crate::relays::connection::{Carrier, Ends, Load};
use manypath_control::{Relayed, Traffic};

/// Bytes of all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) from_tcp: u64,
    pub(crate) to_tcp: u64,
}

impl Totals {
    /// A connection has ended after so many bytes sent and received by its TCP end.
    pub(crate) fn add(&mut self, (sent, received): (u64, u64)) {
        self.from_tcp += sent;
        self.to_tcp += received;
    }
}

/// What a connection has moved so far.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) ends: Ends,
    pub(crate) carrier: Carrier,
    pub(crate) sent: u64,
    pub(crate) got: u64,
    /// What each path has carried meanwhile.
    pub(crate) paths: Vec<Load>,
}

impl Moved {
    pub(crate) fn add_to(&self, traffic: &mut Traffic) {
        match (self.carrier, self.ends) {
            (Carrier::Sctp(_), _) => {
                traffic.connections += 1;
                traffic.sent_bytes += self.sent;
                traffic.received_bytes += self.got;
                for (name, bytes) in split(self.sent + self.got, &self.paths) {
                    traffic.add_path(name, bytes);
                }
            }
            (Carrier::Tcp(reason), Ends::To(destination)) => {
                traffic.add_relayed(Relayed { destination, reason, connections: 1 });
            }
            (Carrier::Tcp(_), Ends::From(..)) => {}
        }
    }
}

impl Relays {
    /// What an open connection has moved.
    pub(crate) fn moved(&self, base: &Base, id: RelayId) -> Option<Moved> {
        let connection = self.connections.get(&id)?;
        let (sent, got) = self.bytes_of(id)?;
        let (ends, carrier) = (connection.ends, connection.carrier);
        Some(Moved {
            ends,
            carrier,
            sent,
            got,
            paths: super::connection::carried(&base.core, connection),
        })
    }
}

/// The bytes of a connection, split as its paths have carried data.
fn split(bytes: u64, paths: &[Load]) -> Vec<(String, u64)> {
    let sum = u128::from(paths.iter().map(|path| path.bytes).sum::<u64>());
    let mut left = bytes;
    let mut pieces = Vec::new();
    for (index, path) in paths.iter().enumerate().rev() {
        let share = u128::from(bytes) * u128::from(path.bytes) / sum.max(1);
        // The busiest path comes first, and gets what rounding has left.
        let piece = if index == 0 { left } else { u64::try_from(share).unwrap_or(left) };
        left -= piece;
        pieces.push((name(path, paths), piece));
    }
    pieces
}

/// The interface, and the peer's address where other paths of the same family share the interface.
fn name(path: &Load, paths: &[Load]) -> String {
    let Load { remote, interface, .. } = path;
    let is_other = |one: &&Load| one.interface == *interface && one.remote != *remote;
    let shared = paths.iter().filter(is_other).any(|one| one.remote.is_ipv4() == remote.is_ipv4());
    if shared { format!("{interface} to {remote}") } else { interface.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn load(interface: &str, remote: u8, bytes: u64) -> Load {
        let [local, remote] = [1, remote].map(|host| IpAddr::from([10, 0, 0, host]));
        Load { local, remote, interface: interface.into(), bytes }
    }

    #[test]
    fn the_pieces_of_a_connection_add_up_to_its_bytes() {
        let pieces = split(100, &[load("wlan0", 2, 20), load("wwan0", 2, 10)]);
        assert_eq!(pieces, [("wwan0".to_owned(), 33), ("wlan0".to_owned(), 67)]);
        assert_eq!(split(100, &[]), []);
    }

    #[test]
    fn paths_of_one_interface_are_told_apart_by_the_peers_address() {
        let paths = [load("eth0", 2, 20), load("eth0", 3, 10), load("eth1", 2, 5)];
        let names: Vec<String> = paths.iter().map(|path| name(path, &paths)).collect();
        assert_eq!(names, ["eth0 to 10.0.0.2", "eth0 to 10.0.0.3", "eth1"]);
    }
}
