//! Plain TCP where SCTP has nothing to gain: a single short path leads to the peer.
//!
//! There is no second uplink to add or to survive on, and where the round trip is short the processors are
//! what limits a transfer: the kernel's TCP costs them less than SCTP in a process does
//! (`docs/performance.md`, "One association and the whole product").
//!
//! The answer to the INIT tells both: the peer's addresses, and a round trip. What is to be sent waits for
//! it, so that the peer never hears of a connection that is plain TCP then. The association stays as long as
//! it would without connections: the peer tells it of addresses that come.

use super::{Attempt, Attempts, Sctp};
use crate::base::{Association, Base, FlowUse, PeerKey, Setup};
use crate::core::Core;
use crate::ids::AttemptId;
use crate::parameters;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, AssociationState, Duration, Instant, PathState};
use manypath_rules::{Form, Options, StepAside};
use std::net::SocketAddr;

/// Round trips below this are short: those of a cable, a building, a city. On such a path `docs/performance.md`
/// has TCP ahead of the whole product at a lower cost ("One association and the whole product"). It has the
/// product ahead where round trips are long enough for a queue to matter ("Latency under load", 20 ms); light
/// needs 2 ms for 200 km of fibre and back.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(2);

impl Attempts {
    /// Whether a single short path leads to `destination`: an association knows, or what is remembered.
    pub(super) fn is_near(
        &mut self,
        base: &mut Base,
        destination: SocketAddr,
        options: &Options,
    ) -> bool {
        let (peer, acceptor) = (destination.ip(), base.core.acceptor_for(destination, options));
        let manner = parameters::manner(&base.core.config, options);
        let encrypt = base.core.encrypt_for(options);
        let realm = base.core.scopes.realm_towards(peer, None);
        let key = PeerKey { addr: peer, manner, acceptor, encrypt, realm };
        let association = base.association_with(&key);
        match association.filter(|id| !base.core.awaits_init_ack(*id)) {
            Some(id) => {
                let near = base.core.gains_nothing(id);
                if near && self.peers.remember_near(base.core.now, peer) {
                    base.watch_idle(id);
                }
                near
            }
            None => {
                let known =
                    base.core.config.carrying.peer_cache && self.peers.is_near(base.core.now, peer);
                known && base.core.locals.is_one_interface()
            }
        }
    }

    /// Tells the launcher that the connect goes on: at once, or when it is known that it does. A socket that
    /// waits already cannot go back in any case. Programs that connect to many unknown hosts without blocking, as browsers
    /// do, begin one connect after the other: only the first of them is held up, until it is known not to be near.
    pub(super) fn tell_pending_soon(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get(&id) else { return };
        let held = matches!(attempt.sctp, Sctp::Opening { association, .. }
            if base.unanswered().contains(&association));
        if attempt.open.blocking || attempt.open.waiting || !held || self.has_far_race() {
            self.tell_pending(base, id);
        }
    }

    /// Whether a host of which nothing is known has not answered for longer than a near one takes.
    fn has_far_race(&self) -> bool {
        let far =
            |one: &Attempt| one.raced && one.pending && matches!(one.sctp, Sctp::Opening { .. });
        self.all.values().any(far)
    }

    pub(super) fn tell_pending(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get_mut(&id) else { return };
        if !std::mem::replace(&mut attempt.pending, true) {
            let client = attempt.client;
            base.core.reply(client.control, Reply::Pending { id: client.id });
        }
    }

    /// Lets go of what waited for an answer that has come, or comes too late to be one of a near peer.
    pub(crate) fn follow_answers(&mut self, base: &mut Base) {
        for id in base.unanswered().clone() {
            let late = answer_due(base, id).is_none_or(|end| end <= base.core.now);
            let answered = !base.core.awaits_init_ack(id);
            if !answered && !late {
                continue;
            }
            base.let_go(id);
            if base.core.gains_nothing(id) {
                self.step_aside(base, id);
            }
            attempts_on(base, id).into_iter().for_each(|attempt| self.tell_pending(base, attempt));
            base.touch(id);
        }
    }

    /// Connects that wait for the association become plain TCP, as far as they may.
    fn step_aside(&mut self, base: &mut Base, id: AssociationId) {
        let mut aside = attempts_on(base, id);
        let may = |id: &AttemptId| {
            self.all.get(id).is_some_and(|attempt| may_step_aside(&base.core, &attempt.options))
        };
        aside.retain(may);
        self.withdraw(base, id, &aside);
        for attempt in aside {
            let peer = self.all.get(&attempt).map(|attempt| attempt.open.destination.ip());
            if let Some(peer) = peer {
                self.peers.remember_near(base.core.now, peer);
            }
            self.give_up_sctp(base, attempt, FallbackReason::NothingToGain);
        }
    }

