//! What can be chosen for the transfer of data over several paths.

use crate::names::named;

named! {
    /// Which path takes data first when several have a window.
    pub enum PathScheduling as "path scheduler" {
        /// Only the primary path, another one while it is failed (RFC 9260 section 6.4).
        Primary = "primary",
        /// The path over which the last SACK came, then the one that sent DATA the longest time ago
        /// (the order of the paper's simulation model).
        LeastRecentlyUsed = "least-recently-used",
        /// The smallest smoothed round-trip time.
        SmallestSrtt = "smallest-srtt",
        /// As `smallest-srtt`, but a slow path is left out when the faster ones will have delivered
        /// everything before it could. Production.
        EarliestCompletion = "earliest-completion",
        /// The primary path, then the largest congestion window among paths without errors (LSFR).
        Lsfr = "lsfr",
        /// ECF as published (CoNEXT 2017): waits for the fastest path if that completes sooner.
        Ecf = "ecf",
        /// BLEST as published (IFIP Networking 2016): leaves a slow path out if what is sent there
        /// would block the send window.
        Blest = "blest",
        /// As `smallest-srtt`, and what one path sends all others with a window send too, with the same
        /// TSN: it arrives with the first. For little data that must not wait for retransmissions.
        Redundant = "redundant",
        /// Streams of class `interactive` as with `redundant`, others as with `earliest-completion`.
        RedundantInteractive = "redundant-interactive",
    }
}

named! {
    /// What is sent on every path that may carry data, with the same TSN: it arrives with the first.
    #[derive(Default)]
    pub enum Redundancy as "redundancy" {
        /// Nothing, unless `PathScheduling` says so.
        #[default]
        Off = "off",
        /// Streams of class interactive or realtime.
        Interactive = "interactive",
        /// These, and what streams send of which no more than a large packet waits.
        Sparse = "sparse",
        /// Everything.
        All = "all",
    }
}

named! {
    /// Which stream goes next, when several have something to send (RFC 8260 section 3).
    pub enum StreamScheduling as "stream scheduler" {
        /// First come, first served: messages leave in the order in which they were given.
        Fcfs = "fcfs",
        /// Streams on which no more than a packet waits before the others; otherwise first come, first
        /// served.
        SparseFirst = "sparse-first",
        /// Round robin by message; by chunk where messages are interleaved.
        RoundRobin = "round-robin",
        /// Round robin by packet: none carries data of two streams.
        RoundRobinPacket = "round-robin-packet",
        /// Strict priorities, the lowest value of [`StreamOptions`](super::StreamOptions) first.
        Priority = "priority",
        /// The same number of bytes for all.
        FairCapacity = "fair-capacity",
        /// Bytes according to the weights in [`StreamOptions`](super::StreamOptions).
        WeightedFair = "weighted-fair",
    }
}

named! {
    /// What makes a chunk count as missing.
    pub enum SplitFastRetransmit as "split fast retransmit" {
        /// A higher TSN, newly acknowledged, of any path (RFC 9260).
        Off = "off",
        /// A higher TSN of the same path (the published algorithm).
        Tsn = "tsn",
        /// A later transmission on the same path.
        TxSeq = "txseq",
        /// A higher TSN of the same path, retransmitted or not (the LSFR paper).
        Lsfr = "lsfr",
    }
}

named! {
    /// Whose acknowledgement lets the window of a path grow.
    pub enum CwndUpdate as "congestion window update" {
        /// The cumulative TSN's, if it passes a chunk of the path (RFC 9260 section 7.2.1).
        None = "none",
        /// The earliest chunk's of the path, retransmitted or not (version 1). A lost
        /// retransmission holds the window up.
        V1 = "v1",
        /// The earliest chunk's that was sent once, or the earliest retransmission's (version 2).
        V2 = "v2",
    }
}

named! {
    /// What is in fast recovery after a loss.
    pub enum FastRecoveryScope as "scope of fast recovery" {
        /// The path: it is cut once per window, the others go on.
        Path = "path",
        /// The association (RFC 9260 section 7.2.4): until everything that was outstanding is
        /// acknowledged cumulatively no window is cut again, and none grows.
        Association = "association",
        /// Nothing: every SACK that finds a loss cuts the window of the path (RFC 2960 section
        /// 7.2.4). For comparison only.
        None = "none",
    }
}

named! {
    /// Which path repeats what was lost. After T3-rtx all but `same` choose among the other paths.
    pub enum RetransmissionPolicy as "retransmission policy" {
        /// The path that lost it.
        Same = "same",
        /// The first that has a window.
        Asap = "asap",
        /// The one with the largest congestion window.
        Cwnd = "cwnd",
        /// The one with the largest slow start threshold.
        Ssthresh = "ssthresh",
        /// The one with the lowest loss rate.
        LossRate = "loss-rate",
        /// The one after the path that lost it, in the order of their numbers (the simulations of
        /// Dreibholz et al.).
        Next = "next",
    }
}

named! {
    /// When a closed window is probed.
    pub enum WindowProbing as "window probing" {
        /// One RTO after it was found closed, then with exponentially growing pauses; again at once
        /// when the window opens without the probe being acknowledged (RFC 9260 section 6.1 A).
        Rfc9260 = "rfc9260",
        /// At once, because one chunk may be in flight whatever the window is; repeated by T3-rtx
        /// alone (RFC 2960 section 6.1 A, as implementations that are older than RFC 9260 do).
        Immediate = "immediate",
    }
}

named! {
    /// Whether and how acknowledgements say what is non-renegable. Used only if the peer knows
    /// NR-SACK as well; then nothing but NR-SACKs is sent.
    pub enum NrSack as "NR-SACK case" {
        /// SACK only.
        Off = "off",
        /// NR-SACK, and every TSN beyond the cumulative one might be reneged on.
        Case1 = "case-1",
        /// What was or can be delivered to the user is safe: complete messages that are unordered
        /// or whose predecessors in their stream have arrived.
        Case2 = "case-2",
        /// Everything that was received is safe, which is the truth about this receiver.
        Case3 = "case-3",
    }
}

named! {
    /// Over which path an acknowledgement goes back.
    pub enum SackPath as "SACK path" {
        /// That of the last packet with DATA (RFC 9260 section 6.4).
        Standard = "standard",
        /// Of those that have brought DATA since the last SACK, the one with the smallest srtt.
        SmallestSrtt = "smallest-srtt",
        /// Of those, the one that carried a SACK the longest time ago.
        RoundRobin = "round-robin",
    }
}
