//! What peers reach through a 1:1 NAT, by every way in which a server is offered; and what they do not.

use crate::common::cgroup::Group;
use crate::common::{MANYPATH, Site, finish};
use crate::translated::home::{ONE_TO_ONE, PRIVATE, PUBLIC, behind, wait_for_offer};
use manypath_lab::Host;
use std::process::Stdio;

/// Tells each client its address and that of the socket.
const TELL: &str = "import socket, sys\n\
    s = socket.create_server((sys.argv[1], int(sys.argv[2])))\n\
    while True:\n\
    \x20c, p = s.accept(); c.sendall(f'{p[0]} {c.getsockname()[0]}'.encode()); c.close()\n";
const DATAGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");

/// The client's addresses.
const CLIENT: [&str; 2] = ["10.77.1.1", "10.77.2.1"];

fn tell(site: &mut Site, at: &str, port: u16) {
    site.service("python3", &["-c", TELL, at, &port.to_string()], "tcp", port);
}

/// What the service at `port` of a public address tells a client of manypath.
fn told(site: &Site, public: &str, port: u16) -> String {
    let done = site.through("nc", &["-d", "-w", "10", public, &port.to_string()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout
}

fn carried(site: &Site) -> u64 {
    site.door_status(Host::Right)["counters"]["stack_relays_started"].as_u64().unwrap_or(0)
}

#[test]
fn serve_leads_to_the_service_at_the_private_address() {
    let mut site = behind(ONE_TO_ONE, "");
    tell(&mut site, "0.0.0.0", 7100);
    site.serve("7100");
    for public in PUBLIC {
        let own = PRIVATE.map(|own| format!("{own} {own}"));
        let said = told(&site, public, 7100);
        assert!(own.contains(&said), "{public}: {said}");
    }
    assert_eq!(site.server_counter("stack_destinations_translated"), 2);
}

#[test]
fn a_server_under_run_is_told_the_true_address_of_the_client_and_its_own() {
    let mut site = behind(ONE_TO_ONE, "");
    site.service_through("python3", &["-c", TELL, "0.0.0.0", "7100"], "tcp", 7100);
    wait_for_offer(&site, 7100);
    let known = CLIENT.map(|client| format!("{client} {}", PRIVATE[0]));
    let said = told(&site, PUBLIC[0], 7100);
    assert!(known.contains(&said), "{said}");
    assert_eq!(carried(&site), 1);
    let done = site.direct("nc", &["-d", PUBLIC[0], "7100"]);
    assert_eq!(done.stdout, format!("{} {}", CLIENT[0], PRIVATE[0]), "plain TCP");
}

#[test]
fn a_server_in_a_cgroup_is_told_the_true_address_of_the_client_and_its_own() {
    let site = behind(ONE_TO_ONE, "");
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Right, &["-v"]);
    let mut command =
        group.command(&site, Host::Right, "python3", &["-c", TELL, "0.0.0.0", "7100"]);
    let mut server = command.stdin(Stdio::null()).spawn().expect("a server");
    wait_for_offer(&site, 7100);
    let known = CLIENT.map(|client| format!("{client} {}", PRIVATE[0]));
    let said = told(&site, PUBLIC[0], 7100);
    assert!(known.contains(&said), "{said}");
    assert_eq!(carried(&site), 1);
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn datagrams_reach_the_service_at_the_private_address() {
    let mut site = behind(ONE_TO_ONE, "");
    std::fs::write(site.dir.join("rules"), "remote enable udp port 7000\n").expect("rules");
    site.service("python3", &[DATAGRAMS, "server", "0.0.0.0", "7000"], "udp", 7000);
    site.service(MANYPATH, &["serve", "--allow", "7000/udp", "-v"], "udp", 9899);
    for program in ["echo", "connected"] {
        let done = site.through("python3", &[DATAGRAMS, program, PUBLIC[0], "7000"]);
        assert_eq!(done.code, Some(0), "{program}: {done:?}");
    }
    let status = site.server_status();
    assert!(status["counters"]["datagram_incoming"].as_u64() >= Some(2), "{status:#}");
}

/// Connects again and again to an address, whose port may not be found at once; prints what it is told.
const PERSIST: &str = "import socket, sys, time\n\
    end = time.monotonic() + 30\n\
    while time.monotonic() < end:\n\
    \x20try: print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(100).decode()); break\n\
    \x20except ConnectionError: time.sleep(0.2)\n";

/// A peer that has no way to that address has no business there.
#[test]
fn a_service_at_the_second_private_address_alone_is_found_once_a_path_leads_there() {
    let mut site = behind(ONE_TO_ONE, "");
    tell(&mut site, PRIVATE[1], 7100);
    site.serve("7100");
    // The association comes to the first one.
    let done = site.through("python3", &["-c", PERSIST, PUBLIC[0], "7100"]);
    assert_eq!(done.stdout.trim(), format!("{0} {0}", PRIVATE[1]), "{done:?}");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
}

#[test]
fn an_address_that_is_opened_stays_the_only_one() {
    let mut site = behind(ONE_TO_ONE, "");
    tell(&mut site, "0.0.0.0", 7100);
    site.serve(&format!("{}:7100", PRIVATE[1]));
    assert_eq!(told(&site, PUBLIC[0], 7100), format!("{0} {0}", PRIVATE[1]));
}

#[test]
fn what_is_not_opened_is_left_to_plain_tcp() {
    let mut site = behind(ONE_TO_ONE, "");
    tell(&mut site, "0.0.0.0", 7100);
    site.serve(&format!("7101,{}:7102", PRIVATE[1]));
    assert_eq!(told(&site, PUBLIC[0], 7100), format!("{} {}", CLIENT[0], PRIVATE[0]));
    assert_eq!(site.server_counter("stack_dial_denied_not_listed"), 1);
}

/// The router forwards the port of the service to another host than manypath's.
#[test]
fn where_nobody_listens_plain_tcp_finds_who_does() {
    let chains = ONE_TO_ONE.replace(
        "ip daddr 203.0.113.1 dnat",
        "ip daddr 203.0.113.1 tcp dport 7100 redirect\n ip daddr 203.0.113.1 dnat",
    );
    let mut site = behind(&chains, "");
    site.serve("7100");
    let inner = site.inner.take();
    tell(&mut site, "0.0.0.0", 7100);
    site.inner = inner;
    let said = told(&site, PUBLIC[0], 7100);
    assert!(said.starts_with(CLIENT[0]), "{said}");
    assert_eq!(site.server_counter("stack_destinations_translated"), 1);
}

#[test]
fn native_associations_reach_the_service_too() {
    let mut site = behind(ONE_TO_ONE, "");
    std::fs::write(site.dir.join("rules"), "remote enable port 7100 form=direct\n").expect("rules");
    tell(&mut site, "0.0.0.0", 7100);
    site.serve("7100");
    assert_eq!(told(&site, PUBLIC[0], 7100), format!("{0} {0}", PRIVATE[0]));
    assert_eq!(site.server_counter("stack_direct_associations_accepted"), 1);
}

#[test]
fn the_doctor_finds_nothing_wrong() {
    let mut site = behind(ONE_TO_ONE, "");
    tell(&mut site, "0.0.0.0", 7100);
    site.serve("7100");
    for host in [PUBLIC[0].to_owned(), format!("{}:7100", PUBLIC[1])] {
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["doctor", "--json", &host]);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{host}: {}", done.stdout);
    }
}
