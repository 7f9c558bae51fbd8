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
use crate::path::{Path, PathState, Supervision, SupervisionChange};
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

impl Path {
    /// Its state.
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Whether nothing speaks against sending user data on it.
    pub(crate) fn is_active(&self) -> bool {
        self.state == PathState::Active
    }

    /// Whether the peer has proved that it is at the address.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.state != PathState::Unconfirmed
    }

    /// Whether its local address has no link.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Consecutive errors (RFC 9260 section 8.2).
    pub(crate) fn errors(&self) -> u32 {
        self.error_count
    }

    /// How little it is wanted for packets that must arrive: the least is the best (RFC 7829 section 3.2
    /// item 4, section 4.1).
    pub(crate) fn reluctance(&self) -> (u8, u32) {
        match self.state {
            PathState::Active => (0, 0),
            PathState::PotentiallyFailed => (1, self.error_count),
            PathState::Inactive => (2, self.error_count),
            PathState::Unconfirmed => (3, self.error_count),
        }
    }

    /// Changes the state, unless it is suspended. Returns what it was, if that is another one.
    pub(crate) fn change_state(&mut self, state: PathState) -> Option<PathState> {
        let changes = self.state != state && !self.suspended;
        changes.then(|| core::mem::replace(&mut self.state, state))
    }

    /// Something sent on it was not answered in time. Returns the state that it should have.
    pub(crate) fn on_error(&mut self, config: &Config) -> PathState {
        // "continue sending HEARTBEAT chunks [...] but SHOULD stop increasing the counter"
        if self.state != PathState::Inactive {
            if self.error_count == 0 {
                self.heartbeat.count_silence();
            }
            self.error_count += 1;
        }
        after_error(self.state, self.error_count, self.supervision(config))
    }

    /// DATA sent once on it, and on no other path, was acknowledged. Returns the state that it should have.
    pub(crate) fn on_data_acked(&mut self) -> PathState {
        self.clear_suspicion();
        self.clear_errors();
        if self.is_confirmed() { PathState::Active } else { PathState::Unconfirmed }
    }

    /// Something that was sent on it has arrived.
    pub(crate) fn clear_errors(&mut self) {
        self.error_count = 0;
    }

    /// Its local address has no link: nothing is sent, and silence says nothing about the peer.
    pub(crate) fn suspend(&mut self) {
        self.suspended = true;
        self.heartbeat.stop();
    }

    /// Its local address has a link, after a while without or while this host was away: what was in flight is
    /// lost, and errors said nothing about the peer.
    pub(crate) fn resume(&mut self, now: Instant, config: &Config) {
        self.suspended = false;
        self.error_count = 0;
        self.rtt.end_back_off(config.rto_initial);
        self.flight.hasten_t3(now);
    }

    /// How it is supervised.
    pub(crate) fn supervision(&self, config: &Config) -> Supervision {
        self.supervision.get(config)
    }

    /// It is to be supervised in another way.
    pub(crate) fn supervise(&mut self, change: SupervisionChange, config: &Config) {
        self.supervision.change(change, config);
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
            path.reluctance()
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
