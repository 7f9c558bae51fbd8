//! What the hosts' kernels do, as something to compare with: multipath TCP, congestion control.

use crate::error::LabError;
use crate::host::{Host, Namespaces, path_name};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;

/// Most additional subflows and announced addresses per connection.
const LIMIT: &str = "8";

/// Gives a socket buffers of these sizes in bytes, also beyond what the system allows to programs
/// (`SO_SNDBUFFORCE`, `SO_RCVBUFFORCE`): needs root. The kernel takes its own bookkeeping out of
/// twice as much.
pub fn force_buffers(socket: &impl AsFd, send: u32, receive: u32) -> io::Result<()> {
    crate::sys::set_socket_option(socket.as_fd(), libc::SO_SNDBUFFORCE, send)?;
    crate::sys::set_socket_option(socket.as_fd(), libc::SO_RCVBUFFORCE, receive)
}

/// Both hosts, as far as their kernels are concerned.
pub(crate) struct Kernels<'a> {
    /// Of left and right.
    pub(crate) namespaces: [&'a Namespaces; 2],
    /// Number of paths; the devices are called after them.
    pub(crate) paths: usize,
}

pub(crate) fn enable_mptcp(kernels: &Kernels<'_>) -> Result<(), LabError> {
    if !Path::new("/proc/sys/net/mptcp").exists() {
        return Err(LabError::Missing("this kernel has no MPTCP".into()));
    }
    for host in Host::ALL {
        kernels
            .ip(host, &["mptcp", "limits", "set", "subflow", LIMIT, "add_addr_accepted", LIMIT])?;
    }
    // The server announces its other addresses; the client then opens a subflow to each.
    for index in 1..kernels.paths.min(9) {
        let address = Host::Right.address(index).to_string();
        let device = format!("path{}", path_name(index));
        let endpoint = ["mptcp", "endpoint", "add", &address, "dev", &device, "signal"];
        kernels.ip(Host::Right, &endpoint)?;
    }
    Ok(())
}

/// By an attribute of the routes: the sysctl takes only what the system's administrator allows.
pub(crate) fn set_congestion_control(kernels: &Kernels<'_>, name: &str) -> Result<(), LabError> {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    if !available.split_whitespace().any(|known| known == name) {
        let available = available.trim();
        return Err(LabError::Missing(format!("the kernel has no '{name}', but {available}")));
    }
    for host in Host::ALL {
        for index in 0..kernels.paths {
            let device = format!("path{}", path_name(index));
            let (v4, v6) = (host.address(index), host.address_v6(index));
            let [a, b, c, _] = v4.octets();
            let (net, v4) = (format!("{a}.{b}.{c}.0/24"), v4.to_string());
            let route = ["route", "replace", &net, "dev", &device, "proto", "kernel"];
            kernels.ip(
                host,
                &[&route[..], &["scope", "link", "src", &v4, "congctl", name]].concat(),
            )?;
            if Path::new("/proc/net/if_inet6").exists() {
                let net = format!("fd77:{:x}::/64", v6.segments()[1]);
                let route = ["-6", "route", "replace", &net, "dev", &device, "proto", "kernel"];
                kernels.ip(host, &[&route[..], &["metric", "256", "congctl", name]].concat())?;
            }
        }
    }
    Ok(())
}

impl Kernels<'_> {
    /// Runs `ip` on `host`; returns what it prints.
    pub(crate) fn ip(&self, host: Host, arguments: &[&str]) -> Result<String, LabError> {
        let mut command = self.namespaces[host.index()].command(OsStr::new("ip"));
        let output = command.args(arguments).output().map_err(|source| {
            if source.kind() == ErrorKind::NotFound {
                let text = "`ip` is not installed, which this needs: apt install iproute2";
                return LabError::Missing(text.into());
            }
            LabError::Io { what: "running ip".into(), source }
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Asked for a second time, the endpoint is there already.
        if output.status.success() || said.contains("duplicate") {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let command = arguments.join(" ");
        Err(LabError::Missing(format!("`ip {command}` on {host} failed: {}", said.trim())))
    }
}
