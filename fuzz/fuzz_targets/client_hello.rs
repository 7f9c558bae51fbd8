//! Any bytes as the beginning of a connection to a TLS port: more bytes change no verdict, and records do not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/net/src/carriers/hello.rs"]
mod hello;
#[path = "../../crates/net/src/carriers/hello_properties.rs"]
mod hello_properties;

fuzz_target!(|bytes: &[u8]| {
    hello_properties::check(bytes);
});
