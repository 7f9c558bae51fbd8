//! Packets between the engine and a flow of datagrams that leads to a relay, and the search for ways past that.

use super::super::open::use_datagrams;
use super::search::relays_towards;
use super::{Carrier, IDLE, Rendezvous};
use crate::attempt::Attempts;
use crate::base::Base;
use crate::base::by_key::PORT;
use crate::base::proven::key_of_peer;
use crate::ids::DatagramId;
use crate::keys::Standing;
use crate::log;
use crate::timers::Timer;
use manypath_engine::{
    AssociationId, Duration, Instant, PathAddr, PathOffer, PathState, PathStatus,
};
use manypath_flow::{DatagramError, Refusal, SeenAt};
use manypath_net::Parcel;
use manypath_trust::is_key_address;
use std::net::SocketAddr;
use tracing::{debug, info};

/// How often both ends ask for each other, and after what pause: a NAT may let in only what answers.
const PUNCHES: u32 = 12;
const PUNCH_PAUSE: Duration = Duration::from_millis(200);
/// The same later on, as long as there is no other way than the relay.
const SLOW_PUNCH_PAUSE: Duration = Duration::from_secs(8);
/// For how long a relay may let packets go unanswered where no path to it works.
const SILENCE: Duration = Duration::from_secs(8);
/// Most pairs of addresses that are tried, of those that the relay sees and of those that the other end tells each.
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
    /// Since when packets have been sent and none has come.
    unanswered: Option<Instant>,
}

impl Rendezvous {
    /// Sends what the engine has for hosts that are known by their keys.
    pub(crate) fn carry_parcels(&mut self, base: &mut Base, attempts: &Attempts) {
        while let Some(parcel) = base.core.driver.take_parcel() {
            let remote = parcel.path.remote;
            match self.by_remote.get(&remote).copied() {
                Some(id) => {
                    self.send_parcel(base, id, &parcel);
                    self.leave_silent_relay(base, id);
                    // Should this relay not lead there, the next one gets it, too.
                    self.searches.get_mut(&remote).map(|search| search.hold(parcel));
                }
                None => self.hold_parcel(base, attempts, parcel),
            }
        }
        let searches: Vec<SocketAddr> = self.searches.keys().copied().collect();
        for remote in searches {
            self.look_for_way(base, remote);
        }
        self.follow_home(base);
    }

    pub(super) fn send_parcel(&mut self, base: &mut Base, id: DatagramId, parcel: &Parcel) {
        let now = base.core.now;
        let Some(leg) = self.legs.get_mut(&id) else { return };
        leg.last = now;
        leg.unanswered.get_or_insert(now);
        let (association, flow) = leg.carrier;
        let time = Duration::from_nanos(now.as_nanos());
        let sent =
            base.with_datagrams(association, |datagrams| datagrams.send(time, flow, &parcel.bytes));
        if sent != Some(Ok::<(), DatagramError>(())) {
            base.core.count("parcels_without_way");
        }
    }

