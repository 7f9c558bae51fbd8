//! Why an association is not used although its peer has answered.

use manypath_control::status::FallbackReason;
use manypath_keys::{Failure, PublicKey};
use std::fmt;
use std::net::IpAddr;

/// Why an association is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rejection {
    /// The peer at this address was encrypted before, and is not any more.
    NoLongerEncrypted(IpAddr),
    /// The peer at this address has another key than before.
    KeyChanged { addr: IpAddr, known: PublicKey, presented: PublicKey },
    /// The peer has shown another key than the one for which this address stands.
    OtherKey { addr: IpAddr, presented: PublicKey },
    /// The peer has a key that was revoked here.
    KeyRevoked(PublicKey),
    /// The peer has connected with a key that is not authorized here.
    NotAuthorized(PublicKey),
    /// No keys were agreed on.
    Failed(Failure),
    /// More has come before the peer was known than can be kept.
    TooMuchTooEarly,
    /// The peer has restarted without encryption.
    RestartedPlain,
}

/// The Upper Layer Abort Reason that tells a peer that its key is not taken.
pub(crate) const NOT_AUTHORIZED: &[u8] = b"key not authorized";

impl Rejection {
    /// What the peer is told with the ABORT.
    pub(crate) const fn abort_reason(&self) -> &'static [u8] {
        match self {
            Self::NotAuthorized(_) => NOT_AUTHORIZED,
            Self::NoLongerEncrypted(_)
            | Self::KeyChanged { .. }
            | Self::OtherKey { .. }
            | Self::KeyRevoked(_)
            | Self::Failed(_)
            | Self::TooMuchTooEarly
            | Self::RestartedPlain => b"not encrypted as it must be",
        }
    }

    pub(crate) const fn reason(&self) -> FallbackReason {
        match self {
            Self::NoLongerEncrypted(_) | Self::RestartedPlain => FallbackReason::NoLongerEncrypted,
            Self::KeyChanged { .. } | Self::OtherKey { .. } => FallbackReason::KeyChanged,
            Self::KeyRevoked(_) => FallbackReason::KeyRevoked,
            Self::NotAuthorized(_) | Self::Failed(_) | Self::TooMuchTooEarly => {
                FallbackReason::KeyExchangeFailed
            }
        }
    }

    pub(crate) const fn counter(&self) -> &'static str {
        match self {
            Self::NoLongerEncrypted(_) => "peers_no_longer_encrypted",
            Self::KeyChanged { .. } => "peer_keys_changed",
            Self::OtherKey { .. } => "peer_keys_of_other_addresses",
            Self::KeyRevoked(_) => "peer_keys_revoked",
            Self::NotAuthorized(_) => "peers_not_authorized",
            Self::Failed(_) => "key_exchanges_failed",
            Self::TooMuchTooEarly => "key_exchanges_overrun",
            Self::RestartedPlain => "restarts_without_encryption",
        }
    }

    /// Whether somebody on the way may be behind it.
    pub(crate) const fn is_alarming(&self) -> bool {
        match self {
            Self::NoLongerEncrypted(_)
            | Self::KeyChanged { .. }
            | Self::OtherKey { .. }
            | Self::KeyRevoked(_) => true,
            Self::NotAuthorized(_)
            | Self::Failed(_)
            | Self::TooMuchTooEarly
            | Self::RestartedPlain => false,
        }
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLongerEncrypted(addr) => write!(
                f,
                "THE PEER {addr} DOES NOT ENCRYPT ANY MORE: somebody on the way may have removed the offer, or \
                 encryption was switched off there. If you know that it was: manypath key forget {addr}"
            ),
            Self::KeyChanged { addr, known, presented } => write!(
                f,
                "THE KEY OF {addr} HAS CHANGED: somebody may be impersonating it, or it was set up anew. It is known \
                 by {}, and has shown {}. If you know that it has a new key: manypath key forget {addr}",
                super::trust::name(known),
                super::trust::name(presented)
            ),
            Self::OtherKey { addr, presented } => write!(
                f,
                "THE PEER IS NOT {addr}: it has shown the key {}, for which another address stands. Somebody on \
                 the way, such as the relay, may be impersonating it",
                super::trust::name(presented)
            ),
            Self::KeyRevoked(key) => write!(
                f,
                "THE KEY {} IS REVOKED: whoever has shown it is not to be trusted",
                super::trust::name(key)
            ),
            Self::NotAuthorized(key) => {
                write!(f, "the peer's key {} is not authorized", super::trust::name(key))
            }
            Self::Failed(failure) => write!(f, "no keys were agreed on: {failure}"),
            Self::TooMuchTooEarly => f.write_str("the peer sends data before it has shown its key"),
            Self::RestartedPlain => f.write_str("the peer has restarted without encryption"),
        }
    }
}
