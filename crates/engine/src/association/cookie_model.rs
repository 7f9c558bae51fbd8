//! Cookies under attack: what the fuzz target `cookie` checks.

use super::announcement::{Announcement, MAX_EXTENSIONS};
use super::cookie::{Cookie, CookieKeys, TieTags, decode, encode};
use crate::authentication::{Offer, RANDOM_LEN};
use crate::choices::Choices;
use crate::path::PathAddr;
use crate::path::pairing::MAX_ADDRESSES;
use crate::protection::KeyOffer;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use manypath_wire::{Tsn, VerificationTag};

/// Makes a cookie of the bytes, changes it as they say, and opens it.
///
/// # Panics
/// If a cookie comes back other than it was made.
pub fn check(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (kind, now) = (choices.byte(), Instant::from_nanos(choices.u64() >> 8));
    let mut rng = Rng::new([7; 32]);
    let mut keys = CookieKeys::new(&mut rng);
    if kind % 5 == 4 {
        return check_content(choices.take(usize::MAX));
    }
    let (at, by) = (choices.u16(), choices.byte());
    let cookie = cookie(now, &mut choices);
    let sealed = keys.seal(now, &cookie, &mut rng);
    let mac = if cookie.listed.is_some() { 16 } else { 32 };
    check_content(&sealed[mac + 8..]);
    let changed = changed(&sealed, kind, at, by);
    let pause = Duration::from_secs(if kind % 5 == 3 { 60 * u64::from(by) } else { 0 });
    let opened = keys.open(now + pause, &changed, &mut rng);
    let epochs = |at: Instant| at.as_nanos() / 3_600_000_000_000;
    let valid = changed == sealed && epochs(now + pause) <= epochs(now) + 1;
    assert_eq!(opened, valid.then_some(cookie));
}

/// Any bytes as what the MAC is for: even who knows the key gets nothing but a cookie.
fn check_content(content: &[u8]) {
    let Some(cookie) = decode(content) else { return };
    assert!(cookie.peer.addresses.len() <= MAX_ADDRESSES);
    assert!(cookie.peer.extensions.len() <= MAX_EXTENSIONS);
    let mut encoded = Vec::new();
    encode(&cookie, &mut encoded);
    assert!(encoded.len() <= content.len());
    assert_eq!(decode(&encoded), Some(cookie));
}

fn changed(sealed: &[u8], kind: u8, at: u16, by: u8) -> Vec<u8> {
    let mut changed = sealed.to_vec();
    let at = usize::from(at) % changed.len();
    match kind % 5 {
        1 => changed[at] ^= by,
        2 => changed.truncate(at),
        _ => {}
    }
    if kind & 0x80 != 0 {
        changed.push(by);
    }
    changed
}

fn cookie(created: Instant, choices: &mut Choices<'_>) -> Cookie {
    let extensions = choices.below(8).into();
    let addresses = choices.below(8);
    let mut cookie = Cookie {
        created,
        life: Duration::from_millis(choices.u32().into()),
        local_port: choices.u16(),
        peer_port: choices.u16(),
        local_tag: VerificationTag(choices.u32()),
        local_tsn: Tsn(choices.u32()),
        keys: None,
        tie: TieTags { local: choices.u32(), peer: choices.u32() },
        auth: choices.flag().then(|| offer(choices)),
        peer: Announcement {
            tag: VerificationTag(choices.u32()),
            a_rwnd: choices.u32(),
            outbound_streams: choices.u16(),
            inbound_streams: choices.u16(),
            initial_tsn: Tsn(choices.u32()),
            adaptation: choices.flag().then(|| choices.u32()),
            auth: choices.flag().then(|| offer(choices)),
            extensions: choices.take(extensions).to_vec(),
            addresses: (0..addresses).map(|_| address(choices)).collect(),
            ecn: choices.flag(),
            keys: None,
        },
        path: PathAddr {
            local: SocketAddr::new(address(choices), choices.u16()),
            remote: SocketAddr::new(address(choices), choices.u16()),
        },
        listed: choices.flag().then(|| choices.byte()),
        encrypted: choices.flag(),
    };
    if choices.flag() {
        (cookie.keys, cookie.peer.keys) = (Some(key_offer(choices)), Some(key_offer(choices)));
    }
    cookie
}

fn key_offer(choices: &mut Choices<'_>) -> KeyOffer {
    let (tie_breaker, flags) = (choices.u32(), choices.byte());
    let zero_checksum = flags & 1 == 0;
    let (count, ticket) = (choices.below(17).into(), choices.byte());
    let methods = choices.take(count).to_vec();
    let ticket = (flags & 2 == 0).then(|| choices.take(ticket.into()).to_vec());
    KeyOffer { tie_breaker, flags, methods, zero_checksum, ticket }
}

fn offer(choices: &mut Choices<'_>) -> Offer {
    let (types, ids) = (choices.byte(), choices.below(17));
    Offer {
        random: [choices.byte(); RANDOM_LEN],
        chunks: choices.flag().then(|| choices.take(types.into()).to_vec()),
        hmac_ids: (0..ids).map(|_| choices.u16()).collect(),
    }
}

fn address(choices: &mut Choices<'_>) -> IpAddr {
    if choices.flag() {
        IpAddr::from(choices.u32().to_be_bytes())
    } else {
        let half = choices.u64();
        IpAddr::from((u128::from(half) << 64 | u128::from(half)).to_be_bytes())
    }
}
