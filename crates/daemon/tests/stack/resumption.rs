//! Further associations with a peer that is known.

use crate::common::{
    Host, LIMIT, Launcher, Network, VirtualHost, counter, echo, exchange, service,
};
use crate::encryption::{Folder, client, encryption, errno, key_of, server, wait_for_the_end};
use manypath_control::{Reply, Request};
use manypath_daemon::{KeyFiles, StackConfig};
use manypath_rules::Encrypt::{self, Opportunistic, Require};
use manypath_trust::{IdentitySource, load_or_create_identity};
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// A client whose associations end with their connections.
fn fleeting(network: Network, encrypt: Encrypt, keys: KeyFiles) -> StackConfig {
    let mut config = StackConfig { keys: Some(keys), ..client(network, encrypt) };
    config.limits.idle_timeout = Duration::ZERO;
    config
}

/// Makes a connection; whether the association with it was resumed.
fn connect(launcher: &mut Launcher, destination: SocketAddr) -> bool {
    let stream = launcher.connect_sctp(destination);
    let resumed = encryption(&launcher.status()).unwrap().resumed;
    assert_eq!(exchange(stream, vec![3; 30]), vec![3; 30]);
    // The ticket comes after the first data.
    let has_rekeyed = |launcher: &Launcher| {
        let status = launcher.status();
        !resumed || encryption(&status).is_none_or(|it| it.epoch == 4)
    };
    let begun = Instant::now();
    while !has_rekeyed(launcher) {
        assert!(begun.elapsed() < LIMIT, "{:?}", launcher.status());
    }
    wait_for_the_end(launcher);
    resumed
}

fn reload(launcher: &Launcher) {
    launcher.send(&Request::Reload);
    assert!(matches!(launcher.receive(), Reply::Reloaded { .. }));
}

#[test]
fn a_second_association_resumes_and_so_does_each_further_one() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let (_server, theirs) = Host::with_launcher(StackConfig { keys: Some(theirs), ..config });
    let (_client, mut launcher) = Host::with_launcher(fleeting(network, Require, ours));
    for round in 0..4 {
        assert_eq!(connect(&mut launcher, destination), round > 0, "round {round}");
    }
    assert_eq!(counter(&launcher.status(), "stack_associations_resumed"), 3);
    assert_eq!(counter(&launcher.status(), "stack_associations_encrypted"), 4);
    assert_eq!(counter(&theirs.status(), "sctp_resumptions"), 3);
    assert_eq!(counter(&theirs.status(), "stack_associations_resumed"), 3);
}

#[test]
fn a_server_that_has_restarted_costs_the_usual_handshake() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let start = || {
        let config = server(network, Require, &[destination]);
        Host::start(StackConfig { keys: Some(theirs.clone()), ..config })
    };
    let first = start();
    let (_client, mut launcher) = Host::with_launcher(fleeting(network, Require, ours));
    assert!(!connect(&mut launcher, destination));
    assert!(connect(&mut launcher, destination));
    drop(first);
    let _second = start();
    assert!(!connect(&mut launcher, destination), "the ticket is of no use");
    assert!(connect(&mut launcher, destination), "the next one is");
}

#[test]
fn a_ticket_does_not_outlive_the_trust_of_either_end() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let list = folder.path("authorized");
    fs::write(&list, format!("{} test\n", key_of(&ours))).unwrap();
    let keys = KeyFiles { authorized_peers: Some(list.clone()), ..theirs.clone() };
    let config = server(network, Require, &[destination]);
    let (_server, theirs_too) = Host::with_launcher(StackConfig { keys: Some(keys), ..config });
    let config = fleeting(network, Require, ours.clone());
    let (_client, mut launcher) = Host::with_launcher(config);
    assert!(!connect(&mut launcher, destination));
    assert!(connect(&mut launcher, destination));
    // The server does not take the client's key any more: an association that still ends there would be refused too.
    wait_for_the_end(&theirs_too);
    fs::write(&list, "").unwrap();
    reload(&theirs_too);
    let _refused = errno(&mut launcher, destination);
    assert_eq!(counter(&theirs_too.status(), "sctp_resumptions"), 2, "and refused then");
    assert_eq!(counter(&theirs_too.status(), "stack_peers_not_authorized"), 1);
    fs::write(&list, format!("{} test\n", key_of(&ours))).unwrap();
    reload(&theirs_too);
    assert!(!connect(&mut launcher, destination), "the ticket is used up");
    // The client does not take the server's.
    ours.known_peers.change(|known| known.revoke(key_of(&theirs))).unwrap();
    reload(&launcher);
    let _refused = errno(&mut launcher, destination);
    assert_eq!(counter(&theirs_too.status(), "sctp_resumptions"), 2, "it was not even asked");
}

