//! The search on one path (RFC 8899 section 5).

use super::black_hole::BlackHole;
use super::order::{Candidates, STEP};
use super::sizes::{LEAST_PACKET, Sizes};
use crate::config::{Config, PathMtu};
use crate::path::{PathAddr, Rtt};
use crate::time::{Duration, Instant};

/// Probes whose answers are still taken, though others have been sent since.
const REMEMBERED: usize = 3;

/// Timers are not finer than that everywhere.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// Where the search stands (RFC 8899 section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The path does not work yet.
    Disabled,
    /// Do the packets get through that every path should take?
    Base,
    /// How much more does it take?
    Searching,
    /// That is known.
    Complete,
    /// Not even those get through.
    Error,
}

/// What a user may choose of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Terms {
    min_plpmtu: u16,
    base_plpmtu: u16,
    most_failures: u32,
    probe_timer: Duration,
    raise_timer: Duration,
    reports: bool,
}

impl Terms {
    fn new(config: &Config) -> Self {
        Self {
            min_plpmtu: config.plpmtu_min,
            base_plpmtu: config.plpmtu_base,
            most_failures: config.plpmtu_max_probes.max(1),
            probe_timer: config.plpmtu_probe_timer,
            raise_timer: config.plpmtu_raise_timer,
            reports: config.plpmtu_reports,
        }
    }

    /// MIN_PLPMTU and BASE_PLPMTU.
    fn least(self) -> (u16, u16) {
        (self.min_plpmtu, self.base_plpmtu)
    }
}

/// A probe that has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// What its answer brings back.
    pub nonce: u64,
    /// When it was sent.
    pub at: Instant,
    /// Its size with the IP header.
    pub size: u16,
}

/// How long things take on the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timing {
    /// The smoothed round-trip time; zero if it is not known.
    pub round_trip: Duration,
    /// The retransmission timeout.
    pub rto: Duration,
}

impl Timing {
    /// Those of a path with this round trip.
    pub(crate) fn of(rtt: &Rtt) -> Self {
        Self { round_trip: rtt.smoothed().unwrap_or_default(), rto: rtt.rto() }
    }
}

/// The search for the MTU of one path. Without a search it knows the size of the link.
#[derive(Clone, Debug)]
pub(crate) struct MtuSearch {
    /// None: there is no search.
    terms: Option<Terms>,
    sizes: Sizes,
    /// What the path takes (PLPMTU).
    found: u16,
    phase: Phase,
    /// What is asked for (PROBED_SIZE).
    probed: u16,
    /// What the search goes up to: what the interface takes, or less if a router has said so.
    top: u16,
    candidates: Candidates,
    /// Probes that were not answered (PROBE_COUNT).
    failures: u32,
    wanted: bool,
    /// When the timer expires that runs: for an answer, for the next probe, or for a new search.
    due: Option<Instant>,
    awaits_answer: bool,
    sent: [Option<Probe>; REMEMBERED],
    last_sent: Option<Instant>,
    /// How long the last answer took.
    round_trip: Duration,
    /// How often BASE_PLPMTU has failed in a row: the pause before it is tried again doubles.
    rounds: u32,
    hole: BlackHole,
}

impl MtuSearch {
    /// A path behind a link that takes packets of `link` bytes.
    pub(crate) fn new(addr: &PathAddr, link: u16, config: &Config) -> Self {
        let is_on = config.path_mtu == PathMtu::Search && config.heartbeats;
        let terms = is_on.then(|| Terms::new(config));
        let sizes = Sizes::new(addr, link, terms.map(Terms::least));
        Self {
            terms,
            sizes,
            found: if terms.is_some() { sizes.base } else { link },
            phase: Phase::Disabled,
            probed: sizes.base,
            top: sizes.max,
            candidates: Candidates::new(config.plpmtu_order),
            failures: 0,
            wanted: false,
            due: None,
            awaits_answer: false,
            sent: [None; REMEMBERED],
            last_sent: None,
            round_trip: Duration::ZERO,
            rounds: 0,
            hole: BlackHole::default(),
        }
    }

    /// The path begins anew with other addresses, behind a link of `link` bytes.
    pub(crate) fn readdress(&mut self, addr: &PathAddr, link: u16) {
        self.sizes = Sizes::new(addr, link, self.terms.map(Terms::least));
        self.found = if self.terms.is_some() { self.sizes.base } else { link };
        self.phase = Phase::Disabled;
        self.stop();
    }

    /// The user wants a search, on a path that works or does not yet.
    pub(crate) fn begin(&mut self, addr: &PathAddr, config: &Config, works: bool) {
        if self.is_on() {
            return;
        }
        let link = self.sizes.max;
        *self = Self::new(addr, link, &Config { path_mtu: PathMtu::Search, ..config.clone() });
        if works {
            self.start();
        }
    }

    /// The user wants no search, and packets of `fixed` bytes.
    pub(crate) fn end(&mut self, fixed: Option<u16>) {
        self.terms = None;
        self.phase = Phase::Disabled;
        self.sent = [None; REMEMBERED];
        self.stop();
        self.found = fixed.unwrap_or(self.found).clamp(LEAST_PACKET, self.sizes.max);
    }

