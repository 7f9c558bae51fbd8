//! The errors of calls.

use manypath_engine::{AddressError, CloseReason, ReconfigurationError};

/// The error of a call, as a number of the C library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// Only those that this crate gives.
#[allow(missing_docs, reason = "the names are those of the C library")]
impl Errno {
    pub const AGAIN: Self = Self(libc::EAGAIN);
    pub const ALREADY: Self = Self(libc::EALREADY);
    pub const BADF: Self = Self(libc::EBADF);
    pub const FAULT: Self = Self(libc::EFAULT);
    pub const ADDRESS_IN_USE: Self = Self(libc::EADDRINUSE);
    pub const ADDRESS_NOT_AVAILABLE: Self = Self(libc::EADDRNOTAVAIL);
    pub const CONNECTION_ABORTED: Self = Self(libc::ECONNABORTED);
    pub const CONNECTION_REFUSED: Self = Self(libc::ECONNREFUSED);
    pub const CONNECTION_RESET: Self = Self(libc::ECONNRESET);
    pub const FAMILY_NOT_SUPPORTED: Self = Self(libc::EAFNOSUPPORT);
    pub const IN_PROGRESS: Self = Self(libc::EINPROGRESS);
    pub const INVALID: Self = Self(libc::EINVAL);
    pub const IS_CONNECTED: Self = Self(libc::EISCONN);
    pub const MESSAGE_SIZE: Self = Self(libc::EMSGSIZE);
    pub const NETWORK_UNREACHABLE: Self = Self(libc::ENETUNREACH);
    pub const NO_BUFFERS: Self = Self(libc::ENOBUFS);
    pub const NO_ENTRY: Self = Self(libc::ENOENT);
    pub const NO_PROTOCOL_OPTION: Self = Self(libc::ENOPROTOOPT);
    pub const NOT_CONNECTED: Self = Self(libc::ENOTCONN);
    pub const NOT_PERMITTED: Self = Self(libc::EPERM);
    pub const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    pub const PIPE: Self = Self(libc::EPIPE);
    pub const TIMED_OUT: Self = Self(libc::ETIMEDOUT);

    /// What the end of an association means to its socket; none if it ended as it should.
    pub(crate) fn of_end(reason: &CloseReason, established: bool) -> Option<Self> {
        match reason {
            CloseReason::Graceful => None,
            CloseReason::NoAnswer | CloseReason::TooManyFailures => Some(Self::TIMED_OUT),
            CloseReason::Unreachable
            | CloseReason::NoAdaptation
            | CloseReason::NoProtection
            | CloseReason::NoAuthentication => Some(Self::CONNECTION_REFUSED),
            CloseReason::PeerAborted(_) if established => Some(Self::CONNECTION_RESET),
            CloseReason::PeerAborted(_) => Some(Self::CONNECTION_REFUSED),
            CloseReason::LocalAbort | CloseReason::ProtocolViolation(_) => {
                Some(Self::CONNECTION_ABORTED)
            }
        }
    }
}

impl From<ReconfigurationError> for Errno {
    fn from(error: ReconfigurationError) -> Self {
        match error {
            ReconfigurationError::NotEstablished => Self::NO_ENTRY,
            ReconfigurationError::NotSupported => Self::NOT_SUPPORTED,
            ReconfigurationError::InProgress => Self::ALREADY,
            ReconfigurationError::InvalidStreams => Self::INVALID,
        }
    }
}

impl From<AddressError> for Errno {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::NotSupported => Self::NOT_SUPPORTED,
            AddressError::NotEstablished => Self::NO_ENTRY,
            AddressError::UnknownAddress => Self::ADDRESS_NOT_AVAILABLE,
            AddressError::AlreadyThere | AddressError::LastAddress => Self::INVALID,
            AddressError::Withheld => Self::NOT_PERMITTED,
            AddressError::TooMany => Self::NO_BUFFERS,
        }
    }
}
