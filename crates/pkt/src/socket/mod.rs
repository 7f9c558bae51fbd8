//! The socket API (RFC 6458) as scripts see it, on top of engine endpoints.
//!
//! ```text
//! calls.rs        which function a call goes to
//! lifecycle.rs    socket, bind, listen, accept, connect, close, shutdown, fcntl
//! send.rs         write, send, sendmsg, sctp_sendmsg, sctp_send, sctp_sendv
//! receive.rs      read, recv, recvmsg, sctp_recvmsg, sctp_recvv
//! options/        getsockopt and setsockopt
//! arguments.rs    what a script passes;  filled.rs  what it gets back
//! ```
//!
//! A call never takes time. One that cannot be done at once fails with `EAGAIN` on a non-blocking
//! socket, and is tried again after each event if the script says when it returns.

mod arguments;
mod calls;
mod constants;
mod descriptor;
mod errno;
mod filled;
mod lifecycle;
mod notification;
mod options;
mod receive;
mod reconfigured;
mod send;

pub(crate) use arguments::{Arguments, int as number};
pub(crate) use calls::dispatch;
pub(crate) use descriptor::Descriptors;
pub(crate) use errno::Outcome;

pub(crate) use notification::Notification;
