//! Packets between the engine and a flow of datagrams that leads to a relay, and the search for ways past that.

use super::super::DatagramId;
use super::super::onward::{association_with, relays};
use super::super::open::use_datagrams;
use super::{Carrier, IDLE, LIFETIME, PATIENCE, PORT, Rendezvous};
use crate::attempt::{Attempts, RelayAt, patience_with_relay, relays_at};
use crate::base::Base;
use crate::keys::Standing;
use crate::log;
use crate::proven::key_of_peer;
use crate::timers::Timer;
use manypath_engine::{
    AssociationId, Duration, Instant, PathAddr, PathOffer, PathState, PathStatus,
};
use manypath_flow::{DatagramError, Refusal, SeenAt};
use manypath_net::Parcel;
use manypath_rules::Options;
use manypath_trust::is_key_address;
use std::net::{Ipv4Addr, SocketAddr};
use tracing::{debug, info};

/// Packets that wait for a way to their host: a handshake has no more under way.
const MAX_HELD: usize = 16;
/// Hosts to which a way is looked for at a time.
const MAX_ASKING: usize = 256;
/// How often both ends ask for each other, and after what pause: a NAT may let in only what answers.
const PUNCHES: u32 = 12;
const PUNCH_PAUSE: Duration = Duration::from_millis(200);
/// The same later on, as long as there is no other way than the relay.
const SLOW_PUNCH_PAUSE: Duration = Duration::from_secs(8);
/// Most pairs of addresses that are tried.
const MAX_PAIRS: usize = 8;

/// A flow that carries the packets of an association that begins or ends here.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) carrier: Carrier,
    /// The host at the other end, by its key.
    pub(super) remote: SocketAddr,
    /// Where the relay sees it.
    seen: SeenAt,
    /// How often it is still asked there in quick succession, and when next.
    punches: u32,
    asks_again: Option<Instant>,
    pub(super) last: Instant,
}

/// A host to which a way is looked for.
#[derive(Debug)]
pub(super) struct Asking {
    /// The relays to be tried, the best last, and the association with the one that is tried now.
    relays: Vec<RelayAt>,
    association: Option<AssociationId>,
    /// When the next one is tried if this one has not answered.
    moves_on: Instant,
    held: Vec<Parcel>,
    until: Instant,
}

impl Rendezvous {
    /// Sends what the engine has for hosts that are known by their keys.
    pub(crate) fn carry_parcels(&mut self, base: &mut Base, attempts: &Attempts) {
        while let Some(parcel) = base.core.driver.take_parcel() {
            match self.by_remote.get(&parcel.path.remote).copied() {
                Some(id) => self.send_parcel(base, id, &parcel),
                None => self.hold_parcel(base, attempts, parcel),
            }
        }
        let asking: Vec<SocketAddr> = self.asking.keys().copied().collect();
        for remote in asking {
            self.look_for_way(base, remote);
        }
        self.follow_home(base);
    }

    fn send_parcel(&mut self, base: &mut Base, id: DatagramId, parcel: &Parcel) {
        let now = base.core.now;
        let Some(leg) = self.legs.get_mut(&id) else { return };
        leg.last = now;
        let (association, flow) = leg.carrier;
        let time = Duration::from_nanos(now.as_nanos());
        let sent =
            base.with_datagrams(association, |datagrams| datagrams.send(time, flow, &parcel.bytes));
        if sent != Some(Ok::<(), DatagramError>(())) {
            base.core.count("parcels_without_way");
        }
    }

    fn hold_parcel(&mut self, base: &mut Base, attempts: &Attempts, parcel: Parcel) {
        let remote = parcel.path.remote;
        let asking = &mut self.asking;
        if !asking.contains_key(&remote) {
            let via = base.core.rules.connect(remote).1.via.or(base.core.config.via);
            let Some(via) = via.filter(|via| !via.is_off()) else {
                // A host that waits to be called finds no other way by itself.
                return base.core.count("parcels_without_way");
            };
            let mut relays = relays_at(attempts, &base.core, via);
            relays.reverse();
            if asking.len() >= MAX_ASKING {
                return base.core.count("parcels_without_way");
            }
            let until = base.core.now + PATIENCE;
            let (association, moves_on, held) = (None, base.core.now, Vec::new());
            let one = Asking { relays, association, moves_on, held, until };
            asking.insert(remote, one);
        }
        let Some(one) = asking.get_mut(&remote) else { return };
        match one.held.len() < MAX_HELD {
            true => one.held.push(parcel),
            false => base.core.count("parcels_without_way"),
        }
    }