    pub(super) fn begin_leg(
        &mut self,
        base: &mut Base,
        carrier: Carrier,
        remote: SocketAddr,
    ) -> DatagramId {
        // One that the relay has not joined yet stays: the host may have the other end of it already.
        let searches = &self.searches;
        let is_asked = |old: &DatagramId| searches.get(&remote).is_some_and(|it| it.has_leg(*old));
        if let Some(old) = self.by_remote.get(&remote).copied().filter(|old| !is_asked(old)) {
            self.end_leg(base, old);
        }
        let id = DatagramId(base.core.next_id());
        let (seen, last) = (SeenAt::default(), base.core.now);
        let (punches, asks_again, unanswered) = (0, None, None);
        let leg = Leg { carrier, remote, seen, punches, asks_again, last, unanswered };
        self.legs.insert(id, leg);
        self.by_remote.insert(remote, id);
        use_datagrams(base, carrier.0, carrier.1, id);
        self.watch(base);
        id
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
        (leg.last, leg.unanswered) = (now, None);
        let remote = leg.remote;
        self.on_joined(id);
        let Some(own) = base.core.scopes.own_key() else { return true };
        let path = PathAddr { local: SocketAddr::new(own, PORT), remote };
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

    /// Asks for the host at the other end where the relay sees it, and where it says that it is, from all addresses of this
    /// host, as it does in turn.
    pub(crate) fn punch(&mut self, base: &mut Base, id: DatagramId) {
        let Some(leg) = self.legs.get_mut(&id) else { return };
        let pause = if leg.punches > 0 { PUNCH_PAUSE } else { SLOW_PUNCH_PAUSE };
        leg.punches = leg.punches.saturating_sub(1);
        let seen: Vec<SocketAddr> = leg.seen.iter().collect();
        let mut associations = super::associations_with(base, leg.remote.ip());
        associations.retain(|id| !is_direct(base, *id) && may_know_addresses(base, *id));
        if associations.is_empty() {
            return;
        }
        for association in associations {
            let near = super::candidates::follow(base, association);
            offer(base, association, &seen);
            offer(base, association, &near);
        }
        base.core.count("direct_paths_asked_for");
        let (now, at) = (base.core.now, base.core.now + pause);
        if let Some(leg) = self.legs.get_mut(&id)
            && leg.asks_again.is_none_or(|next| next <= now || next > at)
        {
            leg.asks_again = Some(at);
            base.core.timers.set(at, Timer::Punch(id));
        }
    }

    /// The host at the other end may have told where it is.
    pub(in super::super) fn follow_candidates(&mut self, base: &mut Base, id: AssociationId) {
        let has_news = base.get_mut(&id).is_some_and(|one| one.mux.take_candidates_news());
        if has_news {
            self.on_protected(base, id);
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
        let was_joined = !self.on_not_joined(base, id, remote, why);
        self.end_leg(base, id);
        if let Some(why) = why.filter(|_| was_joined) {
            // The next packet asks all relays anew: the host may be at another one by now.
            info!(target: log::PATH, "{remote}: the relay leads there no more: {why:?}");
        }
        true
    }

    /// All paths to the relay at the other end of an association may have failed: then the next packets for hosts behind it
    /// ask all relays anew, and a host that is registered there asks the next relay.
    pub(crate) fn leave_failed_relay(&mut self, base: &mut Base, id: AssociationId) {
        let by_it = self.legs.iter().filter(|(_, leg)| leg.carrier.0 == id);
        let by_it = by_it.filter(|(_, leg)| relays_towards(base, leg.remote).is_some());
        let by_it: Vec<DatagramId> = by_it.map(|(leg, _)| *leg).collect();
        let is_home = self.home == Some(id) && self.registered == Some(id);
        if (by_it.is_empty() && !is_home) || !super::has_failed(base, id) {
            return;
        }
        base.core.count("relays_lost");
        info!(target: log::PATH, "all paths to the relay {} have failed", base.core.peer_name(id));
        for leg in by_it {
            self.on_way_closed(base, leg, None);
        }
    }

    /// As [`Self::leave_failed_relay`] where nothing says that a path has failed: one that was never confirmed, as from
    /// a network to which this host has moved, stays so for as long as the relay is silent.
    fn leave_silent_relay(&mut self, base: &mut Base, id: DatagramId) {
        let Some(leg) = self.legs.get(&id) else { return };
        let now = base.core.now;
        let is_silent = leg.unanswered.is_some_and(|since| now.since(since) >= SILENCE);
        let (association, _) = leg.carrier;
        // At the end that is registered there the registration says when to leave.
        if is_silent && relays_towards(base, leg.remote).is_some() {
            self.leave_failed_relay(base, association);
        }
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

/// Offers the association ways from all addresses of this host to those of its peer.
fn offer(base: &mut Base, association: AssociationId, remotes: &[SocketAddr]) {
    let core = &base.core;
    let is_own = |local: &&crate::locals::Local| {
        local.up && !core.scopes.is_isolated(local.address.addr.ip())
    };
    let locals = core.locals.open.iter().filter(is_own).map(|local| local.address.addr);
    let (now, paths) = (core.now, pairs(&locals.collect::<Vec<_>>(), remotes));
    for path in paths {
        PathOffer { association, path }.make(base.core.driver.endpoint_mut(), now);
    }
}

/// [`MAX_PAIRS`] pairs of both ends' addresses. Those that are in the fewest pairs come next.
fn pairs(locals: &[SocketAddr], remotes: &[SocketAddr]) -> Vec<PathAddr> {
    let with = |local: &SocketAddr| {
        let local = *local;
        let fitting = remotes.iter().filter(move |it| it.is_ipv4() == local.is_ipv4());
        fitting.map(move |remote| PathAddr { local, remote: *remote })
    };
    let all: Vec<PathAddr> = locals.iter().flat_map(with).collect();
    let mut pairs: Vec<PathAddr> = Vec::new();
    while pairs.len() < MAX_PAIRS.min(all.len()) {
        let uses = |path: &&PathAddr| -> usize {
            let has = |one: &PathAddr| [one.local == path.local, one.remote == path.remote];
            pairs.iter().flat_map(has).map(usize::from).sum()
        };
        let left = all.iter().filter(|path| !pairs.contains(path));
        pairs.extend(left.min_by_key(uses).copied());
    }
    pairs
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

#[cfg(test)]
mod tests {
    use super::{MAX_PAIRS, pairs};
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    fn v4(net: u8, count: u8) -> Vec<SocketAddr> {
        (0..count).map(|host| (Ipv4Addr::new(10, 0, net, host), 9899).into()).collect()
    }

    fn v6(net: u16, count: u16) -> Vec<SocketAddr> {
        let at = |host| Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host);
        (0..count).map(|host| (at(host), 9899).into()).collect()
    }

    #[test]
    fn every_address_has_its_share_of_the_pairs() {
        for (own, theirs) in
            [(1, 1), (1, 8), (2, 8), (3, 5), (8, 1), (8, 2), (8, 8), (2, 2), (3, 3)]
        {
            let (locals, remotes) = (v4(1, own), v4(2, theirs));
            let paths = pairs(&locals, &remotes);
            let (own, theirs) = (usize::from(own), usize::from(theirs));
            assert_eq!(paths.len(), MAX_PAIRS.min(own * theirs), "{own} x {theirs}");
            assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len(), "each once");
            let uses =
                |addr| paths.iter().filter(|it| it.local == addr || it.remote == addr).count();
            for end in [locals, remotes] {
                let uses: Vec<usize> = end.into_iter().map(uses).collect();
                let (least, most) = (uses.iter().min().unwrap(), uses.iter().max().unwrap());
                assert!(most - least <= 1, "{own} x {theirs}: {uses:?}");
            }
        }
    }

    #[test]
    fn addresses_of_one_family_make_pairs() {
        let (locals, remotes) = ([v4(1, 2), v6(1, 2)].concat(), [v6(2, 3), v4(2, 1)].concat());
        let paths = pairs(&locals, &remotes);
        assert_eq!(paths.len(), 2 + 2 * 3);
        assert!(paths.iter().all(|path| path.local.is_ipv4() == path.remote.is_ipv4()));
        assert!(pairs(&locals, &[]).is_empty() && pairs(&v4(1, 1), &v6(1, 1)).is_empty());
    }
}
