//! Which method and roles follow from what both ends say (draft section 5.1).

use super::KeyOffer;
use alloc::vec::Vec;
use core::cmp::Ordering;
use manypath_wire::cause::Cause;

/// The role of an end in key management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRole {
    /// Client.
    Client,
    /// Server.
    Server,
}

/// What both ends have agreed on about key management.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyAgreement {
    /// DTLS Key Management Identifier.
    pub method: u8,
    /// Our role.
    pub role: KeyRole,
    /// The client's DTLS Key Management parameter as it was sent, without padding. Keys must be derived
    /// from both, so that nobody can have changed them on the way (draft section 10.3).
    pub client_parameter: Vec<u8>,
    /// The server's.
    pub server_parameter: Vec<u8>,
}

/// Why nothing was agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Incompatible {
    /// One end says nothing of it.
    Missing,
    /// No method is known to both.
    NoCommonMethod,
    /// Both can only be client, or only server.
    Roles,
    /// Both can be either, and have drawn the same number.
    TieBreakers,
}

impl Incompatible {
    /// The error cause that says so.
    pub(crate) const fn cause(self) -> Cause<'static> {
        match self {
            Self::Missing => Cause::MissingDtlsSupport,
            Self::NoCommonMethod => Cause::NoCommonKeyManagement,
            Self::Roles => Cause::IncompatibleRoles,
            Self::TieBreakers => Cause::TieBreakerCollision,
        }
    }
}

/// What follows from our offer and the peer's.
pub(crate) fn agree(
    own: Option<&KeyOffer>,
    peer: Option<&KeyOffer>,
) -> Result<KeyAgreement, Incompatible> {
    let (Some(own), Some(peer)) = (own, peer) else { return Err(Incompatible::Missing) };
    let role = role(own, peer)?;
    let (client, server) = match role {
        KeyRole::Client => (own, peer),
        KeyRole::Server => (peer, own),
    };
    let common = server.methods.iter().find(|method| client.methods.contains(method));
    let method = *common.ok_or(Incompatible::NoCommonMethod)?;
    let (client_parameter, server_parameter) = (client.bytes(), server.bytes());
    Ok(KeyAgreement { method, role, client_parameter, server_parameter })
}

fn role(own: &KeyOffer, peer: &KeyOffer) -> Result<KeyRole, Incompatible> {
    match (own.is_client() && peer.is_server(), own.is_server() && peer.is_client()) {
        (true, false) => Ok(KeyRole::Client),
        (false, true) => Ok(KeyRole::Server),
        (false, false) => Err(Incompatible::Roles),
        // "The endpoint with the larger value SHALL be the server"
        (true, true) => match own.tie_breaker.cmp(&peer.tie_breaker) {
            Ordering::Less => Ok(KeyRole::Client),
            Ordering::Greater => Ok(KeyRole::Server),
            Ordering::Equal => Err(Incompatible::TieBreakers),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Incompatible, KeyRole, agree};
    use crate::protection::KeyOffer;

    const CLIENT: u8 = 1;
    const SERVER: u8 = 2;
    const EITHER: u8 = 3;

    fn offer(tie_breaker: u32, flags: u8, methods: &[u8]) -> KeyOffer {
        let (methods, zero_checksum) = (methods.to_vec(), false);
        KeyOffer { tie_breaker, flags, methods, zero_checksum, ticket: None }
    }

    #[test]
    fn both_ends_come_to_the_same_agreement() {
        let cases = [
            (offer(9, CLIENT, &[1, 2]), offer(3, EITHER, &[2, 1]), 2, KeyRole::Client),
            (offer(9, SERVER, &[1, 2]), offer(3, EITHER, &[2, 1]), 1, KeyRole::Server),
            (offer(9, EITHER, &[1, 2]), offer(3, EITHER, &[2, 1]), 1, KeyRole::Server),
            (offer(2, EITHER, &[1, 2]), offer(3, EITHER, &[7, 2]), 2, KeyRole::Client),
            (offer(2, CLIENT, &[1, 2]), offer(2, SERVER, &[5, 1]), 1, KeyRole::Client),
        ];
        for (own, peer, method, role) in cases {
            let (here, there) = (agree(Some(&own), Some(&peer)), agree(Some(&peer), Some(&own)));
            let (here, there) = (here.unwrap(), there.unwrap());
            assert_eq!((here.method, here.role), (method, role));
            assert_ne!(there.role, role);
            assert_eq!(here.client_parameter, there.client_parameter);
            assert_eq!(here.server_parameter, there.server_parameter);
            let mine =
                if role == KeyRole::Client { here.client_parameter } else { here.server_parameter };
            assert_eq!(mine, own.bytes());
        }
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let either = offer(2, EITHER, &[1]);
        let why = |peer: Option<&KeyOffer>| agree(Some(&either), peer).unwrap_err();
        assert_eq!(why(None), Incompatible::Missing);
        assert_eq!(why(Some(&offer(3, EITHER, &[2]))), Incompatible::NoCommonMethod);
        assert_eq!(why(Some(&either)), Incompatible::TieBreakers);
        assert_eq!(why(Some(&offer(3, 0, &[1]))), Incompatible::Roles);
        let client = offer(2, CLIENT, &[1]);
        let both_clients = agree(Some(&client), Some(&offer(3, CLIENT, &[1])));
        assert_eq!(both_clients, Err(Incompatible::Roles));
    }
}
