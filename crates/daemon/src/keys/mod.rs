//! Encrypted associations: their key management, and what is known of the peers behind them
//! (docs/key-management.md).
//!
//! ```text
//! INIT ─▶ offered ─┬─▶ keys are being made ─▶ protected: messages leave from here on
//!                  │                     └──▶ rejected: the association ends
//!                  └─▶ the peer does not encrypt ─▶ plain, unless it did so before
//! ```
//!
//! Messages of an association wait until it is protected or known to be plain, and what comes before that is kept or
//! dropped.

mod rejection;
#[cfg(test)]
mod tests;
mod tickets;
mod trust;

pub(crate) use rejection::{NOT_AUTHORIZED, Rejection};
pub use trust::KeyFiles;
pub(crate) use trust::{Standing, Trust};

use self::tickets::Tickets;
use crate::timers::{Timer, Timers};
use manypath_control::status::{EncryptionStatus, IdentityStatus};
use manypath_engine::protection::{KEY_MANAGEMENT, KeyRole};
use manypath_engine::{AssociationId, Endpoint, Instant, Message};
use manypath_keys::{Failure, KeyManagement, PublicKey, Step, Ticket, TicketIssuer};
use manypath_rules::Source;
use manypath_trust::{Fingerprint, TrustError};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Bytes of messages that are kept until an association is protected. A peer that has sent its last message of the
/// handshake may send at once; as long as it has no answer its flows have no more than their first windows.
const MAX_EARLY: usize = 1 << 20;
/// The same of all associations.
const MAX_EARLY_OF_ALL: usize = 16 << 20;

/// The encrypted associations of a stack, and those that may become so.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// None while nothing is to be encrypted.
    trust: Option<Trust>,
    all: BTreeMap<AssociationId, Managed>,
    /// Those whose peer has not said yet whether it encrypts.
    offered: BTreeSet<AssociationId>,
    /// Bytes that are kept until associations are protected.
    early_bytes: usize,
    /// What this host gives its clients tickets with. All engine loops of a server have the same.
    issuer: Arc<TicketIssuer>,
    /// A timer waits for its oldest key to be over.
    erases: bool,
    /// What this host has got from servers.
    tickets: Tickets,
}

/// One of them.
#[derive(Debug, Default)]
struct Managed {
    /// The address that was asked, if this side began it.
    asked: Option<IpAddr>,
    /// Its UDP address, and the ticket that was offered to it.
    server: Option<SocketAddr>,
    ticket: Option<Ticket>,
    management: Option<Box<KeyManagement>>,
    /// What has come before it was protected.
    early: Vec<Message>,
    early_bytes: usize,
    peer: Option<(PublicKey, Standing)>,
    /// When its timer is due.
    timer: Option<Instant>,
}

impl Managed {
    /// Whether messages may leave.
    const fn is_open(&self) -> bool {
        self.peer.is_some()
    }
}

/// What has arrived on an association.
pub(crate) enum Arrival {
    /// A message for its flows.
    Message(Message),
    /// Nothing for them.
    Nothing,
    /// The association is protected from now on: the key of its peer, whether that is remembered, and what had come.
    Protected { key: PublicKey, kept: bool, early: Vec<Message> },
}

impl Keys {
    /// None is encrypted yet.
    pub(crate) fn new(issuer: Arc<TicketIssuer>) -> Self {
        Self { issuer, ..Self::default() }
    }

    /// What tickets of this host are sealed with.
    pub(crate) const fn issuer(&self) -> &Arc<TicketIssuer> {
        &self.issuer
    }

    /// Associations may be encrypted from now on. If this host had another key before, tickets of that one are gone, those
    /// of its own clients and those that it has got: they would end in a key that the other end does not expect. Returns
    /// how many it had got.
    pub(crate) fn adopt(&mut self, trust: Trust) -> usize {
        let former = self.trust.as_ref().map(|trust| trust.identity().public_key());
        let dropped = match former.is_some_and(|former| former != trust.identity().public_key()) {
            true => {
                self.issuer.forget();
                self.tickets.forget()
            }
            false => 0,
        };
        self.trust = Some(trust);
        dropped
    }

    /// Takes the tickets that earlier stacks have left. Returns how many they are, and how many lines of their file
    /// could not be read.
    ///
    /// # Errors
    /// As [`TicketsFile::take`](manypath_trust::TicketsFile::take).
    pub(crate) fn recall_tickets(&mut self, now: Instant) -> Result<(usize, usize), TrustError> {
        self.trust.as_ref().map_or(Ok((0, 0)), |trust| self.tickets.recall(now, trust))
    }

    /// Leaves the tickets that were not used to stacks to come.
    pub(crate) fn keep_tickets(&mut self, now: Instant) {
        if let Some(trust) = &self.trust {
            self.tickets.keep(now, trust);
        }
    }

