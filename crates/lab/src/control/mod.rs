//! How other processes reach a lab: a unix socket with one JSON request and one JSON answer per
//! line. The holder speaks first and sends the hosts' namespaces along.

mod client;
mod server;

pub(crate) use client::Client;
pub(crate) use server::{Clients, Server, Socket};

use crate::error::LabError;
use crate::host::Host;
use crate::spec::{Change, check_name};
use crate::status::{CaptureSummary, Samples, Status};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Version of the messages. Holder and client must be of the same.
pub(crate) const VERSION: u32 = 1;

/// The first message of a holder, with the descriptors of both hosts' namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: u32,
    pub paths: usize,
    pub user_namespace: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    Status,
    Samples { first: u64 },
    Elapsed,
    Change { path: String, towards: Option<Host>, changes: Vec<Change> },
    Capture { file: PathBuf },
    StopCapture,
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Response {
    Done,
    Status(Status),
    Samples(Samples),
    Elapsed(Duration),
    Captured(CaptureSummary),
    Refused(String),
}

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
