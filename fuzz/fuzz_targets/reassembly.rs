//! Chunks of a truthful peer in any order, some of them given up: messages come out whole and in order.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manypath_engine::fuzzing::check_order(bytes));
