//! The tests of the lab, in one binary: each file on its own would link the simulator again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod life;
mod paths;
mod support;
mod throughput;
mod wires;

/// Not a test of its own: the entrance of the programs.
#[test]
fn program() {
    match std::env::var("LAB_TEST_PROGRAM").as_deref() {
        Ok("holder ") => life::holder(),
        Ok("up ") => life::up(),
        _ => support::programs::main(),
    }
}