    /// Asks the next relay, or the present one as soon as it can be asked.
    fn look_for_way(&mut self, base: &mut Base, remote: SocketAddr) {
        let Some(one) = self.asking.get_mut(&remote) else { return };
        loop {
            let known = one.association.filter(|id| base.get(id).is_some());
            let Some(id) = known else {
                let Some(relay) = one.relays.pop() else {
                    return self.give_up_way(base, remote);
                };
                let unbound = Ipv4Addr::UNSPECIFIED.into();
                let options = Options::default();
                one.association = association_with(base, relay, unbound, &options).ok();
                let patience = one.association.map(|id| patience_with_relay(base, id));
                one.moves_on = base.core.now + patience.unwrap_or_default();
                continue;
            };
            match relays(base, id) {
                _ if one.until <= base.core.now => return self.give_up_way(base, remote),
                None if one.relays.is_empty() || base.core.now < one.moves_on => return,
                None | Some(false) => one.association = None,
                Some(true) => break,
            }
        }
        let association = one.association;
        if let Some(id) = association.filter(|id| super::super::agree::datagrams_agreed(base, *id))
        {
            self.open_leg(base, id, remote);
        }
    }

    fn open_leg(&mut self, base: &mut Base, association: AssociationId, remote: SocketAddr) {
        let Some(own) = base.core.scopes.own_key() else { return };
        let own = SocketAddr::new(own, PORT);
        let opened = base
            .with_datagrams(association, |datagrams| datagrams.open_beyond(remote, own, LIFETIME));
        let Some(Ok(flow)) = opened else { return self.give_up_way(base, remote) };
        let id = self.begin_leg(base, (association, flow), remote);
        let held = self.asking.remove(&remote).map(|one| one.held).unwrap_or_default();
        held.iter().for_each(|parcel| self.send_parcel(base, id, parcel));
        debug!(target: log::PATH, "{remote}: asked for at the relay of association {}", association.0);
    }

    pub(super) fn begin_leg(
        &mut self,
        base: &mut Base,
        carrier: Carrier,
        remote: SocketAddr,
    ) -> DatagramId {
        if let Some(old) = self.by_remote.get(&remote).copied() {
            self.end_leg(base, old);
        }
        let id = DatagramId(base.core.next_id());
        let last = base.core.now;
        let leg =
            Leg { carrier, remote, seen: SeenAt::default(), punches: 0, asks_again: None, last };
        self.legs.insert(id, leg);
        self.by_remote.insert(remote, id);
        use_datagrams(base, carrier.0, carrier.1, id);
        self.watch(base);
        id
    }

    /// No relay leads to the host.
    fn give_up_way(&mut self, base: &mut Base, remote: SocketAddr) {
        self.asking.remove(&remote);
        base.core.count("hosts_without_way");
        refuse_parcels(base, remote);
    }

    /// A datagram of a leg, or of a flow that this relay joins, has come. False if it is of neither.
    pub(in super::super) fn on_parcel(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        payload: &[u8],
    ) -> bool {
        let now = base.core.now;
        let Some(leg) = self.legs.get_mut(&id) else {
            return self.pass_over(base, id, payload);
        };
        leg.last = now;
        let Some(own) = base.core.scopes.own_key() else { return true };
        let path = PathAddr { local: SocketAddr::new(own, PORT), remote: leg.remote };
        base.core.driver.deliver_parcel(now, Parcel { path, bytes: payload.to_vec() });
        true
    }

    /// The relay says where it sees the host at the other end.
    pub(in super::super) fn on_seen(&mut self, base: &mut Base, id: DatagramId, seen: SeenAt) {
        let Some(leg) = self.legs.get_mut(&id) else { return };
        let addresses: Vec<_> = seen.iter().map(|addr| addr.to_string()).collect();
        debug!(target: log::PATH, "{}: the relay sees it at {}", leg.remote, addresses.join(", "));
        (leg.seen, leg.punches) = (seen, PUNCHES);
        self.punch(base, id);
    }

    /// An association is encrypted from now on, so that it is known to be with the host that was asked for.
    pub(crate) fn on_protected(&mut self, base: &mut Base, id: AssociationId) {
        let remote = key_of_peer(&base.core, id).map(|addr| SocketAddr::new(addr, PORT));
        let leg = remote.and_then(|remote| self.by_remote.get(&remote)).copied();
        let Some(id) = leg else { return };
        if let Some(leg) = self.legs.get_mut(&id) {
            leg.punches = PUNCHES;
        }
        self.punch(base, id);
    }

