//! The rules table in force: what is carried, what is open, and changes while the stack runs.

use crate::common::{Host, Launcher, Network, Table, counter, echo, exchange, service};
use manypath_control::status::{FallbackReason, FlowStatus};
use manypath_control::{Reply, Request};
use manypath_daemon::StackConfig;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

fn reload(launcher: &Launcher) -> Reply {
    launcher.send(&Request::Reload);
    launcher.receive()
}

/// A client by `table` and a server that opens `allow`.
fn pair(network: Network, table: &Table, allow: &[SocketAddr]) -> (Host, Host, Launcher) {
    let server = Host::start(network.server_config(allow));
    let config = StackConfig { rules: table.file(), ..network.client_config() };
    let (client, launcher) = Host::with_launcher(config);
    (server, client, launcher)
}

#[test]
fn a_rule_leaves_connects_to_the_kernel_until_it_is_deleted() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let table = Table::new(network, &format!("remote disable port {}\n", open.port()));
    let (_server, _client, mut launcher) = pair(network, &table, &[open]);
    assert_eq!(launcher.direct(open).0, FallbackReason::Rule);
    table.write("");
    assert_eq!(launcher.direct(open).0, FallbackReason::Rule, "not read again yet");
    assert_eq!(reload(&launcher), Reply::Reloaded { rules: 0 });
    launcher.connect_sctp(open);
}

#[test]
fn a_wrong_table_is_refused_and_the_old_one_holds() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let table = Table::new(network, "default remote disable\n");
    let (_server, _client, mut launcher) = pair(network, &table, &[open]);
    table.write("default remote enable\nremote disable prt 1\n");
    let Reply::Refused { why } = reload(&launcher) else { panic!("a wrong table was read") };
    assert!(why.contains("line 2") && why.contains("prt"), "{why}");
    assert_eq!(launcher.direct(open).0, FallbackReason::Rule);
    assert_eq!(counter(&launcher.status(), "stack_reloads_refused"), 1);
}

#[test]
fn without_fallback_a_peer_without_manypath_cannot_be_reached() {
    let network = Network::new();
    // A service that plain TCP would reach; nobody speaks SCTP there.
    let open = service(network.server()[0], echo);
    let table = Table::new(network, "remote enable sctp-only=on\n");
    let config = StackConfig { rules: table.file(), ..network.client_config() };
    let (_client, mut launcher) = Host::with_launcher(config);
    for blocking in [true, false] {
        let (id, first) = launcher.open(open, blocking);
        assert_eq!(first, Reply::Pending { id });
        let Reply::Failed { errno, .. } = launcher.receive() else { panic!("it was carried") };
        assert!([libc::ETIMEDOUT, libc::ECONNREFUSED].contains(&errno), "{errno}");
    }
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_opens_without_fallback"), 2);
    assert!(status.fallbacks.is_empty(), "{:?}", status.fallbacks);
}

#[test]
fn a_local_rule_opens_a_service_and_its_end_closes_it() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let rule = format!("local enable host {} port {}\n", open.ip(), open.port());
    let table = Table::new(network, &rule);
    let config = StackConfig { rules: table.file(), ..network.server_config(&[]) };
    let (_server, server) = Host::with_launcher(config);
    let (_client, mut client) = Host::with_launcher(network.client_config());
    client.connect_sctp(open);
    table.write("");
    assert_eq!(reload(&server), Reply::Reloaded { rules: 0 });
    assert_eq!(client.direct(open).0, FallbackReason::NotAllowed);
}

#[test]
fn a_service_is_told_its_client_by_the_proxy_protocol() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let rule = format!("local enable host {} port {} proxy=on\n", open.ip(), open.port());
    let table = Table::new(network, &rule);
    let config = StackConfig { rules: table.file(), ..network.server_config(&[]) };
    let _server = Host::start(config);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let mut stream = launcher.connect_sctp(open);
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut echoed = String::new();
    stream.read_to_string(&mut echoed).unwrap();
    let (client, server) = (network.client()[0], open.ip());
    let expected = format!("PROXY TCP4 {client} {server} 0 {}\r\nhello", open.port());
    assert_eq!(echoed, expected);
}

