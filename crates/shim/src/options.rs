//! What a run is asked to do, and what came of it.

use crate::machine::Obstacle;
use crate::report::Report;
use manypath_gate::{ServerChoice, StackChoice};
use manypath_rules::RulesFile;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Which stack carries its connections.
    pub stack: StackChoice,
    /// The rules file of the stack. Connects that it allows over SCTP only fail while there is no stack to
    /// refuse them. Default: none.
    pub rules: Option<RulesFile>,
    /// Tell the program that the kernel has no `io_uring`, whose connects cannot be seen; programs
    /// then use the ordinary calls. Otherwise they use plain TCP. Default: on.
    pub hide_io_uring: bool,
    /// Who leads peers to the program's listening sockets; nobody when absent. Default: nobody.
    pub server: Option<ServerChoice>,
    /// Trap calls of UDP sockets, so that the stack can carry datagrams. Default: off, they are the
    /// kernel's.
    pub datagrams: bool,
    /// How long the stack may take for its first answer to an open, before the connection goes on
    /// as plain TCP; three times as long while the stack is starting. Default: 1 s.
    pub answer_limit: Duration,
    /// Carry connections to addresses of 127.0.0.0/8 as well, for a stack whose paths are emulated
    /// there. Default: off, loopback is left alone.
    pub loopback_paths: bool,
    /// The library by which programs hand over their sockets where the launcher may not copy them. Default: none, they
    /// run as plain TCP there.
    pub handover: Option<PathBuf>,
    /// Ask the stacks on exit how many bytes they have carried, and over which paths; connections that are just ending
    /// have a second to do so. Default: off.
    pub count_traffic: bool,
    /// Takes one line for the user, without a prefix. Default: standard error.
    pub notice: fn(&str),
}

impl RunOptions {
    /// The defaults.
    #[must_use]
    pub fn new(command: Vec<OsString>, stack: StackChoice) -> Self {
        Self {
            command,
            stack,
            rules: None,
            hide_io_uring: true,
            server: None,
            datagrams: false,
            answer_limit: Duration::from_secs(1),
            loopback_paths: false,
            handover: None,
            count_traffic: false,
            notice: |line| eprintln!("manypath: {line}"),
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The command's exit status; 128 plus the signal's number when one ended it.
    pub status: u8,
    /// Whether the command was under the shim.
    pub shim: ShimState,
    /// What became of its connects.
    pub report: Report,
}

/// Whether the command was under the shim.
#[derive(Debug)]
pub enum ShimState {
    /// It was.
    Active,
    /// An outer launcher has it under its shim.
    Nested,
    /// Something on this machine does not allow it.
    Unavailable(Obstacle),
}

/// Why nothing was run.
#[derive(Debug)]
pub enum RunError {
    /// There is no such program.
    NotFound(OsString),
    /// The program cannot be executed.
    NotExecutable(OsString, io::Error),
    /// There was no command to run.
    NoCommand,
    /// The launcher could not prepare.
    Launcher(io::Error),
}

impl RunError {
    /// The exit status by which shells tell this: 127 not found, 126 not executable, 125 when the
    /// launcher itself failed.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(..) => 126,
            Self::NoCommand | Self::Launcher(_) => 125,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(program) => write!(f, "{}: command not found", program.display()),
            Self::NotExecutable(program, e) => write!(f, "{}: {e}", program.display()),
            Self::NoCommand => f.write_str("no command to run"),
            Self::Launcher(e) => write!(f, "cannot launch: {e}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotExecutable(_, e) | Self::Launcher(e) => Some(e),
            Self::NotFound(_) | Self::NoCommand => None,
        }
    }
}
