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

use crate::path::{PathState, Supervision};

/// The state of a path after its error counter has risen to `errors`, with the limits of `supervision`.
pub(crate) fn after_error(state: PathState, errors: u32, supervision: Supervision) -> PathState {
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

/// The state of a path after DATA sent once on it, and on no other path, was acknowledged.
pub(crate) fn after_data_ack(state: PathState) -> PathState {
    match state {
        PathState::Unconfirmed => PathState::Unconfirmed,
        PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => PathState::Active,
    }
}

/// How little a path in `state` with `errors` is wanted for packets that must arrive: the least is
/// the best (RFC 7829 section 3.2 item 4, section 4.1).
pub(crate) fn reluctance(state: PathState, errors: u32) -> (u8, u32) {
    match state {
        PathState::Active => (0, 0),
        PathState::PotentiallyFailed => (1, errors),
        PathState::Inactive => (2, errors),
        PathState::Unconfirmed => (3, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::{after_data_ack, after_error, reluctance};
    use crate::config::Config;
    use crate::path::PathState::{Active, Inactive, PotentiallyFailed, Unconfirmed};
    use crate::path::Supervision;

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
        assert_eq!(after_data_ack(Unconfirmed), Unconfirmed);
        assert_eq!(after_data_ack(Inactive), Active);
        assert_eq!(after_error(Unconfirmed, 100, Supervision::of(&Config::default())), Unconfirmed);
    }

    #[test]
    fn the_least_failed_path_is_the_best() {
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
