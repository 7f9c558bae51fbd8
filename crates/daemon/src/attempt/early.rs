//! Connects that are completed before the peer has answered.
//!
//! At the first contact with a host the peer's answer is a round trip behind the keys, and the program's first bytes
//! would be another one behind the answer. Where plain TCP has been tried beside SCTP and has reached the service, it is
//! known that somebody listens: the program is connected as soon as OPEN may leave, and OPEN takes along what the
//! program writes (`docs/flow-protocol.md`, section 3.2). If the peer refuses the flow after all, nobody has read these
//! bytes, and a TCP connection of the stack begins with them.
//!
//! ```text
//! INIT ─▶ keys ─▶ Accepted ──▶ Attach ──▶ OPEN, first bytes ─┬─▶ ACCEPT: as any other
//! SYN  ─▶ SYN ACK ──▲                                        └─▶ REFUSE: plain TCP, first bytes again
//! ```

use super::race::connect_from;
use super::{Attempt, Attempts, Sctp};
use crate::base::{Base, protection};
use crate::core::Core;
use crate::ids::{AttemptId, Control, RelayId};
use crate::log;
use crate::relays::{Early, Relays};
use crate::socket::Socket;
use crate::token::Source;
use manypath_control::Transport;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_rules::Options;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use tracing::debug;

/// Attempts whose services plain TCP has reached, while their associations cannot ask for them yet.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<AssociationId, Vec<AttemptId>>);

impl Reached {
    /// Plain TCP has reached the service of an attempt.
    pub(super) fn note(&mut self, id: AttemptId, attempt: &Attempt) {
        // A relay passes on whether the next hop has accepted.
        let may_be_early = attempt.raced && attempt.client.control != Control::Onward;
        if let (Sctp::Opening { association, .. }, true) = (attempt.sctp, may_be_early) {
            self.0.entry(association).or_default().push(id);
        }
    }

    /// Takes out those whose associations can ask for them now, or are gone.
    fn take_open(&mut self, base: &Base) -> Vec<(AssociationId, AttemptId)> {
        let is_over = |id: &AssociationId| protection::is_open(base, *id) || base.get(id).is_none();
        let over: Vec<_> = self.0.keys().copied().filter(is_over).collect();
        let of = |id| self.0.remove(&id).into_iter().flatten().map(move |attempt| (id, attempt));
        over.into_iter().flat_map(of).collect()
    }
}

/// Completes the connects whose services plain TCP has reached, once their associations can ask for them.
pub(crate) fn follow_reached(attempts: &mut Attempts, base: &mut Base) {
    for (over, id) in attempts.reached.take_open(base) {
        let Some(attempt) = attempts.all.get_mut(&id) else { continue };
        if !matches!(attempt.sctp, Sctp::Opening { association, .. } if association == over) {
            continue;
        }
        attempt.early = true;
        attempt.stop_clocks(&mut base.core.timers, id);
        let (client, open) = (attempt.client, attempt.open);
        base.core.count("opens_early");
        attempts.end_race(base, id);
        let local = base.core.local_name(over, &open);
        attempts.promise(base, id, client, Transport::Sctp, local, open.destination);
    }
}

/// Goes on over plain TCP with a connection whose flow the peer has refused, or says why that cannot be.
pub(crate) fn go_on_plainly(
    base: &mut Base,
    relays: &mut Relays,
    id: RelayId,
    reason: FallbackReason,
) -> io::Result<()> {
    let Some((early, options, destination)) = relays.take_early(id) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let far = connect_anew(&base.core, &early, options, destination, id)?;
    debug!(target: log::CONNECTION, "{destination}: plain TCP: {reason}");
    relays.change_to_plain(base, id, far, early, reason)
}

fn connect_anew(
    core: &Core,
    early: &Early,
    mut options: Options,
    destination: SocketAddr,
    id: RelayId,
) -> io::Result<Socket> {
    let source = early.source();
    core.hold_to_uplinks(&mut options, destination.ip(), source.map(|source| source.ip()));
    if options.is_sctp_only() {
        return Err(io::Error::from_raw_os_error(libc::ENETUNREACH));
    }
    let socket = connect_from(source, destination, false)?;
    Socket::to_another_host(socket, &core.registry, Source::Far(id.0).token())
}