    /// What is known of peers, if anything may be encrypted.
    pub(crate) const fn trust_mut(&mut self) -> Option<&mut Trust> {
        self.trust.as_mut()
    }

    /// Whether this host has keys.
    pub(crate) const fn can_encrypt(&self) -> bool {
        self.trust.is_some()
    }

    /// Whether the own key is gone with this stack: peers that connect would remember it in vain.
    pub(crate) fn is_unkept(&self) -> bool {
        self.trust.as_ref().is_some_and(Trust::is_unkept)
    }

    /// The key of this host.
    pub(crate) fn identity_status(&self, now: Instant) -> Option<IdentityStatus> {
        self.trust.as_ref().map(|trust| trust.identity_status(self.tickets.count(now)))
    }

    /// The address that stands for the key of this host, wherever that is.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        let own = self.trust.as_ref()?.identity().public_key();
        Some(Fingerprint::of(&own).address().into())
    }

    /// What other relays tell this one by.
    pub(crate) fn mark(&self) -> Option<[u8; 8]> {
        self.trust.as_ref().map(|trust| Fingerprint::of(&trust.identity().public_key()).mark())
    }

    /// This side has begun an association with `peer`, whose UDP address is `server`, and offers to encrypt it. Returns the
    /// ticket by which it may resume; an empty one asks for a ticket.
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        id: AssociationId,
        (peer, server): (IpAddr, SocketAddr),
    ) -> Vec<u8> {
        let ticket = self.trust.as_ref().and_then(|it| self.tickets.take(now, server, it));
        let offered = ticket.as_ref().map_or(Vec::new(), |ticket| ticket.as_bytes().to_vec());
        let (asked, server) = (Some(peer), Some(server));
        self.all.insert(id, Managed { asked, server, ticket, ..Managed::default() });
        self.offered.insert(id);
        offered
    }

    /// Whether its messages have to wait.
    pub(crate) fn holds(&self, id: AssociationId) -> bool {
        self.all.get(&id).is_some_and(|one| !one.is_open())
    }

    /// The key of its peer, if it is protected.
    pub(crate) fn peer_of(&self, id: AssociationId) -> Option<PublicKey> {
        self.all.get(&id)?.peer.map(|(key, _)| key)
    }

    /// Whether its peer has a key that this host authorizes.
    pub(crate) fn is_authorized(&self, id: AssociationId) -> bool {
        let peer = self.all.get(&id).and_then(|one| one.peer);
        peer.is_some_and(|(_, standing)| standing == Standing::Authorized)
    }

    /// What is known of its peer, if it is protected.
    pub(crate) fn standing_of(&self, id: AssociationId) -> Option<Standing> {
        self.all.get(&id)?.peer.map(|(_, standing)| standing)
    }

    /// The name under which its peer is authorized, if it has one.
    pub(crate) fn name_of(&self, id: AssociationId) -> Option<&str> {
        self.trust.as_ref()?.authorized_name(&self.peer_of(id)?)
    }

    /// Whether some peer that is taken can be that of a rule, wherever it is.
    pub(crate) fn may_take(&self, source: &Source) -> bool {
        let anywhere = Source { network: None, ..source.clone() };
        self.trust.as_ref().is_some_and(|trust| trust.may_take(&anywhere))
    }

    /// The fingerprint of its peer's key, if it is protected.
    pub(crate) fn fingerprint_of(&self, id: AssociationId) -> Option<String> {
        self.peer_of(id).map(|key| trust::name(&key))
    }

    /// Who its peer is, for people: its name, else the fingerprint of its key. `None` if it is not encrypted.
    pub(crate) fn who(&self, id: AssociationId) -> Option<String> {
        self.name_of(id).map(str::to_owned).or_else(|| self.fingerprint_of(id))
    }

    /// Whether connections to `addr`, where the peer of an association has proved to be, may use it: another address of
    /// a peer is not known by another key, nor by any if the association is plain.
    pub(crate) fn may_lead_to(&self, id: AssociationId, addr: IpAddr) -> bool {
        let Some(trust) = &self.trust else { return true };
        match self.all.get(&id).map(|one| one.peer) {
            Some(Some((key, _))) => trust.judge(addr, &key).is_ok(),
            Some(None) => false,
            None => !trust.is_known(addr),
        }
    }

    /// A program is led to `addr` over an association that may have been begun for another address. False if its key
    /// cannot be kept.
    pub(crate) fn note_use(&mut self, id: AssociationId, addr: IpAddr) -> bool {
        let known = self.peer_of(id).zip(self.trust.as_mut());
        known.is_none_or(|(key, trust)| trust.remember(addr, key))
    }

    /// Those whose peers are not trusted any more.
    pub(crate) fn distrusted(&self) -> Vec<(AssociationId, Rejection)> {
        let Some(trust) = &self.trust else { return Vec::new() };
        let judge = |(id, one): (&AssociationId, &Managed)| {
            let (key, _) = one.peer?;
            let judged = one.asked.map_or_else(|| trust.admit(&key), |at| trust.judge(at, &key));
            Some((*id, judged.err()?))
        };
        self.all.iter().filter_map(judge).collect()
    }

    /// Both ends can encrypt the association: its keys are made, or there already.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        timers: &mut Timers,
    ) -> Result<Arrival, Rejection> {
        let Some(trust) = &self.trust else { return Err(Failure::NotAgreed.into()) };
        self.offered.remove(&id);
        let one = self.all.entry(id).or_default();
        // A peer that has restarted begins anew.
        self.early_bytes -= one.early_bytes;
        let ticket = one.ticket.take().filter(|_| endpoint.resumption(id).is_some());
        let Managed { asked, server, timer, .. } = *one;
        *one = Managed { asked, server, timer, ..Managed::default() };
        let (identity, log) = (trust.identity(), trust.logs_keys());
        let is_client = endpoint.key_agreement(id).is_some_and(|it| it.role == KeyRole::Client);
        let management = match ticket.filter(|_| is_client) {
            Some(ticket) => KeyManagement::resume(now, endpoint, id, identity, &ticket, log)?,
            None => KeyManagement::begin_with(now, endpoint, id, identity, &self.issuer, log)?,
        };
        let peer = management.peer();
        one.management = Some(Box::new(management));
        self.log_keys_of(id);
        if let Some(one) = self.all.get_mut(&id) {
            one.set_timer(id, timers);
        }
        peer.map_or(Ok(Arrival::Nothing), |key| self.admit(id, key))
    }

    fn log_keys_of(&mut self, id: AssociationId) {
        let management = self.all.get_mut(&id).and_then(|one| one.management.as_mut());
        let Some((management, trust)) = management.zip(self.trust.as_mut()) else { return };
        while let Some(line) = management.poll_key_log() {
            trust.log_key(&line);
        }
    }

    /// Those whose peer has answered that it does not encrypt: they are plain from now on, or rejected.
    pub(crate) fn settle_offers(
        &mut self,
        awaits_answer: impl Fn(AssociationId) -> bool,
    ) -> Vec<(AssociationId, Result<(), Rejection>)> {
        let answered: Vec<_> =
            self.offered.iter().copied().filter(|id| !awaits_answer(*id)).collect();
        answered.into_iter().map(|id| (id, self.settle_offer(id))).collect()
    }

    fn settle_offer(&mut self, id: AssociationId) -> Result<(), Rejection> {
        let asked = self.all.get(&id).and_then(|one| one.asked);
        self.forget(id);
        let known = |addr: &IpAddr| self.trust.as_ref().is_some_and(|trust| trust.is_known(*addr));
        asked.filter(known).map_or(Ok(()), |addr| Err(Rejection::NoLongerEncrypted(addr)))
    }

    /// Takes a message of an association.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        timers: &mut Timers,
        message: Message,
    ) -> Result<Arrival, Rejection> {
        let Some(one) = self.all.get_mut(&id) else { return Ok(Arrival::Message(message)) };
        match message.ppid == KEY_MANAGEMENT {
            false if one.is_open() => return Ok(Arrival::Message(message)),
            false => return self.take_early(endpoint, id, message),
            true => {}
        }
        let Some(management) = &mut one.management else { return Ok(Arrival::Nothing) };
        let step = management.handle_message(now, endpoint, &message.payload)?;
        if let Some((ticket, server)) = management.poll_ticket().zip(one.server) {
            self.tickets.put(server, ticket);
        }
        one.set_timer(id, timers);
        self.log_keys_of(id);
        self.watch_ticket_keys(now, timers);
        match step {
            Step::Continue => Ok(Arrival::Nothing),
            Step::Protected(key) => self.admit(id, key),
        }
    }

    /// Sees to it that keys of tickets are erased in time, though no client comes any more.
    fn watch_ticket_keys(&mut self, now: Instant, timers: &mut Timers) {
        if !self.erases
            && let Some(at) = self.issuer.erase_expired(now)
        {
            self.erases = true;
            timers.set(at, Timer::TicketKeys);
        }
    }

    /// A key of tickets is over.
    pub(crate) fn on_ticket_keys_timer(&mut self, now: Instant, timers: &mut Timers) {
        self.erases = false;
        self.watch_ticket_keys(now, timers);
    }

    /// Takes a message of a peer that is not known yet. One that resumes is, by what it has sealed.
    fn take_early(
        &mut self,
        endpoint: &Endpoint,
        id: AssociationId,
        message: Message,
    ) -> Result<Arrival, Rejection> {
        let management = self.all.get_mut(&id).and_then(|one| one.management.as_mut());
        let step = management.map_or(Step::Continue, |it| it.confirm(endpoint));
        self.keep(endpoint, id, message)?;
        match step {
            Step::Continue => Ok(Arrival::Nothing),
            Step::Protected(key) => self.admit(id, key),
        }
    }

    /// Keeps a message that has come too early. One that is not protected is nobody's.
    fn keep(
        &mut self,
        endpoint: &Endpoint,
        id: AssociationId,
        message: Message,
    ) -> Result<(), Rejection> {
        if endpoint.key_use(id).is_none_or(|usage| usage.exposed) {
            return Err(Failure::Exposed.into());
        }
        let Some(one) = self.all.get_mut(&id) else { return Ok(()) };
        let len = message.payload.len();
        (one.early_bytes, self.early_bytes) = (one.early_bytes + len, self.early_bytes + len);
        one.early.push(message);
        match one.early_bytes > MAX_EARLY || self.early_bytes > MAX_EARLY_OF_ALL {
            true => Err(Rejection::TooMuchTooEarly),
            false => Ok(()),
        }
    }

    /// The peer has proved to have `key`.
    fn admit(&mut self, id: AssociationId, key: PublicKey) -> Result<Arrival, Rejection> {
        let Some((one, trust)) = self.all.get_mut(&id).zip(self.trust.as_mut()) else {
            return Ok(Arrival::Nothing);
        };
        let standing = match one.asked {
            Some(addr) => trust.judge(addr, &key)?,
            None => trust.admit(&key)?,
        };
        one.peer = Some((key, standing));
        self.early_bytes -= std::mem::take(&mut one.early_bytes);
        let kept = one.asked.is_none_or(|addr| trust.remember(addr, key));
        Ok(Arrival::Protected { key, kept, early: std::mem::take(&mut one.early) })
    }

    /// A key is nearly used up.
    pub(crate) fn on_rekey_due(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) -> Result<(), Rejection> {
        let management = self.all.get_mut(&id).and_then(|one| one.management.as_mut());
        Ok(management.map_or(Ok(()), |it| it.handle_rekey_due(now, endpoint))?)
    }

    /// There is room for messages again.
    pub(crate) fn on_writable(&mut self, now: Instant, endpoint: &mut Endpoint, id: AssociationId) {
        if let Some(management) = self.all.get_mut(&id).and_then(|one| one.management.as_mut()) {
            management.handle_writable(now, endpoint);
        }
    }

    pub(crate) fn on_timer(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        id: AssociationId,
        timers: &mut Timers,
    ) -> Result<(), Rejection> {
        let Some(one) = self.all.get_mut(&id) else { return Ok(()) };
        one.timer.take_if(|at| *at <= now);
        one.management.as_mut().map_or(Ok(()), |it| it.handle_timeout(now, endpoint))?;
        // What has failed is still overdue, and ends with its association.
        one.set_timer(id, timers);
        Ok(())
    }

    /// The association has ended, or is not to be encrypted.
    pub(crate) fn forget(&mut self, id: AssociationId) {
        self.offered.remove(&id);
        // A ticket goes with it, even if nobody has answered: who has seen it in an INIT would know it again.
        self.early_bytes -= self.all.remove(&id).map_or(0, |one| one.early_bytes);
    }

    pub(crate) fn status(
        &self,
        endpoint: &Endpoint,
        id: AssociationId,
    ) -> Option<EncryptionStatus> {
        let one = self.all.get(&id)?;
        let usage = endpoint.key_use(id).unwrap_or_default();
        let opening = usage.opening.iter();
        let (epoch, sealed, _) = usage.sealing.unwrap_or_default();
        let suite = one.management.as_ref().and_then(|it| it.cipher_suite());
        Some(EncryptionStatus {
            state: if one.is_open() { "encrypted" } else { "key-exchange" }.to_owned(),
            resumed: usage.resumed,
            cipher_suite: suite.map(|suite| suite.name().to_owned()),
            epoch,
            peer: one.peer.map(|(key, _)| trust::name(&key)),
            name: self.name_of(id).map(str::to_owned),
            standing: one.peer.map(|(_, standing)| standing.name().to_owned()),
            packets_sealed: sealed,
            packets_opened: opening.clone().map(|epoch| epoch.opened).sum(),
            packets_dropped: opening.map(|epoch| epoch.failures).sum(),
        })
    }
}

impl Managed {
    fn set_timer(&mut self, id: AssociationId, timers: &mut Timers) {
        let due = self.management.as_ref().and_then(|it| it.poll_timeout());
        if let Some(due) = due.filter(|due| self.timer.is_none_or(|at| *due < at)) {
            self.timer = Some(due);
            timers.set(due, Timer::Keys(id));
        }
    }
}
