//! Rules that know peers by their keys, their names and where they come from.

use super::encryption::{Folder, key_of};
use crate::common::{
    Host, LIMIT, Launcher, Network, Table, counter, echo, exchange, pattern, service,
};
use manypath_control::status::{AssociationStatus, FallbackReason};
use manypath_control::{Reply, Request};
use manypath_daemon::{KeyFiles, Locals, StackConfig};
use manypath_rules::Encrypt::{self, Off, Opportunistic, Require};
use manypath_trust::Fingerprint;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

/// A server with these rules that takes alice and bob, and stacks of theirs.
struct Site {
    network: Network,
    folder: Folder,
    alice: KeyFiles,
    bob: KeyFiles,
}

impl Site {
    fn new() -> Self {
        let network = Network::new();
        let folder = Folder::new(network);
        let (alice, bob) = (folder.files("alice"), folder.files("bob"));
        Self { network, folder, alice, bob }
    }

    /// Both are authorized; nobody else is if there is a list.
    fn serve(&self, rules: &Table, encrypt: Encrypt, has_list: bool) -> (Host, Launcher) {
        let mut files = self.folder.files("server");
        if has_list {
            let list = self.folder.path("authorized");
            let (alice, bob) = (key_of(&self.alice), key_of(&self.bob));
            fs::write(&list, format!("{alice} alice's notebook\n{bob} bob\n")).unwrap();
            files.authorized_peers = Some(list);
        }
        let config = self.network.server_config(&[]);
        let budgets = Some(self.folder.path("budgets"));
        let config = StackConfig { rules: rules.file(), encrypt, keys: Some(files), ..config };
        Host::with_launcher(StackConfig { budgets, ..config })
    }

    /// A client with these keys, at the `index`th address of the network.
    fn client(&self, keys: &KeyFiles, index: usize, encrypt: Encrypt) -> (Host, Launcher) {
        let locals = Locals::List(vec![self.network.client()[index]]);
        let keys = Some(keys.clone());
        let config = self.network.client_config();
        Host::with_launcher(StackConfig { locals, encrypt, keys, ..config })
    }
}

fn fingerprint(files: &KeyFiles) -> String {
    Fingerprint::of(&key_of(files)).to_string()
}

/// A rule that opens a service, for peers and with options as said.
fn rule_for(service: SocketAddr, said: &str) -> String {
    format!("local enable host {} port {} {said}\n", service.ip(), service.port())
}

fn works(launcher: &mut Launcher, destination: SocketAddr) {
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
}

#[test]
fn a_service_is_open_to_the_peer_that_a_rule_names_by_key_or_by_name() {
    let site = Site::new();
    let [by_key, by_name, to_all] = [(); 3].map(|()| service(site.network.server()[0], echo));
    let key = fingerprint(&site.alice);
    let rules = [
        rule_for(by_key, &format!("key={key}")),
        rule_for(by_name, "peer=alice's-notebook"),
        rule_for(to_all, ""),
    ];
    let rules = Table::new(site.network, &rules.concat());
    let (_server, theirs) = site.serve(&rules, Opportunistic, true);
    let (_alice, mut alice) = site.client(&site.alice, 0, Opportunistic);
    let (_bob, mut bob) = site.client(&site.bob, 1, Opportunistic);
    for destination in [by_key, by_name, to_all] {
        works(&mut alice, destination);
    }
    for destination in [by_key, by_name] {
        assert_eq!(bob.direct(destination).0, FallbackReason::NotAllowed);
    }
    works(&mut bob, to_all);
    let status = theirs.status();
    assert_eq!(counter(&status, "stack_dial_denied_not_listed"), 2);
    let names = status.associations.iter().map(|one| one.encryption.as_ref()?.name.clone());
    let mut names: Vec<_> = names.flatten().collect();
    names.sort();
    assert_eq!(names, ["alice's notebook", "bob"]);
}

/// A rule that names a key is enough for the server to offer encryption; a peer without is nobody.
#[test]
fn a_peer_that_shows_no_key_matches_no_rule_that_names_one() {
    let site = Site::new();
    let destination = service(site.network.server()[0], echo);
    let key = fingerprint(&site.alice);
    let rules = rule_for(destination, &format!("key={key}"));
    let rules = Table::new(site.network, &rules);
    let (_server, theirs) = site.serve(&rules, Off, false);
    let (_plain, mut plain) = site.client(&site.alice, 0, Off);
    assert_eq!(plain.direct(destination).0, FallbackReason::NotAllowed);
    let (_alice, mut alice) = site.client(&site.alice, 1, Opportunistic);
    works(&mut alice, destination);
    assert_eq!(counter(&theirs.status(), "stack_associations_encrypted"), 1);
}

