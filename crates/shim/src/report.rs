//! What became of the program's connects.

use manypath_control::Traffic;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// Destinations that are told apart.
const MAX_DESTINATIONS: usize = 64;

/// What became of the program's connects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Connects that were taken to the stack.
    pub opened: u64,
    /// Connections carried by SCTP.
    pub sctp: u64,
    /// Connections carried by the stack's own TCP connection.
    pub tcp_relay: u64,
    /// Sockets and destinations between which datagrams were carried by SCTP.
    pub datagrams: u64,
    /// Connects that failed as the destination, or the network, said.
    pub failed: u64,
    /// Connects that the program gave up before they were decided.
    pub given_up: u64,
    /// Connects left to the kernel, by reason.
    pub left: BTreeMap<&'static str, u64>,
    /// The same by reason and destination too, of the first 64 of these.
    pub left_to: BTreeMap<(&'static str, SocketAddr), u64>,
    /// Connects that failed because a rule allows SCTP only, by the reason for which they would have been
    /// left to the kernel. Those that the stack refused are in `failed`.
    pub refused: BTreeMap<&'static str, u64>,
    /// Times that the program was told that the kernel has no `io_uring`.
    pub io_uring_hidden: u64,
    /// Listening sockets that peers could reach.
    pub listeners: u64,
    /// Accepted connections of clients that came over SCTP.
    pub accepted_sctp: u64,
    /// Other accepted connections of these listening sockets.
    pub accepted_plain: u64,
    /// Listening sockets, or calls of `accept`, that peers are kept from, by reason.
    pub listeners_left: BTreeMap<&'static str, u64>,
    /// Whether the stack ended before the command did.
    pub stack_lost: bool,
    /// How many stacks were started in place of one that had ended.
    pub stacks_replaced: u64,
    /// What the stacks have carried. Absent where nobody has asked, or none has answered.
    pub traffic: Option<Traffic>,
}

impl Report {
    /// Counts a connect that was left to the kernel.
    pub(crate) fn leave(&mut self, reason: &'static str) {
        *self.left.entry(reason).or_default() += 1;
    }

    /// Counts a connect to `destination` that was left to the kernel.
    pub(crate) fn leave_to(&mut self, destination: SocketAddr, reason: &'static str) {
        self.leave(reason);
        let key = (reason, destination);
        if self.left_to.len() < MAX_DESTINATIONS || self.left_to.contains_key(&key) {
            *self.left_to.entry(key).or_default() += 1;
        }
    }

    /// Adds what a stack has carried. What it relays as plain TCP may have begun over SCTP: the peer had not answered when
    /// the program was connected, and refused then.
    pub(crate) fn add_traffic(&mut self, traffic: Traffic) {
        let all = self.traffic.get_or_insert_default();
        all.add(traffic);
        let relayed: u64 = all.relayed.iter().map(|one| one.connections).sum();
        let begun_otherwise = relayed.saturating_sub(self.tcp_relay).min(self.sctp);
        self.sctp -= begun_otherwise;
        self.tcp_relay += begun_otherwise;
    }

    /// Counts a connect that must not be left to the kernel.
    pub(crate) fn refuse(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Counts a listening socket that peers cannot reach.
    pub(crate) fn leave_listener(&mut self, reason: &'static str) {
        *self.listeners_left.entry(reason).or_default() += 1;
    }

    fn write_listeners(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listeners, accepted_sctp, accepted_plain, listeners_left, .. } = self;
        if listeners + accepted_sctp + accepted_plain == 0 && listeners_left.is_empty() {
            return Ok(());
        }
        write!(f, "; listeners offered={listeners} accepted sctp={accepted_sctp} ")?;
        write!(f, "tcp={accepted_plain}; not offered:")?;
        write_counts(f, listeners_left)
    }
}

fn write_counts(f: &mut fmt::Formatter<'_>, counts: &BTreeMap<&'static str, u64>) -> fmt::Result {
    counts.iter().try_for_each(|(reason, count)| write!(f, " {reason}={count}"))?;
    if counts.is_empty() { f.write_str(" none") } else { Ok(()) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, sctp, tcp_relay, failed, given_up, left, stack_lost, .. } = self;
        write!(f, "connects opened={opened} sctp={sctp} tcp-relay={tcp_relay} ")?;
        write!(f, "failed={failed} given-up={given_up}; left to the kernel:")?;
        write_counts(f, left)?;
        if !self.refused.is_empty() {
            f.write_str("; refused, as only SCTP may be used:")?;
            write_counts(f, &self.refused)?;
        }
        if self.io_uring_hidden > 0 {
            write!(f, "; io_uring hidden={} (--allow-io-uring)", self.io_uring_hidden)?;
        }
        if self.datagrams > 0 {
            write!(f, "; datagram flows={}", self.datagrams)?;
        }
        self.write_listeners(f)?;
        if *stack_lost {
            write!(f, "; the stack was lost, and replaced={}", self.stacks_replaced)?;
        }
        Ok(())
    }
}
