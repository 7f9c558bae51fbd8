//! Chunks of a peer that keeps no rule: what is held is accounted for, and bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manypath_engine::fuzzing::check_hostile_data(bytes));
