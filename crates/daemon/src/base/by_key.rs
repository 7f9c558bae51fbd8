//! Hosts that are reached by their keys: the address that stands for the key of this one, and what holds for connections
//! to others (`datagrams/rendezvous`).

use super::Base;
use crate::log;
use manypath_control::status::FallbackReason;
use manypath_engine::{Duration, LocalAddress};
use manypath_rules::{Encrypt, Form, Options, StepAside};
use std::net::SocketAddr;
use tracing::info;

/// The UDP port beside an address that stands for a key: there is no other.
pub(crate) const PORT: u16 = 9899;
/// How long a program waits for a host that is reached by its key: two handshakes, one of them through the relay.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The largest IP packet of a path through a relay, so that it fits one of the path to the relay.
const MTU: u16 = 1280;

/// What holds for connections to a host that is known by its key, whatever the rules say: it can be reached by no other
/// way than an encrypted association.
pub(crate) const fn options(options: Options) -> Options {
    Options {
        encrypt: Some(Encrypt::Require),
        sctp_only: Some(true),
        form: Some(Form::Mux),
        step_aside: Some(StepAside::Never),
        ..options
    }
}

/// Takes the address that stands for the key of this host into use.
///
/// # Errors
/// There is no such key.
pub(crate) fn begin(base: &mut Base) -> Result<(), FallbackReason> {
    if base.core.scopes.own_key().is_some() {
        return Ok(());
    }
    let own = base.keys.own_address().ok_or(FallbackReason::NotEncrypted)?;
    base.core.use_own_key(own);
    let addr = SocketAddr::new(own, PORT);
    base.core.driver.carry_parcels(LocalAddress { addr, prefix_len: 128, interface: 0, mtu: MTU });
    base.core.path_policies.own_key = Some(own);
    base.core.locals.own_key = Some(own);
    base.core.tell_path_policies();
    info!(target: log::STACK, "{own} stands for the key of this host");
    Ok(())
}
