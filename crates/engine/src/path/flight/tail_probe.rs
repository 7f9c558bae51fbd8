//! The tail loss probe (RFC 8985 section 7), for one path.
//!
//! When the last packets of a path are lost, or a retransmission with nothing behind it, no SACK comes
//! that could show it. T3-rtx would find out, but takes the whole flight for lost and leaves a window of
//! one chunk. So when a path with something in flight has been silent for two round trips, one packet
//! leaves beyond the congestion window: new data if there is some, otherwise what was sent last. Its
//! acknowledgement shows what is missing (`rack`).
//!
//! ```text
//! due = last sent or heard of + max(2 * srtt, srtt + 4 * RTTVAR, srtt + 20 ms)
//!                             + delay of acknowledgements, if one packet alone is in flight
//! ```
//!
//! but not after T3-rtx, in whose place it is then sent. There is one probe until the path is heard of
//! again; T3-rtx starts anew with it, and remains the last resort. Unlike in RFC 8985 a recovery does not
//! forbid it: no other timer runs then either if the last thing that was sent is a retransmission.
//!
//! If the probe repeats a chunk, and something sent later arrives before the peer reports a duplicate,
//! the probe has repaired a loss, and the window is cut for it.

use super::Flight;
use crate::path::{Rtt, Subflow};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// The probe of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailProbe {
    heard: Instant,
    /// One was sent and the path was not heard of since.
    spent: bool,
    /// The next packet may exceed the window.
    exceeds: bool,
    repeated: Option<Repeated>,
}

/// A chunk that a probe has repeated, while it is not known whether that was for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Repeated {
    tsn: Tsn64,
    /// The number of the repetition, once it has left.
    number: Option<u64>,
}

impl TailProbe {
    /// When a probe is due on a path that has something in flight and sent DATA last at `sent`. `delay`:
    /// for how long the peer may hold back the acknowledgement. `None` before the first measurement, or
    /// if one was sent already.
    pub(crate) fn due(&self, rtt: &Rtt, sent: Instant, delay: Duration) -> Option<Instant> {
        let timeout = rtt.probe_timeout().filter(|_| !self.spent)?;
        Some(self.heard.max(sent) + timeout + delay)
    }

    /// Something may leave beyond the window, because the path has been silent for too long.
    pub(crate) fn probe(&mut self) {
        self.spent = true;
        self.exceeds = true;
    }

    /// Whether the next packet may exceed the window.
    pub(crate) fn exceeds(&self) -> bool {
        self.exceeds
    }

    /// A packet with DATA has left, or there is nothing to probe with.
    pub(crate) fn on_packet(&mut self) {
        self.exceeds = false;
    }

    /// The probe repeats this chunk.
    pub(crate) fn repeat(&mut self, tsn: Tsn64) {
        self.repeated = Some(Repeated { tsn, number: None });
    }

