//! The line that every connection leaves in the log: what carried it, how much, over which paths,
//! and how it ended.

use super::Relays;
use crate::base::Base;
use crate::core::Core;
use crate::ids::RelayId;
use crate::log;
use crate::relays::traffic::Moved;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant, PathStatus};
use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};
use tracing::info;

/// What there is to tell of a connection before it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: Ends,
    /// The client's name or key, if its association is encrypted.
    who: Option<String>,
    begun: Instant,
    pub(crate) carrier: Carrier,
    /// What the association's paths had carried when it began.
    before: Vec<Load>,
    /// What paths have carried meanwhile whose local address has gone.
    gone: Vec<Load>,
}

/// Bytes with data of a path, in both directions.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) interface: String,
    pub(crate) bytes: u64,
}

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// A program of ours has asked for it.
    To(SocketAddr),
    /// A peer's program has.
    From(SocketAddr, SocketAddr),
}

/// What carries its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    Sctp(AssociationId),
    /// Plain TCP, for that reason.
    Tcp(Option<FallbackReason>),
}

/// How a relay came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelayEnd {
    /// Both directions were ended.
    Finished,
    /// The program, or the service, has reset it.
    ResetHere,
    /// Nobody tells the program any more whom the connection stands for.
    Nameless,
    /// The peer's side has reset it.
    ResetByPeer,
    /// The association ended under it.
    AssociationLost,
    /// The peer was silent for longer than the program wanted to wait (`TCP_USER_TIMEOUT`).
    OutOfPatience,
    /// The stack ended before it.
    StackEnds,
}

impl Connection {
    /// The client whose connection it is, if it is one to a service.
    pub(crate) const fn client(&self) -> Option<SocketAddr> {
        match self.ends {
            Ends::From(client, _) => Some(client),
            Ends::To(_) => None,
        }
    }
}

impl Load {
    /// Whether both are of one pair of addresses.
    fn is_of(&self, other: &Self) -> bool {
        (self.local, self.remote) == (other.local, other.remote)
    }
}

impl RelayEnd {
    pub(crate) const fn counter(self) -> &'static str {
        match self {
            Self::Finished => "relays_finished",
            Self::ResetHere => "relays_reset_by_local_socket",
            Self::Nameless => "relays_reset_without_redirector",
            Self::ResetByPeer => "relays_reset_by_peer",
            Self::AssociationLost => "relays_lost_with_association",
            Self::OutOfPatience => "relays_reset_by_user_timeout",
            Self::StackEnds => "relays_reset_at_the_end",
        }
    }
}

impl fmt::Display for RelayEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "ended",
            Self::ResetHere => "reset by the local program",
            Self::Nameless => "reset because what names clients to the program has ended",
            Self::ResetByPeer => "reset by the peer",
            Self::AssociationLost => "lost with its association",
            Self::OutOfPatience => "reset by the program's user timeout",
            Self::StackEnds => "reset because the stack ends",
        })
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::To(to) => write!(f, "connection to {to}"),
            // A peer does not tell the port of its program.
            Self::From(from, to) if from.port() == 0 => {
                write!(f, "connection from {} to {to}", from.ip())
            }
            Self::From(from, to) => write!(f, "connection from {from} to {to}"),
        }
    }
}

impl Relays {
    /// A connection is being carried from now on.
    pub(crate) fn begin_connection(
        &mut self,
        base: &Base,
        id: RelayId,
        ends: Ends,
        carrier: Carrier,
    ) {
        let before = loads(&base.core, carrier);
        let who = match (ends, carrier) {
            (Ends::From(..), Carrier::Sctp(association)) => base.keys.who(association),
            _ => None,
        };
        let (begun, gone) = (base.core.now, Vec::new());
        let connection = Connection { ends, who, begun, carrier, before, gone };
        self.connections.insert(id, connection);
    }

