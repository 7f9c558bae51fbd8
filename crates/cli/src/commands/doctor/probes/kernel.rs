//! Facts about the kernel, and what stacks here need of it.

use super::super::findings::Kernel;
use manypath_control::status::StackStatus;
use std::fs;
use std::path::Path;

/// Reads them.
pub(super) fn look(stacks: &[StackStatus]) -> Kernel {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let loaded = modules.lines().any(|line| line.starts_with("sctp "));
    let associations = stacks.iter().flat_map(|stack| &stack.associations);
    let mut paths = associations.flat_map(|one| &one.paths);
    Kernel {
        mptcp: number("/proc/sys/net/mptcp/enabled").map(|value| value != 0),
        sctp: loaded || Path::new("/proc/thread-self/net/sctp").exists(),
        sctp_udp_port: number("/proc/sys/net/sctp/udp_port").unwrap_or(0),
        native: paths.any(|path| path.remote.port() == 0),
        stacks: stacks.iter().map(|stack| stack.pid).collect(),
    }
}

fn number(file: &str) -> Option<u16> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
