//! Cookies changed and cut: none comes back other than it was made.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manypath_engine::fuzzing::check_cookie(bytes));
