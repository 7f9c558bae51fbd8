//! What goes between the holder of a lab and other processes.

use crate::host::Host;
use crate::spec::Change;
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
