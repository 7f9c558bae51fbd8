//! The kernel's own multipath TCP on the hosts, as something to compare with.

use crate::error::LabError;
use crate::host::Host;
use crate::lab::Lab;
use std::io::ErrorKind;
use std::path::Path;

/// Most additional subflows and announced addresses per connection.
const LIMIT: &str = "8";

pub(crate) fn enable(lab: &Lab) -> Result<(), LabError> {
    if !Path::new("/proc/sys/net/mptcp").exists() {
        return Err(LabError::Missing("this kernel has no MPTCP".into()));
    }
    for host in Host::ALL {
        ip(lab, host, &["mptcp", "limits", "set", "subflow", LIMIT, "add_addr_accepted", LIMIT])?;
    }
    // The server announces its other addresses; the client then opens a subflow to each.
    for index in 1..lab.path_count().min(9) {
        let address = lab.address(Host::Right, index).to_string();
        let device = format!("path{}", crate::host::path_name(index));
        ip(lab, Host::Right, &["mptcp", "endpoint", "add", &address, "dev", &device, "signal"])?;
    }
    Ok(())
}

fn ip(lab: &Lab, host: Host, arguments: &[&str]) -> Result<(), LabError> {
    let output = lab.command(host, "ip").args(arguments).output().map_err(|source| {
        if source.kind() == ErrorKind::NotFound {
            let text = "`ip` is not installed, which sets up MPTCP: apt install iproute2";
            return LabError::Missing(text.into());
        }
        LabError::Io { what: "running ip".into(), source }
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Asked for a second time, the endpoint is there already.
    if output.status.success() || said.contains("duplicate") {
        return Ok(());
    }
    let command = arguments.join(" ");
    Err(LabError::Missing(format!("`ip {command}` on {host} failed: {}", said.trim())))
}
