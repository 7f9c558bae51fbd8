//! A whole stack and a peer that breaks the flow protocol: no panic, no growth, nothing that is left behind.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/daemon/tests/fuzz/host.rs"]
mod host;
#[path = "../../crates/daemon/tests/fuzz/hostile.rs"]
mod hostile;
#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/daemon/tests/fuzz/line.rs"]
mod line;
#[path = "../../crates/daemon/tests/fuzz/peer.rs"]
mod peer;
#[allow(dead_code, reason = "each target needs its part of it")]
#[path = "../../crates/daemon/tests/fuzz/world.rs"]
mod world;

fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
