//! The key management of one association.

mod resumption;

use self::resumption::{Secret, TICKET};
use crate::handshake::Handshake;
use crate::key_log::Material;
use crate::tickets::{Ticket, TicketIssuer};
use crate::{Failure, Identity, METHOD, PublicKey};
use bytes::Bytes;
use manypath_aead::CipherSuite;
use manypath_engine::protection::{
    FIRST_EPOCH, KEY_MANAGEMENT, KeyRole, ProtectionError, RecordKey,
};
use manypath_engine::{AssociationId, Duration, Endpoint, Instant, Outgoing, SendError, StreamId};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Protection Valid: "The message is 2 bytes and is 0x4F4B."
const PVALID: [u8; 2] = *b"OK";
/// The bits of a message's first octet that hold the DTLS Connection Index.
const INDEX: u8 = 0b11;
/// The first handshake must be complete in this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// "At least every hour" (draft-westerlund-tsvwg-sctp-dtls-handshake section 6.2.3).
const REKEY_AFTER: Duration = Duration::from_secs(3600);
/// Packets in the old epoch are taken this long after both ends use the new one.
const DRAIN: Duration = Duration::from_secs(120);

/// What a call has led to, for the user of the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Key management goes on; no user messages may be sent yet if there was no [`Step::Protected`] before.
    Continue,
    /// The peer is the owner of this key, and what is sent from now on is protected.
    Protected(PublicKey),
}

/// Where the handshake for the newest epoch is.
#[derive(Debug)]
enum State {
    /// Messages of TLS go to and fro.
    Handshake(Box<Handshake>),
    /// Our part of it is complete. The peer has not said PVALID.
    Confirming,
    /// Both ends use the keys.
    Settled,
}

/// Key management of an association, from [`Event::KeysWanted`](manypath_engine::Event::KeysWanted) to its end.
///
/// It works on the endpoint: it sends messages with the PPID [`KEY_MANAGEMENT`] and installs keys. Its user
///
/// * gives it all messages with this PPID, and none of them to anybody else,
/// * calls [`Self::handle_timeout`] when [`Self::poll_timeout`] says so, [`Self::handle_rekey_due`] after
///   [`Event::RekeyDue`](manypath_engine::Event::RekeyDue), and [`Self::handle_writable`] after
///   [`Event::Writable`](manypath_engine::Event::Writable),
/// * sends no other message before [`Step::Protected`], and keeps those that come before it until then,
/// * aborts the association after a [`Failure`].
#[derive(Debug)]
pub struct KeyManagement {
    id: AssociationId,
    identity: Identity,
    role: KeyRole,
    /// Whom the peer must be, if that is known.
    peer: Option<PublicKey>,
    state: State,
    /// The newest epoch that keys are made for.
    epoch: u64,
    /// The newest epoch that can be received.
    receiving: Option<u64>,
    is_protected: bool,
    suite: Option<CipherSuite>,
    /// Messages for which the send buffer had no room.
    outbox: VecDeque<Bytes>,
    /// When the first handshake has failed.
    deadline: Option<Instant>,
    /// When the client makes new keys.
    rekey: Option<Instant>,
    /// When the keys before the newest ones are dropped.
    drained: Option<Instant>,
    /// Lines for a log of keys, if there is one.
    key_log: Option<VecDeque<Zeroizing<String>>>,
    /// What a server issues tickets with.
    tickets: Option<Arc<TicketIssuer>>,
    /// What the ticket of the last handshake is for.
    secret: Option<Secret>,
    /// The last one that has come.
    ticket: Option<Ticket>,
    /// Whose ticket a server has got, until it has seen that it is theirs.
    claimed: Option<PublicKey>,
}

impl KeyManagement {
    /// Begins. `known` is the key that the peer is known by; without it any is taken.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::NotAgreed`] if the association cannot be protected.
    pub fn begin(
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        identity: &Identity,
        known: Option<PublicKey>,
    ) -> Result<Self, Failure> {
        let mut this = Self::new(now, endpoint, id, identity, known)?;
        this.transmit();
        this.flush(now, endpoint);
        Ok(this)
    }

    /// Nothing was sent.
    fn new(
        now: Instant,
        endpoint: &Endpoint,
        id: AssociationId,
        identity: &Identity,
        known: Option<PublicKey>,
    ) -> Result<Self, Failure> {
        let agreed = endpoint.key_agreement(id).filter(|agreed| agreed.method == METHOD);
        let agreed = agreed.ok_or(Failure::NotAgreed)?;
        let role = agreed.role;
        Ok(Self {
            id,
            identity: identity.clone(),
            role,
            peer: known,
            state: State::Handshake(Box::new(Handshake::begin(role, identity)?)),
            epoch: FIRST_EPOCH,
            receiving: None,
            is_protected: false,
            suite: None,
            outbox: VecDeque::new(),
            deadline: Some(now + PATIENCE),
            rekey: None,
            drained: None,
            key_log: None,
            tickets: None,
            secret: None,
            ticket: None,
            claimed: None,
        })
    }

