//! Any messages to a flow mux and a user who reacts: no panic, no memory beyond the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/flow/tests/flows/replay.rs"]
mod replay;

fuzz_target!(|bytes: &[u8]| replay::check(bytes));
