//! Probing a path (RFC 9260 sections 5.4 and 8.3, RFC 7829 section 3.2): when to send a HEARTBEAT,
//! what it carries, and when its silence counts as an error.
//!
//! Two paces are kept apart. *Probes* leave often, so that a restored path is found soon. *Errors*
//! are counted at the pace of the exponentially backed off RTO, so that frequent probing does not
//! declare a path or a peer dead any faster than the RFC does.
//!
//! A path that is not Active is probed with full-sized packets. Small probes would call a path good
//! on which every full DATA packet vanishes because a link is narrower than the interface.
//!
//! But a peer may list addresses of others. Until one of them has answered it gets only small
//! probes, and few when it stays silent, so that nobody can make us flood a stranger.

use crate::config::Config;
use crate::path::{Notice, Path, PathAddr, PathId, PathState, Rtt};
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Bytes of the Heartbeat Info value that have a meaning. Zeros may follow.
pub(super) const INFO_LEN: usize = 8 + 8 + 1 + 16 + 2;

/// How many of the last HEARTBEATs may still be answered: an answer may take longer than the pause
/// between two probes.
const REMEMBERED: usize = 4;

/// Least pause between two HEARTBEATs that something from outside asks for.
pub(crate) const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// HB.interval on a metered path, in intervals of others. With 30 s that stays below the two minutes for which
/// address translators must keep what they know (RFC 4787 REQ-5).
const METERED_PAUSES: u32 = 3;

/// The probing state of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeat {
    next: Option<Instant>,
    wanted: bool,
    unanswered: Option<Unanswered>,
    /// How often something was not answered in time on a path without errors, be it a HEARTBEAT or DATA.
    silences: u32,
    sent: [Option<Sent>; REMEMBERED],
    /// A HEARTBEAT was answered: the address is the peer's.
    answered: bool,
    /// The last one was not sent, because too much would go to an address that is not verified.
    withheld: bool,
}

/// A period of silence since a HEARTBEAT, after which an error counts.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    error_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    nonce: u64,
    at: Instant,
    full_sized: bool,
}

/// What the answer to a HEARTBEAT tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The time it took.
    pub round_trip: Duration,
    /// Whether the HEARTBEAT was as large as a packet may be.
    pub full_sized: bool,
}

/// What the expiry of the heartbeat timer means for the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// Nothing was lost.
    Quiet,
    /// A HEARTBEAT has been unanswered for an RTO: back off the RTO and count an error.
    Unanswered,
}

/// How a path is to be probed now.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// State of the path.
    state: PathState,
    /// Its current RTO.
    rto: Duration,
    /// How long an answer may take, once a round trip was measured.
    probe_timeout: Option<Duration>,
    /// HB.interval.
    interval: Duration,
    /// Longest pause between two probes of a path that is not Active.
    longest_pause: Duration,
    /// When DATA was last sent on the path: its acknowledgement tells what a HEARTBEAT would.
    last_data: Option<Instant>,
    /// More errors in a row than Path.Max.Retrans.
    silent: bool,
    /// The MTU of the path is searched for: a small HEARTBEAT follows one of full size that is not
    /// answered, to tell a narrow path from a dead one.
    alternates: bool,
}

impl Heartbeat {
    /// A HEARTBEAT is to be sent as soon as possible.
    pub(crate) fn probe_now(&mut self) {
        self.wanted = true;
        self.next = None;
    }

    /// The same, unless one has just been sent: whoever makes us do this must not make us do it often.
    pub(crate) fn probe_again(&mut self, now: Instant) {
        let lately = self.sent[0].is_some_and(|sent| now.since(sent.at) < LEAST_PAUSE);
        if !lately {
            self.probe_now();
        }
    }

    /// Data has arrived over the path, and its round trip is not known. Until it is, SACKs go back over other paths, which
    /// may be slower: a lost HEARTBEAT is not left to the RTO, which is as long as the initial one. Each pause is twice as
    /// long as the one before, so that the answer of a long path is not forgotten.
    fn insist(&mut self, now: Instant) {
        let pauses = self.sent.iter().flatten().fold(0, |pauses, _| (2 * pauses).max(1));
        if !self.wanted && self.sent[0].is_some_and(|sent| now >= sent.at + LEAST_PAUSE * pauses) {
            self.probe_now();
        }
    }

    /// Probing begins with the usual pause: the path is known to work.
    fn start(&mut self, now: Instant, pace: Pace, rng: &mut Rng) {
        self.wanted = false;
        self.unanswered = None;
        self.next = Some(now + pace.idle_pause(rng));
    }

