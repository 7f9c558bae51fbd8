//! How stacks, launchers and associations end.

use crate::common::{Host, LIMIT, Launcher, Network, counter, echo, exchange, pattern, service};
use manypath_control::{ControlSocket, Reply, Request, Role};
use manypath_daemon::StackConfig;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn without_its_launcher_an_idle_stack_ends() {
    let network = Network::new();
    let mut config = network.client_config();
    config.process.exit_when_drained = true;
    let (client, launcher) = Host::with_launcher(config);
    drop(launcher);
    client.wait();
}

#[test]
fn without_its_launcher_a_stack_carries_its_flows_to_their_end() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let mut config = network.client_config();
    config.process.exit_when_drained = true;
    let (client, mut launcher) = Host::with_launcher(config);
    let mut stream = launcher.connect_sctp(destination);
    stream.write_all(b"before").unwrap();
    drop(launcher);
    let sent = pattern(2 << 20, 5);
    let mut received = exchange(stream, sent.clone());
    assert!(received.split_off(6) == sent);
    client.wait();
}

/// The peer has sent everything and ends; more of it than sockets hold waits here for the program.
#[test]
fn a_program_reads_all_that_has_come_after_the_association_has_ended() {
    let network = Network::new();
    let destination = service(network.server()[0], |mut stream| {
        stream.write_all(&pattern(1 << 20, 7)).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let mut config = network.server_config(&[destination]);
    config.process.exit_when_drained = true;
    let (server, served) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let mut stream = launcher.connect_sctp(destination);
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    drop(served);
    server.wait();
    launcher
        .wait_for("the end", |status| counter(status, "stack_associations_closed_gracefully") == 1);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == pattern(1 << 20, 7), "{} bytes", received.len());
    let status = launcher.wait_for("no rest", |status| status.associations.is_empty());
    assert_eq!(counter(&status, "stack_relays_finished"), 1);
}

/// A stack that launchers share, found at the file that is returned.
fn shared(network: Network, pause: Duration) -> (StackConfig, PathBuf) {
    let name = format!("manypath-shared-{}-{}", std::process::id(), network.server()[0]);
    let file = std::env::temp_dir().join(name);
    let mut config = network.client_config();
    config.process.exit_when_drained = true;
    config.process.shared = Some(file.clone());
    config.limits.shared_pause = pause;
    (config, file)
}

#[test]
fn a_shared_stack_serves_the_next_launcher_over_the_association_that_is_there() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let (config, file) = shared(network, Duration::from_secs(60));
    let (client, mut first) = Host::with_launcher(config);
    assert_eq!(exchange(first.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    drop(first);
    let mut second = Launcher::new(ControlSocket::connect(&file).unwrap(), Role::Launcher);
    assert_eq!(exchange(second.connect_sctp(destination), vec![4; 40]), vec![4; 40]);
    let status = second.status();
    assert_eq!(status.associations.len(), 1);
    assert_eq!(counter(&status, "stack_relays_started"), 2);
    // Nobody can find it any more, and nobody needs it.
    std::fs::remove_file(&file).unwrap();
    drop(second);
    client.wait();
}

#[test]
fn a_shared_stack_ends_after_a_pause_and_no_launcher_is_turned_away_before() {
    let network = Network::new();
    let (config, file) = shared(network, Duration::from_millis(200));
    let (client, first) = Host::with_launcher(config);
    drop(first);
    // Whoever finds it is served, whenever that is.
    let mut served = 0;
    while let Ok(socket) = ControlSocket::connect(&file) {
        drop(Launcher::new(socket, Role::Launcher));
        served += 1;
        std::thread::sleep(Duration::from_millis(10 * served));
    }
    assert!(served > 1);
    client.wait();
    assert!(!file.exists());
}

#[test]
fn a_stack_whose_shared_name_is_taken_ends_with_its_launcher() {
    let network = Network::new();
    let (config, _file) = shared(network, Duration::from_secs(60));
    let (_first, _launcher) = Host::with_launcher(config);
    let (config, _) = shared(network, Duration::from_secs(60));
    let (second, launcher) = Host::with_launcher(config);
    assert_eq!(counter(&launcher.status(), "stack_shared_names_taken"), 1);
    drop(launcher);
    second.wait();
}

#[test]
fn a_launcher_that_is_gone_and_a_flow_that_does_not_move_end_a_stack() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let mut config = network.client_config();
    config.process.exit_when_drained = true;
    config.limits.drain_timeout = Duration::from_millis(300);
    let (client, mut launcher) = Host::with_launcher(config);
    let mut stream = launcher.connect_sctp(destination);
    drop(launcher);
    client.wait();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_stack_that_is_told_to_stop_resets_what_does_not_end() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut config = network.server_config(&[destination]);
    config.limits.exit_timeout = Duration::from_millis(200);
    let (server, server_control) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let mut stream = launcher.connect_sctp(destination);
    server_control.send(&Request::Stop);
    server.wait();
    assert!(server_control.is_closed());
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
    let status = launcher.wait_for("the end", |status| status.associations.is_empty());
    assert_eq!(counter(&status, "stack_relays_lost_with_association"), 1);
}

#[test]
fn a_cancelled_connect_is_forgotten() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (id, first) = launcher.open(destination, true);
    assert_eq!(first, Reply::Pending { id });
    assert!(matches!(launcher.receive(), Reply::Accepted { .. }));
    launcher.send(&Request::Cancel { id });
    let status = launcher.wait_for("its end", |status| {
        status.associations.iter().all(|association| association.flows.is_empty())
    });
    assert_eq!(counter(&status, "stack_opens_cancelled"), 1);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 3]), vec![1; 3]);
}

#[test]
fn an_association_without_flows_is_shut_down() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[destination]));
    let mut config = network.client_config();
    config.limits.idle_timeout = Duration::from_millis(300);
    let (_client, mut launcher) = Host::with_launcher(config);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 3]), vec![1; 3]);
    let status = server.wait_for("a graceful end", |status| status.associations.is_empty());
    assert_eq!(counter(&status, "stack_associations_closed_gracefully"), 1);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 3]), vec![1; 3]);
}

#[test]
fn a_server_ends_associations_that_their_peers_leave_idle() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut config = network.server_config(&[destination]);
    config.limits.peer_idle_timeout = Duration::from_millis(300);
    let (_server, server) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 3]), vec![1; 3]);
    let status = server.wait_for("a graceful end", |status| status.associations.is_empty());
    assert_eq!(counter(&status, "stack_idle_peer_associations_ended"), 1);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 3]), vec![1; 3]);
}
