//! dcsctp, of WebRTC in Rust, in UDP.

use super::{Carrier, Peer, succeed};
use crate::cell::Tools;
use crate::scenario::{Initiator, Needs, Scenario};
use manypath_lab::{Host, Lab};
use std::path::PathBuf;
use std::process::Command;

#[derive(Default)]
pub(crate) struct Dcsctp {
    program: PathBuf,
}

impl Peer for Dcsctp {
    fn id(&self) -> &str {
        "dcsctp"
    }

    fn name(&self) -> &str {
        "dcsctp, UDP"
    }

    fn carrier(&self) -> Carrier {
        Carrier::Udp
    }

    /// It is no member of the workspace, and has a target folder of its own below ours.
    fn prepare(&mut self, tools: &Tools) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let target = own.with_file_name("dcsctp");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
        cargo.arg(tools.source("dcsctp/Cargo.toml")).arg("--target-dir").arg(&target);
        self.program = target.join("release/manypath-peer-dcsctp");
        succeed(cargo).map_err(|error| format!("the crate cannot be had: {error}"))
    }

    fn cannot(&self, scenario: &Scenario, _initiator: Initiator) -> Option<&'static str> {
        match scenario.needs {
            Needs::SeveralAddresses => Some("dcsctp knows no addresses"),
            Needs::AddedStreams => Some("dcsctp has no request to add streams"),
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

    /// It makes fragments that just fill what is left of a window, and acknowledged gaps leave little.
    fn sends_small_packets(&self) -> bool {
        true
    }

    fn command(&self, _tools: &Tools, lab: &Lab, args: &[String]) -> Result<Command, String> {
        let mut command = lab.command(Host::Right, &self.program);
        command.args(args);
        Ok(command)
    }
}
