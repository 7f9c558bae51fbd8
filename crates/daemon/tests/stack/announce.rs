//! To which peers the addresses of a host are announced (docs/key-management.md).

use crate::common::{Host, Launcher, Network, Table, counter, echo, exchange, pattern, service};
use crate::encryption::{Folder, client, encryption, key_of, server, wait_for_the_end};
use manypath_control::status::{StackStatus, Withheld};
use manypath_daemon::{KeyFiles, StackConfig};
use manypath_engine::Announce;
use manypath_rules::Encrypt::{Off, Opportunistic};
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

fn with_keys(mut config: StackConfig, keys: &KeyFiles) -> StackConfig {
    config.carrying.announce = Announce::Authenticated;
    StackConfig { keys: Some(keys.clone()), ..config }
}

fn withheld(status: &StackStatus) -> Option<Withheld> {
    status.associations.first()?.withheld_addresses
}

/// The addresses of this host from which its paths work.
fn working(status: &StackStatus) -> BTreeSet<IpAddr> {
    let paths = status.associations.iter().flat_map(|one| &one.paths);
    paths.filter(|path| path.state == "active").map(|path| path.local.ip()).collect()
}

fn has_used(status: &StackStatus, local: IpAddr) -> bool {
    let mut paths = status.associations.iter().flat_map(|one| &one.paths);
    paths.any(|path| path.local.ip() == local && path.bytes_sent > 10_000)
}

fn carry(launcher: &mut Launcher, destination: std::net::SocketAddr) -> StackStatus {
    let sent = pattern(4 << 20, 7);
    let stream = launcher.connect_sctp(destination);
    assert!(exchange(stream, sent.clone()) == sent);
    launcher.status()
}

#[test]
fn a_first_contact_has_one_path_and_a_known_peer_all() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, mut theirs) = (folder.files("client"), folder.files("server"));
    let list = folder.path("authorized");
    fs::write(&list, format!("{} test\n", key_of(&ours))).unwrap();
    theirs.authorized_peers = Some(list);
    let destination = service(network.server()[0], echo);
    let serving = with_keys(server(network, Opportunistic, &[destination]), &theirs);
    let (_server, of_server) = Host::with_launcher(serving);
    let [first, second] = network.client();

    let (new, mut launcher) = Host::with_launcher(with_keys(client(network, Opportunistic), &ours));
    let status = carry(&mut launcher, destination);
    assert_eq!(encryption(&status).unwrap().standing.as_deref(), Some("new"));
    assert_eq!((withheld(&status), working(&status)), (Some(Withheld::NewKey), [first].into()));
    assert_eq!(counter(&status, "stack_addresses_withheld"), 1);
    // The server knows the client, and is not known by it.
    assert_eq!(withheld(&of_server.status()), None);
    drop((new, launcher));
    of_server.wait_for("the end", |status| status.associations.is_empty());

    let (_client, mut launcher) =
        Host::with_launcher(with_keys(client(network, Opportunistic), &ours));
    let stream = launcher.connect_sctp(destination);
    let both = [first, second].into();
    let status = launcher.wait_for("both paths", |status| working(status) == both);
    assert_eq!(encryption(&status).unwrap().standing.as_deref(), Some("known"));
    assert_eq!(withheld(&status), None);
    let sent = pattern(8 << 20, 7);
    assert!(exchange(stream, sent.clone()) == sent);
    launcher.wait_for("data over the second path", |status| has_used(status, second));
    of_server
        .wait_for("all paths of the server", |status| working(status) == network.server().into());
}

#[test]
fn both_ends_of_an_association_that_resumes_tell_their_addresses() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, mut theirs) = (folder.files("client"), folder.files("server"));
    let list = folder.path("authorized");
    fs::write(&list, format!("{} test\n", key_of(&ours))).unwrap();
    theirs.authorized_peers = Some(list);
    let destination = service(network.server()[0], echo);
    let serving = with_keys(server(network, Opportunistic, &[destination]), &theirs);
    let (_server, of_server) = Host::with_launcher(serving);
    let mut config = with_keys(client(network, Opportunistic), &ours);
    config.limits.idle_timeout = Duration::ZERO;
    let (_client, mut launcher) = Host::with_launcher(config);
    assert!(exchange(launcher.connect_sctp(destination), vec![3; 30]) == vec![3; 30]);
    wait_for_the_end(&launcher);
    let _open = launcher.connect_sctp(destination);
    assert!(encryption(&launcher.status()).unwrap().resumed);
    let status = launcher
        .wait_for("all paths of the client", |status| working(status) == network.client().into());
    assert_eq!(withheld(&status), None);
    let status = of_server
        .wait_for("all paths of the server", |status| working(status) == network.server().into());
    assert_eq!(withheld(&status), None);
}

#[test]
fn a_client_that_no_list_names_sees_one_address_of_the_server() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let serving = with_keys(server(network, Opportunistic, &[destination]), &theirs);
    let (_server, of_server) = Host::with_launcher(serving);
    let (_client, mut launcher) =
        Host::with_launcher(with_keys(client(network, Opportunistic), &ours));
    carry(&mut launcher, destination);
    let status = of_server.status();
    assert_eq!(withheld(&status), Some(Withheld::NotAuthorized));
    assert_eq!(working(&status), [network.server()[0]].into());
}

#[test]
fn a_peer_that_does_not_encrypt_has_one_path() {
    let network = Network::new();
    let folder = Folder::new(network);
    let destination = service(network.server()[0], echo);
    let _server = Host::start(server(network, Off, &[destination]));
    let config = with_keys(client(network, Opportunistic), &folder.files("client"));
    let (_client, mut launcher) = Host::with_launcher(config);
    let status = carry(&mut launcher, destination);
    assert_eq!(withheld(&status), Some(Withheld::NotEncrypted));
    assert_eq!(working(&status), [network.client()[0]].into());
}

#[test]
fn a_rule_says_so_of_some_peers() {
    let network = Network::new();
    let folder = Folder::new(network);
    let destinations = [(); 2].map(|()| service(network.server()[0], echo));
    let config = server(network, Opportunistic, &destinations);
    let _server = Host::start(StackConfig { keys: Some(folder.files("server")), ..config });
    let words = format!("remote enable port {} announce=authenticated\n", destinations[0].port());
    let table = Table::new(network, &words);
    let config = client(network, Opportunistic);
    let keys = Some(folder.files("client"));
    let (_client, mut launcher) =
        Host::with_launcher(StackConfig { rules: table.file(), keys, ..config });
    let _open = launcher.connect_sctp(destinations[0]);
    let status = launcher.status();
    assert_eq!((withheld(&status), working(&status).len()), (Some(Withheld::NewKey), 1));
    let _other = launcher.connect_sctp(destinations[1]);
    launcher.wait_for("an association of its own that has both paths", |status| {
        let others = status.associations.iter().filter(|one| one.withheld_addresses.is_none());
        let active = others.flat_map(|one| &one.paths).filter(|path| path.state == "active");
        status.associations.len() == 2 && active.count() == 2
    });
}
