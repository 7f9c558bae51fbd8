//! Tickets of servers, and the file that keeps them at clients: none is read other than it was made.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| manypath_keys::fuzzing::check_tickets(bytes));
