//! Why key management has ended without keys.

use crate::PublicKey;
use manypath_engine::protection::ProtectionError;
use std::fmt;

/// Why key management has ended. The association must be aborted: nothing may be sent in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nothing was agreed on with the peer: it does not encrypt, or somebody on the way has taken out what it
    /// said about that.
    NotAgreed,
    /// The peer has not answered in time.
    Timeout,
    /// The ends have different keys, although each knows who the other is: somebody on the way has changed what
    /// they said about key management when they connected.
    Altered,
    /// A user message has come before keys were there, which no peer sends: somebody on the way has put it in.
    Exposed,
    /// The peer has another key than the one that it is known by.
    OtherKey {
        /// The key that it is known by.
        known: PublicKey,
        /// The key that it has proved to have.
        presented: PublicKey,
    },
    /// The peer has sent something that makes no sense at this point.
    Malformed,
    /// TLS has failed.
    Tls(String),
    /// The engine has not taken the keys.
    Refused(ProtectionError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAgreed => f.write_str("the peer does not offer encryption"),
            Self::Timeout => f.write_str("the peer has not completed key management in time"),
            Self::Altered => f.write_str("the negotiation was altered on the way: keys differ"),
            Self::Exposed => f.write_str("a message came without protection: it may be anybody's"),
            Self::OtherKey { known, presented } => {
                write!(f, "the peer has the key {presented}, but is known by {known}")
            }
            Self::Malformed => f.write_str("malformed or unexpected key management message"),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Refused(error) => write!(f, "keys not installed: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error.to_string())
    }
}

impl From<ProtectionError> for Failure {
    fn from(error: ProtectionError) -> Self {
        Self::Refused(error)
    }
}