#[test]
fn a_ticket_that_nobody_has_answered_is_not_offered_again() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let start = || {
        let config = server(network, Require, &[destination]);
        Host::with_launcher(StackConfig { keys: Some(theirs.clone()), ..config })
    };
    let first = start();
    let (_client, mut launcher) = Host::with_launcher(fleeting(network, Require, ours));
    assert!(!connect(&mut launcher, destination));
    drop(first);
    let _nobody_there = errno(&mut launcher, destination);
    wait_for_the_end(&launcher);
    launcher.send(&Request::ForgetPeers { addr: None, port: None });
    assert!(matches!(launcher.receive(), Reply::Forgotten { .. }));
    let (_second, theirs) = start();
    assert!(!connect(&mut launcher, destination));
    assert_eq!(counter(&theirs.status(), "sctp_unknown_tickets"), 0, "it was not even asked");
}

#[test]
fn a_server_whose_key_was_forgotten_shows_it_anew() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let _server = Host::start(StackConfig { keys: Some(theirs), ..config });
    let (_client, mut launcher) = Host::with_launcher(fleeting(network, Require, ours.clone()));
    assert!(!connect(&mut launcher, destination));
    assert!(connect(&mut launcher, destination));
    // Another thread writes the file.
    let (forget, begun) =
        (|| ours.known_peers.change(|known| known.forget(destination.ip())), Instant::now());
    while forget().unwrap() == 0 {
        assert!(begun.elapsed() < LIMIT, "it was never known");
    }
    reload(&launcher);
    assert!(!connect(&mut launcher, destination), "not by a ticket");
    assert!(connect(&mut launcher, destination), "known again");
}

/// The lines of the file with tickets, if it is there.
fn kept(folder: &Folder) -> Vec<String> {
    let text = fs::read_to_string(folder.path("tickets")).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn tickets(launcher: &Launcher) -> usize {
    launcher.status().identity.unwrap().tickets
}

#[test]
fn a_stack_that_has_restarted_resumes_by_the_ticket_that_the_last_one_has_left() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let (_server, theirs) = Host::with_launcher(StackConfig { keys: Some(theirs), ..config });
    for round in 0..3 {
        let config = fleeting(network, Require, ours.clone());
        let (client, mut launcher) = Host::with_launcher(config);
        assert_eq!(kept(&folder), [""; 0], "whoever uses tickets takes them out first");
        assert_eq!(tickets(&launcher), usize::from(round > 0));
        assert_eq!(counter(&launcher.status(), "stack_tickets_recalled"), u64::from(round > 0));
        assert_eq!(connect(&mut launcher, destination), round > 0, "round {round}");
        assert_eq!(tickets(&launcher), 1, "the next one");
        drop((launcher, client));
        assert_eq!(kept(&folder).len(), 1);
        let mode = fs::metadata(folder.path("tickets")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(counter(&theirs.status(), "sctp_resumptions"), 2);
    assert_eq!(counter(&theirs.status(), "sctp_unknown_tickets"), 0);
}

#[test]
fn a_ticket_that_has_expired_is_not_counted() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let _server = Host::start(StackConfig { keys: Some(theirs), ..config });
    let config = || fleeting(network, Require, ours.clone());
    let (client, mut launcher) = Host::with_launcher(config());
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    let mut client = VirtualHost::new(config());
    let hour = 3_600_000;
    for (at, tickets) in [(0, 1), (23 * hour, 1), (25 * hour, 0)] {
        assert_eq!(client.status_at(at).identity.unwrap().tickets, tickets, "at {at}");
    }
}

#[test]
fn a_damaged_file_of_tickets_costs_nothing_but_resumption_and_is_counted() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let _server = Host::start(StackConfig { keys: Some(theirs), ..config });
    let start = || Host::with_launcher(fleeting(network, Require, ours.clone()));
    let (client, mut launcher) = start();
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    // Its last byte is another one, and beside it stands what is no text.
    let mut bytes = fs::read(folder.path("tickets")).unwrap();
    let last = bytes.len() - 4;
    bytes[last] = if bytes[last] == b'A' { b'B' } else { b'A' };
    bytes.extend([0xFF, 0, b'\n']);
    fs::write(folder.path("tickets"), bytes).unwrap();
    let (client, mut launcher) = start();
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_tickets_damaged"), 2);
    assert_eq!(counter(&status, "stack_tickets_recalled"), 0);
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    assert_eq!(kept(&folder).len(), 1, "a good one again");
    // Others may read it: it is neither used nor written.
    let before = fs::read(folder.path("tickets")).unwrap();
    fs::set_permissions(folder.path("tickets"), Permissions::from_mode(0o644)).unwrap();
    let (client, mut launcher) = start();
    assert_eq!(counter(&launcher.status(), "stack_ticket_file_failures"), 1);
    assert_eq!(tickets(&launcher), 0);
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    assert_eq!(fs::read(folder.path("tickets")).unwrap(), before);
}

