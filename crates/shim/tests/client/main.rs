//! The shim as a whole: real programs, a real kernel, two hosts in network namespaces, and a small
//! stack that relays to plain TCP in place of the real one.
//!
//! Launcher and stack must be processes of their own. So this program is all of them: `as-launcher`
//! runs a command through the shim, `as-stack` is the test stack, anything else runs the tests
//! (those whose name contains the first argument that is no option).

mod attempts;
mod harness;
mod launch;
mod launching;
mod loss;
mod memory;
mod network;
mod probes;
mod programs;
mod python;
mod servers;
mod stack;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("as-launcher") => launch::main(&args[1..]),
        Some("as-stack") => stack::main(&args[1..]),
        _ => tests(&args),
    }
}

fn tests(args: &[String]) -> ExitCode {
    // A shell that runs the tests in the background has SIGINT ignored, and ignored it would stay in
    // every program that the tests start: no trap could catch it.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let [calls, programs] = [
        [probes::TESTS, attempts::TESTS, loss::TESTS].concat(),
        [memory::TESTS, launching::TESTS, programs::TESTS].concat(),
    ];
    let tests = [calls, programs].concat();
    harness::run(&tests, args)
}
