//! The UDP port below 1024 that proves a peer: who has it could have any other port below 1024 of that host as well.
//!
//! ```text
//! connect to a port below 1024 ─▶ UDP 899 ─▶ answer ──▶ association, also for all other ports
//!                                     └────▶ nobody ──▶ plain TCP
//! connect to another port ──────▶ UDP 899 if there is an association, else UDP 9899
//! ```
//!
//! Every user of a host may have UDP 9899 there while root has not. Such a user must get no connections to ports that
//! plain TCP would never lead to him.

use crate::base::Base;
use crate::config::{Encapsulation, FIRST_FREE_PORT, StackConfig};
use crate::core::Core;
use crate::datagrams::rendezvous;
use crate::locals::{Local, Locals};
use crate::log;
use crate::parameters::Manner;
use crate::proven::is_living;
use crate::token::Source;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant, LocalAddress};
use manypath_net::{Driver, LocalBinding, UdpHolder, UdpPort};
use manypath_rules::{Encrypt, Options};
use manypath_trust::is_key_address;
use mio::{Registry, Token};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tracing::{info, warn};

/// Who may answer for a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Acceptor {
    /// Whoever has the usual UDP port of its host.
    Anyone,
    /// Who has the UDP port below 1024.
    Privileged,
    /// Who has this UDP port, at which a relay is: it answers for no service of its host.
    At(u16),
}

impl Acceptor {
    /// Why connections are plain TCP if this one has failed for `reason`.
    pub(crate) fn reason(self, reason: FallbackReason) -> FallbackReason {
        use FallbackReason as R;
        match (self, reason) {
            (Self::Privileged, R::Silent | R::Refused | R::NotManypath) => R::UnprovenPort,
            _ => reason,
        }
    }
}

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

impl Core {
    /// Who has to answer for a connection to `destination`.
    pub(crate) fn acceptor_for(&self, destination: SocketAddr, options: &Options) -> Acceptor {
        let native = self.config.encapsulation == Encapsulation::Native;
        let trusted = options.unproven.unwrap_or(self.config.carrying.unproven);
        // The key proves more than the port.
        let trusted = trusted || is_key_address(destination.ip());
        match destination.port() < FIRST_FREE_PORT && !native && !trusted {
            true => Acceptor::Privileged,
            false => Acceptor::Anyone,
        }
    }

    /// Where `peer` is asked over UDP.
    pub(crate) fn udp_address(
        &self,
        peer: IpAddr,
        acceptor: Acceptor,
    ) -> Result<SocketAddr, FallbackReason> {
        if is_key_address(peer) {
            return Ok(SocketAddr::new(peer, rendezvous::PORT));
        }
        let (usual, privileged) = (self.config.peer_port(), self.config.privileged_port);
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
}

impl Base {
    /// Who was asked for an association.
    pub(crate) fn acceptor_of(&self, id: AssociationId) -> Acceptor {
        self.get(&id).map_or(Acceptor::Anyone, |association| association.acceptor)
    }

