//! Tickets of servers, by which associations with them are protected without a round trip more.

use super::{Standing, Trust};
use manypath_engine::Instant;
use manypath_keys::Ticket;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Most tickets that are kept, with less than 1 KiB each.
const MAX_TICKETS: usize = 1024;

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
}
