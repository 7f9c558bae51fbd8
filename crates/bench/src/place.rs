//! Where is measured, and what programs must know there.

use crate::case::Transport;
use manypath_lab::{Host, Lab, LabError, LabSpec, PathSpec, Wires};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Two hosts, or one that is both.
#[derive(Debug)]
pub struct Place {
    /// As in the results: `loopback`, `veth`, `lab` ..
    pub name: String,
    /// What it is, in words.
    pub description: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Addresses on loopback that stand for two hosts.
    Loopback {
        client: IpAddr,
        server: IpAddr,
    },
    /// Real ones: this host, and another one at this address.
    Network(IpAddr),
    Wires(Box<Wires>),
    Lab(Box<Lab>, Duration),
}

impl Kind {
    /// Two stacks, so two addresses, and none that belongs to an interface: what goes to those is left to
    /// the kernel.
    fn two_on_loopback() -> Self {
        let [client, server] = [1, 2].map(|host| Ipv4Addr::new(127, 0, 1, host).into());
        Self::Loopback { client, server }
    }
}

impl Place {
    /// This host's loopback interface.
    pub fn loopback() -> Self {
        Self {
            name: "loopback".to_owned(),
            description: "loopback; associations have packets of 1500 bytes".to_owned(),
            kind: Kind::two_on_loopback(),
        }
    }

    /// The network between this host and another, seen from one that has the address `own` or serves
    /// at `server`.
    pub(crate) fn between_hosts(own: IpAddr, server: IpAddr) -> Self {
        let (name, description) = ("network".to_owned(), format!("from {own} to {server}"));
        let kind = match own.is_loopback() {
            true => Kind::two_on_loopback(),
            false => Kind::Network(server),
        };
        Self { name, description, kind }
    }

    /// Two hosts in namespaces joined by veth pairs.
    ///
    /// # Errors
    /// The system does not permit it: that needs root.
    pub fn veth(wires: usize, mtu: u32) -> Result<Self, LabError> {
        let hosts = Wires::start(wires, mtu)?;
        let pairs =
            if wires == 1 { "a veth pair".to_owned() } else { format!("{wires} veth pairs") };
        let description = format!("two hosts in namespaces, {pairs}, MTU {mtu}");
        Ok(Self { name: "veth".to_owned(), description, kind: Kind::Wires(Box::new(hosts)) })
    }

    /// Two hosts joined by emulated paths, written as `manypath-lab` takes them.
    ///
    /// # Errors
    /// A path makes no sense, or the system does not permit it.
    pub fn lab(name: &str, paths: &[String]) -> Result<Self, LabError> {
        let specs = paths.iter().map(|text| text.parse()).collect::<Result<Vec<PathSpec>, _>>()?;
        let longest = specs.iter().map(|spec| spec.towards_right.delay + spec.towards_left.delay);
        let rtt = longest.max().unwrap_or_default();
        let lab = Lab::start(LabSpec::new(specs))?;
        let description =
            format!("two hosts in namespaces, emulated paths {}", paths.join(" and "));
        Ok(Self { name: name.to_owned(), description, kind: Kind::Lab(Box::new(lab), rtt) })
    }

    /// The longest round trip that is emulated.
    pub fn rtt(&self) -> Duration {
        match &self.kind {
            Kind::Loopback { .. } | Kind::Network(_) | Kind::Wires(_) => Duration::ZERO,
            Kind::Lab(_, rtt) => *rtt,
        }
    }

    /// Address of a host on its first path.
    pub(crate) fn address(&self, host: Host) -> IpAddr {
        match (&self.kind, host) {
            (Kind::Loopback { client, .. }, Host::Left) => *client,
            (Kind::Loopback { server, .. } | Kind::Network(server), _) => *server,
            (Kind::Wires(wires), host) => wires.address(host, 0).into(),
            (Kind::Lab(lab, _), host) => lab.address(host, 0).into(),
        }
    }

    /// Addresses that an association must be told to use; none: those of all interfaces.
    pub(crate) fn locals(&self, host: Host) -> Vec<IpAddr> {
        match &self.kind {
            Kind::Loopback { .. } => vec![self.address(host)],
            Kind::Network(_) | Kind::Wires(_) | Kind::Lab(..) => Vec::new(),
        }
    }

    /// Options that `manypath run` and `manypath serve` need.
    pub(crate) fn stack_options(&self, host: Host) -> Vec<String> {
        match &self.kind {
            Kind::Loopback { .. } => {
                vec!["--loopback-paths".into(), "--local".into(), self.address(host).to_string()]
            }
            Kind::Network(_) | Kind::Wires(_) | Kind::Lab(..) => Vec::new(),
        }
    }

    /// A command on a host.
    pub(crate) fn command(&self, host: Host, program: &Path) -> Command {
        match &self.kind {
            Kind::Loopback { .. } | Kind::Network(_) => Command::new(program),
            Kind::Wires(wires) => wires.command(host, program),
            Kind::Lab(lab, _) => lab.command(host, program),
        }
    }

    /// Whether a transport can be had here; if not, why.
    pub(crate) fn can(&self, transport: Transport) -> Result<(), String> {
        match transport {
            Transport::Mptcp => self.enable_mptcp().map_err(|e| e.to_string()),
            Transport::Iperf3 if !is_installed("iperf3") => {
                Err("iperf3 is not installed: apt-get install iperf3".to_owned())
            }
            Transport::Udp if self.rtt() > Duration::ZERO => {
                Err("datagrams have no congestion control for a real path".to_owned())
            }
            Transport::Tcp
            | Transport::Manypath
            | Transport::Association
            | Transport::Encrypted
            | Transport::Udp
            | Transport::Iperf3 => Ok(()),
        }
    }

    /// Makes the kernel's MPTCP use every path.
    fn enable_mptcp(&self) -> Result<(), LabError> {
        match &self.kind {
            Kind::Loopback { .. } | Kind::Network(_) => {
                let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
                match enabled.is_ok_and(|text| text.trim() == "1") {
                    true => Ok(()),
                    false => {
                        Err(LabError::Missing("this kernel has no MPTCP, or it is off".into()))
                    }
                }
            }
            Kind::Wires(wires) => wires.enable_mptcp(),
            Kind::Lab(lab, _) => lab.enable_mptcp(),
        }
    }

    /// Whether the hosts' kernels are there for this program alone.
    pub(crate) fn has_own_kernel_settings(&self) -> bool {
        matches!(self.kind, Kind::Wires(_) | Kind::Lab(..))
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
