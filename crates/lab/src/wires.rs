//! Two hosts joined by veth pairs: nothing is emulated, packets go as fast as the kernel passes them.

use crate::error::LabError;
use crate::holder::start_hosts;
use crate::host::{Anchor, Host, Isolation, Namespaces, path_name};
use crate::kernel::{self, Kernels};
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long links may take to come up.
const LINK_LIMIT: Duration = Duration::from_secs(5);

/// Two hosts in namespaces with one or more wires between them, for measuring what programs cost.
///
/// Devices and addresses are those of a [`Lab`](crate::Lab) with as many paths. Needs root and
/// iproute2. When it is dropped, or the process ends in whatever way, every program that still runs on
/// the hosts is ended and nothing is left.
#[derive(Debug)]
pub struct Wires {
    count: usize,
    namespaces: [Namespaces; 2],
    /// Dropped last: that ends the programs on the hosts.
    _anchors: [Anchor; 2],
}

impl Wires {
    /// Brings the hosts up, with `count` (1 to 26) veth pairs whose largest IP packet is `mtu` bytes.
    /// The error says what the system does not permit.
    pub fn start(count: usize, mtu: u32) -> Result<Self, LabError> {
        if !(1..=26).contains(&count) || !(576..=65535).contains(&mtu) {
            let text = format!("{count} wires of MTU {mtu}: 1 to 26 and 576 to 65535 are possible");
            return Err(LabError::Invalid(text));
        }
        // Between two user namespaces nobody may put a wire.
        let (_, [left, right]) = start_hosts(Isolation::Root, count, 0, None)?;
        let right_pid = right.anchor.pid().to_string();
        let this = Self {
            count,
            namespaces: [left.namespaces, right.namespaces],
            _anchors: [left.anchor, right.anchor],
        };
        for index in 0..count {
            this.connect(index, &right_pid, &mtu.to_string())?;
        }
        this.wait_for_links()?;
        Ok(this)
    }

    /// A command that will run `program` on `host`, as a child of this process, in its working
    /// directory, with its environment and streams.
    pub fn command(&self, host: Host, program: impl AsRef<OsStr>) -> Command {
        self.namespaces[host.index()].command(program.as_ref())
    }

    /// Number of wires.
    pub fn count(&self) -> usize {
        self.count
    }

    /// IPv4 address of `host` on the wire with this index.
    pub fn address(&self, host: Host, index: usize) -> Ipv4Addr {
        host.address(index)
    }

    /// Lets the hosts' kernels use every wire for MPTCP connections that left opens to right.
    pub fn enable_mptcp(&self) -> Result<(), LabError> {
        kernel::enable_mptcp(&self.kernels())
    }

    fn connect(&self, index: usize, right_pid: &str, mtu: &str) -> Result<(), LabError> {
        let kernels = self.kernels();
        let name = format!("path{}", path_name(index));
        let pair = ["link", "add", &name, "mtu", mtu, "type", "veth", "peer", "name", &name];
        kernels.ip(Host::Left, &[&pair[..], &["mtu", mtu, "netns", right_pid]].concat())?;
        for host in Host::ALL {
            let address = format!("{}/24", host.address(index));
            kernels.ip(host, &["address", "add", &address, "dev", &name])?;
            if Path::new("/proc/net/if_inet6").exists() {
                let address = format!("{}/64", host.address_v6(index));
                kernels.ip(host, &["address", "add", &address, "dev", &name, "nodad"])?;
            }
            kernels.ip(host, &["link", "set", &name, "up"])?;
        }
        Ok(())
    }

    /// The kernel looks at links now and then only: until it has, they count as down.
    fn wait_for_links(&self) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            let mut down = 0;
            for host in Host::ALL {
                let links = self.kernels().ip(host, &["-o", "link", "show", "type", "veth"])?;
                down += links.lines().filter(|line| !line.contains(" state UP ")).count();
            }
            if down == 0 {
                return Ok(());
            }
            if begun.elapsed() > LINK_LIMIT {
                return Err(LabError::Missing("the veth pairs do not come up".into()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kernels(&self) -> Kernels<'_> {
        Kernels { namespaces: self.namespaces.each_ref(), paths: self.count }
    }
}
