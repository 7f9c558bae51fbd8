//! The states of an association (RFC 9260 section 4), each with the data that has a meaning in it.

use crate::path::{PathAddr, Rtt};
use crate::status::AssociationState;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// Where an association is in its life.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// INIT sent.
    CookieWait(CookieWait),
    /// COOKIE ECHO sent.
    CookieEchoed(CookieEchoed),
    /// In use.
    Established,
    /// Shutdown asked for here; data is still outstanding.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent(ShutdownSent),
    /// SHUTDOWN received; data is still outstanding.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent(Retry),
    /// Over: removed by the endpoint as soon as it looks.
    Closed,
}

/// What COOKIE-WAIT needs.
#[derive(Clone, Debug)]
pub(crate) struct CookieWait {
    /// T1-init and its INIT.
    pub t1: Retry,
    /// Ways to the peer, tried in turn (section 5.1).
    pub candidates: Vec<PathAddr>,
    /// How many of the first ones are tried at once: at least one.
    pub together: usize,
    /// The one in use. Of those that are tried at once the first.
    pub current: usize,
    /// The one to which the last INIT went.
    pub sent: usize,
    /// Candidates of which the network said that nobody listens there, or over which the peer has refused an INIT.
    pub unreachable: Vec<PathAddr>,
}

impl CookieWait {
    /// Nothing is sent yet. There is at least one candidate.
    pub(crate) fn new(candidates: Vec<PathAddr>, together: usize, t1: Retry) -> Self {
        Self { t1, candidates, together, current: 0, sent: 0, unreachable: Vec::new() }
    }

    /// Where an INIT goes now: the one that T1-init wants sent, or a copy of it.
    pub(crate) fn next_init(&mut self) -> Option<PathAddr> {
        self.sent = match self.t1.is_due() {
            true => self.current,
            false => (self.sent + 1..self.together).find(|place| self.is_usable(*place))?,
        };
        self.candidates.get(self.sent).copied()
    }

    /// Turns to the next candidate that is not known to be unreachable, beyond those that are tried at once.
    pub(crate) fn next_candidate(&mut self) {
        let count = self.candidates.len();
        let last = if self.current < self.together { self.together - 1 } else { self.current };
        let mut turns = (1..=count).map(|step| (last + step) % count);
        self.current = turns.find(|turn| self.is_usable(*turn)).unwrap_or(self.current);
    }

    /// The candidate in use cannot be reached.
    pub(crate) fn leave_candidate(&mut self) {
        let mut rest = self.current + 1..self.together;
        if let Some(other) = rest.find(|place| self.is_usable(*place)) {
            // It has an INIT already, or gets a copy.
            self.current = other;
        } else {
            self.next_candidate();
            self.t1.send_again();
        }
    }

    /// The peer has refused the INIT that came by `addr`, one of those that are tried at once. Returns whether others of
    /// them are left.
    pub(crate) fn refused(&mut self, addr: PathAddr) -> bool {
        let at_once = &self.candidates[..self.together];
        let Some(place) = at_once.iter().position(|it| *it == addr) else { return false };
        if !(0..self.together).any(|other| other != place && self.is_usable(other)) {
            return false;
        }
        if !self.unreachable.contains(&addr) {
            self.unreachable.push(addr);
        }
        if place == self.current {
            self.leave_candidate();
        }
        true
    }

    fn is_usable(&self, place: usize) -> bool {
        self.candidates.get(place).is_some_and(|it| !self.unreachable.contains(it))
    }
}

/// What COOKIE-ECHOED needs.
#[derive(Clone, Debug)]
pub(crate) struct CookieEchoed {
    /// T1-cookie and its COOKIE ECHO.
    pub t1: Retry,
    /// The peer's cookie.
    pub cookie: Vec<u8>,
    /// Unrecognized parameters of the INIT ACK, to be reported with the COOKIE ECHO.
    pub report: Vec<u8>,
    /// The place in the list of the next path that gets a copy of the first COOKIE ECHO, if there are copies.
    pub next_copy: Option<usize>,
}

/// What SHUTDOWN-SENT needs.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownSent {
    /// T2-shutdown and its SHUTDOWN.
    pub t2: Retry,
    /// Expiry of T5-shutdown-guard.
    pub guard: Instant,
}

impl State {
    /// The RFC's name for it. A closed association has none.
    pub(crate) fn name(&self) -> Option<AssociationState> {
        match self {
            Self::CookieWait(_) => Some(AssociationState::CookieWait),
            Self::CookieEchoed(_) => Some(AssociationState::CookieEchoed),
            Self::Established => Some(AssociationState::Established),
            Self::ShutdownPending => Some(AssociationState::ShutdownPending),
            Self::ShutdownSent(_) => Some(AssociationState::ShutdownSent),
            Self::ShutdownReceived => Some(AssociationState::ShutdownReceived),
            Self::ShutdownAckSent(_) => Some(AssociationState::ShutdownAckSent),
            Self::Closed => None,
        }
    }

