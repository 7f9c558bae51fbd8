use manypath_engine::Duration;

/// Parameters of one direction of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Capacity in bits per second, counted over whole IP packets; `None` is unlimited.
    pub rate_bps: Option<u64>,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Packets lost at random, per million.
    pub loss_ppm: u32,
    /// Packets that may wait for the transmitter; the next one is dropped (drop-tail).
    pub queue_packets: usize,
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

impl Default for LinkConfig {
    /// Unlimited, without delay and faults, with the queue of 100 packets that routers commonly have.
    fn default() -> Self {
        Self {
            rate_bps: None,
            delay: Duration::ZERO,
            loss_ppm: 0,
            queue_packets: 100,
            up: true,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            reorder_delay: Duration::from_millis(5),
            corrupt_ppm: 0,
            jitter: Duration::ZERO,
        }
    }
}
