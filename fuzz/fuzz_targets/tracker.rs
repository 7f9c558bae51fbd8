//! Arrivals, skips and reports, in any order: the tracker agrees with a set of TSNs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manypath_engine::fuzzing::check_tracker(bytes));
