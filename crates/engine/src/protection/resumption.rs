//! Resumption: an association with a known peer whose packets are protected from the COOKIE ECHO on, with keys that
//! follow from an earlier association (docs/key-management.md; the drafts have nothing like it).
//!
//! ```text
//! INIT, Resumption(ticket) ---------->  the ticket is opened; nothing is kept
//! <------------ INIT ACK, Resumption()  the cookie holds the ticket
//! COOKIE ECHO ----------------------->  the cookie is used up; keys are there
//! DTLS(DATA) ------------------------>
//! <------------------ DTLS(COOKIE ACK)
//! ```

use super::{KeyAgreement, KeyOffer, KeyRole, RecordKey};
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use manypath_wire::{Tsn, VerificationTag};

/// Most cookies of resumed associations that are known to be used, about 40 bytes each. With more of them in the life of a
/// cookie, peers do without resumption.
const MAX_USED: usize = 1 << 16;

/// Why a ticket is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declined {
    /// It was changed, or made by somebody else, before a restart, or so long ago that its key is gone.
    Unknown,
    /// Its time is over.
    Expired,
}

/// The keys of both directions of the first epoch.
#[derive(Debug)]
pub struct EpochKeys {
    /// Of what the client sends.
    pub client: RecordKey,
    /// Of what the server sends.
    pub server: RecordKey,
}

/// What a server does with tickets that it has issued, whether from this endpoint or from another one of it. It works
/// without an association, and is asked for each INIT that has a ticket.
pub trait Resumption: fmt::Debug + Send + Sync {
    /// Whether the ticket is good.
    ///
    /// # Errors
    /// [`Declined`].
    fn check(&self, now: Instant, ticket: &[u8]) -> Result<(), Declined>;

    /// The keys of an association in which `context` was said ([`Resumed::context`]). They must differ for each
    /// context.
    ///
    /// # Errors
    /// [`Declined`].
    fn keys(&self, now: Instant, ticket: &[u8], context: &[u8]) -> Result<EpochKeys, Declined>;
}

/// How an association is resumed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// The client's ticket.
    pub ticket: Vec<u8>,
    /// What keys must be derived from besides the ticket's secret: both DTLS Key Management parameters, then Initiate Tag
    /// and Initial TSN of both ends, each time the client's first. 94 bits of it are drawn at random by each end.
    pub context: Vec<u8>,
}

/// Initiate Tag and Initial TSN of one end.
pub(crate) type Numbers = (VerificationTag, Tsn);

impl Resumed {
    /// What follows from what we have said and from what the peer has said, if both have agreed to resume.
    pub(crate) fn of(
        agreed: &KeyAgreement,
        (own, own_numbers): (&KeyOffer, Numbers),
        (peer, peer_numbers): (&KeyOffer, Numbers),
    ) -> Option<Self> {
        let is_client = agreed.role == KeyRole::Client;
        let (client, server) = if is_client { (own, peer) } else { (peer, own) };
        let ticket = client.ticket.clone().filter(|ticket| !ticket.is_empty())?;
        server.ticket.as_ref()?;
        let mut context = [&agreed.client_parameter[..], &agreed.server_parameter].concat();
        let numbers = [own_numbers, peer_numbers];
        let order = if is_client { [0, 1] } else { [1, 0] };
        for (tag, tsn) in order.map(|end| numbers[end]) {
            context.extend_from_slice(&tag.0.to_be_bytes());
            context.extend_from_slice(&tsn.0.to_be_bytes());
        }
        Some(Self { ticket, context })
    }
}

/// What a server needs for resumption.
#[derive(Debug, Default)]
pub(crate) struct Resumptions {
    /// None if it issues no tickets.
    pub(crate) tickets: Option<Arc<dyn Resumption>>,
    /// Cookies by which associations were resumed, with the time at which they are stale in any case.
    used: BTreeSet<(Instant, VerificationTag)>,
}

impl Resumptions {
    /// Whether one more cookie can be remembered.
    pub(crate) fn has_room(&mut self, now: Instant) -> bool {
        while self.used.first().is_some_and(|(until, _)| *until < now) {
            self.used.pop_first();
        }
        self.used.len() < MAX_USED
    }

    /// Whether the cookie with this tag of ours, which is valid until then, has resumed an association.
    pub(crate) fn is_used(&self, until: Instant, tag: VerificationTag) -> bool {
        self.used.contains(&(until, tag))
    }

    /// It has.
    pub(crate) fn note_use(&mut self, until: Instant, tag: VerificationTag) {
        self.used.insert((until, tag));
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_USED, Resumptions};
    use crate::time::{Duration, Instant};
    use manypath_wire::VerificationTag;

    #[test]
    fn used_cookies_are_remembered_until_they_are_stale_and_never_too_many() {
        let mut it = Resumptions::default();
        let until = Instant::ZERO + Duration::from_secs(60);
        for tag in 0..MAX_USED as u32 {
            assert!(it.has_room(Instant::ZERO));
            it.note_use(until, VerificationTag(tag));
        }
        assert!(!it.has_room(until), "the cookies are good at this time still");
        assert!(it.is_used(until, VerificationTag(0)));
        assert!(it.has_room(until + Duration::from_nanos(1)));
        assert!(!it.is_used(until, VerificationTag(0)), "stale");
    }
}
