//! Path states as errors and successes move them (RFC 9260 section 8.2, RFC 7829 section 3.2).
//!
//! ```text
//!               errors > PFMR                     errors > Path.Max.Retrans
//!   Active ----------------------> Potentially ------------------------------> Inactive
//!     ^                               Failed                                       |
//!     |        acknowledged           |             HEARTBEAT ACK                  |
//!     +-------------------------------+--------------------------------------------+
//! ```
//!
//! An Unconfirmed path leaves its state only through a HEARTBEAT ACK (RFC 9260 section 5.4).

use crate::config::Config;
use crate::path::{OwnSupervision, Path, PathState, Supervision, SupervisionChange};
use crate::time::Instant;

/// The state of a path after its error counter has risen to `errors`, with the limits of `supervision`.
fn after_error(state: PathState, errors: u32, supervision: Supervision) -> PathState {
    match state {
        PathState::Unconfirmed => PathState::Unconfirmed,
        PathState::Inactive => PathState::Inactive,
        PathState::Active | PathState::PotentiallyFailed => {
            if errors > supervision.max_retransmits {
                PathState::Inactive
            } else if errors > supervision.potentially_failed_retransmits {
                PathState::PotentiallyFailed
            } else {
                state
            }
        }
    }
}

/// What is known of a path's reachability. Packets and timers move it; it starts none.
#[derive(Debug)]
pub(crate) struct Health {
    state: PathState,
    /// The peer has answered at its remote address, over this path or another one. To others little is sent.
    verified: bool,
    /// Its local address has no link: nothing is sent, and silence says nothing about the peer.
    suspended: bool,
    /// Consecutive errors (RFC 9260 section 8.2).
    errors: u32,
    /// How it is supervised, if not as the configuration says.
    supervision: OwnSupervision,
}

impl Health {
    /// A path that begins in this state.
    pub(super) fn new(state: PathState) -> Self {
        let verified = state != PathState::Unconfirmed;
        let supervision = OwnSupervision::default();
        Self { state, verified, suspended: false, errors: 0, supervision }
    }

    /// Its state.
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Whether nothing speaks against sending user data on it.
    pub(crate) fn is_active(&self) -> bool {
        self.state == PathState::Active
    }

    /// Whether it does not work, or is not known to, although its local address has a link.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_active() && !self.suspended
    }

    /// Whether the peer has proved that it is at the address.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.state != PathState::Unconfirmed
    }

    /// Whether the peer has not proved it yet, although its local address has a link.
    pub(crate) fn is_unheard(&self) -> bool {
        !self.is_confirmed() && !self.suspended
    }

    /// Whether the peer has answered at its remote address. To others little is sent.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    /// The peer has answered at its remote address.
    pub(super) fn verify(&mut self) {
        self.verified = true;
    }

    /// Whether its local address has no link.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Consecutive errors (RFC 9260 section 8.2).
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    /// How little it is wanted for packets that must arrive: the least is the best (RFC 7829 section 3.2
    /// item 4, section 4.1).
    pub(crate) fn reluctance(&self) -> (u8, u32) {
        match self.state {
            PathState::Active => (0, 0),
            PathState::PotentiallyFailed => (1, self.errors),
            PathState::Inactive => (2, self.errors),
            PathState::Unconfirmed => (3, self.errors),
        }
    }

    /// Changes the state, unless it is suspended. Returns what it was, if that is another one.
    pub(crate) fn change_state(&mut self, state: PathState) -> Option<PathState> {
        let changes = self.state != state && !self.suspended;
        changes.then(|| core::mem::replace(&mut self.state, state))
    }

    /// Something that was sent on it has arrived.
    pub(crate) fn clear_errors(&mut self) {
        self.errors = 0;
    }

    /// So many errors were counted on another path to the same address.
    pub(super) fn inherit_errors(&mut self, errors: u32) {
        self.errors = errors;
    }

    /// How it is supervised.
    pub(crate) fn supervision(&self, config: &Config) -> Supervision {
        self.supervision.get(config)
    }

    /// It is to be supervised in another way.
    pub(crate) fn supervise(&mut self, change: SupervisionChange, config: &Config) {
        self.supervision.change(change, config);
    }

    /// It is supervised in this way.
    pub(super) fn supervise_as(&mut self, supervision: &OwnSupervision) {
        self.supervision.clone_from(supervision);
    }

    /// It is supervised as `other` is.
    pub(super) fn supervise_like(&mut self, other: &Self) {
        self.supervise_as(&other.supervision);
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, state: PathState, errors: u32) {
        (self.state, self.errors) = (state, errors);
    }
}