    /// Whether the handshake is not yet complete.
    pub(crate) fn is_setting_up(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_))
    }

    /// Whether the association is over.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether DATA may be sent or retransmitted in packets of any kind.
    pub(crate) fn sends_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Whether DATA is taken (section 6). The peer has none outstanding once it has sent its SHUTDOWN:
    /// what comes later are copies.
    pub(crate) fn takes_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent(_))
    }

    /// Whether SACKs are sent. After its SHUTDOWN the peer needs none.
    pub(crate) fn sends_sacks(&self) -> bool {
        !matches!(self, Self::ShutdownAckSent(_))
    }

    /// Whether the user may queue messages.
    pub(crate) fn accepts_messages(&self) -> bool {
        self.is_setting_up() || matches!(self, Self::Established)
    }

    /// Whether HEARTBEATs are sent: until a SHUTDOWN or SHUTDOWN ACK was (section 8.3).
    pub(crate) fn sends_heartbeats(&self) -> bool {
        self.sends_data()
    }

    /// The chunk that is being repeated, if one is.
    pub(crate) fn retry(&self) -> Option<&Retry> {
        let (Self::CookieWait(CookieWait { t1: retry, .. })
        | Self::CookieEchoed(CookieEchoed { t1: retry, .. })
        | Self::ShutdownSent(ShutdownSent { t2: retry, .. })
        | Self::ShutdownAckSent(retry)) = self
        else {
            return None;
        };
        Some(retry)
    }

    /// The same, to be changed.
    pub(crate) fn retry_mut(&mut self) -> Option<&mut Retry> {
        let (Self::CookieWait(CookieWait { t1: retry, .. })
        | Self::CookieEchoed(CookieEchoed { t1: retry, .. })
        | Self::ShutdownSent(ShutdownSent { t2: retry, .. })
        | Self::ShutdownAckSent(retry)) = self
        else {
            return None;
        };
        Some(retry)
    }

    /// Changes when an INIT without an answer is sent again. The limit of repetitions and the back-off are those of the
    /// timer.
    pub(crate) fn repeat_init(&mut self, how: InitRepetition) -> bool {
        let Self::CookieWait(waiting) = self else { return false };
        match how {
            InitRepetition::Copy => {
                let once = waiting.t1.sends() == 1;
                if once {
                    waiting.t1.send_again();
                }
                return once;
            }
            InitRepetition::Rare => waiting.t1.leave_out(),
            InitRepetition::Anew => return waiting.t1.begin_anew(),
        }
        true
    }

    /// The state is SHUTDOWN-ACK-SENT: the peer missed our SHUTDOWN ACK, or what came of it.
    pub(crate) fn repeat_shutdown_ack(&mut self) -> bool {
        let Self::ShutdownAckSent(t2) = self else { return false };
        t2.send_again();
        true
    }

    /// When T5-shutdown-guard expires.
    pub(crate) fn guard(&self) -> Option<Instant> {
        let Self::ShutdownSent(sent) = self else { return None };
        Some(sent.guard)
    }
}

/// Copies that leave within this time are one to [`Retry::round_trip`]: no T1 or T2 is as short.
const TOGETHER: Duration = Duration::from_millis(4);

/// At least between two INITs for whose answer nobody waits.
const RARE: Duration = Duration::from_secs(1);

/// How an INIT that has no answer is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitRepetition {
    /// Once ahead of T1-init, to the same address, if it was sent only once.
    Copy,
    /// Nobody waits for the answer: repetitions are left out that would leave within a second after the one before. They
    /// count as sent, so the wait ends about when it would have ended.
    Rare,
    /// Somebody waits again: at once, and then as at first. Only after `Rare`.
    Anew,
}

/// A chunk that is sent again until it is answered: INIT, COOKIE ECHO, SHUTDOWN, SHUTDOWN ACK.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    due: bool,
    sends: u32,
    first_sent: Instant,
    last_sent: Instant,
    expiry: Option<Instant>,
    /// What the timer ran for last.
    interval: Duration,
    /// What it runs for next, if it has a back-off of its own.
    own_rto: Option<Duration>,
    /// Copies are left out that would leave within [`RARE`] after the one before.
    rare: bool,
}

impl Retry {
    /// To be sent as soon as possible.
    pub(crate) fn new() -> Self {
        let (first_sent, last_sent) = (Instant::ZERO, Instant::ZERO);
        let (interval, own_rto, rare) = (Duration::ZERO, None, false);
        Self { due: true, sends: 0, first_sent, last_sent, expiry: None, interval, own_rto, rare }
    }

    /// Whether the chunk waits to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// How often it was sent.
    pub(crate) fn sends(&self) -> u32 {
        self.sends
    }

