//! The State Cookie (RFC 9260 section 5.1.3): everything that an INIT's receiver needs to build the
//! association later, handed to the peer and authenticated when it comes back, so that an INIT costs
//! no memory.
//!
//! ```text
//! MAC (32) | key epoch (8) | created (8) | life ms (4) | local port (2) | peer port (2)
//! local tag (4) | local TSN (4) | local tie-tag (4) | peer's tie-tag (4)
//! peer: tag (4) | a_rwnd (4) | OS (2) | MIS (2) | TSN (4) | flags (1) | adaptation (4)
//! if the cookie is short: count of our addresses that the INIT ACK lists (1)
//! local UDP address (1 + 16 + 2) | remote UDP address (1 + 16 + 2); IPv6 link-local ones: scope (4)
//! count (1) + extensions | count (1) + peer addresses (1 + 16 each)
//! if packets may be protected, for us and for the peer: tie breaker (4) | flags (1) | count (1) + methods, and with
//!   a Resumption parameter: length (1) + ticket
//! if chunks may be authenticated, for us and for the peer: offers it (1), and then
//!   random (32) | count (2) + chunk types, 0xFFFF: none | count (1) + HMAC identifiers (2 each)
//! ```
//!
//! The MAC is HMAC-SHA256 over all that follows it. Nothing is read before the MAC has been checked.
//!
//! Where copies of a COOKIE ECHO race over all paths (`Config::handshake_race`), one may reach others: an address that
//! we list can be another host's in the network of the peer. A host that knows the peer's tag can answer a HEARTBEAT in
//! our place. So what nobody needs but us is encrypted there: tie-tags, the numbers of the peer, and the offers, from
//! which the keys of RFC 4895 follow.
//!
//! Where the INIT ACK must not be larger than its INIT allows, the cookie is short: the MAC is cut to 16
//! bytes (RFC 2104 section 5), and IPv4 addresses take 1 + 4 bytes.

use super::announcement::{Announcement, MAX_EXTENSIONS};
use crate::authentication::{MAX_HMAC_IDS, Offer, RANDOM_LEN};
use crate::path::PathAddr;
use crate::path::pairing::MAX_ADDRESSES;
use crate::protection::KeyOffer;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::ops::Range;
use hmac::{Hmac, KeyInit, Mac};
use manypath_wire::{Tsn, VerificationTag};
use sha2::{Digest, Sha256};

/// Flags: the peer has an adaptation indication, is capable of ECN; the cookie is short, is encrypted in part; packets
/// may be protected.
const ADAPTATION: u8 = 1;
const ECN: u8 = 2;
const SHORT: u8 = 4;
const ENCRYPTED: u8 = 8;
const PROTECTED: u8 = 16;
/// Address families: IPv4 with padding to the length of IPv6, without, and IPv6.
const PADDED_V4: u8 = 4;
const SHORT_V4: u8 = 5;
const V6: u8 = 6;
/// How long a key makes new cookies. The RFC says "e.g., hourly".
const KEY_LIFE: Duration = Duration::from_secs(3600);
const MAC_LEN: usize = 32;
const SHORT_MAC_LEN: usize = 16;
const EPOCH_LEN: usize = 8;
/// Where the numbers are that may be encrypted: behind the time and what was drawn at random for the cookie, which
/// together are the nonce.
const NUMBERS: Range<usize> = 24..48;
/// Stands for the number of chunk types where the CHUNKS parameter was missing.
const NO_CHUNKS: u16 = u16::MAX;

/// The two random numbers that tie a cookie to the association that existed when it was made
/// (section 5.2.2). Zero in a cookie that was made without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TieTags {
    /// The Local-Tie-Tag.
    pub local: u32,
    /// The Peer's-Tie-Tag.
    pub peer: u32,
}

impl TieTags {
    /// The cookie was made when no association existed.
    pub(crate) const NONE: Self = Self { local: 0, peer: 0 };

    /// Fresh random tie-tags.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self { local: rng.nonzero_u32(), peer: rng.nonzero_u32() }
    }
}

/// The contents of a State Cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    /// When it was made.
    pub created: Instant,
    /// How long it is valid, in whole milliseconds.
    pub life: Duration,
    /// Our SCTP port.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// Our tag.
    pub local_tag: VerificationTag,
    /// The TSN of our first DATA chunk.
    pub local_tsn: Tsn,
    /// What our INIT ACK says about authentication. No cookie holds a shared key (RFC 4895 section
    /// 6.3).
    pub auth: Option<Offer>,
    /// What it says about key management, if the INIT has said something, too.
    pub keys: Option<KeyOffer>,
    /// Tie-tags of the association that existed, if one did.
    pub tie: TieTags,
    /// The peer's INIT.
    pub peer: Announcement,
    /// The path of INIT and INIT ACK.
    pub path: PathAddr,
    /// How many of our addresses the INIT ACK lists, where it had to be small; the cookie is short then.
    pub listed: Option<u8>,
    /// Whether others must not be able to read it.
    pub encrypted: bool,
}

