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

use crate::config::StackConfig;
use crate::log;
use crate::token::Source;
use manypath_control::status::FallbackReason;
use manypath_engine::LocalAddress;
use manypath_net::{Driver, LocalBinding, UdpHolder, UdpPort};
use mio::{Registry, Token};
use std::io;
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
pub(crate) fn report(config: &StackConfig, error: &io::Error) {
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
    fn only_silence_at_the_privileged_port_is_a_want_of_proof() {
        use FallbackReason as R;
        for reason in [R::Silent, R::Refused, R::NotManypath] {
            assert_eq!(Acceptor::Privileged.reason(reason), R::UnprovenPort);
            assert_eq!(Acceptor::Anyone.reason(reason), reason);
        }
        assert_eq!(Acceptor::Privileged.reason(R::NotAllowed), R::NotAllowed);
    }
}
