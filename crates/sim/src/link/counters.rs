/// Why a link dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// Random loss.
    Loss,
    /// The queue was full.
    QueueFull,
    /// The queue was becoming full (random early detection).
    Early,
    /// It was larger than the link takes.
    TooBig,
    /// The link was down, or was taken down while it held the packet.
    Down,
}

impl core::fmt::Display for DropReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Loss => "random loss",
            Self::QueueFull => "queue full",
            Self::Early => "early detection",
            Self::TooBig => "too big",
            Self::Down => "path down",
        })
    }
}

/// What has happened on a link. At any time
/// `packets_in + duplicated == packets_out + dropped() + in transit`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Packets handed to the link.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets delivered.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Dropped by random loss.
    pub dropped_loss: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped because the queue was becoming full.
    pub dropped_early: u64,
    /// Dropped because they were larger than the link takes.
    pub dropped_too_big: u64,
    /// Dropped because the link was down.
    pub dropped_down: u64,
    /// Marked instead, because they were ECN-capable.
    pub marked: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets changed.
    pub corrupted: u64,
    /// Most packets that ever waited at a time.
    pub queue_peak: usize,
}

impl LinkCounters {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_loss
            + self.dropped_queue
            + self.dropped_early
            + self.dropped_too_big
            + self.dropped_down
    }

    pub(super) fn count_in(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
    }

    pub(super) fn count_out(&mut self, bytes: usize) {
        self.packets_out += 1;
        self.bytes_out += bytes as u64;
    }

    pub(super) fn count_drop(&mut self, reason: DropReason, packets: u64) {
        *match reason {
            DropReason::Loss => &mut self.dropped_loss,
            DropReason::QueueFull => &mut self.dropped_queue,
            DropReason::Early => &mut self.dropped_early,
            DropReason::TooBig => &mut self.dropped_too_big,
            DropReason::Down => &mut self.dropped_down,
        } += packets;
    }
}
