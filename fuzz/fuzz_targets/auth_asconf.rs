//! AUTH, ASCONF and ASCONF-ACK: what is written is read back, with all parameters and causes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/wire/tests/wire/emit.rs"]
mod emit;

fuzz_target!(|bytes: &[u8]| emit::check_authenticated(bytes));