    /// The addresses at which connections to the peer may be handed to it, and as which acceptor.
    pub(crate) fn living_acceptors(&self, id: AssociationId) -> Vec<(IpAddr, Acceptor)> {
        let asked = self.acceptor_of(id);
        let living = self.core.paths_of(id).into_iter().filter(is_living);
        living.map(|path| acceptor_at(path.addr.remote, asked)).collect()
    }
}

/// Opens the second socket of an address that has come, if there are such.
pub(crate) fn bind_second(core: &mut Core, local: &mut Local, binding: LocalBinding) {
    let Some(port) = core.locals.second_port else { return };
    let socket = core.locals.next_socket();
    match bind(&mut core.driver, &core.registry, socket, (binding, port)) {
        Ok(()) => local.beside.push(socket),
        Err(error) => report(&core.config, &error),
    }
}

/// As whom a peer answers at an address. One that was asked at a privileged port may answer elsewhere from another
/// port, which every user of that host may have.
fn acceptor_at(remote: SocketAddr, asked: Acceptor) -> (IpAddr, Acceptor) {
    let keeps = remote.port() < FIRST_FREE_PORT || matches!(asked, Acceptor::At(_));
    let acceptor = if keeps { asked } else { Acceptor::Anyone };
    (remote.ip().to_canonical(), acceptor)
}

/// Opens sockets at the port that `config` names. Where another user has taken that, a stack that may have the
/// privileged port serves that one alone.
pub(crate) fn bind_fixed(
    config: &StackConfig,
    driver: &mut Driver,
    registry: &Registry,
    bindings: &[(Token, LocalBinding)],
) -> io::Result<Vec<LocalAddress>> {
    let mut bind = |port| driver.bind_all(registry, bindings, UdpPort::Fixed(port));
    let (error, second) = match (bind(config.udp_port), config.second_port()) {
        (Err(error), Some(second)) if is_squatted(&error, config.udp_port) => (error, second),
        (bound, _) => return bound,
    };
    let Ok(bound) = bind(second) else { return Err(error) };
    warn!(target: log::STACK, "{error}; going on with UDP port {second} alone");
    Ok(bound)
}

fn is_squatted(error: &io::Error, port: u16) -> bool {
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    taken && manypath_net::udp_holders(port, None).iter().any(UdpHolder::is_stranger)
}

/// Opens a second socket for each of `bindings`, at the privileged port, if this process may.
pub(crate) fn bind_beside(
    config: &StackConfig,
    driver: &mut Driver,
    registry: &Registry,
    bindings: Vec<LocalBinding>,
    locals: &mut Locals,
) {
    let Some(port) = config.second_port() else { return };
    if locals.udp_port() == port {
        return;
    }
    locals.second_port = Some(port);
    for (at, binding) in bindings.into_iter().enumerate() {
        let socket = locals.next_socket();
        if let Err(error) = bind(driver, registry, socket, (binding, port)) {
            report(config, &error);
            return close(driver, locals);
        }
        locals.open[at].beside.push(socket);
    }
}

/// An association needs the port at each of our addresses.
fn close(driver: &mut Driver, locals: &mut Locals) {
    locals.second_port = None;
    for socket in locals.open.iter_mut().flat_map(|local| local.beside.drain(..)) {
        driver.unbind(Instant::ZERO, Source::Local(socket).token());
    }
}

pub(crate) fn bind(
    driver: &mut Driver,
    registry: &Registry,
    socket: u64,
    (mut binding, port): (LocalBinding, u16),
) -> io::Result<()> {
    binding.addr.set_port(port);
    driver.bind_beside(registry, Source::Local(socket).token(), &binding)
}

/// Who serves a host has to know; a program of a user has no port below 1024 anyway.
fn report(config: &StackConfig, error: &io::Error) {
    if config.loop_index() > 0 {
        return;
    }
    let what = match error.kind() == io::ErrorKind::AddrInUse {
        true => "another program answers for ports below 1024 of this host",
        false => "clients reach ports below 1024 of this host by plain TCP",
    };
    match error.kind() == io::ErrorKind::PermissionDenied && !config.process.service {
        true => info!(target: log::STACK, "{what}: {error}"),
        false => warn!(target: log::STACK, "{what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_at_which_the_peer_has_another_port_proves_nothing() {
        let at = |remote: &str, asked| acceptor_at(remote.parse().unwrap(), asked).1;
        assert_eq!(at("192.0.2.1:899", Acceptor::Privileged), Acceptor::Privileged);
        assert_eq!(at("192.0.2.2:9899", Acceptor::Privileged), Acceptor::Anyone);
        assert_eq!(at("192.0.2.1:899", Acceptor::Anyone), Acceptor::Anyone);
    }

    #[test]
    fn only_silence_at_the_privileged_port_is_a_want_of_proof() {
        use FallbackReason as R;
        for reason in [R::Silent, R::Refused, R::NotManypath] {
            assert_eq!(Acceptor::Privileged.reason(reason), R::UnprovenPort);
            assert_eq!(Acceptor::Anyone.reason(reason), reason);
        }
        assert_eq!(Acceptor::Privileged.reason(R::NotAllowed), R::NotAllowed);
    }
}
