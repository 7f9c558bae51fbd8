//! Keys of an encrypted association, as a stack has them made; any key of the peer is taken.

use manypath_engine::{AssociationId, Endpoint, Event, Instant, KeyManagement as Offer, KeyRoles};
use manypath_keys::{Identity, KeyManagement, METHOD, Step};
use std::io;

/// What both ends offer, and demand.
pub(super) fn offer() -> Offer {
    Offer { methods: vec![METHOD], roles: KeyRoles::Either, required: true }
}

/// The key of this end, and how far that of the association is.
#[derive(Debug)]
pub(super) struct Keys {
    identity: Identity,
    management: Option<KeyManagement>,
}

impl Keys {
    /// A key of its own, and none of an association.
    pub(super) fn new() -> io::Result<Self> {
        let identity = Identity::generate().and_then(|private| Identity::from_private(&private));
        Ok(Self { identity: identity.map_err(io::Error::other)?, management: None })
    }

    /// Does what an event of the association calls for.
    pub(super) fn handle_event(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: &Event,
    ) -> io::Result<()> {
        if *event == Event::KeysWanted {
            let begun = KeyManagement::begin(now, endpoint, id, &self.identity, None);
            self.management = Some(begun.map_err(io::Error::other)?);
        }
        let Some(management) = &mut self.management else { return Ok(()) };
        if *event == Event::RekeyDue {
            return management.handle_rekey_due(now, endpoint).map_err(io::Error::other);
        }
        management.handle_writable(now, endpoint);
        Ok(())
    }

    /// Takes a message of the peer's key management. True if the association is protected from now on.
    pub(super) fn handle_message(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        message: &[u8],
    ) -> io::Result<bool> {
        let Some(management) = &mut self.management else { return Ok(false) };
        let step = management.handle_message(now, endpoint, message).map_err(io::Error::other)?;
        Ok(matches!(step, Step::Protected(_)))
    }

    /// Does what is due.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
    ) -> io::Result<()> {
        let management = self.management.as_mut();
        let due = management.filter(|it| it.poll_timeout().is_some_and(|at| at <= now));
        due.map_or(Ok(()), |it| it.handle_timeout(now, endpoint)).map_err(io::Error::other)
    }
}
