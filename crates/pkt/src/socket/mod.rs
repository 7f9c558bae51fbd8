//! The socket API (RFC 6458) as scripts see it, on top of engine endpoints.
//!
//! ```text
//! calls.rs        which function a call goes to
//! lifecycle.rs    socket, bind, listen, accept, connect, close, shutdown, fcntl
//! send.rs         write, send, sendmsg, sctp_sendmsg, sctp_send, sctp_sendv
//! receive.rs      read, recv, recvmsg, sctp_recvmsg, sctp_recvv
//! options/        getsockopt and setsockopt
//! ```
//!
//! A call never takes time. One that cannot be done at once fails with `EAGAIN` on a non-blocking
//! socket, and is tried again after each event if the script says when it returns.

mod calls;
mod lifecycle;
mod options;
mod receive;
mod send;

pub(crate) use calls::dispatch;
