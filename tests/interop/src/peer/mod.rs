//! Whom we talk with: one adapter for each.

mod dcsctp;
pub(crate) mod kernel;
mod pion;
pub(crate) mod usrsctp;

use crate::cell::Tools;
use crate::scenario::{Initiator, Scenario};
use manypath_lab::{Host, Lab};
use std::path::Path;
use std::process::Command;

/// How SCTP goes between the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// In UDP, port 9899 at both ends (RFC 6951).
    Udp,
    /// Directly over IP, protocol 132.
    Ip,
}

/// One SCTP implementation.
pub(crate) trait Peer {
    /// For the command line.
    fn id(&self) -> &str;

    /// For people.
    fn name(&self) -> &str;

    fn carrier(&self) -> Carrier;

    /// Builds what runs at the far end; the error says what this machine lacks for it.
    fn prepare(&mut self, tools: &Tools) -> Result<(), String>;

    /// Why it cannot do this; `None` if it can.
    fn cannot(&self, scenario: &Scenario, initiator: Initiator) -> Option<&'static str>;

    /// Whether its programs hear of every message that it gave up.
    fn tells_what_it_gave_up(&self) -> bool {
        true
    }

    /// Whether the buffers of the scenarios take more than 100 of its packets.
    fn sends_small_packets(&self) -> bool {
        false
    }

    /// What our end must know of it.
    fn our_options(&self) -> &[&'static str] {
        &[]
    }

    /// Its addresses in a lab with so many paths, one for each.
    fn addresses(&self, lab: &Lab, paths: usize) -> Vec<String> {
        (0..paths).map(|path| lab.address(Host::Right, path).to_string()).collect()
    }

    /// Whatever the lab needs beyond itself.
    fn join(&self, _lab: &Lab, _paths: usize) -> Result<(), String> {
        Ok(())
    }

    /// The far end with this command line (`tests/peers/sockets/peer.c`).
    fn command(&self, tools: &Tools, lab: &Lab, args: &[String]) -> Result<Command, String>;
}

/// All of them, in the order of the matrix.
pub(crate) fn all() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(usrsctp::Usrsctp::new(Carrier::Udp)),
        Box::new(usrsctp::Usrsctp::new(Carrier::Ip)),
        Box::new(kernel::Kernel::new(Carrier::Ip)),
        Box::new(kernel::Kernel::new(Carrier::Udp)),
        Box::new(pion::Pion),
        Box::<dcsctp::Dcsctp>::default(),
    ]
}

/// Whether the file is there, else what to do.
pub(crate) fn needs(file: &str, package: &str) -> Result<(), String> {
    if Path::new(file).exists() {
        return Ok(());
    }
    Err(format!("{file} is missing; run: scripts/setup peers (or apt install {package})"))
}

/// Runs a command that must succeed.
pub(crate) fn succeed(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
