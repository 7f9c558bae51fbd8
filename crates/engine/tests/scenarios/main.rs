//! Scenarios between two endpoints, told as ladders.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: what goes wrong is to stop the test"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for what it is about")]

mod addresses;
mod amplification;
mod announced;
mod association_reset;
mod authentication;
mod chance;
mod chaos;
mod cookie;
mod craft;
mod crossing;
mod data;
mod defences;
mod ecn;
mod encapsulation;
mod extensions;
mod failures;
mod handshake_race;
mod hostile;
mod interactive;
mod interleaving;
mod listeners;
mod mtu;
mod multiplexing;
mod packets;
mod pair;
mod parameters;
mod partial;
mod partial_delivery;
mod parts;
mod path_requests;
mod paths;
mod policy;
mod privileged_ports;
mod protection;
mod reconfiguration;
mod reneging;
mod replays;
mod restart;
mod sending_like;
mod setup;
mod silence;
mod states;
mod statistics;
mod strangers;
mod supervision;
mod teardown;
