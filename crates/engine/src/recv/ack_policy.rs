//! When to acknowledge (RFC 9260 sections 6.2 and 6.7): at least every second packet, at the latest
//! after SACK.Delay, and at once when there is something that the sender must know.
//!
//! A sender that has many packets in flight does not need that many SACKs, and the way back may be narrow: the more packets come
//! in a round trip, the fewer SACKs there are for each, as long as a round trip has eight of them ([RFC 9000, appendix
//! of section 13.2.2] leaves this to the receiver in QUIC, and TCP receivers that merge segments do it).
//!
//! ```text
//! packets per SACK = max(packets in the shortest round trip / 8, bytes of the last SACK / 30)
//!                    within sack_frequency ..= sack_frequency_max
//! ```
//!
//! So SACKs that list many gaps, as they do where paths differ, take no more than about two in a hundred of the bytes of the data.

use crate::config::Config;
use crate::path::{PathId, PathSet};
use crate::time::{Duration, Instant};

/// State of the delayed acknowledgement.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    delay: Duration,
    frequency: Frequency,
    packets: u32,
    /// Packets since the last acknowledgement, which the first one of all does not change.
    since: u8,
    now_due: bool,
    deadline: Option<Instant>,
    source: PathId,
    sources: PathSet,
    /// SACKs that still go where the last DATA came from: the peer has repeated some, so that one was lost, perhaps on the
    /// path that it took.
    returning: u8,
}

/// After how many packets a SACK is due.
#[derive(Debug)]
struct Frequency {
    bounds: (u32, u32),
    /// What the packets of a round trip call for, and what the length of a SACK does.
    by_rate: u32,
    by_length: u32,
    /// The round trip under way: when it began, how long it takes and what has come.
    since: Instant,
    round_trip: Duration,
    packets: u32,
    busy: bool,
}

impl Frequency {
    fn new(config: &Config) -> Self {
        let least = config.sack_frequency.max(1);
        let bounds = (least, config.sack_frequency_max.max(least));
        let (since, round_trip) = (Instant::ZERO, Duration::ZERO);
        let (packets, busy) = (0, false);
        Self { bounds, by_rate: least, by_length: least, since, round_trip, packets, busy }
    }

    fn now(&self) -> u32 {
        self.by_rate.max(self.by_length)
    }

    fn on_packet(&mut self, now: Instant, round_trip: impl FnOnce() -> Duration) {
        self.packets += 1;
        let took = now.since(self.since);
        if self.bounds.0 == self.bounds.1 || took < self.span() {
            return;
        }
        let (least, most) = self.bounds;
        let in_round_trip =
            u128::from(self.packets) * self.round_trip.as_nanos() / took.as_nanos().max(1);
        let in_round_trip = u32::try_from(in_round_trip).unwrap_or(u32::MAX);
        self.by_rate = (in_round_trip / SACKS_PER_ROUND_TRIP).clamp(least, most);
        // A pause ends what was busy.
        self.busy = self.packets >= BUSY && took < self.span() * 2;
        self.round_trip = round_trip().max(LEAST_ROUND_TRIP);
        (self.since, self.packets) = (now, 0);
    }

    /// For how long packets are counted; nothing before the first.
    fn span(&self) -> Duration {
        if self.round_trip.is_zero() { Duration::ZERO } else { self.round_trip.max(SPAN) }
    }

    /// A SACK in a packet of `len` bytes was sent. The longer they are, the fewer there are to be.
    fn on_sent(&mut self, len: usize) {
        let (least, most) = self.bounds;
        let worth = u32::try_from(len / BYTES_PER_PACKET).unwrap_or(most);
        self.by_length = worth.clamp(least, most);
    }

    /// How long the packets of one SACK may take to come.
    fn patience(&self) -> Duration {
        self.round_trip / SACKS_PER_ROUND_TRIP
    }
}

/// Longest delay that may be configured (RFC 9260 section 6.2).
const MAX_DELAY: Duration = Duration::from_millis(500);
/// SACKs after a repetition that show which way back works.
const RETURNING: u8 = 16;
/// SACKs in a round trip, as long as each is for more packets than the least number.
const SACKS_PER_ROUND_TRIP: u32 = 8;
/// Shorter round trips count as this: packets come in batches.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(4);
/// How long the rate is looked at, at least.
const SPAN: Duration = Duration::from_millis(20);
/// Packets in that time that are many: about what 4 Mbit/s bring.
const BUSY: u32 = 6;
/// Bytes of a SACK that a packet with DATA is worth: two in a hundred of what a full one has.
const BYTES_PER_PACKET: usize = 30;

impl AckPolicy {
    /// The first DATA of an association is acknowledged at once (section 5.1).
    pub(crate) fn new(config: &Config) -> Self {
        let frequency = Frequency::new(config);
        Self {
            delay: config.sack_delay.min(MAX_DELAY),
            packets: frequency.now() - 1,
            frequency,
            since: 0,
            now_due: false,
            deadline: None,
            source: PathId(0),
            sources: PathSet::default(),
            returning: 0,
        }
    }