    /// Largest packet that is sent (PLPMTU).
    pub(crate) fn mtu(&self) -> u16 {
        self.found
    }

    /// Whether there is a search.
    pub(crate) fn is_on(&self) -> bool {
        self.terms.is_some()
    }

    /// Whether the path may not take a packet of `size` bytes although it did.
    pub(crate) fn is_large(&self, size: usize) -> bool {
        self.is_on() && size > usize::from(self.sizes.base.min(self.found.saturating_sub(1)))
    }

    /// Whether a probe waits to be sent.
    pub(crate) fn wants_probe(&self) -> bool {
        self.wanted
    }

    /// When [`Self::handle_timeout`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// The path works. In the common order the first probe is as large as the interface allows: mostly
    /// it passes, and what is smaller then passes as well.
    pub(crate) fn start(&mut self) {
        if self.is_on() && self.phase == Phase::Disabled {
            self.enter_base(self.sizes.max);
            if !self.candidates.is_thorough() {
                self.probed = self.sizes.max;
            }
        }
    }

    /// Size of the probe that leaves now and is answered with `nonce`.
    pub(crate) fn on_send(&mut self, now: Instant, nonce: u64, timing: Timing) -> u16 {
        self.wanted = false;
        self.awaits_answer = true;
        self.due = Some(now + self.patience(timing));
        self.last_sent = Some(now);
        self.sent.rotate_right(1);
        self.sent[0] = Some(Probe { nonce, at: now, size: self.probed });
        self.probed
    }

