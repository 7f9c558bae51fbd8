//! pion/sctp, of WebRTC in Go, in UDP. Its ports are always 5000.

use super::{Carrier, Peer, succeed};
use crate::cell::Tools;
use crate::scenario::{Initiator, Needs, Scenario, THEIRS};
use manypath_lab::{Host, Lab};
use std::path::Path;
use std::process::Command;

pub(crate) struct Pion;

impl Peer for Pion {
    fn id(&self) -> &str {
        "pion"
    }

    fn name(&self) -> &str {
        "pion/sctp, UDP"
    }

    fn carrier(&self) -> Carrier {
        Carrier::Udp
    }

    fn prepare(&mut self, tools: &Tools) -> Result<(), String> {
        let installed = Path::new("/usr/local/go/bin/go");
        let mut go = Command::new(if installed.exists() { installed } else { Path::new("go") });
        go.args(["build", "-mod=readonly", "-o"]).arg(tools.program("pion")).arg(".");
        go.current_dir(tools.source("pion"));
        succeed(go)
            .map_err(|error| format!("its modules cannot be had, or there is no Go: {error}"))
    }

    fn cannot(&self, scenario: &Scenario, initiator: Initiator) -> Option<&'static str> {
        if initiator == Initiator::Ours {
            return Some(
                "pion drops an INIT with a parameter that it does not know (`chunk_init.go`, line 131: \"INIT with unknown param\"), and it does not know Supported Address Types (RFC 9260 section 3.3.2)",
            );
        }
        match scenario.needs {
            Needs::SeveralAddresses => Some("pion has one address on each side"),
            Needs::AddedStreams => {
                Some("pion has all 65535 streams from the beginning, and no request to add some")
            }
            Needs::Reset(THEIRS) => Some(
                "pion uses a stream that it has reset again only when the other direction was reset, too (RFC 8831 section 6.7)",
            ),
            Needs::Nothing
            | Needs::PartialReliability(_)
            | Needs::Reset(_)
            | Needs::Interleaving
            | Needs::InterleavedFragments
            | Needs::Restart
            | Needs::Abort(_)
            | Needs::Shutdown(_) => None,
        }
    }

    fn tells_what_it_gave_up(&self) -> bool {
        false
    }

    fn sends_small_packets(&self) -> bool {
        true
    }

    /// A request to reset all streams, which lists none (RFC 6525 section 4.1), it answers with "performed"
    /// and resets none.
    fn our_options(&self) -> &[&'static str] {
        &["port=5000", "list=1"]
    }

    fn command(&self, tools: &Tools, lab: &Lab, args: &[String]) -> Result<Command, String> {
        let mut command = lab.command(Host::Right, tools.program("pion"));
        command.args(args);
        Ok(command)
    }
}
