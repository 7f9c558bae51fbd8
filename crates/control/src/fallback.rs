//! Why connections are not carried.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Makes the enum of reasons: what stands behind each is its name, and what it tells a person.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal, $text:literal;)*) => {
        /// Why a connection goes on as plain TCP.
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        pub enum FallbackReason { $($(#[$doc])* #[serde(rename = $name)] $reason,)* }

        impl FallbackReason {
            /// The short name, as in JSON, for counters and one-line reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }
        }

        impl fmt::Display for FallbackReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$reason => $text,)* })
            }
        }
    };
}

reasons! {
    /// A rule leaves the destination to the kernel.
    Rule = "rule", "a rule leaves it to the kernel";
    /// The program has bound an address, and the settings let it keep to that.
    BoundAddress = "bound-address", "the program keeps to the address that it has bound";
    /// The destination is a loopback address.
    Loopback = "loopback", "the destination is a loopback address";
    /// The destination is an address of this host.
    LocalAddress = "local-address", "the destination is this host";
    /// The destination is not a unicast address.
    NotUnicast = "not-unicast", "the destination is not a unicast address";
    /// No local address can reach the destination's address family, or not from the address that
    /// the program bound.
    NoLocalAddress = "no-local-address", "no suitable local address";
    /// The peer did not answer in time.
    Silent = "silent", "the peer did not answer in time";
    /// The peer refused the association, or its network said that nobody listens.
    Refused = "refused", "the peer does not accept associations";
    /// The peer speaks SCTP but carries no flows.
    NotManypath = "not-manypath", "the peer speaks SCTP, but not manypath";
    /// The peer does not allow this destination.
    NotAllowed = "not-allowed", "the peer does not allow this destination";
    /// An earlier attempt at this peer or service failed, and it is too early to try again.
    Remembered = "remembered", "an earlier attempt failed, too early to try again";
    /// The association ended while the connection was being opened.
    AssociationLost = "association-lost", "the association ended meanwhile";
    /// The stack is at one of its limits, or ends.
    Busy = "busy", "the stack is at a limit or ending";
    /// The peer is a manypath that carries no datagrams.
    NoDatagrams = "no-datagrams", "the peer's manypath carries no datagrams";
    /// One path with a short round trip leads to the peer: SCTP could only be slower.
    NothingToGain = "nothing-to-gain", "a single short path leads to the peer: SCTP has nothing to gain";
    /// The destination's port is below 1024, and nobody answers at the UDP port that proves that the peer may
    /// answer for it.
    UnprovenPort = "unproven-port", "no manypath of root answers there, which ports below 1024 need";
    /// Many hosts of which nothing was known were asked at once, as for a web page: the kernel connects to this
    /// one, and its answer tells whether the next connection is carried.
    OneOfMany = "one-of-many", "one of many new hosts at once: the next connection waits for it";
    /// The peer does not encrypt, which is required here.
    NotEncrypted = "not-encrypted", "the peer does not encrypt, which is required";
    /// The peer was encrypted before, and is not any more.
    NoLongerEncrypted = "no-longer-encrypted", "the peer was encrypted before, and is not any more";
    /// The peer has another key than before.
    KeyChanged = "key-changed", "the peer's key has changed";
    /// The peer has a key that is not to be trusted any more.
    KeyRevoked = "key-revoked", "the peer's key is revoked";
    /// The peer can encrypt, but no keys were agreed on.
    KeyExchangeFailed = "key-exchange-failed", "the key exchange with the peer has failed";
    /// The peer wants encryption, which is off here.
    EncryptionRequired = "encryption-required", "the peer requires encryption, which is off here";
    /// The peer does not take the key of this host.
    NotAuthorized = "not-authorized", "the peer does not authorize the key of this host";
    /// No address is known for the name of the relay.
    RelayUnresolved = "relay-unresolved", "the name of the relay has no address";
    /// The relay does not say whether it is one: an earlier version runs there.
    RelayUnknown = "relay-unknown", "the relay does not say that it is one: is it an earlier version?";
    /// The host that is to relay relays nothing, or not for this one.
    NotRelay = "not-relay", "the relay relays nothing for this host";
    /// The relay does not relay to this destination.
    NotRelayed = "not-relayed", "the relay does not relay to this destination";
    /// The relays lead in a circle, or are too many in a row.
    RelayCircle = "relay-circle", "the relays lead in a circle";
    /// This host has moved as much as a rule of the peer lets it move in this day or month.
    OverQuota = "over-quota", "this host has used up the quota that the peer gives it";
}

impl FallbackReason {
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