    /// The timer has expired. Returns whether a probe was lost.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.due = None;
        let lost = core::mem::take(&mut self.awaits_answer);
        if lost {
            self.on_lost(now);
        } else if self.phase == Phase::Complete && self.candidates.is_thorough() {
            self.probed = (self.found + STEP).min(self.sizes.max);
            self.wanted = true;
        } else if self.phase == Phase::Complete {
            self.phase = Phase::Searching;
            self.begin_round(self.sizes.max);
            self.advance(now);
        } else {
            self.wanted = self.phase != Phase::Disabled;
        }
        lost
    }

    /// How long an answer is waited for.
    fn patience(&self, timing: Timing) -> Duration {
        let is_hasty = self.phase == Phase::Searching
            && self.candidates.is_thorough()
            && self.candidates.is_hasty(self.found, self.probed);
        // What is concluded too early does no harm: an answer that is late counts as well.
        if is_hasty && self.round_trip > Duration::ZERO {
            return (self.round_trip * 2).max(timing.round_trip).max(LEAST_PATIENCE);
        }
        self.terms.map_or(Duration::ZERO, |terms| terms.probe_timer).max(timing.rto)
    }

    /// Whether a new search, which costs a full round in the common order, can wait: user data has
    /// been sent since the last probe.
    pub(crate) fn is_worth_raising(&self, last_data: Option<Instant>) -> bool {
        let is_cheap = self.candidates.is_thorough();
        self.phase != Phase::Complete || is_cheap || last_data >= self.last_sent
    }

    /// Nothing was sent since the last search: the next one waits for another period.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.due = self.terms.map(|terms| now + terms.raise_timer);
    }

    /// The path has failed: what is under way says nothing about sizes. What was found stays.
    pub(crate) fn pause(&mut self) {
        if self.awaits_answer {
            self.awaits_answer = false;
            self.due = None;
            self.wanted = true;
        }
    }

    /// Takes the probe that `is_answered` accepts off the list and works its success in.
    pub(crate) fn on_answer(
        &mut self,
        now: Instant,
        is_answered: impl Fn(&Probe) -> bool,
    ) -> Option<Probe> {
        let position = self.sent.iter().position(|sent| sent.as_ref().is_some_and(&is_answered))?;
        let probe = self.sent[position].take()?;
        self.failures = 0;
        self.round_trip = now.since(probe.at);
        self.candidates.on_answer(probe.size);
        let grown = probe.size > self.found;
        self.found = self.found.max(probe.size);
        if self.phase == Phase::Complete && grown && self.candidates.is_thorough() {
            self.phase = Phase::Searching;
            self.begin_round(self.sizes.max);
        }
        if self.is_confirmed_by(probe.size) {
            self.phase = Phase::Searching;
            self.candidates.confirm(self.top);
            self.rounds = 0;
        }
        if self.phase == Phase::Searching && self.probed <= self.found {
            self.advance(now);
        }
        Some(probe)
    }

    /// A router has reported, and proved to have seen a packet of ours, that it takes no more than
    /// `size` bytes (RFC 8899 section 4.6.2). That is never taken for the MTU: it is a size to probe.
    /// Returns whether the report made sense.
    pub(crate) fn on_too_big(&mut self, now: Instant, size: u16, timing: Timing) -> bool {
        let sent = if self.awaits_answer { self.probed.max(self.found) } else { self.found };
        let heeds = self.terms.is_some_and(|terms| terms.reports);
        if !heeds || size < self.sizes.min || size >= sent {
            return false;
        }
        if size < self.sizes.base {
            self.enter_error(now);
        } else if size < self.found {
            self.enter_base(size);
            if !self.candidates.is_thorough() {
                self.probed = size;
            }
            self.wait(now, timing);
        } else if size == self.found {
            self.complete(now);
        } else if self.phase == Phase::Searching || self.phase == Phase::Base {
            self.top = size;
            self.probed = size;
            self.wait(now, timing);
        }
        true
    }

    /// Looks at what was lost and what passed. Returns whether that shows a black hole; then the path
    /// is used with smaller packets.
    pub(crate) fn judge(&mut self, now: Instant, timing: Timing) -> bool {
        let Some(terms) = self.terms else { return false };
        if !self.hole.judge(now, timing.round_trip, terms.most_failures) {
            return false;
        }
        if self.found > self.sizes.base {
            self.enter_base(self.sizes.max);
        } else if self.found > self.sizes.min {
            self.enter_error(now);
        } else {
            return false;
        }
        true
    }

    /// A packet was lost that [`Self::is_large`].
    pub(crate) fn on_large_lost(&mut self) {
        self.hole.on_large_lost();
    }

    /// A packet has arrived.
    pub(crate) fn on_passed(&mut self, large: bool) {
        self.hole.on_passed(large);
    }

    /// Whether a probe of `size` that has passed shows from where on more can be asked for.
    fn is_confirmed_by(&self, size: u16) -> bool {
        match self.phase {
            Phase::Base => size >= self.sizes.base,
            Phase::Error => size >= self.sizes.base || self.candidates.is_thorough(),
            Phase::Disabled | Phase::Searching | Phase::Complete => false,
        }
    }

    fn on_lost(&mut self, now: Instant) {
        let Some(terms) = self.terms else { return };
        if self.phase == Phase::Base && self.probed > self.sizes.base {
            // It was more than the path is sure to take.
            self.candidates.drop_first();
            self.probed = self.sizes.base;
            self.wanted = true;
            return;
        }
        if self.phase == Phase::Searching && self.candidates.is_thorough() {
            self.candidates.on_lost(self.probed, terms.most_failures);
            return self.advance(now);
        }
        self.failures += 1;
        if self.failures < terms.most_failures {
            return self.advance(now);
        }
        match self.phase {
            Phase::Base if self.candidates.is_thorough() && self.sizes.min < self.sizes.base => {
                self.enter_error(now);
                self.probe_least();
            }
            Phase::Base | Phase::Error => self.enter_error(now),
            Phase::Searching | Phase::Complete => self.complete(now),
            Phase::Disabled => {}
        }
    }

    /// The base does not pass. Does anything?
    fn probe_least(&mut self) {
        self.probed = self.sizes.min;
        self.due = None;
        self.wanted = true;
    }

    /// Decides on the next probe.
    fn advance(&mut self, now: Instant) {
        match self.phase {
            Phase::Base | Phase::Error => self.wanted = true,
            Phase::Complete => self.wanted = self.failures > 0,
            Phase::Searching => match self.candidates.next(self.found, self.top) {
                None => self.complete(now),
                Some(size) => {
                    self.probed = size;
                    self.wanted = true;
                    self.due = None;
                    self.awaits_answer = false;
                }
            },
            Phase::Disabled => {}
        }
    }

    fn begin_round(&mut self, top: u16) {
        self.top = top;
        self.candidates.begin(top);
        self.failures = 0;
    }

    /// Sends no more than what most paths take and looks anew what this one does, up to `top`.
    fn enter_base(&mut self, top: u16) {
        self.stop();
        self.phase = Phase::Base;
        self.sent = [None; REMEMBERED];
        self.found = self.sizes.base;
        self.probed = self.sizes.base;
        self.begin_round(top);
        self.wanted = true;
    }

    fn enter_error(&mut self, now: Instant) {
        let Some(terms) = self.terms else { return };
        self.stop();
        self.phase = Phase::Error;
        self.found = self.sizes.min;
        self.probed = self.sizes.base;
        self.sent = [None; REMEMBERED];
        self.begin_round(self.sizes.max);
        let pause = match self.candidates.is_thorough() {
            // The least size is asked for before, so all has been tried.
            true => terms.raise_timer,
            false => terms.probe_timer.saturating_mul(1 << self.rounds.min(16)),
        };
        self.due = Some(now + pause.min(terms.raise_timer));
        self.rounds += 1;
    }

    fn complete(&mut self, now: Instant) {
        self.stop();
        self.phase = Phase::Complete;
        if self.found < self.sizes.max {
            self.due = self.terms.map(|terms| now + terms.raise_timer);
        }
    }

    /// "the interval between probe packets MUST be at least one RTT"
    fn wait(&mut self, now: Instant, timing: Timing) {
        let earliest = self.last_sent.map_or(now, |last| last + timing.round_trip);
        self.awaits_answer = false;
        self.wanted = earliest <= now;
        self.due = Some(earliest).filter(|_| !self.wanted);
    }

    fn stop(&mut self) {
        self.wanted = false;
        self.awaits_answer = false;
        self.due = None;
        self.failures = 0;
    }
}