    /// Takes back what the peer was to be asked for the attempts. If that is all that there is, it hears
    /// nothing.
    fn withdraw(&self, base: &mut Base, id: AssociationId, attempts: &[AttemptId]) {
        let memory = base.memory().clone();
        let Some(association) = base.get_mut(&id) else { return };
        let all = association.flows.len() == attempts.len() && association.datagrams.is_empty();
        if all && !association.spoken {
            let Association { begun_with, acceptor, encrypt, begun, streams, .. } = *association;
            let fresh = Association::new(begun_with, Setup::Connecting, begun, streams, &memory);
            let gone = std::mem::replace(association, fresh.asked(acceptor, encrypt));
            return base.core.counters.add_flows(gone.mux.counters().entries());
        }
        for attempt in attempts {
            let sctp = self.all.get(attempt).map(|attempt| attempt.sctp);
            if let Some(Sctp::Opening { association, flow, .. }) = sctp {
                base.reset_flow(association, flow);
            }
        }
    }
}

/// Holds messages of the association back until the peer has answered, or is too far away.
pub(super) fn await_answer(base: &mut Base, id: AssociationId, options: &Options) {
    let Some(end) = answer_due(base, id).filter(|end| base.core.now < *end) else { return };
    if may_step_aside(&base.core, options) && !base.is_direct(id) && base.core.awaits_init_ack(id) {
        base.hold(id);
        base.core.timers.set(end, Timer::Answer(id));
    }
}

/// When a peer at the end of a short path has answered the first INIT.
fn answer_due(base: &Base, id: AssociationId) -> Option<Instant> {
    Some(base.get(&id)?.begun + SHORT_ROUND_TRIP)
}

pub(super) fn attempts_on(base: &Base, id: AssociationId) -> Vec<AttemptId> {
    let flows = base.get(&id).into_iter().flat_map(|one| one.flows.values());
    let attempt = |used: &FlowUse| match used {
        FlowUse::Attempt(attempt) => Some(*attempt),
        FlowUse::Caller(_) | FlowUse::Dial(_) | FlowUse::Relay(_) | FlowUse::Closing => None,
    };
    flows.filter_map(attempt).collect()
}

impl Core {
    /// Whether the association could carry nothing better than plain TCP does.
    pub(crate) fn gains_nothing(&self, id: AssociationId) -> bool {
        let Some(status) = self.status_of(id) else { return false };
        let up = [AssociationState::CookieEchoed, AssociationState::Established];
        let paths: Vec<_> =
            status.paths.iter().map(|path| (path.state, path.rtt_spread.min_rtt)).collect();
        up.contains(&status.state) && is_single_and_short(&paths)
    }

    pub(crate) fn awaits_init_ack(&self, id: AssociationId) -> bool {
        let status = self.status_of(id);
        status.is_some_and(|status| status.state == AssociationState::CookieWait)
    }
}

/// Whether a connection with these options is plain TCP where SCTP has nothing to gain.
pub(super) fn may_step_aside(core: &Core, options: &Options) -> bool {
    let wanted = options.step_aside.unwrap_or(core.config.carrying.step_aside);
    let is_free = !options.is_sctp_only() && options.path_limits().is_none();
    let can = is_free && options.form != Some(Form::Direct);
    can && wanted == StepAside::Auto
}

/// Whether plain TCP is at least as good as an association with these paths can be: their states and the
/// shortest round trips measured.
fn is_single_and_short(paths: &[(PathState, Option<Duration>)]) -> bool {
    matches!(paths, [(PathState::Active, Some(least))] if *least < SHORT_ROUND_TRIP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Option<Duration> = Some(Duration::from_micros(1_999));
    const LONG: Option<Duration> = Some(Duration::from_millis(2));
    const ACTIVE: PathState = PathState::Active;

    #[test]
    fn a_single_path_whose_round_trip_is_short_gains_nothing() {
        assert!(is_single_and_short(&[(ACTIVE, SHORT)]));
        assert!(!is_single_and_short(&[(ACTIVE, LONG)]));
        assert!(!is_single_and_short(&[(ACTIVE, None)]), "not measured yet");
        assert!(!is_single_and_short(&[]));
    }

    #[test]
    fn a_second_path_may_be_of_use_whatever_is_known_of_it() {
        let states =
            [ACTIVE, PathState::Unconfirmed, PathState::PotentiallyFailed, PathState::Inactive];
        for state in states {
            for least in [SHORT, LONG, None] {
                assert!(!is_single_and_short(&[(ACTIVE, SHORT), (state, least)]), "{state:?}");
            }
        }
    }

    #[test]
    fn a_path_that_fails_is_one_that_a_change_of_addresses_may_mend() {
        for state in [PathState::PotentiallyFailed, PathState::Inactive] {
            assert!(!is_single_and_short(&[(state, SHORT)]), "{state:?}");
        }
    }
}