impl Cookie {
    /// Makes it as small as it can be. Without an offer of the peer ours comes to nothing.
    pub(crate) fn shorten(&mut self) {
        self.listed = Some(0);
        self.auth.take_if(|_| self.peer.auth.is_none());
    }

    /// Whether our INIT ACK says that the association resumes.
    pub(crate) fn resumes(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.ticket.is_some())
    }

    const fn mac_len(&self) -> usize {
        if self.listed.is_some() { SHORT_MAC_LEN } else { MAC_LEN }
    }
}

/// The keys that authenticate cookies: one in use and the one before it.
#[derive(Clone)]
pub(crate) struct CookieKeys {
    epoch: u64,
    current: [u8; 32],
    previous: [u8; 32],
}

impl core::fmt::Debug for CookieKeys {
    /// Does not print the keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieKeys").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl CookieKeys {
    /// Keys for a new endpoint.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self { epoch: 0, current: rng.key(), previous: rng.key() }
    }

    /// Authenticates `cookie` and writes it out.
    pub(crate) fn seal(&mut self, now: Instant, cookie: &Cookie, rng: &mut Rng) -> Vec<u8> {
        self.rotate(now, rng);
        let len = cookie.mac_len();
        let mut bytes = alloc::vec![0; len];
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        let offers = encode(cookie, &mut bytes);
        if cookie.encrypted {
            encrypt(&self.current, &mut bytes[len + EPOCH_LEN..], offers);
        }
        let tag = authenticator(&self.current, &bytes[len..]).map(|mac| mac.finalize());
        if let Some(tag) = tag {
            bytes[..len].copy_from_slice(&tag.into_bytes()[..len]);
        }
        bytes
    }

    /// Reads a cookie. None if we did not make it, if it was changed, or if it is so old that its
    /// key is gone.
    pub(crate) fn open(&mut self, now: Instant, bytes: &[u8], rng: &mut Rng) -> Option<Cookie> {
        self.rotate(now, rng);
        [MAC_LEN, SHORT_MAC_LEN].into_iter().find_map(|len| self.open_behind(len, bytes))
    }

    /// The same for a cookie with a MAC of `len` bytes.
    fn open_behind(&self, len: usize, bytes: &[u8]) -> Option<Cookie> {
        let (mac, signed) = bytes.split_at_checked(len)?;
        let (epoch, content) = signed.split_at_checked(EPOCH_LEN)?;
        let key = self.key(epoch)?;
        authenticator(key, signed)?.verify_truncated_left(mac).ok()?;
        let mut reader = Reader { rest: content, flags: 0 };
        let cookie = reader.all_but_offers()?;
        let mut content = content.to_vec();
        if cookie.encrypted {
            encrypt(key, &mut content, reader.rest.len());
        }
        decode(&content).filter(|cookie| cookie.mac_len() == len)
    }

    fn key(&self, epoch: &[u8]) -> Option<&[u8; 32]> {
        let epoch = u64::from_be_bytes(epoch.try_into().ok()?);
        if epoch == self.epoch {
            Some(&self.current)
        } else if epoch.checked_add(1) == Some(self.epoch) {
            Some(&self.previous)
        } else {
            None
        }
    }

    fn rotate(&mut self, now: Instant, rng: &mut Rng) {
        let life = u64::try_from(KEY_LIFE.as_nanos()).unwrap_or(u64::MAX);
        let epoch = now.as_nanos() / life;
        if epoch > self.epoch {
            // After a pause of more than one epoch nothing that the old key made is still wanted.
            self.previous = if epoch == self.epoch + 1 { self.current } else { rng.key() };
            self.current = rng.key();
            self.epoch = epoch;
        }
    }
}

fn authenticator(key: &[u8; 32], signed: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok()?;
    mac.update(signed);
    Some(mac)
}

