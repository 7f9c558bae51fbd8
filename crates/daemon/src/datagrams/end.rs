//! The ends: idle flows, programs that have gone, associations that were lost.

use super::open::{leave_datagrams, note_left, refuse_datagrams};
use super::relay::{Relay, Side};
use super::{Datagrams, Step};
use crate::attempt::{must_fail, unspecified_like};
use crate::base::{Base, Setup};
use crate::core::Core;
use crate::ids::{Client, DatagramId};
use crate::kernel_tables::udp;
use crate::log;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration};
use manypath_flow::DatagramFlow;
use manypath_rules::Options;
use std::net::SocketAddr;
use tracing::info;

/// How often idle flows and sockets that are gone are looked for.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

impl Datagrams {
    /// They cannot be carried, or no more: the program goes on with plain UDP.
    pub(super) fn give_up(&mut self, base: &mut Base, id: DatagramId, reason: FallbackReason) {
        if self.rendezvous.on_way_closed(base, id, None) {
            return;
        }
        let by = self.attempts.get(&id).map(|one| one.by);
        let by = by.or_else(|| self.relays.get(&id).map(|one| one.by)).flatten();
        self.failed_relays.extend(by.map(|relay| (relay, reason)));
        if self.try_next_relay(base, id, reason) {
            return;
        }
        if let Some(attempt) = self.attempts.get(&id) {
            let (client, destination) = (attempt.client, attempt.destination);
            let (options, told) = (attempt.options, matches!(attempt.step, Step::Promised(_)));
            let options = held_now(&base.core, options, destination, attempt.source);
            self.cancel(base, client);
            if !told || must_fail(&options, reason) {
                return leave_datagrams(&mut base.core, client, destination, &options, reason);
            }
            note_left(&mut base.core, destination, reason);
            return base.core.reply(client.control, Reply::Closed { id: client.id });
        }
        let Some(relay) = self.relays.get(&id) else { return };
        if let Side::Program { client, .. } = relay.side {
            let destination = relay.destination;
            let options = held_now(&base.core, relay.options, destination, relay.source);
            if must_fail(&options, reason) {
                refuse_datagrams(&mut base.core, client, destination, reason);
                return self.drop_relay(base, id);
            }
            base.core.counters.count_fallback(reason);
            info!(target: log::CONNECTION, carrier = "udp",
                "datagrams to {destination}: plain UDP from now on: {reason}");
            base.core.reply(client.control, Reply::Closed { id: client.id });
        }
        self.drop_relay(base, id);
    }

    /// The launcher does not want them to be carried any more.
    pub(crate) fn cancel(&mut self, base: &mut Base, client: Client) {
        let Some(id) = self.clients.get(&client).copied() else { return };
        if let Some(attempt) = self.attempts.remove(&id) {
            self.clients.remove(&client);
            match attempt.step {
                Step::Opening(flow) | Step::Promised(Some(flow)) => {
                    close_flow(base, attempt.association, Some(flow));
                }
                Step::Connecting | Step::Promised(None) => {}
            }
        }
        self.end_soon(base, id);
    }

    /// What the program has sent is still delivered, as far as it is worth something.
    fn end_soon(&mut self, base: &Base, id: DatagramId) {
        let Some(relay) = self.relays.get_mut(&id) else { return };
        let options = relay.options;
        self.ready.insert(id);
        let ends = base.core.now + super::open::lifetime(&base.core, &options);
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.ends = relay.ends.or(Some(ends));
            relay.leave();
        }
    }

    /// A launcher has gone.
    pub(crate) fn end_of(&mut self, base: &mut Base, scratch: &mut [u8], control: u64) {
        self.end_line(base, scratch, control);
        let clients = self.clients.keys();
        let gone: Vec<Client> =
            clients.filter(|one| one.control == control.into()).copied().collect();
        gone.into_iter().for_each(|client| self.cancel(base, client));
    }

    /// Forgets a relay, and tells the peer.
    pub(super) fn drop_relay(&mut self, base: &mut Base, id: DatagramId) {
        let Some(relay) = self.relays.remove(&id) else { return };
        self.ready.remove(&id);
        self.pings.end(base.core.now, id.0);
        match relay.side {
            Side::Program { client, .. } => drop(self.clients.remove(&client)),
            Side::Beyond(peer) => self.ended_onward.push((peer, relay.moved)),
            Side::Service => {}
        }
        if let Some((association, flow)) = relay.carrier {
            close_flow(base, association, Some(flow));
        }
        base.core.count("datagram_relays_ended");
    }

    pub(crate) fn on_timer(&mut self, base: &mut Base) {
        let rows = udp::rows();
        let ids: Vec<DatagramId> = self.relays.keys().copied().collect();
        for id in ids {
            self.look_after(base, id, &rows);
        }
        self.watching = !self.relays.is_empty();
        if self.watching {
            base.core.after(INTERVAL, Timer::Datagrams);
        }
    }

    fn look_after(&mut self, base: &mut Base, id: DatagramId, rows: &udp::Rows) {
        let (now, idle_after) = (base.core.now, base.core.config.limits.datagram_idle);
        let Some(relay) = self.relays.get_mut(&id) else { return };
        let own = relay.local_addr().unwrap_or_else(|_| unspecified_like(relay.destination));
        relay.dropped_by_kernel = rows.dropped_at(own).unwrap_or(relay.dropped_by_kernel);
        if relay.ends.is_none() && is_gone(relay, rows) {
            return self.end_soon(base, id);
        }
        let idle = now.since(relay.last) >= idle_after;
        match relay.side {
            _ if relay.ends.is_some_and(|ends| ends <= now) => self.drop_relay(base, id),
            Side::Service | Side::Beyond(_) if idle => self.drop_relay(base, id),
            Side::Program { client, program } if idle && program.inode.is_none() => {
                base.core.reply(client.control, Reply::Idle { id: client.id });
                self.drop_relay(base, id);
            }
            Side::Program { .. } if idle => {
                if let Some((association, flow)) = relay.carrier.take() {
                    close_flow(base, association, Some(flow));
                }
            }
            Side::Program { .. } | Side::Service | Side::Beyond(_) => {}
        }
    }
}

/// The options, which forbid plain UDP where the kernel would send it over an uplink that they exclude: its route may be
/// another one than at the begin.
fn held_now(
    core: &Core,
    mut options: Options,
    destination: SocketAddr,
    source: SocketAddr,
) -> Options {
    core.hold_to_uplinks(&mut options, destination.ip(), Some(source.ip()));
    options
}

/// Nobody uses the flow any more. Returns who did.
pub(super) fn forget_datagrams(
    base: &mut Base,
    id: AssociationId,
    flow: DatagramFlow,
) -> Option<DatagramId> {
    let now = base.core.now;
    let association = base.get_mut(&id)?;
    let user = association.datagrams.remove(&flow);
    association.idle.since = now;
    if association.is_unused() && association.setup == Setup::Over {
        base.remove(id);
    } else if association.is_unused() && association.is_ours() {
        base.watch_idle(id);
    }
    user
}

pub(super) fn close_flow(base: &mut Base, id: AssociationId, flow: Option<DatagramFlow>) {
    if let Some(flow) = flow {
        base.with_datagrams(id, |datagrams| datagrams.close(flow, None));
        forget_datagrams(base, id, flow);
    }
}

/// Whether the program has closed its socket. Another one may be given its port.
fn is_gone(relay: &Relay, rows: &udp::Rows) -> bool {
    match relay.side {
        Side::Program { program, .. } => program.inode.is_some_and(|inode| !rows.has(inode)),
        Side::Service | Side::Beyond(_) => false,
    }
}
