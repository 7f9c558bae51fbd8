//! What the commands of manypath share: `manypath`, `manypath-lab` and `manypath-ssh` are programs of their own, so that a
//! machine that only carries connections needs neither simulator nor benchmarks.
#![forbid(unsafe_code)]

pub mod conventions;
pub mod failure;
pub mod programs;
#[cfg(any(feature = "lab", feature = "ssh"))]
pub mod progress;
pub mod say;
pub mod shell;
pub mod texts;

use clap::FromArgMatches;
use failure::Failure;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Reads the command line. What is wrong with it, or its help, has been printed otherwise.
///
/// # Errors
/// The exit status: 0 after help and version, `wrong` after arguments that are wrong.
pub fn parse<C: FromArgMatches>(
    command: clap::Command,
    arguments: Vec<OsString>,
    wrong: u8,
) -> Result<C, ExitCode> {
    let matches = command.try_get_matches_from(arguments);
    matches.and_then(|matches| C::from_arg_matches(&matches)).map_err(|error| {
        // Nobody may be there to read it.
        let _ = error.print();
        ExitCode::from(if error.exit_code() == 0 { 0 } else { wrong })
    })
}

/// The exit status of a command; what failed is printed.
#[must_use]
pub fn finish(result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            say::say_line(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// Writes to standard output. A reader that has gone, as `head` has, is no failure.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(text: &[u8]) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}