/// Encrypts what must not be read of a cookie's content, the last `offers` bytes included, or decrypts. The key stream
/// is SHA-256 of key, nonce and a counter.
fn encrypt(key: &[u8; 32], content: &mut [u8], offers: usize) {
    let nonce = [&content[..8], &content[16..NUMBERS.start]].concat();
    let (fixed, rest) = content.split_at_mut(NUMBERS.end);
    let offers = rest.len().saturating_sub(offers);
    let blocks = fixed[NUMBERS].chunks_mut(32).chain(rest[offers..].chunks_mut(32));
    for (number, block) in (0_u32..).zip(blocks) {
        let hash = Sha256::new().chain_update(key).chain_update(&nonce);
        let stream = hash.chain_update(number.to_be_bytes()).finalize();
        block.iter_mut().zip(stream).for_each(|(byte, by)| *byte ^= by);
    }
}

/// Appends the content; returns how long the offers at its end are.
pub(super) fn encode(cookie: &Cookie, out: &mut Vec<u8>) -> usize {
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    let life = u32::try_from(cookie.life.as_millis()).unwrap_or(u32::MAX);
    put(&cookie.created.as_nanos().to_be_bytes());
    put(&life.to_be_bytes());
    put(&cookie.local_port.to_be_bytes());
    put(&cookie.peer_port.to_be_bytes());
    for word in [cookie.local_tag.0, cookie.local_tsn.0, cookie.tie.local, cookie.tie.peer] {
        put(&word.to_be_bytes());
    }
    let peer = &cookie.peer;
    put(&peer.tag.0.to_be_bytes());
    put(&peer.a_rwnd.to_be_bytes());
    put(&peer.outbound_streams.to_be_bytes());
    put(&peer.inbound_streams.to_be_bytes());
    put(&peer.initial_tsn.0.to_be_bytes());
    let short = cookie.listed.is_some();
    let flags = [
        (peer.adaptation.is_some(), ADAPTATION),
        (peer.ecn, ECN),
        (short, SHORT),
        (cookie.encrypted, ENCRYPTED),
        (cookie.keys.is_some() && peer.keys.is_some(), PROTECTED),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set);
    put(&[flags.fold(0, |all, (_, flag)| all | flag)]);
    put(&peer.adaptation.unwrap_or(0).to_be_bytes());
    put(cookie.listed.as_slice());
    for socket in [cookie.path.local, cookie.path.remote] {
        put(encode_ip(socket.ip(), short, &mut [0; 17]));
        put(&socket.port().to_be_bytes());
        if let SocketAddr::V6(v6) = socket
            && v6.ip().is_unicast_link_local()
        {
            put(&v6.scope_id().to_be_bytes());
        }
    }
    // Both lists were cut to their limits, far below 256, when they were received.
    put(&[u8::try_from(peer.extensions.len()).unwrap_or(0)]);
    put(&peer.extensions);
    put(&[u8::try_from(peer.addresses.len()).unwrap_or(0)]);
    peer.addresses.iter().for_each(|it| put(encode_ip(*it, short, &mut [0; 17])));
    if let (Some(own), Some(peer)) = (&cookie.keys, &peer.keys) {
        [own, peer].into_iter().for_each(|offer| offer.encode(out));
    }
    let before = out.len();
    if cookie.auth.is_some() || peer.auth.is_some() {
        [&cookie.auth, &peer.auth].into_iter().for_each(|offer| encode_offer(offer.as_ref(), out));
    }
    out.len() - before
}

fn encode_offer(offer: Option<&Offer>, out: &mut Vec<u8>) {
    out.push(u8::from(offer.is_some()));
    let Some(offer) = offer else { return };
    out.extend_from_slice(&offer.random);
    // At most 256 types and `MAX_HMAC_IDS` identifiers: more were not taken.
    let count = offer.chunks.as_ref().map_or(Ok(NO_CHUNKS), |chunks| u16::try_from(chunks.len()));
    out.extend_from_slice(&count.unwrap_or(NO_CHUNKS).to_be_bytes());
    out.extend(offer.chunks.iter().flatten());
    out.push(u8::try_from(offer.hmac_ids.len()).unwrap_or(0));
    offer.hmac_ids.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
}

fn encode_ip(address: IpAddr, short: bool, bytes: &mut [u8; 17]) -> &[u8] {
    match address {
        IpAddr::V4(v4) => {
            bytes[0] = if short { SHORT_V4 } else { PADDED_V4 };
            bytes[1..5].copy_from_slice(&v4.octets());
            if short { &bytes[..5] } else { bytes }
        }
        IpAddr::V6(v6) => {
            bytes[0] = V6;
            bytes[1..].copy_from_slice(&v6.octets());
            bytes
        }
    }
}

pub(super) fn decode(content: &[u8]) -> Option<Cookie> {
    let mut reader = Reader { rest: content, flags: 0 };
    let mut cookie = reader.all_but_offers()?;
    if !reader.rest.is_empty() {
        (cookie.auth, cookie.peer.auth) = (reader.offer()?, reader.offer()?);
    }
    reader.rest.is_empty().then_some(cookie)
}

