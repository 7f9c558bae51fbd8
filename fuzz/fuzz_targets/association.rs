//! Two truthful endpoints over a bad network: every message arrives once and in order, or an end is told.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/engine/tests/fuzz/course.rs"]
mod course;
#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/engine/tests/fuzz/network.rs"]
mod network;
#[path = "../../crates/engine/tests/fuzz/protection.rs"]
mod protection;

fuzz_target!(|bytes: &[u8]| course::check(bytes));
