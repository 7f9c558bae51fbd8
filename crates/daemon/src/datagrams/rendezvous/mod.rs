//! Hosts that nobody else lets in meet at a relay that both know, and go past it where NATs allow.
//!
//! ```text
//!                    ┌── flow of datagrams ──▶ relay ◀── flow of datagrams ──┐
//! association here ──┤                    (joins both)                       ├── association there
//!                    └──▶ NAT ◀┄┄┄┄┄┄ the same, directly ┄┄┄┄┄┄▶ NAT ◀──┘
//! ```
//!
//! The two hosts have an association of their own, encrypted from end to end. Its first path leads through the relay,
//! between the addresses that stand for their keys: its packets travel as datagrams of the associations that both have
//! with the relay. The relay tells each where it sees the other. Both then ask each other there at the same time, which
//! opens NATs, and what answers becomes another path of the same association.
//!
//! `leg`: packets between the engine and a relay. `candidates`: two hosts in the same network. `search`: which relay leads to
//! a host. `home`: a host registers at relays. `join`: the relay.

mod candidates;
mod home;
mod join;
mod leg;
mod search;

use crate::attempt::RelayAt;
use crate::base::Base;
use crate::base::proven::key_of_peer;
use crate::ids::DatagramId;
use manypath_control::status::{FallbackReason, SearchStatus};
use manypath_engine::{AssociationId, Duration, IdleReason, Instant, PathState};
use manypath_flow::{DatagramFlow, SeenAt};
use manypath_keys::PublicKey;
use manypath_trust::Fingerprint;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// How long a packet may wait at the sender and in the relay: later it is as good as lost.
const LIFETIME: Duration = Duration::from_secs(1);
/// A way without a packet for so long is not needed any more: HEARTBEATs come at least every 90 s.
const IDLE: Duration = Duration::from_secs(200);

/// Hosts to which a way is looked for at a time.
const MAX_HOSTS: usize = 256;

/// Ways of packets that no socket receives.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    legs: BTreeMap<DatagramId, leg::Leg>,
    /// The leg to each host.
    by_remote: BTreeMap<SocketAddr, DatagramId>,
    /// Hosts to which no relay leads yet.
    searches: BTreeMap<SocketAddr, search::Search>,
    /// What has come of searches.
    told: VecDeque<SearchStatus>,
    /// Relays that did not answer.
    silent: Vec<(RelayAt, FallbackReason)>,
    /// The association with the relay at which this host is registered.
    home: Option<AssociationId>,
    /// The relay that was asked last, the association that has said so, and whether it was said that none has.
    asked: Option<RelayAt>,
    registered: Option<AssociationId>,
    warned: bool,
    /// At a relay: the associations of hosts that are registered, and the halves of joined flows.
    guests: BTreeSet<AssociationId>,
    halves: BTreeMap<DatagramId, join::Half>,
    /// What joined flows that have ended had moved, for those who had opened them.
    ended: Vec<(PublicKey, (u64, u64))>,
    /// Whether it is looked from time to time who still needs a way.
    watching: bool,
}

/// A flow of datagrams of an association.
type Carrier = (AssociationId, DatagramFlow);

impl Rendezvous {
    fn is_empty(&self) -> bool {
        self.legs.is_empty() && self.halves.is_empty()
    }

    /// What the flows that a relay joins have moved, for those who have opened them.
    pub(super) fn moved(&self) -> impl Iterator<Item = (PublicKey, (u64, u64))> {
        let open = self.halves.values().filter_map(join::Half::moved);
        open.chain(self.ended.iter().copied())
    }

    /// Relays that did not answer since the last call.
    pub(super) fn take_silent(&mut self) -> Vec<(RelayAt, FallbackReason)> {
        std::mem::take(&mut self.silent)
    }

    /// What joined flows that have ended since the last call had moved.
    pub(super) fn take_ended(&mut self) -> Vec<(PublicKey, (u64, u64))> {
        std::mem::take(&mut self.ended)
    }
}

/// The associations with the host at an address that stands for its key, if they are encrypted by now.
fn associations_with(base: &Base, remote: IpAddr) -> Vec<AssociationId> {
    let has_key = |id: &AssociationId| {
        let peer = base.keys.peer_of(*id);
        peer.is_some_and(|peer| IpAddr::from(Fingerprint::of(&peer).address()) == remote)
    };
    let with = |id: &AssociationId| key_of_peer(&base.core, *id) == Some(remote);
    base.ids().into_iter().filter(has_key).filter(with).collect()
}

/// Where the peer of an association is seen.
fn seen(base: &Base, id: AssociationId) -> SeenAt {
    let paths = base.core.paths_of(id).into_iter();
    paths.filter(crate::base::proven::is_living).map(|path| path.addr.remote).collect()
}

/// Whether each path of an association has failed for which this host has a link.
fn has_failed(base: &Base, id: AssociationId) -> bool {
    have_failed(base.core.paths_of(id).iter().map(|path| (path.state, path.idle)))
}

/// That this host has no link says nothing about its peer: associations go on as soon as there is one.
fn have_failed(paths: impl Iterator<Item = (PathState, Option<IdleReason>)>) -> bool {
    let mut linked = paths.filter(|(_, idle)| *idle != Some(IdleReason::NoLink)).peekable();
    linked.peek().is_some() && !linked.any(|(state, _)| crate::base::proven::is_alive(state))
}

/// Whether the association stays though nobody uses it.
fn keep(base: &mut Base, id: AssociationId, is_kept: bool) {
    let Some(association) = base.get_mut(&id) else { return };
    if std::mem::replace(&mut association.is_kept, is_kept) != is_kept {
        base.watch_idle(id);
    }
}

fn has_rested(now: Instant, last: Instant) -> bool {
    now.since(last) >= IDLE
}

#[cfg(test)]
mod tests {
    use super::have_failed;
    use manypath_engine::IdleReason::{Failed, NoLink};
    use manypath_engine::PathState::{Active, Inactive, PotentiallyFailed, Unconfirmed};

    #[test]
    fn a_relay_is_not_left_because_this_host_has_no_link() {
        let (failed, without_link) = ((Inactive, Some(Failed)), (Inactive, Some(NoLink)));
        let all_failed = |paths: &[_]| have_failed(paths.iter().copied());
        assert!(all_failed(&[failed]) && all_failed(&[failed, without_link]));
        assert!(all_failed(&[failed, (Unconfirmed, None)]));
        assert!(!all_failed(&[]) && !all_failed(&[without_link, without_link]));
        assert!(!all_failed(&[failed, (Active, None)]));
        assert!(!all_failed(&[failed, (PotentiallyFailed, None)]));
    }
}
