//! What a path has carried and lost, for status and metrics.

/// Counters of one path since it was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathCounters {
    /// Packets sent.
    pub(crate) packets_sent: u64,
    /// SCTP bytes sent.
    pub(crate) bytes_sent: u64,
    /// Bytes of DATA chunks sent, retransmissions included, and of received packets with DATA.
    pub(crate) data_bytes: u64,
    /// Bytes of DATA chunks acknowledged, header and padding included.
    pub(crate) bytes_acked: u64,
    /// Packets received.
    pub(crate) packets_received: u64,
    /// SCTP bytes received.
    pub(crate) bytes_received: u64,
    /// DATA chunks sent again after a fast retransmit.
    pub(crate) fast_retransmits: u64,
    /// DATA chunks sent again after T3-rtx expired or their path was lost.
    pub(crate) timeout_retransmits: u64,
    /// DATA chunks that were sent again on another path, or again, because they held up others.
    pub(crate) rescheduled: u64,
    /// Times that the path was overdue and a chunk was sent again elsewhere to find out why.
    pub(crate) probes: u64,
    /// Those among them after which the path was heard of again.
    pub(crate) spurious_probes: u64,
    /// Times that the path was suspected because of its silence.
    pub(crate) suspicions: u64,
    /// Those among them that were wrong.
    pub(crate) spurious_suspicions: u64,
    /// Packets sent into a silence, in which losses would not have shown.
    pub(crate) tail_probes: u64,
    /// DATA chunks that were sent again although they had arrived, as far as is known.
    pub(crate) spurious_retransmits: u64,
    /// User data of chunks sent on the path that had been sent before, on it or on another one.
    pub(crate) bytes_retransmitted: u64,
    /// DATA chunks that were sent on this path and on another one (redundant transmission).
    pub(crate) copies: u64,
    /// Packets with new data that arrived with CE.
    pub(crate) ce_received: u64,
    /// ECNEs received about the path.
    pub(crate) ecne_received: u64,
    /// Times that the window was made smaller because of them.
    pub(crate) ecn_reductions: u64,
    /// Expiries of T3-rtx, zero-window probes not counted.
    pub(crate) timeouts: u64,
}
