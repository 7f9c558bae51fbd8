//! One direction of a path: the link model that the simulator and the lab share.
//!
//! ```text
//! enqueue ─▶ down? ─▶ loss ─▶ FIFO, counted in packets ─▶ transmitter, `rate` ─▶ `delay` ─▶ poll
//!              │        │        │ full                        (serialisation)    (propagation)
//!              ▼        ▼        ▼                                    corrupt, duplicate, jitter, reorder
//!            dropped, counted by reason
//! ```
//!
//! Instead of a rate the transmitter may have a [`Trace`] of opportunities, used as by Mahimahi: one carries
//! up to 1500 bytes, of one packet or several; a packet that needs more goes on at the next; what is
//! left when nobody waits is lost, and so is an opportunity that finds nobody waiting.
//!
//! A queue with random early detection (`red`) also drops before it is full, or marks what is ECN-capable.
//! The packet on the transmitter does not count against the FIFO's limit. Losses happen before the
//! queue, as in Dummynet: a lost packet takes no capacity. Everything is computed from the times
//! that the caller passes; a late `poll` delivers late but shifts nothing that comes after.

mod config;
mod counters;
mod red;
#[cfg(test)]
mod tests;
mod trace;

pub use config::{GilbertElliott, LinkConfig};
pub use counters::{DropReason, LinkCounters};
pub use red::RedConfig;
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};

use crate::rng::Rng;
use manypath_engine::{Duration, Ecn, Instant};
use red::Red;
use std::collections::VecDeque;
use trace::Opportunities;

/// What travels over a link.
pub trait Packet: Clone {
    /// Bytes that it takes on the wire; the rate counts them.
    fn wire_len(&self) -> usize;
    /// The bytes that corruption may hit.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Whether a link that takes no packet as large as this may pass it on in fragments.
    fn may_be_fragmented(&self) -> bool {
        false
    }
    /// The ECN bits of its IP header.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    /// Congestion experienced.
    fn mark(&mut self) {}
}

impl Packet for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// One direction of a path. See the module's text for the order of things.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    rng: Rng,
    /// State of the burst losses.
    bad: bool,
    red: Red,
    waiting: VecDeque<P>,
    waiting_bytes: usize,
    /// The packet on the transmitter and when its last bit leaves.
    sending: Option<(Instant, P)>,
    /// Place in the trace, if there is one.
    opportunities: Opportunities,
    /// Packets on the wire by time of arrival; equal times keep their order.
    flying: VecDeque<(Instant, P)>,
    /// Jitter must not reorder: nothing that left later arrives before this.
    last_arrival: Instant,
    counters: LinkCounters,
}