#[test]
fn a_peer_can_be_kept_from_what_is_open_to_all() {
    let site = Site::new();
    let [one, other] = [(); 2].map(|()| service(site.network.server()[0], echo));
    let closed = format!("local disable port {} peer=bob\n", one.port());
    let rules = [rule_for(one, ""), rule_for(other, ""), closed];
    let rules = Table::new(site.network, &rules.concat());
    let (_server, _theirs) = site.serve(&rules, Require, true);
    let (_alice, mut alice) = site.client(&site.alice, 0, Require);
    let (_bob, mut bob) = site.client(&site.bob, 1, Opportunistic);
    works(&mut alice, one);
    assert_eq!(bob.direct(one).0, FallbackReason::NotAllowed);
    works(&mut bob, other);
}

#[test]
fn a_service_may_be_open_to_encrypted_associations_only_and_to_some_addresses() {
    let site = Site::new();
    let [sealed, near] = [(); 2].map(|()| service(site.network.server()[0], echo));
    let from = format!("from={}", site.network.client()[0]);
    let rules = [rule_for(sealed, "encrypt=require"), rule_for(near, &from)];
    let rules = Table::new(site.network, &rules.concat());
    let (_server, theirs) = site.serve(&rules, Opportunistic, false);
    let (_plain, mut plain) = site.client(&site.alice, 0, Off);
    assert_eq!(plain.direct(sealed).0, FallbackReason::NotAllowed);
    assert_eq!(counter(&theirs.status(), "stack_dial_denied_not_encrypted"), 1);
    works(&mut plain, near);
    let (_bob, mut bob) = site.client(&site.bob, 1, Opportunistic);
    works(&mut bob, sealed);
    assert_eq!(bob.direct(near).0, FallbackReason::NotAllowed);
}

#[test]
fn a_peer_has_as_many_connections_as_its_rule_says_whatever_others_have() {
    let site = Site::new();
    let destination = service(site.network.server()[0], echo);
    let rules = rule_for(destination, "connections=2");
    let rules = Table::new(site.network, &rules);
    let (_server, theirs) = site.serve(&rules, Opportunistic, true);
    let (_alice, mut alice) = site.client(&site.alice, 0, Opportunistic);
    let (_bob, mut bob) = site.client(&site.bob, 1, Opportunistic);
    let held = [(); 2].map(|()| alice.connect_sctp(destination));
    assert_eq!(alice.direct(destination).0, FallbackReason::Busy);
    assert_eq!(counter(&theirs.status(), "stack_dial_denied_too_many_of_peer"), 1);
    works(&mut bob, destination);
    // The same peer has no more by another association.
    let (_again, mut again) = site.client(&site.alice, 1, Require);
    let _refused = again.open(destination, true);
    theirs
        .wait_for("a refusal", |status| counter(status, "stack_dial_denied_too_many_of_peer") == 2);
    drop(held);
    theirs
        .wait_for("their end", |status| status.associations.iter().all(|one| one.flows.is_empty()));
    works(&mut alice, destination);
}

