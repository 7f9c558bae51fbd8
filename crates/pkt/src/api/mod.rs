//! What scripts pass to calls of the socket API and get from them, and the sockets that they open.
//!
//! ```text
//! arguments.rs     what a script passes;  filled.rs, errno.rs  what it gets back;  constants.rs  names of numbers
//! notification.rs  what a socket is told besides data;  reconfigured.rs  the same of streams
//! descriptor.rs    open sockets
//! ```

pub(crate) mod arguments;
pub(crate) mod constants;
pub(crate) mod descriptor;
pub(crate) mod errno;
pub(crate) mod filled;
pub(crate) mod notification;
mod reconfigured;
