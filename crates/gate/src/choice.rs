//! Which stacks serve a program.

use std::ffi::OsString;
use std::path::PathBuf;

/// Which stack carries the program's connections.
#[derive(Debug, Clone)]
pub enum StackChoice {
    /// A stack of its own: `exe ARGS --control-fd N` is started, N being its end of the control
    /// connection.
    Embedded {
        /// The stack's program, usually this one.
        exe: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
        /// Whether its standard error is ours; it goes nowhere otherwise.
        tells: bool,
    },
    /// The stack that listens at `name`, or else one of its own that other launchers find there from then on: `exe ARGS
    /// --shared NAME --control-fd N`.
    Shared {
        /// The control socket by which launchers find it.
        name: PathBuf,
        /// The stack's program, usually this one.
        exe: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// The stack of a server that carries programs, too, while it listens at this control socket, or else one of its own.
    Server {
        /// The socket's path.
        socket: PathBuf,
        /// The stack's program, usually this one.
        exe: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// The stack that listens at this control socket.
    System {
        /// The socket's path.
        socket: PathBuf,
    },
}

/// Which stack leads peers to the program's listening sockets.
#[derive(Debug, Clone)]
pub struct ServerChoice {
    /// The control socket under which the stack is found that serves on this host already.
    pub name: PathBuf,
    /// What to start when there is none.
    pub start: StackChoice,
}
