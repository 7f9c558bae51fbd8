//! Chunks of any kind: what is written is read back, and takes as much room as it said.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/wire/tests/wire/emit.rs"]
mod emit;

fuzz_target!(|bytes: &[u8]| emit::check(bytes));
