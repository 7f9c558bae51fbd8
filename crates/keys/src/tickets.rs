//! Tickets: what lets an association with a known peer be protected from its COOKIE ECHO on. The server keeps nothing of
//! them but the key that seals them.

mod kept;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;

pub use kept::{Moment, UnusableTicket};

use crate::PublicKey;
use crate::exporter::Exporter;
use crate::handshake::{RESUMED, material};
use crate::key_log::Material;
use manypath_aead::CipherSuite;
use manypath_engine::protection::{Declined, EpochKeys, KeyRole, NONCE_LEN, Resumption, TAG_LEN};
use manypath_engine::{Duration, Instant};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// Most bytes of a ticket, so that an INIT has room for it.
pub(crate) const MAX_TICKET: usize = 255;
/// No client keeps a ticket longer, whatever its server says (RFC 8446 section 4.6.1).
pub(crate) const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a ticket is good.
const TICKET_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long a key seals tickets. It is erased when the last one is over.
const KEY_LIFE: Duration = Duration::from_secs(6 * 3600);
const KEY_LEN: usize = 32;
const KEY_ID_LEN: usize = 4;
/// Bytes of a ticket before its secret: cipher suite, end, the client's key.
const FIXED_LEN: usize = 2 + 8 + 32;

/// What a ticket says to the server.
pub(crate) struct Content {
    pub(crate) suite: CipherSuite,
    /// When it is of no use any more.
    ends: Instant,
    /// Whose ticket it is.
    pub(crate) client: PublicKey,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl Content {
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (suite, ends) = (self.suite.id().to_be_bytes(), self.ends.as_nanos().to_be_bytes());
        let fixed = [&suite[..], &ends, self.client.as_bytes()].concat();
        Zeroizing::new([&fixed[..], &self.secret].concat())
    }

    fn parse(content: &[u8]) -> Option<Self> {
        let (fixed, secret) = content.split_first_chunk::<FIXED_LEN>()?;
        let [s0, s1, rest @ ..] = fixed;
        let (ends, client) = rest.split_first_chunk::<8>()?;
        let suite = CipherSuite::from_id(u16::from_be_bytes([*s0, *s1]))?;
        let client = PublicKey::from(<[u8; 32]>::try_from(client).ok()?);
        let ends = Instant::from_nanos(u64::from_be_bytes(*ends));
        Some(Self { suite, ends, client, secret: Zeroizing::new(secret.to_vec()) })
    }
}

struct TicketKey {
    id: [u8; KEY_ID_LEN],
    made: Instant,
    bytes: Zeroizing<[u8; KEY_LEN]>,
}

impl TicketKey {
    fn cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &*self.bytes).ok().map(LessSafeKey::new)
    }
}

/// The keys that seal the tickets of a server: the newest one for new ones, the others for as long as tickets of theirs
/// are good. All endpoints of the server share them. They are never written anywhere: after a restart its tickets are of no
/// use, and whoever gets hold of them later reads no first flight that is more than 30 hours old.
#[derive(Default)]
pub struct TicketIssuer(Mutex<VecDeque<TicketKey>>);

impl fmt::Debug for TicketIssuer {
    /// Does not print keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketIssuer").finish_non_exhaustive()
    }
}

impl TicketIssuer {
    /// Erases the keys whose tickets are all over. Returns when the next one is to be erased: other calls do so, too, but
    /// a server may have no more clients.
    pub fn erase_expired(&self, now: Instant) -> Option<Instant> {
        self.keys(now).front().map(|oldest| oldest.made + KEY_LIFE + TICKET_LIFE)
    }

