//! Keys of encrypted associations, as the stack has them made.

use manypath_engine::{AssociationId, Endpoint, Event, Instant, KeyManagement as Offer, KeyRoles};
use manypath_keys::{Identity, KeyManagement, METHOD, Step};
use std::collections::BTreeMap;
use std::io;

/// What both ends offer, and demand.
pub(crate) fn offer() -> Offer {
    Offer { methods: vec![METHOD], roles: KeyRoles::Either, required: true }
}

pub(crate) struct Keys {
    identity: Identity,
    all: BTreeMap<AssociationId, KeyManagement>,
}

impl Keys {
    pub(crate) fn new() -> io::Result<Self> {
        let identity = Identity::generate().and_then(|private| Identity::from_private(&private));
        Ok(Self { identity: identity.map_err(io::Error::other)?, all: BTreeMap::new() })
    }

    pub(crate) fn handle_event(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: &Event,
    ) -> io::Result<()> {
        if *event == Event::KeysWanted {
            let begun = KeyManagement::begin(now, endpoint, id, &self.identity, None);
            self.all.insert(id, begun.map_err(io::Error::other)?);
        }
        let Some(one) = self.all.get_mut(&id) else { return Ok(()) };
        if *event == Event::RekeyDue {
            return one.handle_rekey_due(now, endpoint).map_err(io::Error::other);
        }
        one.handle_writable(now, endpoint);
        Ok(())
    }

    /// Takes a message; whether the association is protected from now on.
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        message: &[u8],
    ) -> io::Result<bool> {
        let Some(one) = self.all.get_mut(&id) else { return Ok(false) };
        let step = one.handle_message(now, endpoint, message).map_err(io::Error::other)?;
        Ok(matches!(step, Step::Protected(_)))
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
    ) -> io::Result<()> {
        let is_due = |one: &&mut KeyManagement| one.poll_timeout().is_some_and(|at| at <= now);
        for one in self.all.values_mut().filter(is_due) {
            one.handle_timeout(now, endpoint).map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.all.remove(&id);
    }
}
