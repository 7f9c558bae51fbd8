//! usrsctp, Debian's library.

use super::{Carrier, Peer, needs};
use crate::cell::Tools;
use crate::scenario::{Initiator, Scenario};
use manypath_lab::{Host, Lab};
use std::process::Command;

pub(crate) struct Usrsctp {
    carrier: Carrier,
}

impl Usrsctp {
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self { carrier }
    }
}

impl Peer for Usrsctp {
    fn id(&self) -> &str {
        match self.carrier {
            Carrier::Udp => "usrsctp",
            Carrier::Ip => "usrsctp-ip",
        }
    }

    fn name(&self) -> &str {
        match self.carrier {
            Carrier::Udp => "usrsctp, UDP",
            Carrier::Ip => "usrsctp, IP",
        }
    }

    fn carrier(&self) -> Carrier {
        self.carrier
    }

    fn prepare(&mut self, tools: &Tools) -> Result<(), String> {
        needs("/usr/include/usrsctp.h", "libusrsctp-dev")?;
        tools.compile("usrsctp", &["-DUSRSCTP"], &["-lusrsctp"])
    }

    fn cannot(&self, _scenario: &Scenario, _initiator: Initiator) -> Option<&'static str> {
        None
    }

    fn command(&self, tools: &Tools, lab: &Lab, args: &[String]) -> Result<Command, String> {
        let mut command = lab.command(Host::Right, tools.program("usrsctp"));
        command.args(args);
        if self.carrier == Carrier::Ip {
            command.arg("udp=0");
        }
        Ok(command)
    }
}