impl<P: Packet> Link<P> {
    /// An idle link. `seed` decides its losses.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::new(seed),
            bad: false,
            red: Red::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sending: None,
            opportunities: Opportunities::new(Instant::ZERO),
            flying: VecDeque::new(),
            last_arrival: Instant::ZERO,
            counters: LinkCounters::default(),
        }
    }

    /// Hands a packet to the link. An error says why it was dropped; it is already counted.
    pub fn enqueue(&mut self, now: Instant, mut packet: P) -> Result<(), DropReason> {
        self.advance(now);
        self.counters.count_in(packet.wire_len());
        let refusal = if self.is_too_big(&packet) {
            Some(DropReason::TooBig)
        } else {
            self.refusal(packet.wire_len()).or_else(|| self.detect(now, &mut packet))
        };
        if let Some(reason) = refusal {
            self.counters.count_drop(reason, 1);
            return Err(reason);
        }
        self.waiting_bytes += packet.wire_len();
        self.waiting.push_back(packet);
        if let (None, Some(trace)) = (&self.sending, &self.config.trace) {
            self.opportunities.skip_to(trace, now);
        }
        self.start_next(now);
        self.counters.queue_peak = self.counters.queue_peak.max(self.waiting.len());
        Ok(())
    }

    /// Whether the link will drop `packet` for its size.
    pub fn is_too_big(&self, packet: &P) -> bool {
        let beyond = |mtu: u16| packet.wire_len() > usize::from(mtu);
        self.config.up && self.config.mtu.is_some_and(beyond) && !packet.may_be_fragmented()
    }

    /// The next packet that has arrived at the far end by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        if self.flying.front()?.0 > now {
            return None;
        }
        let (_, packet) = self.flying.pop_front()?;
        self.counters.count_out(packet.wire_len());
        Some(packet)
    }

    /// When `poll` should be called next; `None` while the link is empty. It may be a little early.
    pub fn next_deadline(&self) -> Option<Instant> {
        let arrival = self.flying.front().map(|(at, _)| *at);
        let departure = self.sending.as_ref().map(|(done, _)| *done + self.config.delay);
        arrival.into_iter().chain(departure).min()
    }

    /// Changes the link while it is in use. Packets on the wire keep their time of arrival, the one
    /// on the transmitter goes on at the new rate. Taking the link down loses all that it holds. A trace goes on
    /// if it is a clone of the one in force; one that was read once more begins anew.
    pub fn set_config(&mut self, now: Instant, config: LinkConfig) {
        self.advance(now);
        let before = std::mem::replace(&mut self.config, config);
        self.last_arrival = Instant::ZERO;
        if !self.config.up {
            self.drop_everything();
        }
        self.waiting_beyond_limit();
        if !self.config.goes_on_with_trace_of(&before) {
            self.change_trace(now, &before);
        } else if let (Some((done, _)), None) = (&mut self.sending, &self.config.trace) {
            *done = now + rescale(done.since(now), before.rate_bps, self.config.rate_bps);
        }
        self.advance(now);
    }

    /// The parameters in force.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What has passed and what was dropped so far.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Packets in the FIFO, without the one on the transmitter.
    pub fn queue_len(&self) -> usize {
        self.waiting.len()
    }

    /// Packets anywhere in the link.
    pub fn in_transit(&self) -> usize {
        self.waiting.len() + usize::from(self.sending.is_some()) + self.flying.len()
    }

    fn refusal(&mut self, len: usize) -> Option<DropReason> {
        if !self.config.up {
            Some(DropReason::Down)
        } else if self.is_lost(len) {
            Some(DropReason::Loss)
        } else if self.sending.is_some() && !self.has_room(len) {
            Some(DropReason::QueueFull)
        } else {
            None
        }
    }

    /// Tells of congestion, if the queue does so before it is full.
    fn detect(&mut self, now: Instant, packet: &mut P) -> Option<DropReason> {
        let red = self.config.red?;
        let each = serialisation(packet.wire_len(), self.config.mean_rate_bps()?);
        let queue = (self.waiting.len(), self.sending.is_none(), each);
        if !self.red.hits(now, &red, queue, &mut self.rng) {
            return None;
        }
        if !(red.marks && packet.ecn().is_capable()) {
            return Some(DropReason::Early);
        }
        packet.mark();
        self.counters.marked += 1;
        None
    }

    fn has_room(&self, len: usize) -> bool {
        let bytes = self.config.queue_bytes.unwrap_or(usize::MAX);
        self.waiting.len() < self.config.queue_packets && self.waiting_bytes + len <= bytes
    }

    fn is_lost(&mut self, len: usize) -> bool {
        let burst = self.config.bursts.is_some_and(|bursts| self.is_lost_in_burst(bursts));
        burst || self.rng.ppm(self.config.loss_ppm) || self.has_wrong_bit(len)
    }

    fn is_lost_in_burst(&mut self, bursts: GilbertElliott) -> bool {
        let change = if self.bad { bursts.to_good_ppm } else { bursts.to_bad_ppm };
        self.bad ^= self.rng.ppm(change);
        self.bad && self.rng.ppm(bursts.loss_bad_ppm)
    }

    fn has_wrong_bit(&mut self, len: usize) -> bool {
        if self.config.bit_errors == 0 {
            return false;
        }
        let bits = 8 * (len + usize::from(self.config.framing));
        let wrong = 1.0 - power(1.0 - self.config.bit_errors as f64 * 1e-12, bits);
        self.rng.ppm((wrong * 1e6).round() as u32)
    }

    /// Brings transmitter and wire to the state that they have at `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((done, packet)) = self.sending.take_if(|(done, _)| *done <= now) {
            self.take_off(done, packet);
            self.start_next(done);
        }
    }

    /// Puts the next waiting packet on the transmitter, if that is free.
    fn start_next(&mut self, now: Instant) {
        while self.sending.is_none() {
            let Some(packet) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= packet.wire_len();
            match self.transmitted(now, packet.wire_len() + usize::from(self.config.framing)) {
                Some(done) => self.sending = Some((done, packet)),
                None => self.take_off(now, packet),
            }
        }
    }

    /// When the last of so many bytes leaves a transmitter that begins with them now; `None` without
    /// a limit.
    fn transmitted(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        match &self.config.trace {
            Some(trace) => Some(self.opportunities.carry(trace, now, bytes)),
            None => self.config.rate_bps.map(|rate| now + serialisation(bytes, rate)),
        }
    }

    /// Another trace begins, the same one anew, or one ends: what is left of the packet on the transmitter goes on there.
    fn change_trace(&mut self, now: Instant, before: &LinkConfig) {
        let unsent = self.sending.as_ref().map(|(done, packet)| {
            let len = packet.wire_len() + usize::from(before.framing);
            match (&before.trace, before.rate_bps) {
                (Some(trace), _) => self.opportunities.unsent(trace, now, len),
                (None, Some(rate)) => carried(done.since(now), rate).min(len),
                (None, None) => 0,
            }
        });
        self.opportunities = Opportunities::new(now);
        let done = unsent.map(|bytes| self.transmitted(now, bytes).unwrap_or(now));
        if let (Some((at, _)), Some(done)) = (&mut self.sending, done) {
            *at = done;
        }
    }

    /// The last bit of `packet` has left the transmitter at `departure`.
    fn take_off(&mut self, departure: Instant, mut packet: P) {
        if self.rng.ppm(self.config.corrupt_ppm) {
            self.counters.corrupted += 1;
            corrupt(&mut self.rng, packet.bytes_mut());
        }
        let arrival = self.arrival(departure);
        if self.rng.ppm(self.config.duplicate_ppm) {
            self.counters.duplicated += 1;
            self.fly(arrival, packet.clone());
        }
        self.fly(arrival, packet);
    }

    fn arrival(&mut self, departure: Instant) -> Instant {
        let jitter = up_to(&mut self.rng, self.config.jitter);
        let arrival = (departure + self.config.delay + jitter).max(self.last_arrival);
        if self.rng.ppm(self.config.reorder_ppm) {
            self.counters.reordered += 1;
            return arrival + up_to(&mut self.rng, self.config.reorder_delay);
        }
        self.last_arrival = arrival;
        arrival
    }

    fn fly(&mut self, arrival: Instant, packet: P) {
        // Nearly always the end: only reordered packets and a shortened delay go elsewhere.
        let later = self.flying.iter().rev().take_while(|(at, _)| *at > arrival).count();
        self.flying.insert(self.flying.len() - later, (arrival, packet));
    }

    fn drop_everything(&mut self) {
        self.counters.count_drop(DropReason::Down, self.in_transit() as u64);
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.sending = None;
        self.flying.clear();
    }

    /// A shortened queue drops its youngest packets, as if they had come just now.
    fn waiting_beyond_limit(&mut self) {
        let bytes = self.config.queue_bytes.unwrap_or(usize::MAX);
        let mut excess = 0;
        while self.waiting.len() > self.config.queue_packets || self.waiting_bytes > bytes {
            let Some(packet) = self.waiting.pop_back() else { break };
            self.waiting_bytes -= packet.wire_len();
            excess += 1;
        }
        self.counters.count_drop(DropReason::QueueFull, excess);
    }
}

