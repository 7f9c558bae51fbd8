//! What a call comes to.

use crate::language::Why;

/// The name of an error.
pub(crate) type Errno = &'static str;

/// What a call comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It returns a value.
    Returns(i64),
    /// It fails.
    Fails(Errno),
    /// It cannot be done yet: a blocking call waits, another fails with this error.
    Waits(Errno),
}

/// What handlers of calls return. The error is not that of the call but of the script.
pub(crate) type Called = Result<Outcome, Why>;

impl Outcome {
    /// Success without a value.
    pub(crate) const OK: Self = Self::Returns(0);

    /// A number of bytes.
    pub(crate) fn bytes(len: usize) -> Self {
        Self::Returns(i64::try_from(len).unwrap_or(i64::MAX))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Returns(value) => write!(f, "{value}"),
            Self::Fails(errno) | Self::Waits(errno) => write!(f, "-1 {errno}"),
        }
    }
}
