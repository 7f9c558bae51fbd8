//! Tickets of servers, kept for the next stack of this identity (docs/key-management.md#resumption). What a line is,
//! [`Ticket::to_line`] says.
//!
//! Each ticket is used once: a stack takes those of its identity out of the file before it uses any, under the lock, and
//! puts back at its end what it has not used.

use crate::error::TrustError;
use crate::known_peers::KnownPeersFile;
use manypath_keys::{Identity, Moment, Ticket, UnusableTicket};
use manypath_rules::KeptFile;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The name of the file.
const NAME: &str = "tickets";
/// How long a stack that starts waits for another one that takes or puts back tickets.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// Most lines. Those that end first make room.
const MAX_LINES: usize = 1024;
const COMMENT: &str = "# Tickets for further associations. This file may be removed at any time.\n";

/// The file. Reading and changing it may block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketsFile(KeptFile);

/// What was in the file.
#[derive(Debug, Default)]
pub struct TakenTickets {
    /// By the UDP addresses of their servers.
    pub tickets: Vec<(SocketAddr, Ticket)>,
    /// Lines that could not be read. They are gone.
    pub damaged: usize,
}

impl TicketsFile {
    /// That in the folder of the keys of peers.
    #[must_use]
    pub fn beside(known_peers: &KnownPeersFile) -> Self {
        Self(KeptFile::named(known_peers.path().with_file_name(NAME)).without_sync())
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Takes the tickets of `identity` out of the file: no other caller gets them. Expired and damaged lines go;
    /// those of other identities stay.
    ///
    /// # Errors
    /// When it cannot be read or written, is larger than 1 MiB, or others own it or may open it; when another process
    /// holds its lock.
    pub fn take(&self, now: Moment, identity: &Identity) -> Result<TakenTickets, TrustError> {
        if self.0.read_secret_lossy()?.is_none() {
            return Ok(TakenTickets::default());
        }
        let taken = self.0.edit_secret_within(MAX_WAIT, |text| {
            let mut taken = TakenTickets::default();
            let mut left = COMMENT.to_owned();
            for line in lines(&text) {
                match Ticket::from_line(line, now, identity) {
                    Ok(ticket) => taken.tickets.push(ticket),
                    Err(UnusableTicket::Foreign) => left.extend([line, "\n"]),
                    Err(UnusableTicket::Expired) => {}
                    Err(UnusableTicket::Damaged) => taken.damaged += 1,
                }
            }
            (left, taken)
        });
        Ok(taken?)
    }

    /// Adds lines that [`Ticket::to_line`] has made. `unix` is now, in seconds since 1970.
    ///
    /// # Errors
    /// As [`Self::take`], but waits for the lock as long as it takes.
    pub fn put(&self, unix: u64, added: &[String]) -> Result<(), TrustError> {
        let changed = self.0.edit_secret(|text| {
            let all = lines(&text).chain(added.iter().map(String::as_str));
            let ends = all.filter_map(|line| Some((Ticket::end_of_line(line)?, line)));
            let mut good: Vec<_> = ends.filter(|(end, _)| *end > unix).collect();
            good.sort_unstable();
            let surplus = good.len().saturating_sub(MAX_LINES);
            let kept = good[surplus..].iter().flat_map(|(_, line)| [*line, "\n"]);
            (std::iter::once(COMMENT).chain(kept).collect(), ())
        });
        Ok(changed?)
    }
}

/// Those that are to be tickets.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}