    /// Asks for the host at the other end where the relay sees it, from all addresses of this host, as it does in turn.
    pub(crate) fn punch(&mut self, base: &mut Base, id: DatagramId) {
        let Some(leg) = self.legs.get_mut(&id) else { return };
        let pause = if leg.punches > 0 { PUNCH_PAUSE } else { SLOW_PUNCH_PAUSE };
        leg.punches = leg.punches.saturating_sub(1);
        let core = &base.core;
        let is_own = |local: &&crate::locals::Local| {
            local.up && !core.scopes.is_isolated(local.address.addr.ip())
        };
        let locals = core.locals.open.iter().filter(is_own).map(|local| local.address.addr);
        let with = |local: SocketAddr| {
            let fitting = leg.seen.iter().filter(move |it| it.is_ipv4() == local.is_ipv4());
            fitting.map(move |remote| PathAddr { local, remote })
        };
        let pairs: Vec<PathAddr> = locals.flat_map(with).take(MAX_PAIRS).collect();
        let mut associations = super::associations_with(base, leg.remote.ip());
        associations.retain(|id| !is_direct(base, *id) && may_know_addresses(base, *id));
        if pairs.is_empty() || associations.is_empty() {
            return;
        }
        let now = base.core.now;
        for association in associations {
            for path in &pairs {
                let offer = PathOffer { association, path: *path };
                offer.make(base.core.driver.endpoint_mut(), now);
            }
        }
        base.core.count("direct_paths_asked_for");
        let at = now + pause;
        if let Some(leg) = self.legs.get_mut(&id)
            && leg.asks_again.is_none_or(|next| next <= now || next > at)
        {
            leg.asks_again = Some(at);
            base.core.timers.set(at, Timer::Punch(id));
        }
    }

    /// A leg, or a flow that this relay joins, is over. False if it is neither.
    pub(in super::super) fn on_way_closed(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        why: Option<Refusal>,
    ) -> bool {
        let Some(leg) = self.legs.get(&id) else {
            return self.end_half(base, id, why);
        };
        let remote = leg.remote;
        self.end_leg(base, id);
        if let Some(why) = why {
            info!(target: log::PATH, "{remote}: the relay leads to no such host: {why:?}");
            refuse_parcels(base, remote);
        }
        true
    }

    pub(super) fn end_leg(&mut self, base: &mut Base, id: DatagramId) {
        let Some(leg) = self.legs.remove(&id) else { return };
        if self.by_remote.get(&leg.remote) == Some(&id) {
            self.by_remote.remove(&leg.remote);
        }
        super::super::end::close_flow(base, leg.carrier.0, Some(leg.carrier.1));
    }

    /// Ends ways that nobody needs any more.
    pub(crate) fn on_ways_timer(&mut self, base: &mut Base) {
        let now = base.core.now;
        let idle = self.legs.iter().filter(|(_, leg)| super::has_rested(now, leg.last));
        let idle: Vec<DatagramId> = idle.map(|(id, _)| *id).collect();
        idle.into_iter().for_each(|id| self.end_leg(base, id));
        self.end_idle_halves(base);
        self.watching = !self.is_empty();
        if self.watching {
            base.core.after(IDLE, Timer::Ways);
        }
    }

    /// Looks from time to time whether ways are still needed.
    pub(super) fn watch(&mut self, base: &mut Base) {
        if !std::mem::replace(&mut self.watching, true) {
            base.core.after(IDLE, Timer::Ways);
        }
    }
}

/// Whether the association has a path that works without the relay.
fn is_direct(base: &Base, id: AssociationId) -> bool {
    let is_one = |path: &PathStatus| {
        path.state == PathState::Active && !is_key_address(path.addr.remote.ip())
    };
    base.core.paths_of(id).iter().any(is_one)
}

/// Whether the peer may know other addresses of this host than that of its key (the setting `announce`).
fn may_know_addresses(base: &Base, id: AssociationId) -> bool {
    let is_known = base.keys.standing_of(id).is_some_and(Standing::is_known);
    is_known || !base.core.driver.endpoint().withholds_addresses(id)
}

fn refuse_parcels(base: &mut Base, remote: SocketAddr) {
    if let Some(own) = base.core.scopes.own_key() {
        let path = PathAddr { local: SocketAddr::new(own, PORT), remote };
        base.core.driver.refuse_parcels(base.core.now, path);
    }
}
