//! Key management between two endpoints on an emulated network.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: what goes wrong is to stop the test"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for what it is about")]

#[path = "../../../engine/tests/scenarios/chance.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod chance;
#[path = "../../../engine/tests/scenarios/craft.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod craft;
#[path = "../../../engine/tests/scenarios/pair/mod.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod pair;

mod captures;
mod hostile;
mod judge;
mod managed;
mod messages;
mod rekey;
mod resumption;
mod setup;
