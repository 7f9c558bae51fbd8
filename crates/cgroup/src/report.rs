//! What became of the programs' connections.

use std::collections::BTreeMap;
use std::fmt;

/// What became of the connections of the programs in a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Connects that were taken to the stack.
    pub opened: u64,
    /// Connections carried by SCTP.
    pub sctp: u64,
    /// Connections carried by the stack's own TCP connection.
    pub tcp_relay: u64,
    /// Connects that failed as the destination, or the network, said.
    pub failed: u64,
    /// Connects that the program gave up before they were decided.
    pub given_up: u64,
    /// Connects of TCP sockets left to the kernel, by reason.
    pub left: BTreeMap<&'static str, u64>,
    /// Listening sockets that peers could reach.
    pub listeners: u64,
    /// Peers' connections that were led to them.
    pub accepted_sctp: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, sctp, tcp_relay, failed, given_up, left, .. } = self;
        write!(f, "connects opened={opened} sctp={sctp} tcp-relay={tcp_relay} ")?;
        write!(f, "failed={failed} given-up={given_up}; left to the kernel:")?;
        left.iter().try_for_each(|(reason, count)| write!(f, " {reason}={count}"))?;
        if left.is_empty() {
            f.write_str(" none")?;
        }
        write!(f, "; listeners offered={} accepted sctp={}", self.listeners, self.accepted_sctp)
    }
}