#[test]
fn connections_of_a_peer_share_the_rate_of_their_rule() {
    let site = Site::new();
    let destination = service(site.network.server()[0], echo);
    let rules = rule_for(destination, "rate=8mbit");
    let rules = Table::new(site.network, &rules);
    let (_server, _theirs) = site.serve(&rules, Opportunistic, false);
    let (_client, mut client) = site.client(&site.alice, 0, Opportunistic);
    let streams = [(); 2].map(|()| client.connect_sctp(destination));
    let begun = Instant::now();
    let exchanges = streams.map(|mut stream| {
        std::thread::spawn(move || {
            let sent = pattern(500_000, 7);
            let mut writer = stream.try_clone().unwrap();
            let bytes = sent.clone();
            std::thread::spawn(move || {
                writer.write_all(&bytes).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received == sent
        })
    });
    assert!(exchanges.into_iter().all(|exchange| exchange.join().unwrap()));
    // Two million bytes, both directions counted, at a million per second; what the bucket held at first is less.
    let taken = begun.elapsed();
    assert!(taken.as_millis() > 1_500 && taken < LIMIT, "{taken:?}");
}

#[test]
fn a_peer_that_has_used_up_its_quota_gets_no_new_connection_until_the_day_is_over() {
    let site = Site::new();
    let destination = service(site.network.server()[0], echo);
    let rules = rule_for(destination, "peer=alice's-notebook quota=1MB/day")
        + "\n"
        + &rule_for(destination, "peer=bob quota=1MB/day");
    let rules = Table::new(site.network, &rules);
    let (server, theirs) = site.serve(&rules, Opportunistic, true);
    let (alice, mut launcher) = site.client(&site.alice, 0, Opportunistic);
    let sent = pattern(600_000, 3);
    let mut open = launcher.connect_sctp(destination);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    let status = theirs.wait_for("all that was moved", |status| {
        status.quotas.iter().any(|quota| quota.used_bytes >= 1_200_000)
    });
    let [quota] = &status.quotas[..] else { panic!("one peer: {:?}", status.quotas) };
    assert_eq!(quota.key, fingerprint(&site.alice));
    assert_eq!(quota.name.as_deref(), Some("alice's notebook"));
    assert_eq!((quota.limit_bytes, &*quota.period, quota.used_up), (1_000_000, "day", true));
    // What is open goes on; what is new is refused.
    assert!(exchange(open, sent.clone()) == sent);
    assert_eq!(launcher.direct(destination).0, FallbackReason::OverQuota);
    let status = theirs.wait_for("a warning", |it| counter(it, "stack_quota_warnings") > 0);
    assert_eq!(counter(&status, "stack_dial_denied_over_quota"), 1);
    // Bob has a quota of his own.
    let (bob, mut launcher) = site.client(&site.bob, 1, Opportunistic);
    assert!(exchange(launcher.connect_sctp(destination), vec![7; 100]) == vec![7; 100]);
    drop((alice, bob, launcher));
    // The sums outlast the server.
    let (file, begun) = (site.folder.path("quotas"), Instant::now());
    let key = fingerprint(&site.alice);
    while !fs::read_to_string(&file).is_ok_and(|text| text.contains(&key)) {
        assert!(begun.elapsed() < LIMIT, "nothing is kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop((server, theirs));
    let (_server, _theirs) = site.serve(&rules, Opportunistic, true);
    let (_alice, mut launcher) = site.client(&site.alice, 0, Opportunistic);
    assert_eq!(launcher.direct(destination).0, FallbackReason::OverQuota);
}

/// Profile, congestion control, and what it lacks, of the association with the peer of this name.
fn sending(launcher: &Launcher, name: &str) -> (Option<String>, String, Option<String>) {
    let status = launcher.status();
    let named = |one: &&AssociationStatus| {
        one.encryption.as_ref().is_some_and(|it| it.name.as_deref() == Some(name))
    };
    let one = status.associations.iter().find(named).expect("its association");
    (one.profile.clone(), one.congestion.clone(), one.profile_lacks.clone())
}

#[test]
fn two_peers_get_the_congestion_control_that_rules_give_their_keys() {
    let site = Site::new();
    let [first, second] = [(); 2].map(|()| service(site.network.server()[0], echo));
    let key = fingerprint(&site.alice);
    let dynamic = rule_for(first, &format!("key={key} profile=dynamic"));
    let rules = Table::new(site.network, &[&dynamic[..], &rule_for(second, "")].concat());
    let (_server, theirs) = site.serve(&rules, Opportunistic, true);
    let (_alice, mut alice) = site.client(&site.alice, 0, Opportunistic);
    let (_bob, mut bob) = site.client(&site.bob, 1, Opportunistic);
    let usual = (None, "bbr".to_owned(), None);
    let by_key = (Some("dynamic".to_owned()), "cubic".to_owned(), Some("NR-SACK".to_owned()));
    for launcher in [&mut alice, &mut bob] {
        let sent = pattern(2_000_000, 7);
        assert!(exchange(launcher.connect_sctp(second), sent.clone()) == sent);
    }
    assert_eq!(sending(&theirs, "alice's notebook"), by_key, "whatever it connects to");
    assert_eq!(sending(&theirs, "bob"), usual);
    assert_eq!(counter(&theirs.status(), "stack_profiles_by_key"), 1);
    // Associations that exist follow, also with a connection on them.
    let mut stream = bob.connect_sctp(second);
    stream.write_all(&pattern(100_000, 3)).unwrap();
    rules
        .write(&[&rule_for(first, "peer=bob profile=dynamic")[..], &rule_for(second, "")].concat());
    theirs.send(&Request::Reload);
    assert!(matches!(theirs.receive(), Reply::Reloaded { .. }));
    assert_eq!(sending(&theirs, "alice's notebook"), usual);
    assert_eq!(sending(&theirs, "bob"), by_key);
    stream.write_all(&pattern(500_000, 5)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == [pattern(100_000, 3), pattern(500_000, 5)].concat());
    assert_eq!(sending(&theirs, "bob"), by_key);
}
