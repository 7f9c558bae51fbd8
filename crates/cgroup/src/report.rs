//! What became of the programs' connections.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// How often something was left to the kernel, by reason.
pub type Reasons = BTreeMap<Cow<'static, str>, u64>;

/// What became of the connections of the programs in a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(rename = "left_to_the_kernel")]
    pub left: Reasons,
    /// Connects that were refused because they would have been plain TCP, which a rule forbids.
    #[serde(rename = "refused_as_sctp_only")]
    pub refused: u64,
    /// Listening sockets that peers could reach.
    pub listeners: u64,
    /// Peers' connections that were led to them.
    pub accepted_sctp: u64,
    /// Network namespaces of containers whose programs were carried, too; all numbers count them.
    pub containers: u64,
    /// Datagrams of UDP sockets.
    pub datagrams: DatagramReport,
}

/// What became of the datagrams of the programs in a cgroup, counted by flows: all that a socket sends to a
/// destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(rename = "left_to_the_kernel")]
    pub left: Reasons,
}

impl Report {
    /// Counts what became of the connections of another network, too.
    pub(crate) fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.sctp += other.sctp;
        self.tcp_relay += other.tcp_relay;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.refused += other.refused;
        self.listeners += other.listeners;
        self.accepted_sctp += other.accepted_sctp;
        self.datagrams.asked += other.datagrams.asked;
        self.datagrams.sctp += other.datagrams.sctp;
        self.datagrams.given_up += other.datagrams.given_up;
        self.datagrams.dropped += other.datagrams.dropped;
        add_reasons(&mut self.left, other.left);
        add_reasons(&mut self.datagrams.left, other.datagrams.left);
    }
}

fn add_reasons(left: &mut Reasons, more: Reasons) {
    // Of sockets from before nobody knows the network: all who look at them count them.
    for (reason, count) in more.into_iter().filter(|(reason, _)| reason != "older-socket") {
        *left.entry(reason).or_default() += count;
    }
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
        if self.containers > 0 {
            write!(f, "; containers={}", self.containers)?;
        }
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

fn write_reasons(f: &mut fmt::Formatter<'_>, left: &Reasons) -> fmt::Result {
    if left.is_empty() {
        return f.write_str(" none");
    }
    left.iter().try_for_each(|(reason, count)| write!(f, " {reason}={count}"))
}
