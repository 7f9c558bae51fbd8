//! Associations that resume, and the tickets for those to come.
//!
//! Both ends have keys for epoch 3 before the handshake, which the client begins at once: it is that of epoch 4, and
//! proves again who both are. The server believes nothing before the client has sealed something.

use super::{FIRST_EPOCH, KeyManagement, State, Step};
use crate::tickets::{MAX_LIFE, MAX_TICKET, Ticket, TicketIssuer, epoch_keys, materials};
use crate::{Failure, Identity};
use bytes::Bytes;
use manypath_aead::CipherSuite;
use manypath_engine::protection::{EpochKeys, KeyRole, Resumed};
use manypath_engine::{AssociationId, Duration, Endpoint, Instant};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The first byte of a message with a ticket. In others it has no bits but the lower two, or is that of PVALID.
pub(super) const TICKET: u8 = b'T';

/// What a ticket is for, from a handshake until the ticket has come or gone.
#[derive(Clone)]
pub(super) struct Secret {
    pub(super) suite: CipherSuite,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Secret {
    /// Does not print it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl KeyManagement {
    /// Begins as the client of an association that resumes by `ticket`: user messages may be sent at once.
    /// `log`: keys are noted ([`Self::log_keys`]).
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::NotAgreed`] if the peer has not agreed to resume.
    pub fn resume(
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        identity: &Identity,
        ticket: &Ticket,
        log: bool,
    ) -> Result<Self, Failure> {
        let mut this = Self::new(now, endpoint, id, identity, Some(ticket.server))?;
        let resumed = endpoint.resumption(id).filter(|it| it.ticket == ticket.bytes);
        let (resumed, is_client) =
            (resumed.ok_or(Failure::NotAgreed)?, this.role == KeyRole::Client);
        if !is_client || ticket.client != identity.public_key() {
            return Err(Failure::NotAgreed);
        }
        if log {
            this.log_keys();
        }
        let keys = this.resumed_keys(endpoint, (ticket.suite, &ticket.secret), &resumed)?;
        endpoint.install_resumption_keys(now, id, keys)?;
        this.is_protected = true;
        this.begin_epoch(now, endpoint)?;
        this.transmit();
        this.flush(now, endpoint);
        Ok(this)
    }

    /// Begins as [`Self::begin`] does. A server gives its client a ticket if that wants one, and takes those of `tickets`,
    /// which the endpoint must have, too ([`Endpoint::set_resumption`]).
    ///
    /// # Errors
    /// [`Failure`].
    pub fn begin_with(
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        identity: &Identity,
        tickets: &Arc<TicketIssuer>,
        log: bool,
    ) -> Result<Self, Failure> {
        let resumed = endpoint.key_use(id).filter(|usage| usage.resumed);
        let Some(resumed) = resumed.and_then(|_| endpoint.resumption(id)) else {
            let mut this = Self::begin(now, endpoint, id, identity, None)?;
            if log {
                this.log_keys();
            }
            this.tickets = Some(tickets.clone());
            return Ok(this);
        };
        let mut this = Self::new(now, endpoint, id, identity, None)?;
        let content = tickets.open(now, &resumed.ticket).map_err(|_| Failure::Timeout)?;
        if log {
            this.log_keys();
        }
        // The engine has installed them.
        let _keys = this.resumed_keys(endpoint, (content.suite, &content.secret), &resumed)?;
        (this.claimed, this.tickets) = (Some(content.client), Some(tickets.clone()));
        Ok(this)
    }

    /// The keys of epoch 3, which are noted if keys are logged.
    fn resumed_keys(
        &mut self,
        endpoint: &Endpoint,
        (suite, secret): (CipherSuite, &[u8]),
        resumed: &Resumed,
    ) -> Result<EpochKeys, Failure> {
        let materials = materials(suite, secret, &resumed.context).ok_or(Failure::Malformed)?;
        for material in &materials {
            let _key = self.record_key(endpoint, material)?;
        }
        (self.suite, self.receiving) = (Some(suite), Some(FIRST_EPOCH));
        self.state = State::Settled;
        epoch_keys(&materials).ok_or(Failure::Malformed)
    }

    /// Something has come in an association that resumes. Its server knows its client if that has sealed it.
    pub fn confirm(&mut self, endpoint: &Endpoint) -> Step {
        let is_sealed = || self.key_use(endpoint).is_some_and(|(opened, _)| opened > 0);
        let Some(claimed) = self.claimed.filter(|_| is_sealed()) else { return Step::Continue };
        (self.claimed, self.peer, self.is_protected) = (None, Some(claimed), true);
        Step::Protected(claimed)
    }

    /// Whether its first keys follow from an earlier association.
    pub fn is_resumed(&self, endpoint: &Endpoint) -> bool {
        endpoint.key_use(self.id).is_some_and(|usage| usage.resumed)
    }

    /// A ticket that the server has sent, for the next association with it.
    pub fn poll_ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// Sends a ticket to a client that wants one. Its keys have been confirmed.
    pub(super) fn issue_ticket(&mut self, now: Instant, endpoint: &Endpoint) {
        let Some(Secret { suite, secret }) = self.secret.take() else { return };
        let Some((tickets, peer)) = self.tickets.as_ref().zip(self.peer) else { return };
        if !endpoint.takes_ticket(self.id) {
            return;
        }
        let Some((ticket, life)) = tickets.issue(now, suite, peer, &secret) else { return };
        let life = u32::try_from(life.as_secs()).unwrap_or(u32::MAX).to_be_bytes();
        self.outbox.push_back(Bytes::from([&[TICKET], &life[..], &ticket].concat()));
    }

    /// A ticket has come. One that belongs to no handshake is left.
    pub(super) fn handle_ticket(
        &mut self,
        now: Instant,
        endpoint: &Endpoint,
        message: &[u8],
    ) -> Result<Step, Failure> {
        let (life, ticket) = message.split_first_chunk().ok_or(Failure::Malformed)?;
        let required = endpoint.key_use(self.id).is_some_and(|usage| usage.required);
        let fits = (1..=MAX_TICKET).contains(&ticket.len());
        if self.role == KeyRole::Server || !required || !fits {
            return Err(Failure::Malformed);
        }
        let Some((Secret { suite, secret }, server)) = self.secret.take().zip(self.peer) else {
            return Ok(Step::Continue);
        };
        let life = Duration::from_secs(u32::from_be_bytes(*life).into()).min(MAX_LIFE);
        let (bytes, client) = (ticket.to_vec(), self.identity.public_key());
        self.ticket = Some(Ticket { bytes, secret, suite, server, client, expires: now + life });
        Ok(Step::Continue)
    }
}
