//! One window, as its receiver has it.

use crate::budget::{Budget, Charge};
use crate::pace::Pace;
use crate::path::Path;
use crate::policy::{Policy, WindowConfig};
use crate::round_trip::RoundTrip;
use core::time::Duration;

/// The largest window of HPN-SSH (18.8.0, `SSHBUF_SIZE_MAX`).
const LARGEST_SOCKET_BUFFER: u64 = 128 << 20;

/// What has become of the size of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adjustment {
    /// Nothing.
    None,
    /// It is larger.
    Grew,
    /// It is smaller: the reader takes less than before.
    Shrank,
    /// It is smaller: others need the memory, or the transport has less.
    GaveWay,
    /// It should have been larger, but there is no memory, or not so much. Said once per round trip.
    Denied,
}

/// The receiving side of one window: what may still come, and how much is to be granted.
///
/// See the crate for the rules and the order of calls. All counts are bytes since the beginning.
#[derive(Debug)]
pub struct Window {
    config: WindowConfig,
    size: u64,
    received: u64,
    consumed: u64,
    granted: u64,
    returned: u64,
    ended: bool,
    transport: u64,
    round_trip: RoundTrip,
    pace: Pace,
    path: Path,
    charge: Charge,
}

impl Window {
    /// A window of its first size, or of the least one if that does not fit into the budget. `None`
    /// if that does not fit either.
    pub fn open(config: WindowConfig, budget: &Budget) -> Option<Self> {
        let mut window = Self::open_least(config, budget)?;
        window.raise_to_first();
        Some(window)
    }

    /// A window of its least size; `None` if that does not fit into the budget.
    pub fn open_least(config: WindowConfig, budget: &Budget) -> Option<Self> {
        let config = normalised(config);
        let mut charge = Charge::new(budget);
        charge.begin(config.least).then(|| Self {
            config,
            size: config.least,
            received: 0,
            consumed: 0,
            granted: config.least,
            returned: 0,
            ended: false,
            transport: u64::MAX,
            round_trip: RoundTrip::default(),
            pace: Pace::new(config.least),
            path: Path::default(),
            charge,
        })
    }

    /// Raises a window that was opened with the least size to the first one, if there is memory, and
    /// grants that. For protocols whose channels begin with a window that they may not choose. False if it
    /// stays as it is.
    pub fn raise_to_first(&mut self) -> bool {
        let first = self.config.first;
        let raised = self.size >= first || self.charge.grow(first);
        if raised {
            self.size = self.size.max(first);
            self.pace.restart(self.size);
            self.take_grant();
        }
        raised
    }

    /// `bytes` of data came. False, and nothing done, if that is more than was granted: the peer has broken the
    /// protocol.
    pub fn on_received(&mut self, bytes: u64) -> bool {
        let allowed = bytes <= self.credit();
        if allowed {
            self.received += bytes;
        }
        allowed
    }

    /// The reader has taken `bytes` (no more count than have come), so that they need no memory any
    /// more.
    pub fn on_consumed(&mut self, now: Duration, bytes: u64) -> Adjustment {
        let bytes = bytes.min(self.buffered());
        self.consumed += bytes;
        let adjustment = match self.config.policy {
            Policy::Follow => self.follow(now, bytes),
            Policy::Path => self.follow_path(now, bytes),
            Policy::Static => Adjustment::None,
            Policy::SocketBuffer => self.follow_socket_buffer(),
        };
        self.settle();
        adjustment
    }

    /// A round trip between the applications took `sample`.
    pub fn on_round_trip(&mut self, now: Duration, sample: Duration) {
        if self.round_trip.min().is_none() {
            self.pace.restart(self.size);
        }
        self.round_trip.sample(now, sample);
    }

    /// A round trip over the slowest of several paths that the transport may use takes so long: see [`Policy::Follow`].
    /// Zero, as at the beginning: there is one path, or it is not known.
    pub fn set_slowest_path(&mut self, round_trip: Duration) {
        self.round_trip.set_slowest(round_trip);
    }

    /// What the transport can receive at a time, in bytes: over SCTP its receive buffer, over TCP
    /// the socket's (`SO_RCVBUF`). A larger window would only fill the sender's queues. Unlimited until told.
    pub fn set_transport_window(&mut self, bytes: u64) {
        self.transport = bytes;
    }

    /// The peer has given `bytes` of unused credit back. False, and nothing done, if it did not have so
    /// much.
    pub fn on_returned(&mut self, bytes: u64) -> bool {
        let allowed = bytes <= self.credit();
        if allowed {
            self.returned += bytes;
            self.settle();
        }
        allowed
    }

    /// The peer sends no more. What has come is still consumed.
    pub fn on_end(&mut self) {
        self.ended = true;
        self.settle();
    }

    /// Lets the window fall back to its first size, because it is not used and others need the memory. The peer still has
    /// its credit until it returns it.
    pub fn fall_back(&mut self) {
        self.size = self.size.min(self.config.first);
        self.pace.restart(self.size);
        self.settle();
    }

