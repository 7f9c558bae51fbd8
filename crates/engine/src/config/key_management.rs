//! What can be chosen for the protection of packets by DTLS chunks.

use crate::names::named;
use alloc::vec::Vec;

/// What an endpoint says about key management for DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk section
/// 7.1). Restart with keys of its own is not supported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyManagement {
    /// DTLS Key Management Identifiers, the most wanted first; at most 16.
    pub methods: Vec<u8>,
    /// What it can be in key management.
    pub roles: KeyRoles,
    /// Strict mode: refuse peers with which nothing can be agreed on. Otherwise, in loose mode,
    /// associations with them are not protected.
    pub required: bool,
}

named! {
    /// To which peers the addresses of this host are announced, beside the one that the handshake uses.
    pub enum Announce as "peers that are told addresses" {
        /// To all, in INIT and INIT ACK, which nobody can encrypt.
        All = "all",
        /// To those that have shown who they are, under protection: associations begin with one path, and
        /// [`Endpoint::reveal_addresses`](crate::Endpoint::reveal_addresses) adds the others.
        Authenticated = "authenticated",
    }
}

named! {
    /// The roles in key management that an endpoint can have.
    pub enum KeyRoles as "roles in key management" {
        /// Client.
        Client = "client",
        /// Server.
        Server = "server",
        /// Whatever the peer is not. If that can be either, too, the end that connects is the client.
        Either = "either",
    }
}
