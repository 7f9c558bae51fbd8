//! A multipath SCTP endpoint (RFC 9260) without I/O.
//!
//! ```text
//! handle_packet(now, path, bytes)     network -> engine (handle_marked_packet: with ECN bits, or by TCP)
//! handle_timeout(now)                 clock   -> engine
//! poll_transmit(now, batch)           engine  -> network   runs of equal-sized packets, one path each
//! poll_event()                        engine  -> user
//! poll_timeout()                      engine  -> clock
//! ```
//!
//! One mutation, then drain all outputs. The same seed and the same inputs give the same packets,
//! byte for byte, on any machine: there is no clock, no thread, no hash map and no floating point.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod allowance;
mod association;
mod authentication;
#[cfg(any(test, feature = "fuzzing"))]
mod choices;
mod config;
mod delivery;
mod ecn;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod names;
mod path;
mod path_id;
mod profile;
pub mod protection;
mod ranges;
mod recv;
mod reply_limit;
mod rng;
mod schedule;
mod send;
mod status;
mod time;
mod transmit;
mod tsn;

pub use association::InitRepetition;
pub use association::addresses::AddressError;
pub use association::cookie::seen_source;
pub use association::reconfiguration::ReconfigurationError;
pub use authentication::KeyError;
pub use config::{
    AckView, Announce, BufferSplit, BurstLimit, Config, CongestionControl, CongestionController,
    CongestionControllers, CongestionEvent, CongestionView, CongestionWindow, CwndUpdate, Demand,
    EcnUse, Experiment, FastRecoveryScope, HmacAlgorithms, InitialWindow, KeyManagement, KeyRoles,
    LocalAddress, LossRecovery, NrSack, Pacing, PathMtu, PathScheduler, PathSchedulers,
    PathScheduling, PathSums, PathSuspicion, PathView, ProbeOrder, Redundancy, Reliability,
    RetransmissionPolicy, SackPath, SchedulerView, SharedBottleneck, SplitFastRetransmit,
    SplitMeasure, SplitShares, SplitSides, StreamClass, StreamMapping, StreamOptions,
    StreamScheduling, WindowProbing,
};
pub use delivery::Delivery;
pub use ecn::Ecn;
pub use endpoint::{ConnectError, Endpoint, PathOffer};
pub use event::{
    AddressChange, AssociationId, CloseReason, EndpointEvent, Event, KeyChange, Message,
    PartialMessage, ReconfigurationOutcome, StreamDirection,
};
pub use names::UnknownName;
pub use path::{
    EcnState, PathAddr, PathId, PathPolicy, PathRole, PathRule, PathState, Scope, Supervision,
    SupervisionChange, is_private, path_pairs,
};
pub use profile::Profile;
pub use send::{Abandoned, MessageEnd, Outgoing, ReliabilityPolicy, SendError};
pub use status::{
    AssociationState, AssociationStatistics, AssociationStatus, Counters, IdleReason, PathStatus,
    RoundTrips, RttSpread, SenderQueueInfo, StreamQueueInfo,
};
pub use time::{Duration, Instant};
pub use transmit::{PacketBatch, Transmit};

pub use manypath_wire::{Ppid, StreamId, Tsn};