    /// Probing ends (a SHUTDOWN has been sent, section 8.3).
    pub(crate) fn stop(&mut self) {
        self.wanted = false;
        self.withheld = false;
        self.next = None;
        self.unanswered = None;
    }

    /// The one that is said to have left did not. It counts as lost, unless [`Self::retry`] comes before.
    pub(crate) fn withhold(&mut self) {
        self.withheld = true;
    }

    /// Whether one was withheld that may leave now.
    pub(crate) fn retry(&mut self) -> bool {
        let retries = core::mem::take(&mut self.withheld);
        if retries {
            self.probe_now();
        }
        retries
    }

    /// Whether one was withheld and not sent since.
    pub(crate) fn is_withheld(&self) -> bool {
        self.withheld
    }

    /// Something was not answered in time, and the path had no errors before.
    pub(super) const fn count_silence(&mut self) {
        self.silences = self.silences.saturating_add(1);
    }

    /// How often that has happened.
    pub(crate) const fn silences(&self) -> u32 {
        self.silences
    }

    /// Whether a HEARTBEAT waits to be sent.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// When [`Path::on_heartbeat_timeout`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// The value of the Heartbeat Info for the HEARTBEAT that leaves now, with what the peer is to be told of
    /// the path's policy: at most `room` bytes unless that is less than it needs.
    fn on_send(
        &mut self,
        now: Instant,
        pace: Pace,
        to: (PathId, SocketAddr),
        rng: &mut Rng,
        (notice, room): (Option<Notice>, usize),
    ) -> Vec<u8> {
        let tries_small = pace.alternates && self.lacks_large_answer();
        let full_sized = match pace.state {
            PathState::Active => false,
            PathState::Unconfirmed => self.answered && !tries_small,
            PathState::PotentiallyFailed | PathState::Inactive => !tries_small,
        };
        let sent = Sent { nonce: rng.next_u64(), at: now, full_sized };
        self.sent.rotate_right(1);
        self.sent[0] = Some(sent);
        self.wanted = false;
        self.withheld = false;
        // During setup a HEARTBEAT waits for a COOKIE ECHO, and a silence may have ended meanwhile.
        let silence = self.unanswered.filter(|silence| silence.error_at > now);
        let error_at = silence.map_or(now + pace.rto, |silence| silence.error_at);
        self.unanswered = Some(Unanswered { error_at });
        let pause = self.full_size_pause(&pace).unwrap_or_else(|| pace.probe_pause());
        self.next = Some(error_at.min(now + pause));
        let mut info = info(sent.nonce, sent.at, to).to_vec();
        info.extend(notice.iter().flat_map(|notice| notice.to_bytes()));
        if full_sized {
            info.resize(room.max(info.len()), 0);
        }
        info
    }

    /// The pause after a HEARTBEAT of full size, or a small one in its place, that stands between an address that has answered
    /// and data: two round trips, doubled for each one unanswered, up to the usual pause.
    fn full_size_pause(&self, pace: &Pace) -> Option<Duration> {
        let confirms = pace.state == PathState::Unconfirmed && self.answered && !pace.silent;
        let timeout = pace.probe_timeout.filter(|_| confirms)?;
        let unanswered = self.sent.iter().flatten().count() as u32;
        Some((timeout * (1 << unanswered.saturating_sub(1))).min(pace.probe_pause()))
    }

    /// Whether the last HEARTBEAT was of full size and has not been answered.
    pub(crate) fn lacks_large_answer(&self) -> bool {
        self.sent[0].is_some_and(|sent| sent.full_sized)
    }

    /// The timer has expired at `now`; asks for the next HEARTBEAT if the path is idle.
    fn handle_timeout(&mut self, now: Instant, pace: Pace, rng: &mut Rng) -> Expiry {
        let used = pace.last_data.filter(|last| *last + pace.interval > now);
        if let (PathState::Active, None, Some(last)) = (pace.state, self.unanswered, used) {
            self.next = Some(last + pace.idle_pause(rng));
            return Expiry::Quiet;
        }
        self.probe_now();
        match self.unanswered {
            Some(silence) if silence.error_at <= now => {
                self.unanswered = None;
                Expiry::Unanswered
            }
            Some(_) | None => Expiry::Quiet,
        }
    }

    /// A HEARTBEAT ACK with the info `value` arrived. Returns what it tells if the nonce and the address are
    /// those of a HEARTBEAT that we sent (section 5.4). Each is accepted once.
    fn on_ack(&mut self, now: Instant, value: &[u8], to: (PathId, SocketAddr)) -> Option<Answer> {
        let position = self
            .sent
            .iter()
            .position(|sent| sent.is_some_and(|s| value.starts_with(&info(s.nonce, s.at, to))))?;
        let sent = self.sent[position].take()?;
        self.answered = true;
        Some(Answer { round_trip: now.since(sent.at), full_sized: sent.full_sized })
    }
}