/// Answers when its client has ended.
fn answer_at_the_end(mut stream: TcpStream) {
    let mut asked = Vec::new();
    let _ = stream.read_to_end(&mut asked);
    let _ = stream.write_all(b"late");
}

#[test]
fn half_close_can_be_ruled_out() {
    for (option, expected) in [("on", "late"), ("off", "")] {
        let network = Network::new();
        let open = service(network.server()[0], answer_at_the_end);
        let table = Table::new(network, &format!("remote enable half-close={option}\n"));
        let (_server, _client, mut launcher) = pair(network, &table, &[open]);
        let mut stream = launcher.connect_sctp(open);
        stream.write_all(b"ask").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, expected, "half-close={option}");
        launcher.wait_for("the end of the flow", |status| {
            counter(status, "stack_relays_finished") == 1
        });
    }
}

#[test]
fn a_wrong_table_keeps_a_stack_from_starting() {
    let network = Network::new();
    let table = Table::new(network, "remote enable half-close=perhaps\n");
    let config = StackConfig { rules: table.file(), ..network.client_config() };
    let error = manypath_daemon::Stack::new(config).unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("on or off"), "{error}");
}

/// Connections with a rule's class and weight: each side says how it sends.
#[test]
fn class_weight_and_ways_are_told_by_rules_of_the_side_that_sends() {
    let network = Network::new();
    let (open, other) = (service(network.server()[0], echo), service(network.server()[0], echo));
    let port = open.port();
    let theirs = format!(
        "default local enable\nlocal enable host {0} port {port} class=interactive redundant=on\n\
         local enable host {0}\n",
        open.ip()
    );
    let server = Table::new(network, &theirs);
    let config = StackConfig { rules: server.file(), ..network.server_config(&[open, other]) };
    let (_server, server) = Host::with_launcher(config);
    let own = Network::new();
    let table = Table::new(own, &format!("remote enable port {port} weight=7\n"));
    let config = StackConfig { rules: table.file(), ..network.client_config() };
    let (_client, mut client) = Host::with_launcher(config);
    let _streams = [client.connect_sctp(open), client.connect_sctp(other)];
    let shares = |launcher: &Launcher| {
        let associations = launcher.status().associations;
        let flows = associations.into_iter().flat_map(|one| one.flows);
        let share = |port| move |flow: &FlowStatus| flow.destination.port() == port;
        let flows: Vec<FlowStatus> = flows.collect();
        [port, other.port()].map(|port| {
            let flow = flows.iter().find(|flow| share(port)(flow)).unwrap();
            (flow.class.clone(), flow.weight, flow.redundant)
        })
    };
    assert_eq!(shares(&client), [("bulk".into(), 7, false), ("bulk".into(), 1, false)]);
    assert_eq!(shares(&server), [("interactive".into(), 1, true), ("bulk".into(), 1, false)]);
}

#[test]
fn connections_with_another_profile_have_an_association_of_their_own() {
    let network = Network::new();
    let (open, other) = (service(network.server()[0], echo), service(network.server()[0], echo));
    let rule = format!("remote enable port {} profile=dynamic\n", other.port());
    let table = Table::new(network, &rule);
    let (_server, _client, mut launcher) = pair(network, &table, &[open, other]);
    for (destination, count) in [(open, 1), (other, 2), (open, 2), (other, 2)] {
        let stream = launcher.connect_sctp(destination);
        assert_eq!(exchange(stream, b"hello".to_vec()), b"hello");
        let status = launcher.status();
        assert_eq!(status.associations.len(), count, "{status:?}");
    }
    let profiles = launcher.status().associations.into_iter().map(|one| one.profile.unwrap());
    assert_eq!(profiles.collect::<Vec<_>>(), ["production", "dynamic"]);
}
