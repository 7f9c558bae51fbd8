//! Why connections are not carried.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a connection goes on as plain TCP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackReason {
    /// A rule leaves the destination to the kernel.
    Rule,
    /// The program has bound an address, and the settings let it keep to that.
    BoundAddress,
    /// The destination is a loopback address.
    Loopback,
    /// The destination is an address of this host.
    LocalAddress,
    /// The destination is not a unicast address.
    NotUnicast,
    /// No local address can reach the destination's address family, or not from the address that
    /// the program bound.
    NoLocalAddress,
    /// The peer did not answer in time.
    Silent,
    /// The peer refused the association, or its network said that nobody listens.
    Refused,
    /// The peer speaks SCTP but carries no flows.
    NotManypath,
    /// The peer does not allow this destination.
    NotAllowed,
    /// An earlier attempt at this peer or service failed, and it is too early to try again.
    Remembered,
    /// The association ended while the connection was being opened.
    AssociationLost,
    /// The stack is at one of its limits, or ends.
    Busy,
    /// The peer is a manypath that carries no datagrams.
    NoDatagrams,
    /// One path with a short round trip leads to the peer: SCTP could only be slower.
    NothingToGain,
    /// The destination's port is below 1024, and nobody answers at the UDP port that proves that the peer may
    /// answer for it.
    UnprovenPort,
    /// Many hosts of which nothing was known were asked at once, as for a web page: the kernel connects to this one, and
    /// its answer tells whether the next connection is carried.
    OneOfMany,
    /// The peer does not encrypt, which is required here.
    NotEncrypted,
    /// The peer was encrypted before, and is not any more.
    NoLongerEncrypted,
    /// The peer has another key than before.
    KeyChanged,
    /// The peer has a key that is not to be trusted any more.
    KeyRevoked,
    /// The peer can encrypt, but no keys were agreed on.
    KeyExchangeFailed,
    /// The peer wants encryption, which is off here.
    EncryptionRequired,
    /// The peer does not take the key of this host.
    NotAuthorized,
    /// No address is known for the name of the relay.
    RelayUnresolved,
    /// The relay does not say whether it is one: an earlier version runs there.
    RelayUnknown,
    /// The host that is to relay relays nothing, or not for this one.
    NotRelay,
    /// The relay does not relay to this destination.
    NotRelayed,
    /// The relays lead in a circle, or are too many in a row.
    RelayCircle,
    /// This host has moved as much as a rule of the peer lets it move in this day or month.
    OverQuota,
}

impl FallbackReason {
    /// The short name, as in JSON, for counters and one-line reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::BoundAddress => "bound-address",
            Self::Loopback => "loopback",
            Self::LocalAddress => "local-address",
            Self::NotUnicast => "not-unicast",
            Self::NoLocalAddress => "no-local-address",
            Self::Silent => "silent",
            Self::Refused => "refused",
            Self::NotManypath => "not-manypath",
            Self::NotAllowed => "not-allowed",
            Self::Remembered => "remembered",
            Self::AssociationLost => "association-lost",
            Self::Busy => "busy",
            Self::NoDatagrams => "no-datagrams",
            Self::NothingToGain => "nothing-to-gain",
            Self::UnprovenPort => "unproven-port",
            Self::OneOfMany => "one-of-many",
            Self::NotEncrypted => "not-encrypted",
            Self::NoLongerEncrypted => "no-longer-encrypted",
            Self::KeyChanged => "key-changed",
            Self::KeyRevoked => "key-revoked",
            Self::KeyExchangeFailed => "key-exchange-failed",
            Self::EncryptionRequired => "encryption-required",
            Self::NotAuthorized => "not-authorized",
            Self::RelayUnresolved => "relay-unresolved",
            Self::RelayUnknown => "relay-unknown",
            Self::NotRelay => "not-relay",
            Self::NotRelayed => "not-relayed",
            Self::RelayCircle => "relay-circle",
            Self::OverQuota => "over-quota",
        }
    }

    /// Whether it is about the encryption of the peer's associations.
    #[must_use]
    pub const fn is_about_encryption(self) -> bool {
        matches!(
            self,
            Self::NotEncrypted
                | Self::NoLongerEncrypted
                | Self::KeyChanged
                | Self::KeyRevoked
                | Self::KeyExchangeFailed
                | Self::EncryptionRequired
                | Self::NotAuthorized
        )
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rule => "a rule leaves it to the kernel",
            Self::BoundAddress => "the program keeps to the address that it has bound",
            Self::Loopback => "the destination is a loopback address",
            Self::LocalAddress => "the destination is this host",
            Self::NotUnicast => "the destination is not a unicast address",
            Self::NoLocalAddress => "no suitable local address",
            Self::Silent => "the peer did not answer in time",
            Self::Refused => "the peer does not accept associations",
            Self::NotManypath => "the peer speaks SCTP, but not manypath",
            Self::NotAllowed => "the peer does not allow this destination",
            Self::Remembered => "an earlier attempt failed, too early to try again",
            Self::AssociationLost => "the association ended meanwhile",
            Self::Busy => "the stack is at a limit or ending",
            Self::NoDatagrams => "the peer's manypath carries no datagrams",
            Self::NothingToGain => {
                "a single short path leads to the peer: SCTP has nothing to gain"
            }
            Self::UnprovenPort => "no manypath of root answers there, which ports below 1024 need",
            Self::OneOfMany => "one of many new hosts at once: the next connection waits for it",
            Self::NotEncrypted => "the peer does not encrypt, which is required",
            Self::NoLongerEncrypted => "the peer was encrypted before, and is not any more",
            Self::KeyChanged => "the peer's key has changed",
            Self::KeyRevoked => "the peer's key is revoked",
            Self::KeyExchangeFailed => "the key exchange with the peer has failed",
            Self::EncryptionRequired => "the peer requires encryption, which is off here",
            Self::NotAuthorized => "the peer does not authorize the key of this host",
            Self::RelayUnresolved => "the name of the relay has no address",
            Self::RelayUnknown => {
                "the relay does not say that it is one: is it an earlier version?"
            }
            Self::NotRelay => "the relay relays nothing for this host",
            Self::NotRelayed => "the relay does not relay to this destination",
            Self::RelayCircle => "the relays lead in a circle",
            Self::OverQuota => "this host has used up the quota that the peer gives it",
        })
    }
}