/// How a path was probed in vain before its address was removed.
#[derive(Debug)]
pub(crate) struct Probed {
    /// Its addresses.
    pub(crate) addr: PathAddr,
    heartbeat: Heartbeat,
    rtt: Rtt,
    errors: u32,
}

impl Path {
    /// How it was probed, if that was in vain.
    pub(crate) fn probed_in_vain(&self) -> Option<Probed> {
        let in_vain = !self.health.is_verified() && self.heartbeat.sent[0].is_some();
        in_vain.then(|| Probed {
            addr: self.addr,
            heartbeat: self.heartbeat.clone(),
            rtt: self.rtt().clone(),
            errors: self.health.errors(),
        })
    }

    /// It is probed as a path to the same address was before.
    pub(crate) fn probe_as(&mut self, before: Probed) {
        (self.heartbeat, self.subflow.rtt) = (before.heartbeat, before.rtt);
        self.health.inherit_errors(before.errors);
    }

    /// Probing begins with the usual pause: the path is known to work.
    pub(crate) fn rest_probing(&mut self, now: Instant, config: &Config, rng: &mut Rng) {
        let pace = self.probing_pace(config);
        self.heartbeat.start(now, pace, rng);
    }

    /// The Heartbeat Info for a HEARTBEAT that leaves now, with `room` bytes for it.
    pub(crate) fn on_heartbeat_sent(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        room: usize,
    ) -> Vec<u8> {
        let (pace, to) = (self.probing_pace(config), (self.id(), self.addr.remote));
        let notice = self.regime.notice();
        self.heartbeat.on_send(now, pace, to, rng, (notice, room))
    }

    /// A HEARTBEAT ACK with `info` has arrived: what it tells if it answers a HEARTBEAT of the path.
    pub(crate) fn on_heartbeat_ack(&mut self, now: Instant, info: &[u8]) -> Option<Answer> {
        self.heartbeat.on_ack(now, info, (self.id(), self.addr.remote))
    }

    /// The heartbeat timer has expired.
    pub(crate) fn on_heartbeat_timeout(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
    ) -> Expiry {
        let pace = self.probing_pace(config);
        if !self.is_probed(config) {
            self.heartbeat.stop();
            return Expiry::Quiet;
        }
        if pace.alternates && self.heartbeat.lacks_large_answer() {
            self.search.on_large_lost();
        }
        self.heartbeat.handle_timeout(now, pace, rng)
    }

    /// Data has arrived over it: if its round trip is not known, a lost HEARTBEAT is soon followed by another one.
    pub(crate) fn insist_on_round_trip(&mut self, now: Instant, config: &Config) {
        if self.rtt().smoothed().is_none() && self.is_probed(config) && !self.health.is_suspended()
        {
            self.heartbeat.insist(now);
        }
    }

    /// Whether HEARTBEATs are sent on it. An address that is not confirmed gets them in any case.
    fn is_probed(&self, config: &Config) -> bool {
        self.health.supervision(config).heartbeats || !self.health.is_confirmed()
    }

    /// How it is to be probed now.
    fn probing_pace(&self, config: &Config) -> Pace {
        let supervision = self.health.supervision(config);
        let mut interval = supervision.heartbeat_interval;
        let mut longest_pause = config.failed_path_probe_interval;
        if self.regime.is_metered() {
            longest_pause = longest_pause.max(interval);
            interval = interval.saturating_mul(METERED_PAUSES);
        }
        Pace {
            state: self.health.state(),
            rto: self.rtt().rto(),
            probe_timeout: self.rtt().probe_timeout(),
            interval,
            longest_pause,
            last_data: self.flight().last_data(),
            silent: self.health.errors() > supervision.max_retransmits,
            alternates: self.search().is_on(),
        }
    }
}

impl Pace {
    /// RTO plus HB.interval with a jitter of half an RTO to both sides (section 8.3).
    fn idle_pause(&self, rng: &mut Rng) -> Duration {
        let rto = u64::try_from(self.rto.as_nanos()).unwrap_or(u64::MAX);
        self.interval + self.rto / 2 + Duration::from_nanos(rng.below(rto))
    }

    /// The pause after a HEARTBEAT that may have been lost.
    fn probe_pause(&self) -> Duration {
        match self.state {
            PathState::Active => self.rto,
            // Perhaps it belongs to somebody else.
            PathState::Unconfirmed if self.silent => self.rto,
            PathState::Unconfirmed | PathState::PotentiallyFailed | PathState::Inactive => {
                self.rto.min(self.longest_pause)
            }
        }
    }
}

