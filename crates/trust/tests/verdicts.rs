//! What is believed of a peer.

use crate::common::{addr, key};
use manypath_trust::{KnownPeers, Source, SshHosts, TrustStore, Verdict};

const HOST: &str = "192.0.2.7";

fn store(known: &KnownPeers) -> TrustStore {
    TrustStore { known: known.clone(), ..TrustStore::default() }
}

#[test]
fn the_first_key_is_remembered_and_another_one_is_noticed() {
    let mut peers = KnownPeers::default();
    assert_eq!(peers.verdict(addr(HOST), &key(1)), Verdict::New);
    assert!(!peers.is_known(addr(HOST)));
    assert!(peers.remember(addr(HOST), key(1)));
    assert!(peers.is_known(addr(HOST)));
    let known = Verdict::Known(Source::KnownPeers);
    assert_eq!(peers.verdict(addr("::ffff:192.0.2.7"), &key(1)), known);
    let changed = Verdict::Changed { known: key(1) };
    assert_eq!(peers.verdict(addr(HOST), &key(2)), changed);
    assert!(!peers.remember(addr(HOST), key(2)), "a key is never exchanged in passing");
    assert_eq!(peers.verdict(addr(HOST), &key(2)), changed);
    assert_eq!(peers.forget(addr(HOST)), 1);
    assert_eq!(peers.verdict(addr(HOST), &key(2)), Verdict::New);
    peers.trust(addr(HOST), key(2));
    peers.trust(addr(HOST), key(3));
    assert_eq!(peers.verdict(addr(HOST), &key(2)), Verdict::Changed { known: key(3) });
}

#[test]
fn each_key_of_an_address_counts() {
    let peers = KnownPeers::parse(&format!("{HOST} {}\n{HOST} {}", key(1), key(2)));
    for number in [1, 2] {
        let known = Verdict::Known(Source::KnownPeers);
        assert_eq!(peers.verdict(addr(HOST), &key(number)), known);
    }
    assert_eq!(peers.verdict(addr(HOST), &key(3)), Verdict::Changed { known: key(1) });
}

#[test]
fn a_revoked_key_is_believed_nowhere_and_its_address_stays_known() {
    let mut peers = KnownPeers::default();
    assert!(peers.remember(addr(HOST), key(1)));
    peers.revoke(key(1));
    assert_eq!(peers.verdict(addr(HOST), &key(1)), Verdict::Revoked);
    assert_eq!(peers.verdict(addr("192.0.2.8"), &key(1)), Verdict::Revoked);
    assert!(!peers.remember(addr("192.0.2.8"), key(1)));
    assert_eq!(peers.verdict(addr(HOST), &key(2)), Verdict::Changed { known: key(1) });
    assert!(peers.is_known(addr(HOST)), "it may not do without authentication");
    assert_eq!(peers.forget_key(&key(1)), 2);
    assert_eq!(peers.verdict(addr(HOST), &key(1)), Verdict::New);
}

#[test]
fn hosts_that_ssh_knows_are_known() {
    let public = include_str!("ssh/ed25519.pub");
    let host = public.split(' ').nth(1).unwrap().parse().unwrap();
    let ssh = SshHosts::parse(&format!("{HOST} {public}"));
    let mut trust = TrustStore { ssh, ..TrustStore::default() };
    let by_ssh = Verdict::Known(Source::Ssh);
    assert_eq!(trust.verdict(addr(HOST), &host), by_ssh);
    assert_eq!(trust.verdict(addr(HOST), &key(2)), Verdict::New);
    assert!(!trust.is_known(addr(HOST)), "a host with SSH need not have manypath");
    // The host goes over from a key of its own to that of SSH.
    trust.known.trust(addr(HOST), key(1));
    assert_eq!(trust.verdict(addr(HOST), &host), by_ssh);
    trust.known.revoke(host);
    assert_eq!(trust.verdict(addr(HOST), &host), Verdict::Revoked);
    trust.ssh = SshHosts::parse(&format!("@revoked * {public}"));
    trust.known = KnownPeers::parse(&format!("{HOST} {host}"));
    assert_eq!(trust.verdict(addr(HOST), &host), Verdict::Revoked);
}

#[test]
fn with_a_secret_only_who_has_it_is_believed() {
    let mut known = KnownPeers::default();
    known.trust(addr(HOST), key(1));
    let mut trust = TrustStore { only: Some(key(9)), ..store(&known) };
    assert_eq!(trust.verdict(addr(HOST), &key(9)), Verdict::Known(Source::Secret));
    assert_eq!(trust.verdict(addr(HOST), &key(1)), Verdict::Changed { known: key(9) });
    assert_eq!(trust.verdict(addr("192.0.2.8"), &key(1)), Verdict::Changed { known: key(9) });
    assert!(trust.is_known(addr("192.0.2.8")));
    trust.known.revoke(key(9));
    assert_eq!(trust.verdict(addr(HOST), &key(9)), Verdict::Revoked);
}
