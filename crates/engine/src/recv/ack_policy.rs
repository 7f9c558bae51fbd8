//! When to acknowledge (RFC 9260 sections 6.2 and 6.7): at least every second packet, at the latest
//! after SACK.Delay, and at once when there is something that the sender must know.

use crate::config::Config;
use crate::path::{PathId, PathSet};
use crate::time::{Duration, Instant};

crate::names::named! {
    /// Over which path an acknowledgement goes back.
    pub enum SackPath as "SACK path" {
        /// That of the last packet with DATA (RFC 9260 section 6.4).
        Standard = "standard",
        /// Of those that have brought DATA since the last SACK, the one with the smallest srtt.
        SmallestSrtt = "smallest-srtt",
        /// Of those, the one that carried a SACK the longest time ago.
        RoundRobin = "round-robin",
    }
}

/// State of the delayed acknowledgement.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    delay: Duration,
    frequency: u32,
    packets: u32,
    /// Packets since the last acknowledgement, which the first one of all does not change.
    since: u8,
    now_due: bool,
    deadline: Option<Instant>,
    source: PathId,
    sources: PathSet,
}

/// Longest delay that may be configured (RFC 9260 section 6.2).
const MAX_DELAY: Duration = Duration::from_millis(500);

impl AckPolicy {
    /// The first DATA of an association is acknowledged at once (section 5.1).
    pub(crate) fn new(config: &Config) -> Self {
        let frequency = config.sack_frequency.max(1);
        Self {
            delay: config.sack_delay.min(MAX_DELAY),
            frequency,
            packets: frequency - 1,
            since: 0,
            now_due: false,
            deadline: None,
            source: PathId(0),
            sources: PathSet::default(),
        }
    }

    /// A packet with DATA arrived on `via`. `immediate`: it showed a gap or filled one (without DAC),
    /// carried a duplicate or an I bit, or something of it had to be dropped.
    pub(crate) fn on_packet(&mut self, now: Instant, via: PathId, immediate: bool) {
        self.source = via;
        self.sources.insert(via);
        self.packets += 1;
        self.since = self.since.saturating_add(1);
        if immediate || self.packets >= self.frequency {
            self.now_due = true;
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + self.delay);
        }
    }

    /// An acknowledgement is due whatever the counters say.
    pub(crate) fn force(&mut self) {
        self.now_due = true;
    }

    /// Where an acknowledgement is to be sent if one is due: the path of the last DATA
    /// (section 6.4), or the first path of all if none has arrived.
    pub(crate) fn due(&self, now: Instant) -> Option<PathId> {
        let expired = self.deadline.is_some_and(|deadline| deadline <= now);
        (self.now_due || expired).then_some(self.source)
    }

    /// Whether an acknowledgement is due whatever the time.
    pub(crate) fn is_due(&self) -> bool {
        self.now_due
    }

    /// The paths that have brought DATA since the last acknowledgement.
    pub(crate) fn sources(&self) -> PathSet {
        self.sources
    }

    /// Packets with DATA since the last acknowledgement.
    pub(crate) fn packets(&self) -> u8 {
        self.since
    }

    /// Whether something has arrived that was not acknowledged yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.now_due || self.deadline.is_some()
    }

    /// When an acknowledgement becomes due by itself.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// An acknowledgement was sent.
    pub(crate) fn on_sent(&mut self) {
        self.packets = 0;
        self.since = 0;
        self.sources = PathSet::default();
        self.now_due = false;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::AckPolicy;
    use crate::config::Config;
    use crate::path::PathId;
    use crate::time::{Duration, Instant};

    const MAIN: PathId = PathId(0);
    const VIA: PathId = PathId(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn running() -> AckPolicy {
        let mut policy = AckPolicy::new(&Config::default());
        policy.on_sent();
        policy
    }

    #[test]
    fn the_first_packet_of_all_is_acknowledged_at_once() {
        let mut policy = AckPolicy::new(&Config::default());
        assert_eq!(policy.due(at(0)), None);
        policy.on_packet(at(0), VIA, false);
        assert_eq!(policy.due(at(0)), Some(VIA));
    }

    #[test]
    fn every_second_packet_or_after_the_delay() {
        let mut policy = running();
        policy.on_packet(at(0), VIA, false);
        assert_eq!(policy.due(at(49)), None);
        assert_eq!(policy.deadline(), Some(at(50)));
        assert_eq!(policy.due(at(50)), Some(VIA));
        policy.on_packet(at(10), MAIN, false);
        assert_eq!(policy.due(at(10)), Some(MAIN));
        policy.on_sent();
        assert!(!policy.is_pending() && policy.deadline().is_none());
    }

    #[test]
    fn urgent_packets_are_acknowledged_at_once() {
        let mut policy = running();
        policy.on_packet(at(0), VIA, true);
        assert_eq!(policy.due(at(0)), Some(VIA));
        let mut forced = running();
        forced.force();
        assert_eq!(forced.due(at(0)), Some(MAIN));
    }

    #[test]
    fn the_delay_is_capped() {
        let config = Config { sack_delay: Duration::from_secs(5), ..Config::default() };
        let mut policy = AckPolicy::new(&config);
        policy.on_sent();
        policy.on_packet(at(0), VIA, false);
        assert_eq!(policy.deadline(), Some(at(500)));
    }
}