    /// A ticket for `client`, and how long it is good. None if the system has no randomness.
    pub(crate) fn issue(
        &self,
        now: Instant,
        suite: CipherSuite,
        client: PublicKey,
        secret: &[u8],
    ) -> Option<(Vec<u8>, Duration)> {
        let mut keys = self.keys(now);
        if keys.back().is_none_or(|newest| now.since(newest.made) >= KEY_LIFE) {
            keys.push_back(TicketKey {
                id: random()?,
                made: now,
                bytes: Zeroizing::new(random()?),
            });
        }
        let key = keys.back()?;
        let nonce: [u8; NONCE_LEN] = random()?;
        let (ends, secret) = (now + TICKET_LIFE, Zeroizing::new(secret.to_vec()));
        let mut content = Content { suite, ends, client, secret }.encode();
        let sealing = Nonce::assume_unique_for_key(nonce);
        let tag =
            key.cipher()?.seal_in_place_separate_tag(sealing, Aad::from(key.id), &mut content);
        let ticket = [&key.id[..], &nonce, &content, tag.ok()?.as_ref()].concat();
        Some((ticket, TICKET_LIFE))
    }

    /// What a ticket says.
    pub(crate) fn open(&self, now: Instant, ticket: &[u8]) -> Result<Content, Declined> {
        let content = self.unseal(now, ticket).and_then(|content| Content::parse(&content));
        let content = content.ok_or(Declined::Unknown)?;
        if content.ends <= now { Err(Declined::Expired) } else { Ok(content) }
    }

    /// Makes all tickets useless that were issued so far, for a server that has another key now.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn unseal(&self, now: Instant, ticket: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (id, rest) = ticket.split_first_chunk::<KEY_ID_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let cipher = self.keys(now).iter().find(|key| key.id == *id)?.cipher()?;
        let mut content = Zeroizing::new(sealed.to_vec());
        let opening = Nonce::assume_unique_for_key(*nonce);
        cipher.open_in_place(opening, Aad::from(*id), &mut content).ok()?;
        let len = content.len().checked_sub(TAG_LEN)?;
        content.truncate(len);
        Some(content)
    }

    /// The keys of tickets that may be good still.
    fn keys(&self, now: Instant) -> MutexGuard<'_, VecDeque<TicketKey>> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|key| now.since(key.made) < KEY_LIFE + TICKET_LIFE);
        keys
    }
}

impl Resumption for TicketIssuer {
    fn check(&self, now: Instant, ticket: &[u8]) -> Result<(), Declined> {
        self.open(now, ticket).map(|_| ())
    }

    fn keys(&self, now: Instant, ticket: &[u8], context: &[u8]) -> Result<EpochKeys, Declined> {
        let Content { suite, secret, .. } = self.open(now, ticket)?;
        let materials = materials(suite, &secret, context).ok_or(Declined::Unknown)?;
        epoch_keys(&materials).ok_or(Declined::Unknown)
    }
}

/// What a client has got of a server, for one association to come.
#[derive(Clone)]
pub struct Ticket {
    pub(crate) bytes: Vec<u8>,
    pub(crate) secret: Zeroizing<Vec<u8>>,
    pub(crate) suite: CipherSuite,
    pub(crate) server: PublicKey,
    pub(crate) client: PublicKey,
    pub(crate) expires: Instant,
}

impl Ticket {
    /// For [`Endpoint::offer_ticket`](manypath_engine::Endpoint::offer_ticket).
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Who has issued it.
    pub const fn server(&self) -> PublicKey {
        self.server
    }

    /// Who has got it: with another identity it is of no use.
    pub const fn client(&self) -> PublicKey {
        self.client
    }

    /// When it is of no use any more.
    pub const fn expires(&self) -> Instant {
        self.expires
    }
}

impl fmt::Debug for Ticket {
    /// Does not print its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, expires, .. } = self;
        f.debug_struct("Ticket")
            .field("server", server)
            .field("expires", expires)
            .finish_non_exhaustive()
    }
}

/// What protects the packets of client and server in the first epoch of an association that resumes.
pub(crate) fn materials(
    suite: CipherSuite,
    secret: &[u8],
    context: &[u8],
) -> Option<[Material; 2]> {
    let exporter = Exporter::new(suite, secret);
    let of = |sender| material(&exporter, suite, (RESUMED, sender), context);
    Some([of(KeyRole::Client)?, of(KeyRole::Server)?])
}

pub(crate) fn epoch_keys([client, server]: &[Material; 2]) -> Option<EpochKeys> {
    Some(EpochKeys { client: client.record_key()?, server: server.record_key()? })
}