fn serialisation(bytes: usize, rate_bps: u64) -> Duration {
    // A packet has less than 2^17 bytes: everything fits into 64 bits.
    Duration::from_nanos((bytes as u64 * 8_000_000_000).div_ceil(rate_bps.max(1)))
}

/// Bytes that a rate carries in a time, a part of one counted as one.
fn carried(time: Duration, rate_bps: u64) -> usize {
    let bytes = (time.as_nanos() * u128::from(rate_bps)).div_ceil(8_000_000_000);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// `base` to the power `exponent`, by multiplications alone: the same on any machine.
fn power(base: f64, exponent: usize) -> f64 {
    (0..usize::BITS).rev().fold(1.0, |result, bit| {
        let squared = result * result;
        if exponent >> bit & 1 == 1 { squared * base } else { squared }
    })
}

/// Time that the rest of a packet needs when the rate changes from `before` to `after`.
fn rescale(rest: Duration, before: Option<u64>, after: Option<u64>) -> Duration {
    let (Some(before), Some(after)) = (before, after) else { return Duration::ZERO };
    let nanos = rest.as_nanos() * u128::from(before) / u128::from(after.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn up_to(rng: &mut Rng, most: Duration) -> Duration {
    if most.is_zero() {
        return Duration::ZERO;
    }
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.below(most.saturating_add(1)))
}

/// Flips one bit in up to four places.
fn corrupt(rng: &mut Rng, bytes: &mut [u8]) {
    let flips = 1 + rng.below(4);
    for _ in 0..flips {
        let place = rng.below(bytes.len() as u64) as usize;
        if let Some(byte) = bytes.get_mut(place) {
            *byte ^= 1 << rng.below(8);
        }
    }
}
