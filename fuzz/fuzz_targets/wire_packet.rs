//! Any bytes as a packet: what can be read can be written, and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/wire/reparse.rs"]
mod reparse;

fuzz_target!(|bytes: &[u8]| reparse::check(bytes));