impl Path {
    /// What is known of its reachability.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// As [`Self::health`].
    pub(crate) fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    /// Something sent on it was not answered in time. Returns the state that it should have.
    pub(crate) fn on_error(&mut self, config: &Config) -> PathState {
        let health = &mut self.health;
        // "continue sending HEARTBEAT chunks [...] but SHOULD stop increasing the counter"
        if health.state != PathState::Inactive {
            if health.errors == 0 {
                self.heartbeat.count_silence();
            }
            health.errors += 1;
        }
        after_error(health.state, health.errors, health.supervision(config))
    }

    /// DATA sent once on it, and on no other path, was acknowledged. Returns the state that it should have.
    pub(crate) fn on_data_acked(&mut self) -> PathState {
        self.subflow.clear_suspicion();
        self.health.clear_errors();
        if self.health.is_confirmed() { PathState::Active } else { PathState::Unconfirmed }
    }

    /// Its local address has no link: nothing is sent, and silence says nothing about the peer.
    pub(crate) fn suspend(&mut self) {
        self.health.suspended = true;
        self.heartbeat.stop();
    }

    /// Its local address has a link, after a while without or while this host was away: what was in flight is
    /// lost, and errors said nothing about the peer.
    pub(crate) fn resume(&mut self, now: Instant, config: &Config) {
        self.health.suspended = false;
        self.health.errors = 0;
        self.subflow.rtt.end_back_off(config.rto_initial);
        self.subflow.flight.hasten_t3(now);
    }
}

#[cfg(test)]
mod tests {
    use super::after_error;
    use crate::config::Config;
    use crate::path::PathState::{Active, Inactive, PotentiallyFailed, Unconfirmed};
    use crate::path::testing::paths;
    use crate::path::{PathState, Supervision};

    #[test]
    fn errors_lead_through_potentially_failed_to_inactive() {
        let limits = Supervision::of(&Config::default());
        let mut state = Active;
        let states: std::vec::Vec<_> = (1..=7)
            .map(|errors| {
                state = after_error(state, errors, limits);
                state
            })
            .collect();
        let failed = PotentiallyFailed;
        assert_eq!(states, [failed, failed, failed, failed, failed, Inactive, Inactive]);
    }

    #[test]
    fn only_a_heartbeat_confirms_an_unconfirmed_path() {
        let (mut paths, _) = paths(2);
        for (path, (state, after)) in
            paths.iter_mut().zip([(Unconfirmed, Unconfirmed), (Inactive, Active)])
        {
            path.set_state(state);
            assert_eq!(path.on_data_acked(), after);
        }
        assert_eq!(after_error(Unconfirmed, 100, Supervision::of(&Config::default())), Unconfirmed);
    }

    #[test]
    fn the_least_failed_path_is_the_best() {
        let (mut paths, _) = paths(1);
        let path = paths.iter_mut().next().unwrap();
        let mut reluctance = |state: PathState, errors| {
            path.set_state(state);
            path.set_errors(errors);
            path.health().reluctance()
        };
        let order = [
            reluctance(Active, 0),
            reluctance(PotentiallyFailed, 1),
            reluctance(PotentiallyFailed, 4),
            reluctance(Inactive, 6),
            reluctance(Unconfirmed, 0),
        ];
        assert!(order.is_sorted());
    }
}
