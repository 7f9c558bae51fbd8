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
    /// Connects that were refused because they would have been plain TCP, which a rule forbids.
    pub refused: u64,
    /// Listening sockets that peers could reach.
    pub listeners: u64,
    /// Peers' connections that were led to them.
    pub accepted_sctp: u64,
    /// Datagrams of UDP sockets.
    pub datagrams: DatagramReport,
}

/// What became of the datagrams of the programs in a cgroup, counted by flows: all that a socket sends to a
/// destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatagramReport {
    /// Flows about which the stack was asked.
    pub asked: u64,
    /// Flows carried by SCTP.
    pub sctp: u64,
    /// Flows that were carried, and went on as plain UDP.
    pub given_up: u64,
    /// Datagrams that were lost here because they came faster than they could be taken.
    pub dropped: u64,
    /// Flows left to the kernel as plain UDP, by reason.
    pub left: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, sctp, tcp_relay, failed, given_up, left, .. } = self;
        write!(f, "connects opened={opened} sctp={sctp} tcp-relay={tcp_relay} ")?;
        write!(f, "failed={failed} given-up={given_up}; left to the kernel:")?;
        write_reasons(f, left)?;
        if self.refused > 0 {
            write!(f, "; refused, as only SCTP may be used={}", self.refused)?;
        }
        write!(f, "; listeners offered={} accepted sctp={}", self.listeners, self.accepted_sctp)?;
        if self.datagrams == DatagramReport::default() {
            return Ok(());
        }
        write!(f, "; {}", self.datagrams)
    }
}

impl fmt::Display for DatagramReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, sctp, given_up, dropped, left } = self;
        write!(f, "datagrams asked={asked} sctp={sctp} given-up={given_up} dropped={dropped}")?;
        f.write_str("; left to the kernel:")?;
        write_reasons(f, left)
    }
}

fn write_reasons(f: &mut fmt::Formatter<'_>, left: &BTreeMap<&'static str, u64>) -> fmt::Result {
    if left.is_empty() {
        return f.write_str(" none");
    }
    left.iter().try_for_each(|(reason, count)| write!(f, " {reason}={count}"))
}
