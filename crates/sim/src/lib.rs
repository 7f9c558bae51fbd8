//! A deterministic network: links, queues, losses, captures.
//!
//! [`link`] is the one link model of the project: the simulator runs it in virtual time, the lab
//! runs it on real packets; [`trace_models`] make traces of rates for it. [`world`] joins endpoints of the engine by such links. Nothing here reads a clock; the same seed gives the same run.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod figure;
pub mod link;
pub mod pcapng;
mod rng;
pub mod scenario;
pub mod simulation;
pub mod trace_models;
pub mod world;

pub use link::{DropReason, Link, LinkConfig, LinkCounters, Packet, RedConfig, Trace, TraceError};
pub use manypath_engine::{Duration, Ecn, Instant};
pub use rng::Rng;
pub use world::World;
