//! What can go wrong on a control connection.

use crate::version::{OLDEST, VERSION};
use std::fmt;
use std::io;

/// What can go wrong on a control connection.
#[derive(Debug)]
pub enum ControlError {
    /// The operating system said no. `WouldBlock` is not a failure of the connection.
    Io(io::Error),
    /// The other side has closed the connection, or died.
    Closed,
    /// A packet was not a message of this version: the peer's fault.
    Malformed(String),
    /// A message is larger than [`crate::MAX_PACKET`]: the caller's fault.
    TooLong(usize),
    /// The two sides speak different versions.
    Version {
        /// What the other side speaks.
        theirs: u32,
    },
    /// The other side did not answer in time.
    TimedOut,
    /// The stack did not do what it was asked for, and says why.
    Refused(String),
    /// The other side answered with something that was not asked.
    Unexpected(&'static str),
}

impl ControlError {
    /// True when trying again later is the cure.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::Io(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "control socket: {e}"),
            Self::Closed => f.write_str("the stack has closed the control connection"),
            Self::Malformed(why) => write!(f, "malformed control message: {why}"),
            Self::TooLong(n) => write!(f, "control message of {n} bytes is too long"),
            Self::Version { theirs } => write!(
                f,
                "the other side speaks control version {theirs}, this program {} and {}: restart what is older",
                VERSION, OLDEST
            ),
            Self::TimedOut => f.write_str("the stack does not answer"),
            Self::Refused(why) => f.write_str(why),
            Self::Unexpected(what) => write!(f, "unexpected answer from the stack: {what}"),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            Self::Closed
            | Self::Malformed(_)
            | Self::TooLong(_)
            | Self::Version { .. }
            | Self::TimedOut
            | Self::Refused(_)
            | Self::Unexpected(_) => None,
        }
    }
}

impl From<serde_json::Error> for ControlError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}
