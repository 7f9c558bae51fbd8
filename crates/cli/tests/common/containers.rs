//! Containers as engines make them: a network namespace behind a bridge or a router with NAT, and a cgroup.

use super::cgroup::Group;
use super::gateways::{inner_host, sh};
use super::{Finished, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A container of a host: a process, its network namespace and its cgroup.
pub(crate) struct Container {
    pub(crate) pid: u32,
    pub(crate) dir: PathBuf,
    host: Host,
}

/// What the host does for containers: it forwards what they send, with its own addresses.
const ROUTER: &str = "echo 1 > /proc/sys/net/ipv4/ip_forward
    nft -f - <<.
table ip nat {
  chain post { type nat hook postrouting priority 100; ip saddr 10.88.0.0/16 oifname path* masquerade; }
}
.";

impl Container {
    /// A container with the address 10.88.0.2 in a cgroup below `group`.
    pub(crate) fn new(site: &mut Site, host: Host, group: &Group) -> Self {
        let container = Self::without_network(site, host, group);
        let pid = container.pid;
        let wire = format!(
            "{ROUTER}
             ip link add to-pod type veth peer name eth0 netns {pid}; ip link set to-pod up
             ip address add 10.88.0.1/16 dev to-pod"
        );
        sh(site, host, &wire);
        container.sh(
            site,
            "ip link set lo up; ip link set eth0 up; ip address add 10.88.0.2/16 dev eth0
             ip route add default via 10.88.0.1",
        );
        container
    }

    /// One whose network has nothing but loopback.
    pub(crate) fn without_network(site: &mut Site, host: Host, group: &Group) -> Self {
        let pid = inner_host(site, host);
        let dir = group.dir.join(format!("container-{pid}"));
        fs::create_dir(&dir).expect("a cgroup");
        fs::write(dir.join("cgroup.procs"), pid.to_string()).expect("moved");
        Self { pid, dir, host }
    }

    /// A command in the container.
    pub(crate) fn command(&self, site: &Site, program: &str, args: &[&str]) -> Command {
        let net = format!("--net=/proc/{}/ns/net", self.pid);
        let program = find(program);
        let enter = [&[net.as_str(), program.to_str().expect("UTF-8")], args].concat();
        super::cgroup::enter(&self.dir, site, self.host, "nsenter", &enter)
    }

    /// Runs a program in the container.
    pub(crate) fn run(&self, site: &Site, program: &str, args: &[&str]) -> Finished {
        finish(self.command(site, program, args))
    }

    /// Whether manypath serves its network.
    pub(crate) fn is_served(&self, group: &Group) -> bool {
        group.servers_of_networks().into_iter().any(is_at_work)
    }

    fn sh(&self, site: &Site, line: &str) {
        let done = self.run(site, "sh", &["-ec", line]);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
    }

    /// Sets packet filters of the container.
    pub(crate) fn nft(&self, site: &Site, rules: &str) {
        self.sh(site, &format!("nft -f - <<.\n{rules}\n."));
    }

    /// Waits until manypath serves its network; the process that does.
    pub(crate) fn wait_until_served(&self, group: &Group) -> u32 {
        let mut server = None;
        wait_for("the container's network to be served", || {
            server = group.servers_of_networks().into_iter().find(|pid| is_at_work(*pid));
            server.is_some()
        });
        server.expect("a server")
    }

    /// Ends it, as an engine does.
    pub(crate) fn end(self) {
        wait_for("the container to be empty", || {
            let _ = Command::new("kill").args(["-9", &self.pid.to_string()]).status();
            fs::remove_dir(&self.dir).is_ok()
        });
    }
}

/// Whether a process has put eBPF programs to work.
fn is_at_work(pid: u32) -> bool {
    super::cgroup::ebpf(&["of", &pid.to_string()]).iter().any(|one| one.starts_with("link:"))
}
