//! What can be chosen for each path.

use crate::names::named;

named! {
    /// Where the size of the packets on a path comes from.
    pub enum PathMtu as "source of the path MTU" {
        /// From the interface: what is too large is left to IP fragmentation.
        Interface = "interface",
        /// From a search with probes (RFC 8899).
        Search = "search",
    }
}

named! {
    /// In which order the search for the path MTU asks for sizes.
    pub enum ProbeOrder as "order of MTU probes" {
        /// The size of the interface, then common sizes upwards.
        Common = "common",
        /// The base, the size of the interface, and then the middle of what is left. Where a smaller size is
        /// left, two round trips are waited for an answer instead of PROBE_TIMER.
        Binary = "binary",
        /// The base, and then upwards in steps of 4 bytes.
        Step = "step",
    }
}

named! {
    /// What makes a path suspected of having failed, besides T3-rtx.
    pub enum PathSuspicion as "path suspicion" {
        /// Nothing: RFC 9260 and RFC 7829.
        Off = "off",
        /// That it is silent while another is not.
        Silence = "silence",
    }
}

named! {
    /// Congestion control algorithms.
    pub enum CongestionControl as "congestion control" {
        /// RFC 9260 section 7.2 on every path by itself.
        Rfc9260 = "rfc9260",
        /// As RFC 2960 had it: a loss may leave two packets. For comparison only.
        Rfc2960 = "rfc2960",
        /// CUBIC (RFC 9438) on every path by itself.
        Cubic = "cubic",
        /// BBRv3 (draft-ietf-ccwg-bbr) on every path by itself. Always paced.
        Bbr = "bbr",
        /// CMT/RPv1: resource pooling by slow start thresholds.
        RpV1 = "rpv1",
        /// CMT/RPv2: resource pooling by bandwidths.
        RpV2 = "rpv2",
        /// LIA (RFC 6356).
        Lia = "lia",
        /// OLIA (draft-khalili-mptcp-congestion-control-05).
        Olia = "olia",
    }
}

named! {
    /// The congestion window before the first acknowledgement.
    pub enum InitialWindow as "initial window" {
        /// `min(4 * PMDCS, max(2 * PMDCS, 4404))` (RFC 9260 section 7.2.1; 4344 with IPv6).
        Rfc9260 = "rfc9260",
        /// `min(4 * MTU, max(2 * MTU, 4380))` (RFC 4960 section 7.2.1).
        Rfc4960 = "rfc4960",
    }
}

named! {
    /// What happens on paths that share a bottleneck.
    pub enum SharedBottleneck as "shared bottleneck" {
        /// Each path takes the part of one flow.
        Ignore = "ignore",
        /// Where it is detected, all paths together take about the part of one flow.
        Detect = "detect",
    }
}

named! {
    /// With whom ECN is used.
    pub enum EcnUse as "use of ECN" {
        /// With nobody.
        Off = "off",
        /// Marks of the peer's packets are told to every peer that is capable of ECN. Our packets are
        /// ECN-capable only where the peer surely sees the bits: without UDP encapsulation, or if it has
        /// the same adaptation layer indication. There are peers, usrsctp among them, that say they are
        /// capable and get no bits from their UDP sockets: queues would mark their packets in vain.
        WhereSeen = "where-seen",
        /// With every peer that says it is capable.
        On = "on",
    }
}

named! {
    /// What finds lost chunks.
    pub enum LossRecovery as "loss recovery" {
        /// Missing reports, once per chunk, and T3-rtx (RFC 9260 sections 6.3 and 7.2.4).
        Rfc9260 = "rfc9260",
        /// The same, and a retransmission may be found missing too once it is older than a round
        /// trip, which rule 5 of section 7.2.4 leaves to T3-rtx.
        Repeat = "repeat",
        /// The times of transmission, a probe of silent tails, and T3-rtx as the last resort
        /// (RACK-TLP, RFC 8985, on chunks). Redundant transmission has `repeat` in its place.
        Rack = "rack",
    }
}

named! {
    /// How Max.Burst bounds what leaves at once.
    pub enum BurstLimit as "burst limit" {
        /// Not at all.
        None = "none",
        /// What a SACK acknowledged may be replaced, the window that it has opened be used, and
        /// Max.Burst packets more.
        Acknowledged = "acknowledged",
        /// RFC 9260 literally: Max.Burst packets more than are in flight after a SACK.
        Flight = "flight",
        /// At most Max.Burst packets per path at one instant.
        Packets = "packets",
    }
}

named! {
    /// Whether packets are spread over the round trip.
    pub enum Pacing as "pacing" {
        /// Packets leave as soon as the windows allow; bursts are bounded by Max.Burst.
        Off = "off",
        /// Packets leave at the path's rate, once a round trip was measured. Max.Burst has no
        /// meaning then.
        On = "on",
    }
}
