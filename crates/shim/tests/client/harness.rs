//! Runs the tests one after another in two hosts made for them, and says what became of each.

use crate::network::Network;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Instant;

/// A test: its name and what it does. It fails by panicking.
pub(crate) type Test = (&'static str, fn(&Network) -> Verdict);

/// What became of a test that did not fail.
pub(crate) enum Verdict {
    Passed,
    /// A program that it needs is not installed.
    Skipped(String),
}

pub(crate) fn run(tests: &[Test], args: &[String]) -> ExitCode {
    if args.iter().any(|arg| arg == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    let chosen = |name: &str| wanted.is_none_or(|part| name.contains(part.as_str()));
    let network = match Network::new() {
        Ok(network) => network,
        Err(why) => {
            println!("skipped: no network namespaces here: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests.iter().filter(|(name, _)| chosen(name)) {
        let begun = Instant::now();
        let result = panic::catch_unwind(AssertUnwindSafe(|| test(&network)));
        let seconds = begun.elapsed().as_secs_f32();
        match result {
            Ok(Verdict::Passed) => {
                println!("test {name} ... ok ({seconds:.1} s)");
                passed += 1;
            }
            Ok(Verdict::Skipped(why)) => println!("test {name} ... skipped: {why}"),
            Err(_) => {
                println!("test {name} ... FAILED ({seconds:.1} s)");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
