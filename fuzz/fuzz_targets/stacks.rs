//! Two whole stacks over a network that fails: every byte in its place, every connection ends, nobody spins.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/daemon/tests/fuzz/course.rs"]
mod course;
#[path = "../../crates/daemon/tests/fuzz/host.rs"]
mod host;
#[path = "../../crates/daemon/tests/fuzz/line.rs"]
mod line;
#[path = "../../crates/daemon/tests/fuzz/world.rs"]
mod world;

fuzz_target!(|bytes: &[u8]| course::check(bytes));
