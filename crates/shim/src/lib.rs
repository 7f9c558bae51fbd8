//! Launcher and socket call translation for unmodified programs.
//!
//! [`run`] starts a command under a seccomp filter that sends a few of its system calls, those
//! that name or ask for an address, to the launcher. The program keeps its **own** TCP sockets: the
//! launcher connects such a socket, over loopback, to the stack, which carries the bytes through
//! an SCTP association. So everything else a program does with a socket (options, epoll, dup,
//! fork, passing it on, half-close) is the kernel's business and works as always.
//!
//! The parts, from the outside in:
//!
//! * [`launcher`](run): starts command and stack, one loop, signals, exit status;
//! * `command`, `signals` and the line to the stack: the three partners of the launcher;
//! * `supervisor`: what each trapped call and each reply of the stack does;
//! * `supervisor::accept`: the program's listening sockets, and the clients that connect to them;
//! * `table`: the connections; `program` and `memory`: looking at the program's things;
//! * [`manypath_gate`]: how a loopback socket is held in SYN_SENT until the destination has answered;
//! * `machine`: what the kernel, containers and services let us do here; `filter`, `seccomp`: the kernel facility.
//!
//! What must not be touched goes on as plain TCP, counted with a reason in [`Report`]: when the
//! launcher has no stack, every call is answered "continue" and the program notices nothing. Where a rule
//! forbids plain TCP, the connect fails instead.
//! This is a translation, not a sandbox: a program that wants to get around it can.

mod accesses;
mod command;
mod descriptors;
mod filter;
mod handover;
mod launcher;
mod machine;
mod memory;
mod only_sctp;
mod options;
mod parent;
mod program;
mod report;
mod seccomp;
mod signals;
mod supervisor;
mod table;
mod trap;

use manypath_gate::{address, gate, socket, stack_link};

pub use launcher::run;
pub use machine::{Obstacle, Plan, look};
pub use manypath_gate::{ServerChoice, StackChoice};
pub use options::{Outcome, RunError, RunOptions, ShimState};
pub use parent::end_with_parent;
pub use report::Report;
pub use seccomp::Servers;