    /// It has ended after so many bytes sent and received, as seen from the local program.
    pub(super) fn end_connection(
        &mut self,
        base: &Base,
        id: RelayId,
        end: RelayEnd,
        (sent, got): (u64, u64),
    ) -> Option<Moved> {
        self.totals.add((sent, got));
        let connection = self.connections.remove(&id)?;
        let ms = base.core.age(connection.begun);
        let paths = carried(&base.core, &connection);
        let Connection { ends, carrier, who, .. } = connection;
        let by = who.map_or_else(String::new, |who| format!(" by {who}"));
        match carrier {
            Carrier::Sctp(association) => info!(
                target: log::CONNECTION,
                carrier = "sctp", sent_bytes = sent, received_bytes = got, duration_ms = ms,
                "{ends}{by}: {end} after {ms} ms, sent {sent} B, received {got} B over SCTP \
                 (association {}{})", association.0, shares(&paths)
            ),
            Carrier::Tcp(why) => info!(
                target: log::CONNECTION,
                carrier = "tcp", sent_bytes = sent, received_bytes = got, duration_ms = ms,
                "{ends}: {end} after {ms} ms, sent {sent} B, received {got} B over plain TCP ({})",
                why.map_or_else(|| "SCTP could not be used".to_owned(), |why| why.to_string())
            ),
        }
        Some(Moved { ends, carrier, sent, got, paths })
    }

    /// A local address goes, and paths with it: what they have carried is kept.
    pub(crate) fn keep_loads_of(&mut self, base: &Base, local: IpAddr) {
        let mut connections = std::mem::take(&mut self.connections);
        for connection in connections.values_mut() {
            let used = since(&connection.before, &[], loads(&base.core, connection.carrier));
            for load in used.into_iter().filter(|load| load.local == local) {
                match connection.gone.iter_mut().find(|known| known.is_of(&load)) {
                    Some(known) => known.bytes += load.bytes,
                    None => connection.gone.push(load),
                }
            }
            connection.before.retain(|load| load.local != local);
        }
        self.connections = connections;
    }
}

/// What the paths have carried whose local address is there.
fn loads(core: &Core, carrier: Carrier) -> Vec<Load> {
    let Carrier::Sctp(id) = carrier else { return Vec::new() };
    let paths = core.paths_of(id).into_iter();
    let load = |path: PathStatus| {
        let (local, remote) = (path.addr.local.ip(), path.addr.remote.ip());
        let interface = Some(core.locals.interface(local)).filter(|name| !name.is_empty())?;
        Some(Load { local, remote, interface: interface.to_owned(), bytes: path.data_bytes })
    };
    paths.filter_map(load).collect()
}

/// What each path has carried of the association since the connection began, the most first. Nothing when
/// the association is gone, or has carried nothing.
pub(crate) fn carried(core: &Core, connection: &Connection) -> Vec<Load> {
    since(&connection.before, &connection.gone, loads(core, connection.carrier))
}

fn since(before: &[Load], gone: &[Load], now: Vec<Load>) -> Vec<Load> {
    let was = |load: &Load| before.iter().find(|one| one.is_of(load)).map_or(0, |one| one.bytes);
    let now =
        now.into_iter().map(|load| Load { bytes: load.bytes.saturating_sub(was(&load)), ..load });
    let mut used: Vec<Load> =
        now.chain(gone.iter().cloned()).filter(|load| load.bytes > 0).collect();
    used.sort_by_key(|load| std::cmp::Reverse(load.bytes));
    used
}

/// The loads in percent.
fn shares(loads: &[Load]) -> String {
    let sum: u64 = loads.iter().map(|load| load.bytes).sum();
    let mut text = String::new();
    for Load { local, remote, bytes, .. } in loads {
        let percent = (*bytes as f64 * 100.0 / sum as f64).round();
        // Writing to a string cannot fail.
        let _ = write!(text, ", {local}>{remote} {percent} %");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(path: u8, bytes: u64) -> Load {
        let [local, remote] = [1, 2].map(|host| IpAddr::from([10, 0, path, host]));
        Load { local, remote, interface: format!("eth{path}"), bytes }
    }

    #[test]
    fn shares_count_from_the_begin_of_the_connection_and_name_the_busiest_path_first() {
        let used = since(&[load(1, 900)], &[], vec![load(1, 1000), load(2, 300), load(3, 0)]);
        assert_eq!(shares(&used), ", 10.0.2.1>10.0.2.2 75 %, 10.0.1.1>10.0.1.2 25 %");
    }

    #[test]
    fn an_association_that_is_gone_tells_nothing_of_paths() {
        assert_eq!(shares(&since(&[load(1, 900)], &[], Vec::new())), "");
        assert_eq!(shares(&since(&[load(1, 900)], &[], vec![load(1, 900)])), "");
    }

    #[test]
    fn what_a_path_has_carried_before_its_address_went_still_counts() {
        let used = since(&[], &[load(1, 300)], vec![load(2, 100)]);
        assert_eq!(shares(&used), ", 10.0.1.1>10.0.1.2 75 %, 10.0.2.1>10.0.2.2 25 %");
    }
}
