//! Options of programs' sockets that mean something to the way of their bytes.
//!
//! Most need nothing here: nothing is delayed for being small (`TCP_NODELAY`), HEARTBEATs find out
//! about peers that have gone (`SO_KEEPALIVE`), what a program ends or resets is passed on
//! (`SO_LINGER`), and the sizes of the program's own buffers are the kernel's matter.

use super::{Ended, Relays};
use crate::base::Base;
use crate::ids::{Client, RelayId};
use crate::relays::connection::RelayEnd;
use crate::timers::Timer;
use manypath_control::SocketOptions;
use manypath_engine::{Duration, Instant};
use manypath_rules::{Class, Options};

/// `IPTOS_LOWDELAY`, from before there were DSCPs.
const LOW_DELAY: u8 = 0x10;

/// How long a program waits for a peer that does not answer (`TCP_USER_TIMEOUT`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// Packets received from the peer when it was last looked at.
    packets: u64,
    /// When the peer had last been heard of, or had nothing to answer.
    heard: Instant,
}

impl Patience {
    /// The time until now does not count.
    pub(crate) const fn begin_anew(&mut self, now: Instant) {
        self.heard = now;
    }
}

impl Relays {
    /// A launcher tells the options of an attached connection's socket.
    pub(crate) fn on_socket_options(
        &mut self,
        base: &mut Base,
        client: Client,
        options: &SocketOptions,
    ) {
        let Some(id) = base.core.control.attempt(client).map(|attempt| RelayId(attempt.0)) else {
            return;
        };
        if let Some(relay) = self.tcp.get(&id) {
            relay.far.adopt(options);
        }
        let Some(relay) = self.sctp.get_mut(&id) else { return };
        relay.adopt(*options);
        let (association, flow, rule) = (relay.association, relay.flow, relay.options);
        let class = rule.class.or_else(|| class_of(options.traffic_class));
        base.treat(association, flow, &Options { class, ..rule });
        let limit = Duration::from_millis(options.user_timeout_ms.into());
        self.set_patience(base, id, (!limit.is_zero()).then_some(limit));
    }

    fn set_patience(&mut self, base: &mut Base, id: RelayId, limit: Option<Duration>) {
        let now = base.core.now;
        let Some(relay) = self.sctp.get_mut(&id) else { return };
        let watched = relay.patience.is_some();
        let packets = u64::MAX;
        relay.patience = limit.map(|limit| Patience { limit, packets, heard: now });
        if let Some(limit) = limit.filter(|_| !watched) {
            base.core.timers.set(now + pause(limit), Timer::Patience(id));
        }
    }

    /// The relay that has ended by that, if it has.
    pub(crate) fn on_patience_timer(&mut self, base: &mut Base, id: RelayId) -> Option<Ended> {
        let relay = self.sctp.get(&id)?;
        let mut patience = relay.patience?;
        let packets = base.core.packets_received(relay.association);
        if packets != patience.packets || !self.awaits_answer(base, id) {
            patience = Patience { packets, heard: base.core.now, ..patience };
        }
        if base.core.now.since(patience.heard) >= patience.limit {
            return Some(self.break_off(base, id, RelayEnd::OutOfPatience));
        }
        if let Some(relay) = self.sctp.get_mut(&id) {
            relay.patience = Some(patience);
        }
        base.core.after(pause(patience.limit), Timer::Patience(id));
        None
    }

    /// Whether anything was sent, or waits to be, that the peer has not acknowledged.
    fn awaits_answer(&self, base: &Base, id: RelayId) -> bool {
        let Some(relay) = self.sctp.get(&id) else { return false };
        let status = base.core.status_of(relay.association);
        let engine = status.is_some_and(|status| status.unsent + status.outstanding > 0);
        let flow = || {
            let association = base.get(&relay.association)?;
            Some(association.mux.status(relay.flow)?.queued > 0)
        };
        engine || flow().unwrap_or(false)
    }
}

/// How long until it is looked at again.
fn pause(limit: Duration) -> Duration {
    (limit / 8).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// What `IP_TOS` or `IPV6_TCLASS` says about a connection: the service classes of RFC 4594 that care
/// for delay are AF2x, AF4x, CS2, CS4, CS5, VOICE-ADMIT and EF.
const fn class_of(traffic_class: u8) -> Option<Class> {
    match traffic_class >> 2 {
        16 | 18 | 20 | 22 | 32 | 34 | 36 | 38 | 40 | 44 | 46 => Some(Class::Interactive),
        _ if traffic_class & 0xfc == LOW_DELAY => Some(Class::Interactive),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_asks_for_at_a_terminal_is_interactive_and_its_copies_are_not() {
        // OpenSSH: af21 for a terminal (ef in newer ones), cs1 for everything else; lowdelay and
        // throughput in old ones.
        for interactive in [0x48, 0xb8, 0x10] {
            assert_eq!(class_of(interactive), Some(Class::Interactive), "{interactive:#x}");
        }
        for other in [0x00, 0x20, 0x08, 0x28, 0x03] {
            assert_eq!(class_of(other), None, "{other:#x}");
        }
    }
}
