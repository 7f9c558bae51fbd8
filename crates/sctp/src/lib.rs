//! SCTP for programs in C and in Rust: the sockets API of RFC 6458 in userland.
//!
//! ```text
//! program in C    ─▶ exports.rs ─▶ calls.rs ─▶ State (one lock): sockets, engine, network
//! one thread of ours ─▶ stack.rs ────────────▶       the same
//! descriptor.rs      each SCTP socket is one end of a pair of sockets of the kernel: poll, select and
//!                    epoll look at that, so it is made readable and writable as the SCTP socket is
//! child of a fork ─▶ inherited.rs ─▶ heirs.rs in the parent ─▶ the same, by requests (request.rs)
//! kernel: addresses ─▶ uplinks.rs ─▶ network, sockets
//! ```
//!
//! `include/manypath_sctp.h` declares what is exported; `docs/sctp-library.md` says what is supported.

mod api;
mod calls;
mod descriptor;
mod exports;
mod heirs;
mod inherited;
mod line;
mod lock;
mod memory;
mod options;
mod place;
mod process;
mod request;
mod sctp;
mod stack;
mod system;
mod uplinks;

pub use api::*;
pub use descriptor::owns;
pub use exports::*;
pub use place::follow_linux;
pub use sctp::*;