#[test]
fn who_has_the_file_of_tickets_and_not_the_key_has_nothing() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let thief = folder.files("thief");
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let (_server, theirs) = Host::with_launcher(StackConfig { keys: Some(theirs), ..config });
    let (client, mut launcher) = Host::with_launcher(fleeting(network, Require, ours));
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    let before = kept(&folder);
    // In the same folder, with another identity.
    let (client, mut launcher) = Host::with_launcher(fleeting(network, Require, thief));
    assert_eq!((tickets(&launcher), kept(&folder)), (0, before));
    assert!(!connect(&mut launcher, destination));
    drop((launcher, client));
    assert_eq!(kept(&folder).len(), 2, "its own beside the other one");
    assert_eq!(counter(&theirs.status(), "sctp_resumptions"), 0);
}

#[test]
fn a_stack_whose_key_is_kept_in_no_file_leaves_no_tickets() {
    let network = Network::new();
    let folder = Folder::new(network);
    let theirs = folder.files("server");
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let _server = Host::start(StackConfig { keys: Some(theirs), ..config });
    let mut config = client(network, Require);
    config.limits.idle_timeout = Duration::ZERO;
    let (client, mut launcher) = Host::with_launcher(config);
    assert!(!connect(&mut launcher, destination));
    assert!(connect(&mut launcher, destination));
    drop((launcher, client));
    assert!(!folder.path("tickets").exists());
}

/// A stack that could not use its files makes a key for itself, and loads its own as soon as it can.
#[test]
fn tickets_of_a_key_that_was_replaced_cost_the_usual_handshake_and_are_counted() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (mut ours, theirs) = (folder.files("client"), folder.files("server"));
    ours.identity = IdentitySource::File(folder.path("later"));
    let destination = service(network.server()[0], echo);
    let config = server(network, Opportunistic, &[destination]);
    let (_server, theirs) = Host::with_launcher(StackConfig { keys: Some(theirs), ..config });
    let config = fleeting(network, Opportunistic, ours.clone());
    let (_client, mut launcher) = Host::with_launcher(config);
    assert!(!connect(&mut launcher, destination));
    assert!(connect(&mut launcher, destination));
    load_or_create_identity(&ours.identity.path()).unwrap();
    reload(&launcher);
    assert_eq!(counter(&launcher.status(), "stack_tickets_of_former_key"), 1);
    assert!(!connect(&mut launcher, destination), "a ticket of another key");
    assert!(connect(&mut launcher, destination));
    let status = launcher.status();
    assert!(status.fallbacks.is_empty(), "{:?}", status.fallbacks);
    assert_eq!(counter(&status, "stack_associations_encrypted"), 4);
    assert_eq!(counter(&theirs.status(), "sctp_resumptions"), 2);
}
