//! The server side: a peer's datagrams for a service of this host.
//!
//! The same holds as for connections: the service must be open to peers, and is reached at exactly the
//! address that the peer has used, or that a NAT makes of it, from the same address, never over loopback in its stead.

use super::Datagrams;
use super::relay::{Relay, Side, is_ephemeral};
use crate::allow::{self, Denied};
use crate::base::{Base, proven};
use crate::ids::DatagramId;
use crate::log;
use crate::services::Services;
use manypath_engine::AssociationId;
use manypath_flow::{DatagramFlow, Refusal};
use manypath_rules::{Options, Protocol, Query};
use socket2::{Domain, Protocol as IpProtocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tracing::{debug, info};

impl Datagrams {
    pub(super) fn on_incoming(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        id: AssociationId,
        flow: DatagramFlow,
        destination: SocketAddr,
        source: SocketAddr,
    ) {
        if self.rendezvous.is_call(base, id, destination) {
            return self.rendezvous.answer_call(base, (id, flow), source);
        }
        if !base.core.phase.serves_peers() {
            return refuse_datagrams(base, id, flow, Refusal::Busy, "datagrams_denied_ending");
        }
        match self.admit(base, services, id, destination, source) {
            Ok((ends, options)) => self.serve(base, id, flow, ends, options),
            Err(denied) => {
                debug!(target: log::CONNECTION,
                    "association {}: no datagrams to {destination}: {denied}", id.0);
                let (refusal, counter) = match denied {
                    Denied::Unconfirmed => (Refusal::Busy, "datagrams_denied_unconfirmed_address"),
                    Denied::NoClientAddress => {
                        (Refusal::Busy, "datagrams_denied_no_client_address")
                    }
                    Denied::NotReachable
                    | Denied::ForeignAddress
                    | Denied::NotListed
                    | Denied::NotCovered
                    | Denied::NotEncrypted
                    | Denied::TooMany
                    | Denied::OverQuota
                    | Denied::Form => (Refusal::NotAllowed, "datagrams_denied"),
                };
                refuse_datagrams(base, id, flow, refusal, counter);
            }
        }
    }

    /// The service that a peer may reach, and its verified client.
    fn admit(
        &self,
        base: &mut Base,
        services: &mut Services,
        id: AssociationId,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> Result<((SocketAddr, SocketAddr), Options), Denied> {
        if !base.core.services().is_empty() {
            return Err(Denied::NotListed);
        }
        let service = services.resolve_local_service(base, id, Protocol::Udp, destination)?;
        let who = proven::client_of(base, id);
        let query = Query::local(Protocol::Udp, service, Some(&who));
        let locals = base.core.reachable_locals(id, query);
        let loopback = base.core.config.loopback_paths;
        let (service, options) = allow::admit(query, &locals, &base.core.rules, loopback)?;
        let client =
            base.core.verified_client(id, service, source).ok_or(Denied::NoClientAddress)?;
        Ok(((service, client), options))
    }

    fn serve(
        &mut self,
        base: &mut Base,
        association: AssociationId,
        flow: DatagramFlow,
        (service, client): (SocketAddr, SocketAddr),
        options: Options,
    ) {
        let id = DatagramId(base.core.next_id());
        let relay = socket_for(service, client.port()).and_then(|fd| {
            Relay::new(fd, (&base.core.registry, id), Side::Service, service, client)
        });
        let relay = match relay {
            Ok(relay) => relay,
            Err(error) => {
                debug!(target: log::CONNECTION, "datagrams to {service}: {error}");
                let busy = Refusal::Busy;
                return refuse_datagrams(base, association, flow, busy, "datagrams_impossible");
            }
        };
        let lifetime = options.lifetime.map(|ms| Duration::from_millis(ms.into()));
        base.with_datagrams(association, |datagrams| {
            if let Some(lifetime) = lifetime {
                datagrams.set_lifetime(flow, lifetime);
            }
            datagrams.set_redundant(flow, options.redundant == Some(true));
            datagrams.accept(flow);
        });
        let by = base.keys.who(association).map_or_else(String::new, |who| format!(" by {who}"));
        info!(target: log::CONNECTION, carrier = "sctp",
            "datagrams from {client} to {service}{by}: over association {}", association.0);
        let carrier = Some((association, flow));
        self.start(base, id, Relay { carrier, options, ..relay });
    }
}

pub(super) fn refuse_datagrams(
    base: &mut Base,
    id: AssociationId,
    flow: DatagramFlow,
    refusal: Refusal,
    counter: &'static str,
) {
    base.core.count(counter);
    base.with_datagrams(id, |datagrams| datagrams.close(flow, Some(refusal)));
}

/// A socket at the service's own address, connected to the service. It has the port of the peer's
/// program if that is free and not one at which services are expected.
fn socket_for(service: SocketAddr, port: u16) -> io::Result<OwnedFd> {
    let domain = Domain::for_address(service);
    let socket = Socket::new(domain, Type::DGRAM, Some(IpProtocol::UDP))?;
    let at = |port| socket.bind(&SocketAddr::new(service.ip(), port).into());
    if !is_ephemeral(port) || at(port).is_err() {
        at(0)?;
    }
    socket.connect(&service.into())?;
    Ok(socket.into())
}
