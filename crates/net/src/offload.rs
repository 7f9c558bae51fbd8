//! Whether the kernel may be given whole runs to segment (GSO), judged per socket.
//!
//! Some drivers, tunnels and IPsec policies refuse such runs with EIO or EINVAL, but so does the
//! kernel for reasons that have nothing to do with offload. A refusal is therefore only a suspicion;
//! it becomes a verdict when a single packet of the refused run is then taken. A verdict holds for
//! a while and is tried again, because routes, drivers and policies change.

use manypath_engine::{Duration, Instant};

/// First time for which a verdict holds; it doubles with each verdict.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest time for which a verdict holds.
const LONGEST_PAUSE: Duration = Duration::from_secs(640);

/// What is known about segmentation offload on one socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offload {
    state: State,
    /// Packets that the kernel takes in one datagram; 1 if it cannot segment at all.
    capability: usize,
    pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Trusted,
    /// A run was refused, the next single packet decides.
    Suspected,
    Refused {
        until: Instant,
    },
}

impl Offload {
    pub(crate) fn new(capability: usize) -> Self {
        Self { state: State::Trusted, capability, pause: FIRST_PAUSE }
    }

    /// The packets to hand over in one call.
    pub(crate) fn segments(&mut self, now: Instant) -> usize {
        if let State::Refused { until } = self.state
            && until <= now
        {
            self.state = State::Trusted;
        }
        match self.state {
            State::Trusted => self.capability,
            State::Suspected | State::Refused { .. } => 1,
        }
    }

    /// Whether a whole run may be given to the kernel as far as is known.
    pub(crate) fn is_trusted(&self) -> bool {
        self.state == State::Trusted && self.capability > 1
    }

    /// A run of several packets was refused.
    pub(crate) fn on_run_refused(&mut self) {
        self.state = State::Suspected;
    }

    /// A run of several packets was taken: past verdicts count no more.
    pub(crate) fn on_run_sent(&mut self) {
        self.pause = FIRST_PAUSE;
    }

    /// A single packet was taken. Returns whether that convicts offload.
    pub(crate) fn on_packet_sent(&mut self, now: Instant) -> bool {
        if self.state != State::Suspected {
            return false;
        }
        self.state = State::Refused { until: now + self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }

    /// A single packet was refused too: offload was not to blame.
    pub(crate) fn on_packet_refused(&mut self) {
        if self.state == State::Suspected {
            self.state = State::Trusted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_packet_that_passes_convicts_and_the_pause_doubles() {
        let mut offload = Offload::new(64);
        assert_eq!(offload.segments(at(0)), 64);
        offload.on_run_refused();
        assert_eq!(offload.segments(at(0)), 1);
        assert!(offload.on_packet_sent(at(0)));
        assert!(!offload.on_packet_sent(at(0)), "one verdict per refusal");
        assert_eq!(offload.segments(at(9)), 1);
        assert_eq!(offload.segments(at(10)), 64, "tried again");
        offload.on_run_refused();
        assert!(offload.on_packet_sent(at(10)));
        assert_eq!(offload.segments(at(29)), 1);
        assert_eq!(offload.segments(at(30)), 64);
    }

    #[test]
    fn a_packet_that_fails_too_acquits() {
        let mut offload = Offload::new(64);
        offload.on_run_refused();
        offload.on_packet_refused();
        assert_eq!(offload.segments(at(0)), 64);
    }

    #[test]
    fn success_restores_the_first_pause() {
        let mut offload = Offload::new(64);
        for _ in 0..20 {
            offload.on_run_refused();
            offload.on_packet_sent(at(0));
        }
        assert_eq!(offload.segments(at(639)), 1);
        assert_eq!(offload.segments(at(640)), 64);
        offload.on_run_sent();
        offload.on_run_refused();
        offload.on_packet_sent(at(640));
        assert_eq!(offload.segments(at(650)), 64);
    }
}