    /// When the timer expires.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.expiry
    }

    /// The chunk leaves now over a path with this RTO.
    pub(crate) fn on_send(&mut self, now: Instant, rto: Duration) {
        self.due = false;
        if self.sends == 0 {
            self.first_sent = now;
        }
        self.sends += 1;
        self.last_sent = now;
        self.interval = self.own_rto.unwrap_or(rto);
        self.expiry = Some(now + self.interval);
        self.skip();
    }

    /// Copies that would leave within [`RARE`] after one are left out from now on. They count as sent.
    fn leave_out(&mut self) {
        self.rare = true;
        self.skip();
    }

    fn skip(&mut self) {
        let Some(mut expiry) = self.expiry.filter(|_| self.rare) else { return };
        while !self.interval.is_zero() && expiry < self.last_sent + RARE {
            self.interval *= 2;
            expiry = expiry + self.interval;
            self.sends += 1;
        }
        self.expiry = Some(expiry);
    }

    /// Nothing is left out any more; the next copy leaves at once. Whether something was.
    fn begin_anew(&mut self) -> bool {
        let rare = core::mem::take(&mut self.rare);
        if rare && self.sends > 0 {
            self.own_rto = None;
            self.forgive();
            self.send_again();
        }
        rare
    }

    /// The timer runs twice as long the next time, up to `limit`, whatever the RTO of the path: the
    /// path's own backs off for DATA that left together with the chunk (RFC 9260 section 6.3.3 rule E2).
    pub(crate) fn back_off(&mut self, limit: Duration) {
        self.own_rto = Some((self.interval * 2).min(limit));
    }

    /// Whether the timer has expired; then the chunk is due again.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let expired = self.expiry.is_some_and(|expiry| expiry <= now);
        if expired {
            self.send_again();
        }
        expired
    }

    /// The chunk is not due before `until`.
    pub(crate) fn wait(&mut self, until: Instant) {
        self.due = false;
        self.expiry = Some(until);
    }

    /// The chunk is due again, whatever the timer says.
    pub(crate) fn send_again(&mut self) {
        self.due = true;
        self.expiry = None;
    }

    /// Starts counting anew: the peer is alive.
    pub(crate) fn forgive(&mut self) {
        self.sends = self.sends.min(1);
    }

    /// The round-trip time if the answer arrived at `now` and can only be to one copy
    /// (Karn's algorithm, section 6.3.1 rule C5), or to copies that left together.
    pub(crate) fn round_trip(&self, now: Instant) -> Option<Duration> {
        let together = self.last_sent.since(self.first_sent) <= TOGETHER;
        together.then(|| now.since(self.first_sent))
    }

    /// Gives `rtt` of the path the time until the answer at `now`. Where there are several copies, any may be the answered one.
    pub(crate) fn note_answer(&self, now: Instant, rtt: &mut Rtt) {
        match self.round_trip(now) {
            Some(time) => rtt.on_sample(now, time),
            None => rtt.suppose(now.since(self.last_sent), now.since(self.first_sent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Retry;
    use crate::time::{Duration, Instant};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_chunk_is_due_at_first_and_after_each_expiry() {
        let mut retry = Retry::new();
        assert!(retry.is_due() && retry.expiry().is_none());
        retry.on_send(at(0), Duration::from_secs(1));
        assert!(!retry.expire(at(999)) && !retry.is_due());
        assert_eq!(retry.round_trip(at(30)), Some(Duration::from_millis(30)));
        assert!(retry.expire(at(1000)) && retry.is_due());
        retry.on_send(at(1000), Duration::from_secs(2));
        assert_eq!((retry.sends(), retry.expiry()), (2, Some(at(3000))));
        assert_eq!(retry.round_trip(at(1030)), None);
    }

    #[test]
    fn copies_are_left_out_for_a_while_and_the_last_ones_leave_when_they_would_have() {
        let (mut retry, rto) = (Retry::new(), Duration::from_millis(50));
        retry.on_send(at(0), rto);
        retry.leave_out();
        // 50, 150, 350 and 750 ms are left out.
        assert_eq!((retry.expiry(), retry.sends()), (Some(at(1550)), 5));
        assert!(retry.expire(at(1550)));
        retry.back_off(Duration::from_secs(60));
        retry.on_send(at(1550), rto);
        assert_eq!((retry.expiry(), retry.sends()), (Some(at(3150)), 6));
        assert!(retry.begin_anew() && retry.is_due() && !retry.begin_anew());
        retry.on_send(at(2000), rto);
        assert_eq!((retry.expiry(), retry.sends()), (Some(at(2050)), 2));
        assert_eq!(retry.round_trip(at(2010)), None, "the answer may be to an earlier one");
        let mut unsent = Retry::new();
        unsent.leave_out();
        unsent.on_send(at(0), rto);
        assert_eq!(unsent.expiry(), Some(at(1550)));
    }

    #[test]
    fn a_back_off_of_its_own_counts_instead_of_the_rto() {
        let (mut retry, rto) = (Retry::new(), Duration::from_secs(1));
        let limit = Duration::from_millis(3500);
        retry.on_send(at(0), rto);
        retry.back_off(limit);
        retry.on_send(at(1000), rto * 8);
        assert_eq!(retry.expiry(), Some(at(3000)));
        retry.back_off(limit);
        retry.on_send(at(3000), rto);
        assert_eq!(retry.expiry(), Some(at(6500)));
    }
}
