//! Connections whose peers have not answered yet: what they would need to go on elsewhere.

use super::{Carrier, Ends, Relay, Relays, TcpRelay};
use crate::base::Base;
use crate::ids::RelayId;
use crate::socket::Socket;
use crate::token::Source;
use bytes::BytesMut;
use manypath_control::status::FallbackReason;
use manypath_rules::Options;
use std::io;
use std::net::SocketAddr;

/// What a connection has sent that the peer has not accepted: no more than it may take before that, 64 KiB
/// (`docs/flow-protocol.md`, section 3.2).
#[derive(Debug)]
pub(crate) struct Early {
    /// The address that the program chose.
    source: Option<SocketAddr>,
    sent: BytesMut,
}

impl Early {
    pub(crate) fn of(source: Option<SocketAddr>) -> Self {
        Self { source, sent: BytesMut::new() }
    }

    pub(crate) const fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    pub(super) fn note(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
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
        self.sctp.get_mut(&id)?.take_early()?;
        self.destination_of(id)
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
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.carrier = Carrier::Tcp(Some(reason));
        }
        self.start_plain(id, TcpRelay::new(near, far).begin_with(early.sent.freeze()));
        base.core.count("tcp_relays_started");
        Ok(())
    }
}
