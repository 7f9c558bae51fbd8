//! Messages of key management that are changed, cut and replaced: no panic, and nobody else is taken for the peer.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/engine/tests/scenarios/chance.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod chance;
#[path = "../../crates/keys/tests/scenarios/messages.rs"]
mod messages;
#[path = "../../crates/engine/tests/scenarios/pair/mod.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod pair;

fuzz_target!(|bytes: &[u8]| messages::check(bytes));
