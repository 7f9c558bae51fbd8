//! What became of the program's connects.

use std::collections::BTreeMap;
use std::fmt;

/// What became of the program's connects.
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
    /// Connects left to the kernel, by reason.
    pub left: BTreeMap<&'static str, u64>,
    /// Whether the stack ended before the command did.
    pub stack_lost: bool,
}

impl Report {
    /// Counts a connect that was left to the kernel.
    pub(crate) fn leave(&mut self, reason: &'static str) {
        *self.left.entry(reason).or_default() += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, sctp, tcp_relay, failed, given_up, left, stack_lost } = self;
        write!(f, "connects opened={opened} sctp={sctp} tcp-relay={tcp_relay} ")?;
        write!(f, "failed={failed} given-up={given_up}; left to the kernel:")?;
        for (reason, count) in left {
            write!(f, " {reason}={count}")?;
        }
        if left.is_empty() {
            f.write_str(" none")?;
        }
        if *stack_lost {
            f.write_str("; the stack was lost")?;
        }
        Ok(())
    }
}
