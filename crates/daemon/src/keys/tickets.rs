//! Tickets of servers, by which associations with them are protected without a round trip more.

use super::{Standing, Trust};
use crate::files::peer_cache::unix_now;
use crate::files::tickets;
use crate::keeper::Keeper;
use crate::log;
use manypath_engine::Instant;
use manypath_keys::{Moment, Ticket};
use manypath_trust::TrustError;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use tracing::warn;

/// Most tickets that are kept, with less than 1 KiB each.
const MAX_TICKETS: usize = 1024;
/// Lines that are written together: a message to the keeper has room for them.
const MAX_TOGETHER: usize = 64;

/// The last ticket of each server, by the UDP address that was asked. Each is used once: a second use would tell an
/// observer that both associations are of the same host.
#[derive(Debug, Default)]
pub(super) struct Tickets(BTreeMap<SocketAddr, Ticket>);

impl Tickets {
    /// Keeps a ticket. The one that expires first makes room.
    pub(super) fn put(&mut self, server: SocketAddr, ticket: Ticket) {
        self.0.insert(server, ticket);
        let first = self.0.iter().min_by_key(|(_, ticket)| ticket.expires()).map(|(addr, _)| *addr);
        if let Some(first) = first.filter(|_| self.0.len() > MAX_TICKETS) {
            self.0.remove(&first);
        }
    }

    /// The ticket for an association with `server`, if it is good still, ours, and of a peer that is known there: by a
    /// ticket a peer is taken before it has proved anything, so a key that was forgotten has to be shown anew.
    pub(super) fn take(
        &mut self,
        now: Instant,
        server: SocketAddr,
        trust: &Trust,
    ) -> Option<Ticket> {
        let own = trust.identity().public_key();
        let ticket = self.0.remove(&server)?;
        let is_good = now < ticket.expires() && ticket.client() == own;
        let standing = trust.judge(server.ip(), &ticket.server());
        (is_good && standing.is_ok_and(Standing::is_known)).then_some(ticket)
    }

    /// How many of them have not expired.
    pub(super) fn count(&self, now: Instant) -> usize {
        self.0.values().filter(|ticket| now < ticket.expires()).count()
    }

    /// Drops all, and returns how many they were.
    pub(super) fn forget(&mut self) -> usize {
        std::mem::take(&mut self.0).len()
    }

    /// Takes those that earlier stacks of this identity have left in its file. Returns how many they are, and how many
    /// lines could not be read.
    ///
    /// # Errors
    /// As [`TicketsFile::take`].
    pub(super) fn recall(
        &mut self,
        now: Instant,
        trust: &Trust,
    ) -> Result<(usize, usize), TrustError> {
        let Some(file) = trust.tickets_file() else { return Ok((0, 0)) };
        let mut taken = file.take(moment(now), trust.identity())?;
        // Of two for a server, the one that lasts longer stays.
        taken.tickets.sort_by_key(|(_, ticket)| ticket.expires());
        let before = self.0.len();
        taken.tickets.into_iter().for_each(|(server, ticket)| self.put(server, ticket));
        Ok((self.0.len() - before, taken.damaged))
    }

    /// Leaves those that were not used in the file, and waits a moment for that. None is left here.
    pub(super) fn keep(&mut self, now: Instant, trust: &Trust) {
        let (at, identity) = (moment(now), trust.identity());
        let tickets = std::mem::take(&mut self.0).into_iter();
        let line = |(server, ticket): (SocketAddr, Ticket)| ticket.to_line(at, server, identity);
        let (file, lines) = (trust.tickets_file(), tickets.filter_map(line).collect::<Vec<_>>());
        let Some(file) = file.filter(|_| !lines.is_empty()) else { return };
        let kept = match Keeper::current() {
            Some(keeper) => give(&lines, |some| keeper.keep_tickets(some)),
            None => tickets::writer(file.clone())
                .and_then(|writer| give(&lines, |some| Ok(writer.take(some)))),
        };
        if let Err(error) = kept {
            warn!(target: log::PEERS, "{}: tickets are not kept: {error}", file.path().display());
        }
    }
}

/// Gives lines to who writes them.
fn give(lines: &[String], take: impl Fn(Vec<String>) -> io::Result<bool>) -> io::Result<()> {
    for some in lines.chunks(MAX_TOGETHER) {
        if !take(some.to_vec())? {
            return Err(io::Error::other("too many wait to be written"));
        }
    }
    Ok(())
}

fn moment(now: Instant) -> Moment {
    Moment { now, unix: unix_now() }
}
