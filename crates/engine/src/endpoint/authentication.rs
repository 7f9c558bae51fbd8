//! Shared keys of the endpoint and its associations, and COOKIE ECHOs that have to be authenticated
//! (RFC 4895 section 6.3).

use super::{AssociationId, Endpoint};
use crate::association::Authenticity;
use crate::association::cookie::Cookie;
use crate::authentication::{Agreement, KeyError, Rejection};
use crate::time::Instant;
use manypath_wire::chunk::{Auth, types};

/// An AUTH chunk, and the packet from it on.
pub(super) type AuthAndRest<'a> = (Auth<'a>, &'a [u8]);

impl Endpoint {
    /// Sets the shared key `number` of an association, or without one that of associations to come
    /// (`SCTP_AUTH_KEY`, RFC 6458 section 8.3.3). An empty `secret` is a null key.
    ///
    /// # Errors
    /// [`KeyError::NoAuthentication`].
    pub fn set_shared_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        number: u16,
        secret: &[u8],
    ) -> Result<(), KeyError> {
        match id {
            Some(id) => self.with_key(now, id, |it, _| it.security.set_shared_key(number, secret)),
            None => {
                self.shared_keys.set(number, secret);
                Ok(())
            }
        }
    }

    /// Authenticates with shared key `number` what is sent from now on (`SCTP_AUTH_ACTIVE_KEY`, RFC
    /// 6458 section 8.1.18). Messages queued before and not sent yet use it as well.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn set_active_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        number: u16,
    ) -> Result<(), KeyError> {
        match id {
            Some(id) => self.with_key(now, id, |it, _| it.security.activate_key(number)),
            None => self.shared_keys.activate(number),
        }
    }

    /// Does not use shared key `number` for sending any more (`SCTP_AUTH_DEACTIVATE_KEY`, RFC 6458
    /// section 8.3.4); what the peer authenticates with it is still taken.
    ///
    /// # Errors
    /// [`KeyError`]; the active key cannot be deactivated.
    pub fn deactivate_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        number: u16,
    ) -> Result<(), KeyError> {
        match id {
            Some(id) => self.with_key(now, id, |it, cx| it.security.deactivate_key(cx, id, number)),
            None => self.shared_keys.deactivate(number),
        }
    }

    /// Forgets shared key `number`, which has been deactivated (`SCTP_AUTH_DELETE_KEY`, RFC 6458
    /// section 8.3.5).
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn delete_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        number: u16,
    ) -> Result<(), KeyError> {
        match id {
            Some(id) => self.with_key(now, id, |it, _| it.security.delete_key(number)),
            None => self.shared_keys.delete(number),
        }
    }

    /// The chunk types that the peer wants authenticated, as it has listed them (`SCTP_PEER_AUTH_CHUNKS`, RFC 6458 section
    /// 8.2.3); none without an association or without authentication.
    pub fn chunks_authenticated_for_peer(&self, id: AssociationId) -> &[u8] {
        self.registry.get(id).map_or(&[], |association| association.security.listed_by_peer())
    }

    /// Whether a packet with `cookie`, with an AUTH chunk before it or none, is to be processed. The
    /// keys are those of the association that exists, else those that follow from the cookie.
    pub(super) fn authenticate_cookie(
        &mut self,
        known: Option<AssociationId>,
        cookie: &Cookie,
        auth: Option<AuthAndRest<'_>>,
    ) -> Result<Authenticity, Option<Rejection>> {
        let association = known.and_then(|id| self.registry.get_mut(id));
        if let Some(association) = association.filter(|it| it.security.is_authenticating()) {
            let demanded = association.security.demands(types::COOKIE_ECHO);
            let checked =
                auth.and_then(|(auth, rest)| association.security.check_auth(&auth, rest));
            return verdict(demanded, checked);
        }
        let offers = cookie.auth.as_ref().zip(cookie.peer.auth.as_ref());
        match (offers.and_then(|(own, peer)| Agreement::new(own, peer)), auth) {
            (Some(mut agreement), auth) => {
                let demanded = agreement.demands(types::COOKIE_ECHO);
                let keys = &self.shared_keys;
                let check = |(auth, rest): AuthAndRest<'_>| agreement.check(keys, &auth, rest);
                verdict(demanded, auth.map(check))
            }
            (None, None) => Ok(Authenticity::None),
            // Without an agreement it is a chunk of unknown type, which ends its packet.
            (None, Some(_)) => Err(None),
        }
    }

    fn with_key(
        &mut self,
        now: Instant,
        id: AssociationId,
        call: impl FnOnce(
            &mut crate::association::Association,
            &mut crate::association::Context<'_>,
        ) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        self.with(now, id, |association, cx| Some(call(association, cx)))
            .unwrap_or(Err(KeyError::NoAuthentication))
    }
}

fn verdict(
    demanded: bool,
    checked: Option<Result<(), Rejection>>,
) -> Result<Authenticity, Option<Rejection>> {
    match checked {
        Some(Ok(())) => Ok(Authenticity::Expected),
        Some(Err(rejection)) => Err(Some(rejection)),
        None if demanded => Err(Some(Rejection::Missing)),
        None => Ok(Authenticity::None),
    }
}
