//! How other processes reach a lab: a unix socket with one JSON request and one JSON answer per
//! line. The holder speaks first and sends the hosts' namespaces along.

mod client;
mod server;

pub(crate) use client::Client;
pub(crate) use server::{Clients, Server, Socket};

use crate::error::LabError;
use crate::spec::check_name;
use std::path::PathBuf;

/// Where the control sockets of this user's labs are.
fn directory() -> PathBuf {
    // SAFETY: geteuid() only returns a number.
    let uid = unsafe { libc::geteuid() };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute()) {
        _ if uid == 0 => PathBuf::from("/run/manypath"),
        Some(runtime) => runtime.join("manypath"),
        None => std::env::temp_dir().join(format!("manypath-{uid}")),
    }
}

/// The control socket of the lab `name`.
pub(crate) fn socket_path(name: &str) -> Result<PathBuf, LabError> {
    check_name(name)?;
    Ok(directory().join(format!("lab-{name}.sock")))
}
