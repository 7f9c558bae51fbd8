//! Tickets of servers, for the next stack.

use super::Writer;
use super::peer_cache::unix_now;
use crate::log;
use manypath_trust::TicketsFile;
use std::io;
use tracing::warn;

/// Messages with tickets that may wait.
const MAX_JOBS: usize = 16;

/// Begins to write tickets.
///
/// # Errors
/// When there are no threads left.
pub(crate) fn writer(file: TicketsFile) -> io::Result<Writer<Vec<String>>> {
    Writer::start("tickets", MAX_JOBS, move |lines: Vec<String>| {
        if let Err(error) = file.put(unix_now(), &lines) {
            warn!(target: log::PEERS, "{} tickets are not kept: {error}", lines.len());
        }
    })
}
