//! A peer that knows the tags and keeps no rule: no panic, no standstill, no memory beyond the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/engine/tests/fuzz/hostile.rs"]
mod hostile;
#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/engine/tests/fuzz/network.rs"]
mod network;

fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