    /// Whether a grant is worth a message now.
    pub fn is_grant_due(&self) -> bool {
        self.missing() >= self.config.refresh.step(self.size)
    }

    /// Grants what the size allows: the bytes to add to the peer's credit, 0 if there are none.
    pub fn take_grant(&mut self) -> u64 {
        let more = self.missing();
        self.granted += more;
        more
    }

    /// All bytes granted since the beginning, with those returned.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes of credit that the peer has given back.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// All bytes that came.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The size at present: what is granted beyond the consumed, as far as grants have been taken.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that may still come.
    pub fn credit(&self) -> u64 {
        if self.ended { 0 } else { self.granted - self.returned - self.received }
    }

    /// Bytes that came and are not consumed.
    pub fn buffered(&self) -> u64 {
        self.received - self.consumed
    }

    /// Bytes that need memory or may come to need it.
    pub fn held(&self) -> u64 {
        self.buffered() + self.credit()
    }

    /// Its part of the budget.
    pub fn charge(&self) -> u64 {
        self.charge.bytes()
    }

    /// What the reader takes in a round trip.
    pub fn delivered(&self) -> u64 {
        self.pace.delivered()
    }

    /// What a round trip takes, if there was any sample.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.min()
    }

    /// What could be granted.
    fn missing(&self) -> u64 {
        if self.ended { 0 } else { self.size.saturating_sub(self.held()) }
    }

    fn follow(&mut self, now: Duration, bytes: u64) -> Adjustment {
        let round_trip = self.round_trip.min();
        let is_over = self.pace.take(now, bytes, round_trip, self.size);
        let ways = if self.round_trip.has_several_ways() { 2 } else { 1 };
        let target = self.round_trip.stretch(self.pace.target(self.config.gain * ways));
        self.resize(target, self.pace.ceiling(), is_over)
    }

    /// While the rate rises, as slow start: by what is consumed, up to 4 times the delivered, as [`Self::follow`].
    fn follow_path(&mut self, now: Duration, bytes: u64) -> Adjustment {
        let round_trip = self.round_trip.min();
        let is_over = self.path.take(now, bytes, round_trip);
        let product = self.path.product(round_trip);
        let WindowConfig { first, gain, .. } = self.config;
        let rest = first.saturating_add(product.saturating_mul(u64::from(gain)) / 100);
        let rising = self.path.is_rising() && round_trip.is_some();
        let ahead = first.saturating_add(self.path.latest().saturating_mul(4));
        let slow_start = if rising { self.size.saturating_add(bytes).min(ahead) } else { 0 };
        self.resize(rest.max(slow_start), u64::MAX, is_over)
    }

    /// Goes to the size that is `wanted`, as far as it may: up to `ceiling` at once, down when a round trip is over.
    fn resize(&mut self, wanted: u64, ceiling: u64, is_over: bool) -> Adjustment {
        let WindowConfig { first, least, cap, .. } = self.config;
        let wanted = wanted.max(first).min(cap).min(self.transport.max(least));
        let bound = self.charge.share().max(least).min(cap).min(self.transport.max(least));
        if self.size > bound {
            self.shrink(bound);
            Adjustment::GaveWay
        } else if wanted > self.size {
            self.enlarge(wanted.min(ceiling), bound, is_over)
        } else if is_over && wanted < self.size {
            self.shrink(wanted.max(self.size - self.size / 4));
            Adjustment::Shrank
        } else {
            Adjustment::None
        }
    }

    fn shrink(&mut self, size: u64) {
        self.size = size;
        self.pace.begin_at_most_with(size);
    }

    /// `tell`: whether to say so if it cannot be.
    fn enlarge(&mut self, wanted: u64, bound: u64, tell: bool) -> Adjustment {
        let size = wanted.min(bound);
        if size > self.size && self.charge.grow(size) {
            self.size = size;
            return Adjustment::Grew;
        }
        if wanted > bound && tell { Adjustment::Denied } else { Adjustment::None }
    }

    /// HPN-SSH looks at the socket when it sends a grant.
    fn follow_socket_buffer(&mut self) -> Adjustment {
        let wanted = self.transport.min(LARGEST_SOCKET_BUFFER).min(self.config.cap);
        if self.transport == u64::MAX || !self.is_grant_due() || wanted <= self.size {
            return Adjustment::None;
        }
        self.enlarge(wanted, self.charge.share(), true)
    }

    /// Gives memory back that is neither in use nor promised any more.
    fn settle(&mut self) {
        let needed = if self.ended { self.held() } else { self.held().max(self.size) };
        self.charge.lower(needed);
    }
}

/// The same with values that contradict each other brought in line.
fn normalised(config: WindowConfig) -> WindowConfig {
    let least = config.least.clamp(1, config.cap.max(1));
    let first = config.first.clamp(least, config.cap.max(least));
    WindowConfig { least, first, ..config }
}
