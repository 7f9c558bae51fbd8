//! Connections whose peers have not answered yet, and what is kept so that they can still become plain TCP.

use super::{Carrier, Ends, Relay, Relays, TcpRelay};
use crate::base::Base;
use crate::ids::RelayId;
use crate::socket::Socket;
use crate::token::Source;
use bytes::BytesMut;
use manypath_control::SocketOptions;
use manypath_control::status::FallbackReason;
use manypath_rules::Options;
use std::io;
use std::net::SocketAddr;

/// What a connection may send before the peer has accepted it (`docs/flow-protocol.md`, section 3.2), in bytes.
const MOST: usize = 64 << 10;

/// What a connection has sent that the peer has not accepted: no more than may leave before that.
#[derive(Debug)]
pub(crate) struct Early {
    /// The address that the program chose.
    source: Option<SocketAddr>,
    /// Those of the program's socket.
    options: SocketOptions,
    sent: BytesMut,
}

impl Early {
    pub(crate) fn of(source: Option<SocketAddr>) -> Self {
        Self { source, options: SocketOptions::default(), sent: BytesMut::new() }
    }

    pub(crate) const fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    /// Bytes that it may still send.
    pub(super) fn room(&self) -> usize {
        MOST.saturating_sub(self.sent.len())
    }

    pub(super) fn note(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
    }

    pub(super) const fn adopt(&mut self, options: SocketOptions) {
        self.options = options;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}

impl Relays {
    /// Where a connection of a program of this host leads.
    pub(crate) fn destination_of(&self, id: RelayId) -> Option<SocketAddr> {
        match self.connections.get(&id)?.ends {
            Ends::To(destination) => Some(destination),
            Ends::From(..) => None,
        }
    }

    /// The peer has accepted a connection that did not wait for that; where it leads.
    pub(crate) fn confirm(&mut self, id: RelayId) -> Option<SocketAddr> {
        if !self.sctp.get_mut(&id)?.on_accepted() {
            return None;
        }
        self.touch(id);
        self.destination_of(id)
    }

    /// Whether the peer has accepted nothing and could have read nothing.
    pub(crate) fn has_said_nothing(&self, id: RelayId) -> bool {
        self.sctp.get(&id).is_some_and(Relay::has_said_nothing)
    }

    /// What one that the peer has not accepted needs to go on elsewhere.
    pub(crate) fn take_early(&mut self, id: RelayId) -> Option<(Early, Options, SocketAddr)> {
        let destination = self.destination_of(id)?;
        let relay = self.sctp.get_mut(&id)?;
        Some((relay.take_early()?, relay.options, destination))
    }

    /// Lets it go on over plain TCP, beginning with what nobody has read.
    pub(crate) fn change_to_plain(
        &mut self,
        base: &mut Base,
        id: RelayId,
        far: Socket,
        early: Early,
        reason: FallbackReason,
    ) -> io::Result<()> {
        let Some(Relay { socket: mut near, .. }) = self.remove_sctp(id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        near.rename(&base.core.registry, Source::Near(id.0).token())?;
        far.adopt(&early.options);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.carrier = Carrier::Tcp(Some(reason));
        }
        self.start_plain(id, TcpRelay::new(near, far).begin_with(early.sent.freeze()));
        base.core.counters.count_fallback(reason);
        base.core.count("early_opens_refused");
        base.core.count("tcp_relays_started");
        Ok(())
    }
}
