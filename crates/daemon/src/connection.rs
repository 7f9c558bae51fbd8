//! The line that every connection leaves in the log: what carried it, how much, over which paths,
//! and how it ended.

use crate::association::RelayId;
use crate::log;
use crate::stack::Stack;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant, PathStatus};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use tracing::info;

/// What there is to tell of a connection before it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    ends: Ends,
    begun: Instant,
    carrier: Carrier,
    /// Bytes of the association's paths, in both directions, when it began.
    before: Vec<(PathName, u64)>,
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

type PathName = (SocketAddr, SocketAddr);

impl Connection {
    /// The client whose connection it is, if it is one to a service.
    pub(crate) const fn client(&self) -> Option<SocketAddr> {
        match self.ends {
            Ends::From(client, _) => Some(client),
            Ends::To(_) => None,
        }
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

impl Stack {
    /// A connection is being carried from now on.
    pub(crate) fn begin_connection(&mut self, id: RelayId, ends: Ends, carrier: Carrier) {
        let before = self.path_bytes(carrier);
        self.connections.insert(id, Connection { ends, begun: self.now, carrier, before });
    }

    /// It has ended after so many bytes sent and received, as seen from the local program.
    pub(crate) fn end_connection(&mut self, id: RelayId, end: RelayEnd, (sent, got): (u64, u64)) {
        self.totals.add((sent, got));
        let Some(connection) = self.connections.remove(&id) else { return };
        let ms = self.age(connection.begun);
        let paths = shares(&connection.before, &self.path_bytes(connection.carrier));
        let Connection { ends, carrier, .. } = connection;
        match carrier {
            Carrier::Sctp(association) => info!(
                target: log::CONNECTION,
                carrier = "sctp", sent_bytes = sent, received_bytes = got, duration_ms = ms,
                "{ends}: {end} after {ms} ms, sent {sent} B, received {got} B over SCTP \
                 (association {}{paths})", association.0
            ),
            Carrier::Tcp(why) => info!(
                target: log::CONNECTION,
                carrier = "tcp", sent_bytes = sent, received_bytes = got, duration_ms = ms,
                "{ends}: {end} after {ms} ms, sent {sent} B, received {got} B over plain TCP ({})",
                why.map_or_else(|| "SCTP could not be used".to_owned(), |why| why.to_string())
            ),
        }
    }

    fn path_bytes(&self, carrier: Carrier) -> Vec<(PathName, u64)> {
        let Carrier::Sctp(id) = carrier else { return Vec::new() };
        let status = self.driver.endpoint().status(self.now, id);
        let paths = status.into_iter().flat_map(|status| status.paths);
        paths.map(|path| (path_name(&path), path.bytes_sent + path.bytes_received)).collect()
    }
}

const fn path_name(path: &PathStatus) -> PathName {
    (path.addr.local, path.addr.remote)
}

/// What each path has carried of the association meanwhile, in percent, the most first. Nothing
/// when the association is gone, or has carried nothing.
fn shares(before: &[(PathName, u64)], after: &[(PathName, u64)]) -> String {
    let was = |name| before.iter().find(|(one, _)| *one == name).map_or(0, |(_, bytes)| *bytes);
    let used = after.iter().map(|(name, bytes)| (*name, bytes.saturating_sub(was(*name))));
    let mut used: Vec<(PathName, u64)> = used.filter(|(_, bytes)| *bytes > 0).collect();
    used.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let sum: u64 = used.iter().map(|(_, bytes)| bytes).sum();
    let mut text = String::new();
    for ((local, remote), bytes) in used {
        let percent = (bytes as f64 * 100.0 / sum as f64).round();
        // Writing to a string cannot fail.
        let _ = write!(text, ", {}>{} {percent} %", local.ip(), remote.ip());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(last: u8) -> PathName {
        (SocketAddr::from(([10, 0, last, 1], 9)), SocketAddr::from(([10, 0, last, 2], 9)))
    }

    #[test]
    fn shares_count_from_the_begin_of_the_connection_and_name_the_busiest_path_first() {
        let before = [(name(1), 900)];
        let after = [(name(1), 1000), (name(2), 300), (name(3), 0)];
        assert_eq!(shares(&before, &after), ", 10.0.2.1>10.0.2.2 75 %, 10.0.1.1>10.0.1.2 25 %");
    }

    #[test]
    fn an_association_that_is_gone_tells_nothing_of_paths() {
        assert_eq!(shares(&[(name(1), 900)], &[]), "");
        assert_eq!(shares(&[(name(1), 900)], &[(name(1), 900)]), "");
    }
}