    /// Chunk `tsn` was sent again, as transmission `number` of the path. Returns whether that was the
    /// probe.
    pub(crate) fn on_repeated(&mut self, tsn: Tsn64, number: u64) -> bool {
        match &mut self.repeated {
            Some(repeated) if repeated.tsn == tsn && repeated.number.is_none() => {
                repeated.number = Some(number);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Something of the path was acknowledged.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.heard = now;
        self.spent = false;
        self.exceeds = false;
    }

    /// Whether the probe has repaired a loss, now that transmission `newest` has arrived.
    pub(crate) fn has_repaired(&mut self, newest: Option<u64>) -> bool {
        let number = self.repeated.and_then(|repeated| repeated.number);
        let repaired = number.is_some_and(|number| newest > Some(number));
        if repaired {
            self.repeated = None;
        }
        repaired
    }

    /// The chunk had arrived before, or what became of it is known otherwise.
    pub(crate) fn forget(&mut self, tsn: Tsn64) {
        self.repeated = self.repeated.filter(|repeated| repeated.tsn != tsn);
    }

    /// T3-rtx has expired.
    pub(crate) fn on_timeout(&mut self) {
        self.spent = true;
        self.exceeds = false;
        self.repeated = None;
    }
}

impl Flight {
    /// The probe of a silent tail.
    pub(crate) fn tail_probe(&self) -> &TailProbe {
        &self.tail_probe
    }

    /// As [`Self::tail_probe`].
    pub(crate) fn tail_probe_mut(&mut self) -> &mut TailProbe {
        &mut self.tail_probe
    }

    /// Whether the probe of a silent tail is known to have repaired a loss.
    pub(crate) fn was_repaired(&mut self) -> bool {
        self.tail_probe.has_repaired(self.rack.newest())
    }
}

impl Subflow {
    /// When its tail is to be probed, if the peer holds back the acknowledgement of a single packet for
    /// `delay` at most.
    pub(crate) fn tail_probe_at(&self, delay: Duration) -> Option<Instant> {
        if self.flight.bytes == 0 {
            return None;
        }
        let held_back = self.held_back_answer(delay);
        let due = self.flight.tail_probe.due(&self.rtt, self.flight.last_data?, held_back)?;
        Some(self.flight.t3.map_or(due, |t3| t3.min(due)))
    }

    /// For how long the peer may hold back the answer to what is in flight: up to `delay` if that is a single packet.
    pub(super) fn held_back_answer(&self, delay: Duration) -> Duration {
        let alone = self.flight.bytes <= self.congestion.chunk_limit();
        if alone { delay } else { Duration::ZERO }
    }

    /// The probe is new data, or repeats a chunk.
    pub(crate) fn begin_tail_probe(&mut self, now: Instant, repeats: Option<Tsn64>) {
        if let Some(tsn) = repeats {
            self.flight.tail_probe.repeat(tsn);
        }
        self.stats.tail_probes += 1;
        self.restart_t3(now);
    }
}

#[cfg(test)]
mod tests {
    use super::TailProbe;
    use crate::config::Config;
    use crate::path::Rtt;
    use crate::path::flight::testing::{at, ms, rtt};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    #[test]
    fn due_two_round_trips_after_the_last_sign_of_life() {
        let mut probe = TailProbe::default();
        assert_eq!(probe.due(&Rtt::new(&Config::default()), at(0), ms(0)), None);
        assert_eq!(probe.due(&rtt(80), at(1000), ms(0)), Some(at(1160)));
        assert_eq!(probe.due(&rtt(80), at(1000), ms(50)), Some(at(1210)));
        assert_eq!(probe.due(&rtt(2), at(1000), ms(0)), Some(at(1022)));
        probe.on_heard(at(1040));
        assert_eq!(probe.due(&rtt(80), at(1000), ms(0)), Some(at(1200)));
    }

    #[test]
    fn one_probe_until_the_path_is_heard_of() {
        let mut probe = TailProbe::default();
        probe.probe();
        assert!(probe.exceeds());
        assert_eq!(probe.due(&rtt(80), at(1000), ms(0)), None);
        probe.on_packet();
        assert!(!probe.exceeds());
        probe.on_heard(at(900));
        assert_eq!(probe.due(&rtt(80), at(1000), ms(0)), Some(at(1160)));
        probe.on_timeout();
        assert_eq!(probe.due(&rtt(80), at(1000), ms(0)), None);
    }

    #[test]
    fn a_repair_shows_by_what_arrives_after_it_without_a_duplicate() {
        let tsn = |number| Tsn64::initial(Tsn(0)).plus(number);
        let mut probe = TailProbe::default();
        probe.repeat(tsn(7));
        assert!(!probe.on_repeated(tsn(3), 8));
        assert!(probe.on_repeated(tsn(7), 9));
        assert!(!probe.has_repaired(None) && !probe.has_repaired(Some(9)));
        assert!(probe.has_repaired(Some(10)) && !probe.has_repaired(Some(10)));
        probe.repeat(tsn(7));
        assert!(probe.on_repeated(tsn(7), 11));
        probe.forget(tsn(7));
        assert!(!probe.has_repaired(Some(12)));
    }
}
