//! Where peers are asked, and for which connections.

use super::by_key;
use crate::config::FIRST_FREE_PORT;
use crate::core::Core;
use crate::parameters::Manner;
use crate::privileged::Acceptor;
use manypath_control::status::FallbackReason;
use manypath_rules::Encrypt;
use manypath_trust::is_key_address;
use std::net::{IpAddr, SocketAddr};

/// Connections that may use the same association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PeerKey {
    /// Address of the peer.
    pub(crate) addr: IpAddr,
    pub(crate) manner: Manner,
    pub(crate) acceptor: Acceptor,
    pub(crate) encrypt: Encrypt,
    /// The isolated network into which the connections are routed.
    pub(crate) realm: Option<u32>,
}

/// Where `peer` is asked over UDP.
pub(super) fn udp_address(
    core: &Core,
    peer: IpAddr,
    acceptor: Acceptor,
) -> Result<SocketAddr, FallbackReason> {
    if is_key_address(peer) {
        return Ok(SocketAddr::new(peer, by_key::PORT));
    }
    let (usual, privileged) = (core.config.peer_port(), core.config.privileged_port);
    let port = match acceptor {
        Acceptor::Anyone => usual,
        Acceptor::Privileged if usual < FIRST_FREE_PORT => usual,
        Acceptor::Privileged => privileged,
        Acceptor::At(port) => port,
    };
    match (acceptor, port) {
        (Acceptor::Privileged, 0) => Err(FallbackReason::UnprovenPort),
        _ => Ok(SocketAddr::new(peer, port)),
    }
}

/// Sockets that are bound to an interface take everything to be on its link, and would ask in vain for a peer
/// to which the kernel knows no way from any of our addresses. Plain TCP fails at once there.
pub(super) fn check_route(core: &Core, remote: IpAddr) -> Result<(), FallbackReason> {
    let locals = core.locals.open.iter().map(|local| local.address.addr.ip());
    let sources = locals.filter(|local| local.is_ipv4() == remote.is_ipv4()).map(Some);
    let is_unreachable = |source| {
        let route = manypath_net::route_to(remote, source, None);
        route.is_err_and(|error| error.raw_os_error() == Some(libc::ENETUNREACH))
    };
    match std::iter::once(None).chain(sources).all(is_unreachable) {
        true => Err(FallbackReason::NoLocalAddress),
        false => Ok(()),
    }
}
