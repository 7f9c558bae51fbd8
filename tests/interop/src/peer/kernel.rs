//! SCTP of the Linux kernel, in a guest of User Mode Linux. The guest's file system is this machine's; it
//! is joined to the right host, which forwards, by a TAP device for each path.

use super::{Carrier, Peer, needs, succeed};
use crate::cell::Tools;
use crate::program::Program;
use crate::scenario::{Initiator, Needs, Scenario};
use manypath_lab::{Host, Lab, LabSpec};
use std::process::Command;
use std::time::Duration;

const KERNEL: &str = "/usr/bin/linux.uml";
/// A guest is up in three seconds, or later where other work is done.
const BOOT: Duration = Duration::from_secs(60);

pub(crate) struct Kernel {
    carrier: Carrier,
}

impl Kernel {
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self { carrier }
    }

    /// A guest that runs this command line and ends.
    pub(crate) fn guest(&self, tools: &Tools, lab: &Lab, line: &str) -> Result<Command, String> {
        let paths = lab.path_names().len();
        let mut job = String::new();
        for path in 0..paths {
            let ours = lab.address(Host::Left, path);
            job += &format!("path vec{path} {}/24 {ours} {}\n", address(path, 2), address(path, 1));
        }
        job += &format!("udp {}\n", u16::from(self.carrier == Carrier::Udp) * 9899);
        job += &format!("run {line}\n");
        let (file, identity) = tools.guest(&job)?;
        let mut command = lab.command(Host::Right, KERNEL);
        command.args("mem=256M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet".split(' '));
        command.args(["con=null", "con0=null,fd:1"]);
        for path in 0..paths {
            let tap = device(path);
            command.arg(format!("vec{path}:transport=tap,ifname={tap},depth=64,gro=0"));
        }
        command.arg(format!("umid={identity}")).arg(format!("uml_dir={}/", tools.dir().display()));
        let script = tools.source("linux/guest.py");
        command.args(["init=/usr/bin/python3", "--"]).args([script, file]);
        Ok(command)
    }

    fn boots(&self, tools: &Tools) -> Result<(), String> {
        let path = "delay=1ms".parse().map_err(|error| format!("{error}"))?;
        let lab = Lab::start(LabSpec::new(vec![path])).map_err(|error| error.to_string())?;
        self.join(&lab, 1)?;
        let command = self.command(tools, &lab, &["try".to_owned()])?;
        let booted = Program::start(command)?.wait_for("READY", BOOT);
        booted.map(drop).map_err(|error| format!("User Mode Linux does not boot here: {error}"))
    }
}

impl Peer for Kernel {
    fn id(&self) -> &str {
        match self.carrier {
            Carrier::Udp => "linux-udp",
            Carrier::Ip => "linux",
        }
    }

    fn name(&self) -> &str {
        match self.carrier {
            Carrier::Udp => "Linux, UDP",
            Carrier::Ip => "Linux, IP",
        }
    }

    fn carrier(&self) -> Carrier {
        self.carrier
    }

    fn prepare(&mut self, tools: &Tools) -> Result<(), String> {
        needs(KERNEL, "user-mode-linux")?;
        needs("/usr/include/netinet/sctp.h", "libsctp-dev")?;
        tools.compile("linux", &[], &["-lsctp"])?;
        self.boots(tools)
    }

    fn cannot(&self, scenario: &Scenario, _initiator: Initiator) -> Option<&'static str> {
        (scenario.needs == Needs::InterleavedFragments).then_some(
            "Linux numbers the fragments of a message 0, 0, 1, 2, of which the second 0 is none of RFC 8260",
        )
    }

    /// It tells of those that it had not sent yet.
    fn tells_what_it_gave_up(&self) -> bool {
        false
    }

    fn addresses(&self, _lab: &Lab, paths: usize) -> Vec<String> {
        (0..paths).map(|path| address(path, 2)).collect()
    }

    fn join(&self, lab: &Lab, paths: usize) -> Result<(), String> {
        let on = |host: Host, program: &str, args: &str| {
            let mut command = lab.command(host, program);
            command.args(args.split(' '));
            succeed(command)
        };
        on(Host::Right, "sysctl", "-q -w net.ipv4.ip_forward=1")?;
        for path in 0..paths {
            let (tap, gateway) = (device(path), lab.address(Host::Right, path));
            on(Host::Right, "ip", &format!("tuntap add dev {tap} mode tap"))?;
            on(Host::Right, "ip", &format!("addr add {}/24 dev {tap}", address(path, 1)))?;
            on(Host::Right, "ip", &format!("link set {tap} up"))?;
            on(Host::Left, "ip", &format!("route add {}/24 via {gateway}", address(path, 0)))?;
        }
        Ok(())
    }

    fn command(&self, tools: &Tools, lab: &Lab, args: &[String]) -> Result<Command, String> {
        self.guest(tools, lab, &format!("{} {}", tools.program("linux").display(), args.join(" ")))
    }
}

fn device(path: usize) -> String {
    format!("guest{path}")
}

/// The host's end of a wire is 1, the guest's is 2.
fn address(path: usize, host: u8) -> String {
    format!("10.78.{}.{host}", path + 1)
}
