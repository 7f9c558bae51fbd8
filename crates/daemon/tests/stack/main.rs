//! Whole stacks against each other, over loopback paths.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed"
)]

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod announce;
mod aside;
mod carrying;
mod direct;
mod doors;
mod early;
mod encryption;
mod ending;
mod fallback;
mod gateway;
mod hostile;
mod identity;
mod listeners;
mod multiplexing;
mod neighbours;
mod proven;
mod redirector;
mod relayed_datagrams;
mod relays;
mod rendezvous;
mod restarts;
mod resumption;
mod rules;
mod settings;
mod suspended;
