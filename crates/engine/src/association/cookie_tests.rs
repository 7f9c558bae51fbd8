//! Cookies come back as they were made, or not at all.

use super::{Announcement, Cookie, CookieKeys, KEY_LIFE, KeyOffer, Offer, TieTags, seen_source};
use crate::path::PathAddr;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use manypath_wire::{Tsn, VerificationTag};

fn cookie() -> Cookie {
    let peer = Announcement {
        tag: VerificationTag(7),
        a_rwnd: 100_000,
        outbound_streams: 3,
        inbound_streams: 4,
        initial_tsn: Tsn(99),
        adaptation: Some(0),
        extensions: std::vec![0x10, 0x82],
        ecn: true,
        addresses: std::vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        auth: Some(Offer { random: [7; 32], chunks: None, hmac_ids: std::vec![3, 1, 9] }),
        keys: None,
    };
    let chunks = Some(std::vec![0, 0xC1]);
    Cookie {
        created: Instant::from_nanos(12_345),
        life: Duration::from_secs(60),
        local_port: 1,
        peer_port: 2,
        local_tag: VerificationTag(3),
        local_tsn: Tsn(4),
        auth: Some(Offer { random: [8; 32], chunks, hmac_ids: std::vec![1] }),
        keys: None,
        tie: TieTags { local: 5, peer: 6 },
        peer,
        path: PathAddr {
            local: "10.0.0.2:9899".parse().unwrap(),
            remote: "[fd00::2]:40000".parse().unwrap(),
        },
        listed: None,
        encrypted: true,
    }
}

#[test]
fn a_cookie_tells_its_receiver_where_it_was_seen() {
    let (mut keys, mut rng) = keys();
    let sealed = keys.seal(Instant::ZERO, &cookie(), &mut rng);
    let seen = |bytes, tag| seen_source(bytes, VerificationTag(tag));
    assert_eq!(seen(&sealed, 3), Some(cookie().path.remote));
    assert_eq!(seen(&sealed, 7), None, "another INIT ACK's");
    let short = keys.seal(Instant::ZERO, &Cookie { listed: Some(3), ..cookie() }, &mut rng);
    assert_eq!(seen(&short, 3), Some(cookie().path.remote));
    assert_eq!(seen(&short, 7), None, "another INIT ACK's");
    assert_eq!(seen(&sealed[..90], 3), None);
    assert_eq!(seen(&[0xA5; 300], 3), None, "another implementation's");
}

fn keys() -> (CookieKeys, Rng) {
    let mut rng = Rng::new([1; 32]);
    (CookieKeys::new(&mut rng), rng)
}

#[test]
fn a_cookie_comes_back_as_it_was_made() {
    let (mut keys, mut rng) = keys();
    let sealed = keys.seal(Instant::ZERO, &cookie(), &mut rng);
    assert_eq!(keys.open(Instant::ZERO, &sealed, &mut rng), Some(cookie()));
    let readable = Cookie { encrypted: false, ..cookie() };
    let as_long = keys.seal(Instant::ZERO, &readable, &mut rng);
    assert_eq!(as_long.len(), sealed.len());
    assert_eq!(keys.open(Instant::ZERO, &as_long, &mut rng), Some(readable));
    let mut plain = Cookie { auth: None, ..cookie() };
    plain.peer.auth = None;
    let shorter = keys.seal(Instant::ZERO, &plain, &mut rng);
    assert_eq!(keys.open(Instant::ZERO, &shorter, &mut rng), Some(plain));
    assert_eq!(sealed.len() - shorter.len(), 2 * (1 + 32 + 2 + 1) + 2 + 4 * 2);
    let short = Cookie { listed: Some(3), ..cookie() };
    let sealed = keys.seal(Instant::ZERO, &short, &mut rng);
    assert_eq!(keys.open(Instant::ZERO, &sealed, &mut rng), Some(short));
    let on_link = |text: &str| text.parse().unwrap();
    let (local, remote) = (on_link("[fe80::1%7]:9899"), on_link("[fe80::2%7]:1"));
    let on_link = Cookie { path: PathAddr { local, remote }, ..cookie() };
    let sealed = keys.seal(Instant::ZERO, &on_link, &mut rng);
    assert_eq!(keys.open(Instant::ZERO, &sealed, &mut rng), Some(on_link));
    let (methods, zero_checksum) = (std::vec![1, 0], true);
    let own = KeyOffer { tie_breaker: 9, flags: 3, methods, zero_checksum, ticket: None };
    let peer = KeyOffer { tie_breaker: 8, flags: 0xF1, zero_checksum: false, ..own.clone() };
    let mut protected = Cookie { keys: Some(own), ..cookie() };
    protected.peer.keys = Some(peer);
    for listed in [None, Some(1)] {
        let protected = Cookie { listed, ..protected.clone() };
        let sealed = keys.seal(Instant::ZERO, &protected, &mut rng);
        assert_eq!(keys.open(Instant::ZERO, &sealed, &mut rng), Some(protected));
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_noticed() {
    let (mut keys, mut rng) = keys();
    for listed in [None, Some(2)] {
        let sealed = keys.seal(Instant::ZERO, &Cookie { listed, ..cookie() }, &mut rng);
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(keys.open(Instant::ZERO, &forged, &mut rng).is_none(), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(keys.open(Instant::ZERO, &sealed[..len], &mut rng).is_none(), "{len} bytes");
        }
    }
}

#[test]
fn a_key_is_good_for_one_more_epoch_and_not_for_two() {
    let (mut keys, mut rng) = keys();
    let sealed = keys.seal(Instant::ZERO, &cookie(), &mut rng);
    let later = Instant::ZERO + KEY_LIFE;
    assert!(keys.open(later, &sealed, &mut rng).is_some());
    assert!(keys.open(later + KEY_LIFE, &sealed, &mut rng).is_none());
}

#[test]
fn a_cookie_is_small() {
    let (mut keys, mut rng) = keys();
    let mut cookie = Cookie { auth: None, ..cookie() };
    cookie.peer.auth = None;
    cookie.peer.addresses.clear();
    assert!(keys.seal(Instant::ZERO, &cookie, &mut rng).len() < 140);
    // For the INIT without parameters: see `Endpoint::acknowledge`.
    let path = PathAddr { remote: "10.0.0.1:9899".parse().unwrap(), ..cookie.path };
    let mut short = Cookie { path, listed: Some(0), ..cookie.clone() };
    short.peer.extensions.clear();
    assert_eq!(keys.seal(Instant::ZERO, &short, &mut rng).len(), 94);
    // As much as is ever kept of an INIT.
    cookie.peer.addresses = std::vec!["fd00::1".parse().unwrap(); super::MAX_ADDRESSES];
    cookie.peer.extensions = std::vec![1; super::MAX_EXTENSIONS];
    assert!(keys.seal(Instant::ZERO, &cookie, &mut rng).len() < 440);
}

#[test]
fn another_endpoint_does_not_accept_the_cookie() {
    let (mut keys, mut rng) = keys();
    let sealed = keys.seal(Instant::ZERO, &cookie(), &mut rng);
    let mut other = CookieKeys::new(&mut rng);
    assert!(other.open(Instant::ZERO, &sealed, &mut rng).is_none());
}