fn random<const LEN: usize>() -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{KEY_LIFE, TICKET_LIFE, TicketIssuer, materials};
    use crate::PublicKey;
    use manypath_aead::CipherSuite;
    use manypath_engine::protection::Declined;
    use manypath_engine::{Duration, Instant};

    const CLIENT: [u8; 32] = [9; 32];

    fn issued(issuer: &TicketIssuer, now: Instant) -> Vec<u8> {
        let (suite, client) = (CipherSuite::Aes256Gcm, PublicKey::from(CLIENT));
        issuer.issue(now, suite, client, &[7; 48]).unwrap().0
    }

    #[test]
    fn a_ticket_says_to_its_server_alone_for_whom_it_is() {
        let issuer = TicketIssuer::default();
        let ticket = issued(&issuer, Instant::ZERO);
        assert!(ticket.len() <= 255, "{}", ticket.len());
        let content = issuer.open(Instant::ZERO, &ticket).unwrap();
        assert_eq!(content.suite, CipherSuite::Aes256Gcm);
        assert_eq!((content.client, &content.secret[..]), (CLIENT.into(), &[7; 48][..]));
        let other = TicketIssuer::default();
        let _key = issued(&other, Instant::ZERO);
        assert_eq!(other.open(Instant::ZERO, &ticket).err(), Some(Declined::Unknown));
        assert_ne!(issued(&issuer, Instant::ZERO), ticket);
    }

    #[test]
    fn a_ticket_that_was_changed_or_cut_is_none() {
        let issuer = TicketIssuer::default();
        let ticket = issued(&issuer, Instant::ZERO);
        for at in 0..ticket.len() {
            assert!(issuer.open(Instant::ZERO, &ticket[..at]).is_err());
            for bit in 0..8 {
                let mut changed = ticket.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(issuer.open(Instant::ZERO, &changed).err(), Some(Declined::Unknown));
            }
        }
    }

    #[test]
    fn tickets_expire_and_the_keys_that_seal_them_are_erased() {
        let issuer = TicketIssuer::default();
        let ticket = issued(&issuer, Instant::ZERO);
        let (end, moment) = (Instant::ZERO + TICKET_LIFE, Duration::from_nanos(1));
        assert!(issuer.open(Instant::ZERO + (TICKET_LIFE - moment), &ticket).is_ok());
        assert_eq!(issuer.open(end, &ticket).err(), Some(Declined::Expired));
        let mut most = 0;
        for hour in 0..100 {
            let _ticket = issued(&issuer, Instant::ZERO + Duration::from_secs(3600 * hour));
            most = most.max(issuer.0.lock().unwrap().len());
        }
        assert_eq!(most, 5);
        let gone = issuer.open(Instant::ZERO + KEY_LIFE + TICKET_LIFE, &ticket);
        assert_eq!(gone.err(), Some(Declined::Unknown));
    }

    #[test]
    fn a_server_without_clients_is_told_when_to_erase_its_keys() {
        let issuer = TicketIssuer::default();
        assert_eq!(issuer.erase_expired(Instant::ZERO), None);
        let _ticket = issued(&issuer, Instant::ZERO);
        let end = Instant::ZERO + KEY_LIFE + TICKET_LIFE;
        assert_eq!(issuer.erase_expired(Instant::ZERO), Some(end));
        assert_eq!(issuer.erase_expired(end), None);
        assert!(issuer.0.lock().unwrap().is_empty());
    }

    #[test]
    fn each_context_and_direction_has_keys_of_its_own() {
        let of = |context: &[u8]| materials(CipherSuite::Aes128Gcm, &[1; 32], context).unwrap();
        let (one, other) = (of(b"one"), of(b"two"));
        let all =
            [&one[0], &one[1], &other[0], &other[1]].map(|it| (&it.key[..], it.iv, &it.sn[..]));
        for (at, material) in all.iter().enumerate() {
            assert!(
                all[..at]
                    .iter()
                    .all(|it| it.0 != material.0 && it.1 != material.1 && it.2 != material.2)
            );
        }
        assert_eq!(of(b"one")[0].key, one[0].key);
    }
}