/// Where an INIT has come from, as the host has seen it that made this State Cookie: behind a NAT the
/// outside address. `tag` is the Initiate Tag of the INIT ACK. The cookie is not checked, only its maker can do
/// that; whoever can forge it could change the packet that brought it as well. None if it is no cookie of this engine for
/// that INIT ACK: other implementations have layouts of their own.
pub fn seen_source(cookie: &[u8], tag: VerificationTag) -> Option<SocketAddr> {
    [MAC_LEN, SHORT_MAC_LEN].into_iter().find_map(|len| {
        let mut reader = Reader { rest: cookie.get(len + EPOCH_LEN..)?, flags: 0 };
        let read = reader.all_but_offers()?;
        let fits = read.local_tag == tag && read.mac_len() == len;
        fits.then_some(read.path.remote)
    })
}

struct Reader<'a> {
    rest: &'a [u8],
    flags: u8,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// All that stands before the offers.
    fn all_but_offers(&mut self) -> Option<Cookie> {
        let mut cookie = Cookie {
            created: Instant::from_nanos(self.u64()?),
            life: Duration::from_millis(self.u32()?.into()),
            local_port: self.u16()?,
            peer_port: self.u16()?,
            local_tag: VerificationTag(self.u32()?),
            local_tsn: Tsn(self.u32()?),
            auth: None,
            keys: None,
            tie: TieTags { local: self.u32()?, peer: self.u32()? },
            peer: self.peer()?,
            listed: self.listed()?,
            path: PathAddr { local: self.socket()?, remote: self.socket()? },
            encrypted: self.flags & ENCRYPTED != 0,
        };
        let extensions = usize::from(self.u8()?).min(MAX_EXTENSIONS);
        cookie.peer.extensions = self.take(extensions)?.to_vec();
        let addresses = usize::from(self.u8()?).min(MAX_ADDRESSES);
        for _ in 0..addresses {
            cookie.peer.addresses.push(self.ip()?);
        }
        if self.flags & PROTECTED != 0 {
            cookie.keys = Some(KeyOffer::decode(&mut self.rest)?);
            cookie.peer.keys = Some(KeyOffer::decode(&mut self.rest)?);
        }
        Some(cookie)
    }

    /// The fields of fixed length.
    fn peer(&mut self) -> Option<Announcement> {
        let mut peer = Announcement {
            tag: VerificationTag(self.u32()?),
            a_rwnd: self.u32()?,
            outbound_streams: self.u16()?,
            inbound_streams: self.u16()?,
            initial_tsn: Tsn(self.u32()?),
            adaptation: None,
            extensions: Vec::new(),
            ecn: false,
            addresses: Vec::new(),
            auth: None,
            keys: None,
        };
        self.flags = self.u8()?;
        let indication = self.u32()?;
        peer.adaptation = (self.flags & ADAPTATION != 0).then_some(indication);
        peer.ecn = self.flags & ECN != 0;
        Some(peer)
    }

    /// Follows the flags: none in a cookie that is not short.
    fn listed(&mut self) -> Option<Option<u8>> {
        if self.flags & SHORT == 0 { Some(None) } else { self.u8().map(Some) }
    }

    fn ip(&mut self) -> Option<IpAddr> {
        let short = self.flags & SHORT != 0;
        match (self.u8()?, short) {
            (PADDED_V4, false) => {
                self.array::<16>()?.first_chunk::<4>().map(|octets| IpAddr::from(*octets))
            }
            (SHORT_V4, true) => self.array::<4>().map(IpAddr::from),
            (V6, _) => self.array::<16>().map(|octets| Ipv6Addr::from(octets).into()),
            _ => None,
        }
    }

    fn socket(&mut self) -> Option<SocketAddr> {
        let (ip, port) = (self.ip()?, self.u16()?);
        Some(match ip {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, port, 0, self.u32()?).into()
            }
            IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(ip, port),
        })
    }

    fn offer(&mut self) -> Option<Option<Offer>> {
        if self.u8()? != 1 {
            return Some(None);
        }
        let random = self.array::<RANDOM_LEN>()?;
        let chunks = match self.u16()? {
            NO_CHUNKS => None,
            count => Some(self.take(count.into())?.to_vec()),
        };
        let count = usize::from(self.u8()?).min(MAX_HMAC_IDS);
        let hmac_ids = (0..count).map(|_| self.u16()).collect::<Option<_>>()?;
        Some(Some(Offer { random, chunks, hmac_ids }))
    }
}

#[cfg(test)]
#[path = "cookie_tests.rs"]
mod tests;