/// The path the HEARTBEAT was sent on, named from the info of its answer. Nothing else of the info
/// may be trusted before the path's own [`Heartbeat::on_ack`] has found its nonce.
pub(crate) fn path_of(info: &[u8]) -> Option<PathId> {
    (info.len() >= INFO_LEN).then(|| PathId(info[16]))
}

/// When the HEARTBEAT left, as the info of its answer says: true if the nonce is.
pub(crate) fn sent_at(info: &[u8]) -> Option<Instant> {
    Some(Instant::from_nanos(u64::from_be_bytes(*info.get(8..)?.first_chunk()?)))
}

/// What the peer, or our own HEARTBEAT that comes back, says of the policy of its path.
pub(crate) fn notice_in(info: &[u8]) -> Option<Notice> {
    Notice::from_bytes(info.get(INFO_LEN..)?)
}

/// What a HEARTBEAT that is sent at `at` on a path to an address brings back. Nobody else can make it
/// up, because of the nonce.
pub(crate) fn info(
    nonce: u64,
    at: Instant,
    (path, remote): (PathId, SocketAddr),
) -> [u8; INFO_LEN] {
    let address = match remote.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut info = [0; INFO_LEN];
    info[..8].copy_from_slice(&nonce.to_be_bytes());
    info[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
    info[16] = path.0;
    info[17..33].copy_from_slice(&address.octets());
    info[33..].copy_from_slice(&remote.port().to_be_bytes());
    info
}

#[cfg(test)]
mod tests {
    use super::{Answer, Expiry, Heartbeat, Pace, path_of};
    use crate::path::{PathId, PathState};
    use crate::rng::Rng;
    use crate::time::{Duration, Instant};
    use core::net::SocketAddr;

    const ROOM: usize = 1400;
    const TO: (PathId, &str) = (PathId(3), "10.0.0.2:9899");

    fn to() -> (PathId, SocketAddr) {
        (TO.0, TO.1.parse().unwrap())
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn pace(state: PathState, rto: u64) -> Pace {
        Pace {
            state,
            rto: Duration::from_millis(rto),
            probe_timeout: None,
            interval: Duration::from_secs(30),
            longest_pause: Duration::from_secs(2),
            last_data: None,
            silent: false,
            alternates: false,
        }
    }

    #[test]
    fn a_path_that_carries_data_is_measured_although_heartbeats_are_lost_or_take_long() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let mut infos = alloc::vec::Vec::new();
        heartbeat.insist(at(0));
        assert!(!heartbeat.is_wanted(), "none was sent");
        heartbeat.probe_now();
        for now in 0..4000 {
            if heartbeat.is_wanted() {
                let active = pace(PathState::Active, 1000);
                infos.push((now, heartbeat.on_send(at(now), active, to(), &mut rng, (None, ROOM))));
            }
            heartbeat.insist(at(now));
        }
        let times: alloc::vec::Vec<u64> = infos.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [0, 101, 302, 703, 1504, 2305, 3106, 3907]);
        // The answer to the one of 1.5 s ago, while three others are under way.
        assert!(heartbeat.on_ack(at(4000), &infos[4].1, to()).is_some());
    }

    #[test]
    fn an_answer_is_accepted_once_and_gives_the_round_trip_time() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let info = heartbeat.on_send(
            at(100),
            pace(PathState::Inactive, 1000),
            to(),
            &mut rng,
            (None, ROOM),
        );
        assert_eq!(path_of(&info), Some(PathId(3)));
        let other: SocketAddr = "10.0.0.3:9899".parse().unwrap();
        assert_eq!(heartbeat.on_ack(at(130), &info, (PathId(3), other)), None);
        let mut forged = info.clone();
        forged[0] ^= 1;
        assert_eq!(heartbeat.on_ack(at(130), &forged, to()), None);
        let answer = Answer { round_trip: Duration::from_millis(40), full_sized: true };
        assert_eq!(heartbeat.on_ack(at(140), &info, to()), Some(answer));
        assert_eq!(heartbeat.on_ack(at(141), &info, to()), None);
        assert_eq!(path_of(&info[..34]), None);
        assert_eq!(info.len(), ROOM);
        let info =
            heartbeat.on_send(at(100), pace(PathState::Active, 1000), to(), &mut rng, (None, ROOM));
        assert!(info.len() < 40, "a working path is probed with little");
    }

    #[test]
    fn an_address_gets_large_probes_only_when_it_has_answered_and_few_when_it_does_not() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let unconfirmed = pace(PathState::Unconfirmed, 5000);
        let info = heartbeat.on_send(at(0), unconfirmed, to(), &mut rng, (None, ROOM));
        assert!(info.len() < 40, "it may belong to somebody else");
        assert_eq!(heartbeat.deadline(), Some(at(2000)));
        let silent = Pace { silent: true, ..unconfirmed };
        let info = heartbeat.on_send(at(5000), silent, to(), &mut rng, (None, ROOM));
        heartbeat.handle_timeout(at(5000), silent, &mut rng);
        heartbeat.on_send(at(5000), silent, to(), &mut rng, (None, ROOM));
        assert_eq!(heartbeat.deadline(), Some(at(10_000)));
        assert!(heartbeat.on_ack(at(5100), &info, to()).is_some_and(|answer| !answer.full_sized));
        let info = heartbeat.on_send(at(6000), unconfirmed, to(), &mut rng, (None, ROOM));
        assert_eq!(info.len(), ROOM);
        assert!(heartbeat.on_ack(at(6100), &info, to()).is_some_and(|answer| answer.full_sized));
    }

    #[test]
    fn a_lost_probe_of_full_size_is_repeated_sooner_than_an_error_counts() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let unmeasured = pace(PathState::Unconfirmed, 1000);
        let info = heartbeat.on_send(at(0), unmeasured, to(), &mut rng, (None, ROOM));
        assert_eq!(heartbeat.deadline(), Some(at(1000)));
        assert!(heartbeat.on_ack(at(30), &info, to()).is_some());
        let measured = Pace { rto: Duration::from_millis(200), ..unmeasured };
        let measured = Pace { probe_timeout: Some(Duration::from_millis(60)), ..measured };
        let mut times = alloc::vec::Vec::new();
        let mut now = at(30);
        while now < at(1000) {
            heartbeat.on_send(now, measured, to(), &mut rng, (None, ROOM));
            now = heartbeat.deadline().unwrap();
            times.push((
                now.as_nanos() / 1_000_000,
                heartbeat.handle_timeout(now, measured, &mut rng),
            ));
        }
        let quiet = |time| (time, Expiry::Quiet);
        let error = (1000, Expiry::Unanswered);
        assert_eq!(times, [quiet(90), quiet(210), quiet(410), quiet(610), quiet(810), error]);
    }

    #[test]
    fn a_probe_that_waited_beyond_the_end_of_a_silence_begins_another() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let unconfirmed = pace(PathState::Unconfirmed, 5000);
        heartbeat.on_send(at(0), unconfirmed, to(), &mut rng, (None, ROOM));
        assert_eq!(heartbeat.handle_timeout(at(2000), unconfirmed, &mut rng), Expiry::Quiet);
        heartbeat.on_send(at(7000), unconfirmed, to(), &mut rng, (None, ROOM));
        assert_eq!(heartbeat.deadline(), Some(at(9000)));
    }

    #[test]
    fn a_failed_path_is_probed_often_and_its_errors_counted_at_the_pace_of_the_rto() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let pace = pace(PathState::Inactive, 5000);
        let mut seen = std::vec::Vec::new();
        heartbeat.on_send(at(0), pace, to(), &mut rng, (None, ROOM));
        while let Some(now) = heartbeat.deadline().filter(|next| *next < at(10_000)) {
            seen.push((now, heartbeat.handle_timeout(now, pace, &mut rng)));
            heartbeat.on_send(now, pace, to(), &mut rng, (None, ROOM));
        }
        let quiet = |millis| (at(millis), Expiry::Quiet);
        let error = (at(5000), Expiry::Unanswered);
        assert_eq!(seen, [quiet(2000), quiet(4000), error, quiet(7000), quiet(9000)]);
    }

    #[test]
    fn a_busy_path_is_not_probed() {
        let (mut heartbeat, mut rng) = (Heartbeat::default(), Rng::new([1; 32]));
        let pace = pace(PathState::Active, 1000);
        heartbeat.start(at(0), pace, &mut rng);
        let first = heartbeat.deadline().unwrap();
        assert!(first >= at(30_500) && first < at(31_500));
        let busy = Pace { last_data: Some(at(20_000)), ..pace };
        assert_eq!(heartbeat.handle_timeout(first, busy, &mut rng), Expiry::Quiet);
        assert!(!heartbeat.is_wanted());
        let second = heartbeat.deadline().unwrap();
        assert!(second >= at(50_500));
        assert_eq!(heartbeat.handle_timeout(second, busy, &mut rng), Expiry::Quiet);
        assert!(heartbeat.is_wanted());
    }
}