    /// A packet with DATA arrived on `via`. `immediate`: it showed a gap or filled one (without DAC),
    /// carried a duplicate or an I bit, or something of it had to be dropped. `round_trip`: what one takes at least.
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        via: PathId,
        immediate: bool,
        round_trip: impl FnOnce() -> Duration,
    ) {
        self.source = via;
        self.sources.insert(via);
        self.packets += 1;
        self.since = self.since.saturating_add(1);
        self.frequency.on_packet(now, round_trip);
        if immediate || self.packets >= self.frequency.now() {
            self.now_due = true;
        }
        let waits = if self.packets < self.frequency.bounds.0 {
            self.delay
        } else {
            self.delay.min(self.frequency.patience())
        };
        let deadline = now + waits;
        self.deadline = Some(self.deadline.map_or(deadline, |before| before.min(deadline)));
    }

    /// Whether gaps need not hurry SACKs: many packets come, or the number of packets for a SACK is fixed anyway.
    pub(crate) fn may_delay_gaps(&self) -> bool {
        self.frequency.busy || self.frequency.bounds.0 == self.frequency.bounds.1
    }

    /// The packet under work repeats what has come before.
    pub(crate) fn note_repeated(&mut self) {
        self.returning = RETURNING;
    }

    /// Whether the SACK that is due should go where the last DATA came from: the peer has repeated some, or there is little of
    /// it, so that each SACK also shows that its path works.
    pub(crate) fn must_return(&self) -> bool {
        self.returning > 0 || !self.frequency.busy
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

    /// An acknowledgement was sent, in a packet of `len` bytes.
    pub(crate) fn on_sent(&mut self, len: usize) {
        self.frequency.on_sent(len);
        self.packets = 0;
        self.since = 0;
        self.sources = PathSet::default();
        self.returning = self.returning.saturating_sub(1);
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
        policy.on_sent(0);
        policy
    }

    #[test]
    fn the_first_packet_of_all_is_acknowledged_at_once() {
        let mut policy = AckPolicy::new(&Config::default());
        assert_eq!(policy.due(at(0)), None);
        policy.on_packet(at(0), VIA, false, Duration::default);
        assert_eq!(policy.due(at(0)), Some(VIA));
    }

    #[test]
    fn every_second_packet_or_after_the_delay() {
        let mut policy = running();
        policy.on_packet(at(0), VIA, false, Duration::default);
        assert_eq!(policy.due(at(49)), None);
        assert_eq!(policy.deadline(), Some(at(50)));
        assert_eq!(policy.due(at(50)), Some(VIA));
        policy.on_packet(at(10), MAIN, false, Duration::default);
        assert_eq!(policy.due(at(10)), Some(MAIN));
        policy.on_sent(0);
        assert!(!policy.is_pending() && policy.deadline().is_none());
    }

    #[test]
    fn urgent_packets_are_acknowledged_at_once() {
        let mut policy = running();
        policy.on_packet(at(0), VIA, true, Duration::default);
        assert_eq!(policy.due(at(0)), Some(VIA));
        let mut forced = running();
        forced.force();
        assert_eq!(forced.due(at(0)), Some(MAIN));
    }

    #[test]
    fn the_delay_is_capped() {
        let config = Config { sack_delay: Duration::from_secs(5), ..Config::default() };
        let mut policy = AckPolicy::new(&config);
        policy.on_sent(0);
        policy.on_packet(at(0), VIA, false, Duration::default);
        assert_eq!(policy.deadline(), Some(at(500)));
    }

    #[test]
    fn the_more_packets_come_in_a_round_trip_the_fewer_sacks_there_are_for_each() {
        let rtt = || Duration::from_millis(40);
        let mut policy = running();
        // Packets each millisecond: 40 in a round trip, 8 SACKs for these, after 5 packets each.
        for millis in 1..100 {
            policy.on_packet(at(millis), MAIN, false, rtt);
            if policy.is_due() {
                policy.on_sent(0);
            }
        }
        policy.on_sent(0);
        for millis in 101..105 {
            policy.on_packet(at(millis), MAIN, false, rtt);
            assert!(!policy.is_due(), "{millis}");
        }
        policy.on_packet(at(105), MAIN, false, rtt);
        assert!(policy.is_due());
        // The rest of a burst waits no longer than an eighth of the round trip for company.
        policy.on_sent(0);
        policy.on_packet(at(106), MAIN, false, rtt);
        assert_eq!(policy.deadline(), Some(at(156)));
        policy.on_packet(at(107), MAIN, false, rtt);
        assert_eq!(policy.deadline(), Some(at(112)));
    }

    #[test]
    fn after_few_packets_every_second_one_is_acknowledged_again() {
        let rtt = || Duration::from_millis(40);
        let mut policy = running();
        (1..100).for_each(|millis| policy.on_packet(at(millis), MAIN, false, rtt));
        policy.on_sent(0);
        policy.on_packet(at(1000), MAIN, false, rtt);
        assert!(!policy.is_due());
        policy.on_packet(at(1000), MAIN, false, rtt);
        assert!(policy.is_due());
    }

    #[test]
    fn what_is_repeated_is_answered_where_it_came_from() {
        let mut policy = running();
        assert!(policy.must_return(), "little comes");
        (1..100).for_each(|millis| policy.on_packet(at(millis), MAIN, false, Duration::default));
        assert!(policy.may_delay_gaps() && !policy.must_return());
        policy.note_repeated();
        policy.on_packet(at(100), VIA, true, Duration::default);
        for _ in 0..super::RETURNING {
            assert!(policy.must_return());
            policy.on_sent(0);
        }
        assert!(!policy.must_return());
    }
}
