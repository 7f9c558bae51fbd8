use super::{RedConfig, Trace};
use manypath_engine::Duration;

/// Parameters of one direction of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Capacity in bits per second, counted over whole IP packets; `None` is unlimited.
    pub rate_bps: Option<u64>,
    /// Capacity that varies: packets leave at the opportunities of a trace, and `rate_bps` does not
    /// count. The trace begins when the link does, or when the link gets it.
    pub trace: Option<Trace>,
    /// Bytes of framing around each IP packet, which rate and trace count too (PPP: 7).
    pub framing: u16,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Packets lost at random, per million.
    pub loss_ppm: u32,
    /// Losses that come in bursts, besides `loss_ppm`.
    pub bursts: Option<GilbertElliott>,
    /// Bits that arrive wrong, per 10^12. A packet with a wrong bit is lost: the link layer's own
    /// checksum finds it.
    pub bit_errors: u64,
    /// Largest IP packet that it takes, if that is less than what the sender's interface does. Larger
    /// ones are dropped, or pass in fragments if they may be fragmented.
    pub mtu: Option<u16>,
    /// Whether the sender of a packet that was too large is told (ICMP fragmentation needed, ICMPv6
    /// packet too big). If not, the link is a black hole for them.
    pub mtu_reports: bool,
    /// Packets that may wait for the transmitter; the next one is dropped (drop-tail).
    pub queue_packets: usize,
    /// Bytes of IP packets that may wait for the transmitter, besides the limit in packets.
    pub queue_bytes: Option<usize>,
    /// Random early detection: packets are dropped or marked before the queue is full.
    pub red: Option<RedConfig>,
    /// A link that is down is a black hole: nobody is told.
    pub up: bool,
    /// Packets that arrive twice, per million.
    pub duplicate_ppm: u32,
    /// Packets held back so that later ones overtake them, per million.
    pub reorder_ppm: u32,
    /// The longest time for which such a packet is held back.
    pub reorder_delay: Duration,
    /// Packets in which bits are flipped, per million.
    pub corrupt_ppm: u32,
    /// Additional delay, drawn anew for each packet between zero and this. Keeps the order.
    pub jitter: Duration,
}

impl LinkConfig {
    /// Whether a link that has had `before` stays where it is in its trace, or has none as before.
    pub(crate) fn goes_on_with_trace_of(&self, before: &Self) -> bool {
        match (&self.trace, &before.trace) {
            (Some(now), Some(before)) => now.is_clone_of(before),
            (now, before) => now.is_none() && before.is_none(),
        }
    }
}

impl Default for LinkConfig {
    /// Unlimited, without delay and faults, with the queue of 100 packets that routers commonly have.
    fn default() -> Self {
        Self {
            rate_bps: None,
            trace: None,
            framing: 0,
            delay: Duration::ZERO,
            loss_ppm: 0,
            bursts: None,
            bit_errors: 0,
            mtu: None,
            mtu_reports: false,
            queue_packets: 100,
            queue_bytes: None,
            red: None,
            up: true,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            reorder_delay: Duration::from_millis(5),
            corrupt_ppm: 0,
            jitter: Duration::ZERO,
        }
    }
}

impl LinkConfig {
    /// Capacity in bits per second, that of a trace averaged over its period; `None` is unlimited.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        self.trace.as_ref().map(Trace::mean_rate_bps).or(self.rate_bps)
    }
}

/// Losses in bursts (Gilbert 1960, Elliott 1963): a link is good or bad; before each packet it may
/// change its mind. All numbers are per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GilbertElliott {
    /// From good to bad.
    pub to_bad_ppm: u32,
    /// From bad to good.
    pub to_good_ppm: u32,
    /// Packets lost while the link is bad.
    pub loss_bad_ppm: u32,
}
