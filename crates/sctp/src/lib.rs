//! SCTP for C programs: the sockets API of RFC 6458 in userland, as a shared and a static library.
//!
//! ```text
//! program's threads ─▶ exports.rs ─▶ calls.rs ─▶ State (one lock): sockets, engine, network
//! one thread of ours ─▶ stack.rs ────────────▶       the same
//! descriptor.rs      each SCTP socket is one end of a pair of sockets of the kernel: poll, select and
//!                    epoll look at that, so it is made readable and writable as the SCTP socket is
//! ```
//!
//! `include/manypath_sctp.h` declares what is exported; `docs/sctp-library.md` says what is supported.

mod calls;
mod descriptor;
mod exports;
mod memory;
mod options;
mod place;
mod process;
mod sctp;
mod stack;
mod system;

pub use descriptor::owns;
pub use exports::*;
pub use sctp::*;