    /// Takes a message of the peer's with the PPID [`KEY_MANAGEMENT`].
    ///
    /// # Errors
    /// [`Failure`].
    pub fn handle_message(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        message: &[u8],
    ) -> Result<Step, Failure> {
        let confirmed = self.confirm(endpoint);
        let step = match message {
            [first, second] if [*first, *second] == PVALID => self.handle_pvalid(now, endpoint)?,
            [TICKET, ticket @ ..] => self.handle_ticket(now, endpoint, ticket)?,
            [index, records @ ..] => self.handle_records(now, endpoint, *index, records)?,
            [] => return Err(Failure::Malformed),
        };
        self.flush(now, endpoint);
        Ok(if confirmed == Step::Continue { step } else { confirmed })
    }

    /// When [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline, self.rekey, self.drained].into_iter().flatten().min()
    }

    /// Does what is due.
    ///
    /// # Errors
    /// [`Failure`]: the peer has not answered, or new keys cannot be made.
    pub fn handle_timeout(&mut self, now: Instant, endpoint: &mut Endpoint) -> Result<(), Failure> {
        if is_due(self.deadline, now) {
            return Err(self.give_up(endpoint));
        }
        if is_due(self.drained, now) {
            self.retire(now, endpoint);
        }
        if is_due(self.rekey, now) {
            self.begin_rekey(now, endpoint)?;
        }
        self.flush(now, endpoint);
        Ok(())
    }

    /// The send buffer has room again.
    pub fn handle_writable(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.flush(now, endpoint);
    }

    /// Keys should be replaced, which the client does.
    ///
    /// # Errors
    /// [`Failure`] if new keys cannot be made.
    pub fn handle_rekey_due(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
    ) -> Result<(), Failure> {
        if self.rekey.is_some() {
            self.begin_rekey(now, endpoint)?;
        }
        self.flush(now, endpoint);
        Ok(())
    }

    /// Whether user messages may be sent and believed.
    pub fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Who the peer is: after [`Step::Protected`] it has proved that.
    pub fn peer(&self) -> Option<PublicKey> {
        self.peer.filter(|_| self.is_protected)
    }

    /// What the newest keys are for, after [`Step::Protected`].
    pub fn cipher_suite(&self) -> Option<CipherSuite> {
        self.suite
    }

    /// Notes all keys from now on, for [`Self::poll_key_log`]: with them anybody can read the association.
    pub fn log_keys(&mut self) {
        self.key_log = Some(VecDeque::new());
    }

    /// A line for a [`KeyLogFile`](crate::KeyLogFile), to be asked for after each call until there is none.
    pub fn poll_key_log(&mut self) -> Option<Zeroizing<String>> {
        self.key_log.as_mut()?.pop_front()
    }

    fn handle_records(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        index: u8,
        records: &[u8],
    ) -> Result<Step, Failure> {
        if matches!(self.state, State::Settled) && self.role == KeyRole::Server {
            self.begin_epoch(now, endpoint)?;
        }
        let State::Handshake(handshake) = &mut self.state else { return Err(Failure::Malformed) };
        if index & INDEX != index_of(self.epoch) {
            return Err(Failure::Malformed);
        }
        handshake.receive(records)?;
        let presented = handshake.peer();
        if let Some((known, presented)) = self.peer.zip(presented).filter(|(a, b)| a != b) {
            return Err(Failure::OtherKey { known, presented });
        }
        self.install_receiving(now, endpoint)?;
        self.transmit();
        match presented {
            Some(presented) => self.complete(now, endpoint, presented),
            None => Ok(Step::Continue),
        }
    }

    /// Installs the key of what the peer sends as soon as it can be had: before anything is sent that lets the
    /// peer use it.
    fn install_receiving(&mut self, now: Instant, endpoint: &mut Endpoint) -> Result<(), Failure> {
        let State::Handshake(handshake) = &self.state else { return Ok(()) };
        let sender = match self.role {
            KeyRole::Client => KeyRole::Server,
            KeyRole::Server => KeyRole::Client,
        };
        if self.receiving == Some(self.epoch) {
            return Ok(());
        }
        if let Some(material) = handshake.key(sender, &context(endpoint, self.id)?)? {
            if endpoint.key_use(self.id).is_some_and(|usage| usage.exposed) {
                return Err(Failure::Exposed);
            }
            let key = self.record_key(endpoint, &material)?;
            endpoint.install_receiving_key(now, self.id, self.epoch, key)?;
            self.receiving = Some(self.epoch);
        }
        Ok(())
    }

    /// The peer is `presented`: what is sent from now on is sealed. The last messages of the client are, too.
    fn complete(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        presented: PublicKey,
    ) -> Result<Step, Failure> {
        let State::Handshake(handshake) = &self.state else { return Err(Failure::Malformed) };
        let context = context(endpoint, self.id)?;
        let material = handshake.key(self.role, &context)?;
        self.suite = handshake.cipher_suite();
        let secret = self.suite.zip(handshake.resumption_secret(&context));
        self.secret = secret.map(|(suite, secret)| Secret { suite, secret });
        let key = self.record_key(endpoint, &material.ok_or(Failure::Malformed)?)?;
        endpoint.install_sending_key(now, self.id, self.epoch, key)?;
        self.state = State::Confirming;
        self.peer = Some(presented);
        if self.role == KeyRole::Server {
            // The client has sealed since its last flight.
            endpoint.require_protection(now, self.id)?;
            self.outbox.push_back(Bytes::from_static(&PVALID));
        }
        self.deadline = None;
        match mem::replace(&mut self.is_protected, true) {
            true => Ok(Step::Continue),
            false => Ok(Step::Protected(presented)),
        }
    }

    /// The key of the newest epoch, which is noted if keys are logged.
    fn record_key(
        &mut self,
        endpoint: &Endpoint,
        material: &Material,
    ) -> Result<RecordKey, Failure> {
        let (agreed, epoch) = (endpoint.key_agreement(self.id), self.epoch);
        if let Some((log, agreed)) = self.key_log.as_mut().zip(agreed) {
            log.push_back(material.line(agreed, epoch));
        }
        material.record_key().ok_or(Failure::Malformed)
    }

    /// The peer takes what is sealed with our key.
    fn handle_pvalid(&mut self, now: Instant, endpoint: &mut Endpoint) -> Result<Step, Failure> {
        let came_sealed = self.key_use(endpoint).is_some_and(|(opened, _)| opened > 0);
        if !matches!(self.state, State::Confirming) || !came_sealed {
            return Err(Failure::Malformed);
        }
        if self.role == KeyRole::Client {
            endpoint.require_protection(now, self.id)?;
            self.outbox.push_back(Bytes::from_static(&PVALID));
            self.rekey = Some(now + REKEY_AFTER);
        } else {
            self.issue_ticket(now, endpoint);
        }
        self.state = State::Settled;
        self.drained = (self.epoch > FIRST_EPOCH).then(|| now + DRAIN);
        Ok(Step::Continue)
    }

    fn begin_rekey(&mut self, now: Instant, endpoint: &mut Endpoint) -> Result<(), Failure> {
        self.rekey = None;
        self.begin_epoch(now, endpoint)?;
        self.transmit();
        Ok(())
    }

    fn begin_epoch(&mut self, now: Instant, endpoint: &mut Endpoint) -> Result<(), Failure> {
        self.retire(now, endpoint);
        let handshake = Handshake::begin(self.role, &self.identity)?;
        self.epoch += 1;
        self.state = State::Handshake(Box::new(handshake));
        Ok(())
    }

    /// Drops the keys before the newest ones, if they are still there.
    fn retire(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.drained = None;
        let _gone_already = endpoint.retire_receiving_key(now, self.id, self.epoch - 1);
    }

    /// Why the first handshake is not complete.
    fn give_up(&self, endpoint: &Endpoint) -> Failure {
        let forged = self.key_use(endpoint).is_some_and(|(_, failures)| failures > 0);
        if forged { Failure::Altered } else { Failure::Timeout }
    }

    /// Records of the newest epoch that were opened, and those that were not authentic.
    fn key_use(&self, endpoint: &Endpoint) -> Option<(u64, u64)> {
        let usage = endpoint.key_use(self.id)?;
        let newest = usage.opening.into_iter().find(|it| it.epoch == self.epoch)?;
        Some((newest.opened, newest.failures))
    }

    /// Queues what TLS has to say.
    fn transmit(&mut self) {
        let State::Handshake(handshake) = &mut self.state else { return };
        let mut message = vec![index_of(self.epoch)];
        if handshake.transmit(&mut message) {
            self.outbox.push_back(message.into());
        }
    }

    /// Sends what is queued, as far as there is room.
    fn flush(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for payload in mem::take(&mut self.outbox) {
            if !self.outbox.is_empty() || !self.send(now, endpoint, payload.clone()) {
                self.outbox.push_back(payload);
            }
        }
    }

    /// Whether the message needs no more care.
    fn send(&self, now: Instant, endpoint: &mut Endpoint, payload: Bytes) -> bool {
        let (stream, ppid, unordered) = (StreamId(0), KEY_MANAGEMENT, false);
        let message = Outgoing { stream, ppid, unordered, payload };
        // All other errors mean that the association ends.
        endpoint.send(now, self.id, message) != Err(SendError::BufferFull)
    }
}

/// What keys are derived from besides the handshake: both DTLS Key Management parameters, the client's first.
fn context(endpoint: &Endpoint, id: AssociationId) -> Result<Vec<u8>, ProtectionError> {
    let agreed = endpoint.key_agreement(id).ok_or(ProtectionError::NotAgreed)?;
    Ok([&agreed.client_parameter[..], &agreed.server_parameter].concat())
}

/// The DTLS Connection Index: "the lower two bits" of the epoch.
fn index_of(epoch: u64) -> u8 {
    epoch.to_le_bytes()[0] & INDEX
}

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
