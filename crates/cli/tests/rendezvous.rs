//! Two hosts behind NATs, neither of which lets the other one in, and a relay that both know.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::gateways::{inner_host, sh};
use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::fmt::Write;
use std::process::{Child, Command, Stdio};

/// The relay, as the client's network reaches it and as the server's does.
const RELAY: [&str; 2] = ["10.77.1.2", "10.78.0.1"];
/// Where another relay is.
const SECOND: [&str; 2] = ["10.77.1.3", "10.78.0.3"];
/// What the NATs make of the client's address and of the server's.
const PUBLIC: [&str; 2] = ["10.77.1.1", "10.78.0.2"];
/// The client and the server.
const PRIVATE: [&str; 2] = ["192.168.2.2", "192.168.3.2"];
/// Nothing passes between the two NATs any more.
const WALL: &str = "nft -f - <<.\ntable ip wall {\nchain f { type filter hook forward priority -10;\n\
    ip saddr 10.77.1.1 drop\nip daddr 10.77.1.1 drop\n}\n}\n.";
/// The path from the client's NAT to everything else.
const PATH: &str = "100mbit,10ms,queue=200";

/// Whom a NAT lets in (RFC 3489 section 5, as people say it).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nat {
    /// Everybody, at a port from which something was ever sent.
    FullCone,
    /// All ports of addresses to which something was sent.
    AddressRestricted,
    /// The ports of addresses to which something was sent.
    PortRestricted,
    /// The same, with another port of its own for each of them.
    Symmetric,
}

use Nat::{AddressRestricted, FullCone, PortRestricted, Symmetric};

impl Nat {
    const ALL: [Self; 4] = [FullCone, AddressRestricted, PortRestricted, Symmetric];

    /// Its chains, between the interface `wan` and a network with one host.
    fn chains(self, wan: &str, inside: &str) -> String {
        let out = match self {
            Self::Symmetric => {
                "ip protocol udp masquerade random,fully-random; oifname WAN masquerade"
            }
            Self::FullCone | Self::AddressRestricted | Self::PortRestricted => "masquerade",
        };
        let into = match self {
            Self::FullCone => "iifname WAN udp dport 1024-65535 dnat to INSIDE",
            Self::AddressRestricted => {
                "iifname WAN ip saddr @asked udp dport 1024-65535 dnat to INSIDE"
            }
            Self::PortRestricted | Self::Symmetric => "",
        };
        let chains = format!(
            "set asked {{ type ipv4_addr; flags dynamic,timeout; timeout 60s; }}
             chain note {{ type filter hook forward priority 0;
                           oifname WAN meta l4proto udp update @asked {{ ip daddr }}; }}
             chain pre {{ type nat hook prerouting priority -100; {into}; }}
             chain post {{ type nat hook postrouting priority 100; oifname WAN {out}; }}
             chain in {{ type filter hook input priority 0; iifname WAN meta l4proto udp drop; }}"
        );
        chains.replace("WAN", wan).replace("INSIDE", inside).replace("{ ; }", "{ }")
    }
}

/// Client, NAT, relay, NAT, server.
struct Homes {
    site: Site,
    client: u32,
    server_nat: u32,
    server: u32,
    /// The relays that the client and the server are told of.
    relays: [&'static str; 2],
    /// Where a direct path leads to the server.
    direct: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    Server,
    Relay,
    /// Another one on the same host, at [`SECOND`].
    SecondRelay,
}

impl Homes {
    /// Both hosts are behind NATs of these kinds, and the server is registered at the relay.
    fn new(client_nat: Nat, server_nat: Nat) -> Self {
        let mut homes = Self::wired(client_nat, server_nat);
        homes.start();
        homes
    }

    fn wired(client_nat: Nat, server_nat: Nat) -> Self {
        let mut site = Site::with_paths(&[PATH]);
        let client = inner_host(&mut site, Host::Left);
        let (nat, server) =
            (inner_host(&mut site, Host::Right), inner_host(&mut site, Host::Right));
        let home = |wan: &str, at: usize, kind: Nat| {
            let (inside, chains) = (PRIVATE[at], kind.chains(wan, PRIVATE[at]));
            let router = inside.replace(".2.2", ".2.1").replace(".3.2", ".3.1");
            format!(
                "ip link set lan up; ip address add {router}/24 dev lan
                 echo 1 > /proc/sys/net/ipv4/ip_forward
                 nft -f - <<.\ntable ip nat {{\n{chains}\n}}\n.\n"
            )
        };
        let wire = format!("ip link add name lan type veth peer name eth netns {client}\n");
        let route = "ip route add 10.78.0.0/24 via 10.77.1.2\n";
        sh(&site, Host::Left, &(wire + &home("pathA", 0, client_nat) + route));
        let wires = format!(
            "ip link add name nb type veth peer name wan netns {nat}
             ip link set nb up; ip address add 10.78.0.1/24 dev nb
             echo 1 > /proc/sys/net/ipv4/ip_forward
             ip link add name lan type veth peer name eth netns {server}; ip link set lan netns {nat}"
        );
        sh(&site, Host::Right, &wires);
        let direct = PUBLIC[1];
        let homes = Self { site, client, server_nat: nat, server, relays: RELAY, direct };
        let uplink = "ip link set lo up; ip link set wan up; ip address add 10.78.0.2/24 dev wan
                      ip route add default via 10.78.0.1\n";
        homes.on_server_nat(&format!("{uplink}{}", home("wan", 1, server_nat)));
        for (who, at) in [(Who::Client, 0), (Who::Server, 1)] {
            let router = PRIVATE[at].replace(".2.2", ".2.1").replace(".3.2", ".3.1");
            homes.sh(
                who,
                &format!(
                    "ip link set lo up; ip link set eth up; ip address add {}/24 dev eth
                 ip route add default via {router}",
                    PRIVATE[at]
                ),
            );
        }
        homes
    }

    /// The client and the server are behind the same NAT, which leads nothing back that is meant for its own outside. The
    /// relay is beyond it.
    fn behind_one_nat() -> Self {
        let mut site = Site::with_paths(&[PATH]);
        let (client, server) =
            (inner_host(&mut site, Host::Left), inner_host(&mut site, Host::Left));
        let chains = PortRestricted.chains("pathA", PRIVATE[0]);
        let router = format!(
            "ip link add name lan type bridge; ip link set lan up; ip address add 192.168.2.1/24 dev lan
             for host in {client} {server}; do
                 ip link add name port$host type veth peer name eth netns $host
                 ip link set port$host master lan up
             done
             echo 1 > /proc/sys/net/ipv4/ip_forward
             nft -f - <<.\ntable ip nat {{\n{chains}\n}}\n.\n"
        );
        sh(&site, Host::Left, &router);
        let (relays, direct) = ([RELAY[0]; 2], "192.168.2.3");
        let homes = Self { site, client, server_nat: 0, server, relays, direct };
        for (who, address) in [(Who::Client, PRIVATE[0]), (Who::Server, direct)] {
            let line = format!(
                "ip link set lo up; ip link set eth up; ip address add {address}/24 dev eth
                 ip route add default via 192.168.2.1"
            );
            homes.sh(who, &line);
        }
        homes
    }

    fn start(&mut self) {
        self.authorize();
        self.start_relay(Who::Relay, &[]);
        self.start_server();
    }

    fn authorize(&self) {
        let keys: String = [(Who::Client, "alice"), (Who::Server, "bob")]
            .map(|(who, name)| format!("{} {name}\n", self.own_key(who)["key"].as_str().unwrap()))
            .concat();
        std::fs::write(self.site.dir.join("authorized"), keys).unwrap();
        std::fs::create_dir_all(self.site.dir.join("www")).unwrap();
    }

    /// The same with two relays.
    fn start_with_second_relay(&mut self) {
        let addresses = format!(
            "ip address add {}/24 dev pathA; ip address add {}/24 dev nb",
            SECOND[0], SECOND[1]
        );
        sh(&self.site, Host::Right, &addresses);
        self.authorize();
        self.start_relay(Who::Relay, &RELAY);
        self.start_relay(Who::SecondRelay, &SECOND);
        self.relays = ["10.77.1.2,10.77.1.3", "10.78.0.1,10.78.0.3"];
        self.start_server();
    }

    fn start_server(&mut self) {
        let mut web = self.command(Who::Server, "python3");
        web.args(["-m", "http.server", "8080", "--directory", "www"]);
        self.site.begin_service(web, "python3", "tcp", 8080);
        let args = ["serve", "-v", "--allow", "8080", "--authorized", "authorized"];
        let mut serve = self.command(Who::Server, MANYPATH);
        serve.args(args).args(["--register", self.relays[1]]);
        self.site.begin_service(serve, MANYPATH, "udp", 9899);
        wait_for("the server to be registered", || self.is_registered());
    }

    fn start_relay(&mut self, who: Who, locals: &[&str]) {
        let mut relay = self.command(who, MANYPATH);
        relay.args(["serve", "-v", "--relay", "--authorized", "authorized"]);
        for local in locals {
            relay.args(["--local", *local]);
        }
        self.site.begin_service(relay, MANYPATH, "udp", 9899);
    }

    fn is_registered(&self) -> bool {
        self.counter(Who::Relay, "stack_hosts_registered") > 0
            && self.counter(Who::Server, "stack_own_registrations") > 0
    }

    /// A command on a host, which has keys and a runtime folder of its own.
    fn command(&self, who: Who, program: &str) -> Command {
        let inner = |host, network: u32| {
            let mut command = self.site.command(host, find("nsenter"));
            command.arg(format!("--net=/proc/{network}/ns/net")).arg(find(program));
            command
        };
        let (mut command, name) = match who {
            Who::Client => (inner(Host::Left, self.client), "client"),
            Who::Server => (inner(Host::Right, self.server), "server"),
            Who::Relay => (self.site.command(Host::Right, find(program)), "relay"),
            Who::SecondRelay => (self.site.command(Host::Right, find(program)), "relay-2"),
        };
        for (variable, what) in [
            ("MANYPATH_KEYS", "keys"),
            ("MANYPATH_RUNTIME_DIR", "run"),
            ("MANYPATH_PEERS", "peers"),
            ("MANYPATH_RULES", "rules"),
        ] {
            command.env(variable, self.site.dir.join(format!("{what}-{name}")));
        }
        command
    }

    fn sh(&self, who: Who, line: &str) -> String {
        let mut command = self.command(who, "sh");
        command.args(["-ec", line]);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        done.stdout
    }

    fn on_server_nat(&self, line: &str) {
        let mut command = self.site.command(Host::Right, find("nsenter"));
        command.arg(format!("--net=/proc/{}/ns/net", self.server_nat)).args(["sh", "-ec", line]);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
    }

    fn own_key(&self, who: Who) -> serde_json::Value {
        let mut show = self.command(who, MANYPATH);
        show.args(["key", "show", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&finish(show).stdout).unwrap();
        shown["keys"][0].clone()
    }

    fn status(&self, who: Who) -> serde_json::Value {
        let mut status = self.command(who, MANYPATH);
        status.args(["status", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&finish(status).stdout).unwrap();
        all["stacks"][0].clone()
    }

    fn counter(&self, who: Who, name: &str) -> u64 {
        self.status(who)["counters"][name].as_u64().unwrap_or(0)
    }

    /// Bytes that the relay has moved from servers to the client.
    fn relayed(&self) -> u64 {
        let status = self.status(Who::Relay);
        status["relayed_peers"][0]["from_destinations_bytes"].as_u64().unwrap_or(0)
    }

    /// The paths of the client's associations that are active, by their far ends.
    fn active(&self) -> Vec<String> {
        let associations = self.status(Who::Client)["associations"].as_array().cloned();
        let paths = associations.unwrap_or_default().into_iter();
        let paths = paths.flat_map(|one| one["paths"].as_array().cloned().unwrap_or_default());
        let active = paths.filter(|path| path["state"] == "active");
        active.map(|path| path["remote"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn is_direct(&self) -> bool {
        self.active().iter().any(|remote| remote.starts_with(self.direct))
    }

    /// The URL of a file of the server, which is known by its key.
    fn url(&self, file: &str) -> String {
        let address = self.own_key(Who::Server)["key_address"].as_str().unwrap().to_owned();
        format!("http://[{address}]:8080/{file}")
    }

    fn run(&self, line: &str) -> Command {
        let mut run = self.command(Who::Client, "timeout");
        run.args(["60", MANYPATH, "run", "-v", "--log", "log-client"]).args([
            "--via",
            self.relays[0],
            "--",
        ]);
        run.args(["sh", "-c", line]).stdin(Stdio::null());
        run
    }

    /// A download that takes some seconds, at `rate` KiB/s. The reader keeps the pace: with a limit of its own curl may
    /// be five times as fast.
    fn begin_download(&self, rate: u32) -> Child {
        let pace = format!(
            "import sys, time\nwhile some := sys.stdin.buffer.read({rate} << 7):
                 sys.stdout.buffer.write(some); sys.stdout.flush(); time.sleep(0.125)"
        );
        let line = format!("curl -sS -f -g -m 50 {} | python3 -c '{pace}' > got", self.url("file"));
        self.run(&line).spawn().unwrap()
    }

    fn wait_for_bytes(&self, bytes: u64) {
        let got = self.site.dir.join("got");
        wait_for("the download", || std::fs::metadata(&got).is_ok_and(|it| it.len() > bytes));
    }

    fn has_got(&self, file: &[u8]) -> bool {
        std::fs::read(self.site.dir.join("got")).unwrap() == file
    }

    /// Downloads a file, and waits until a direct path is there or `patience` is over.
    fn fetch(&self, tries: u32) -> Finished {
        let line = format!(
            "curl -sS -f -g -m 30 -o got -w '%{{http_code}} %{{time_starttransfer}}' {}
             for n in $(seq {tries}); do
               {MANYPATH} path --json > paths
               grep -q {}: paths && grep -A9 {}: paths | grep -q '\"active\"' && break
               sleep 0.1
             done",
            self.url("file"),
            self.direct,
            self.direct
        );
        finish(self.run(&line))
    }
}

#[test]
fn two_hosts_behind_nats_meet_at_a_relay_and_talk_directly() {
    let homes = Homes::new(PortRestricted, PortRestricted);
    let file = homes.site.random_file("file", 4 << 20);
    let mut curl = homes.begin_download(1024);
    wait_for("a direct path", || homes.is_direct());
    let early = homes.relayed();
    homes.wait_for_bytes(3 << 20);
    assert!(homes.relayed() - early < 1 << 20, "data does not go by the relay any more");
    assert!(curl.wait().unwrap().success());
    assert!(homes.has_got(&file));
    let said = std::fs::read_to_string(homes.site.dir.join("log-client")).unwrap();
    assert!(said.contains("known key"), "the peer is known by its address: {said}");
}

#[test]
fn two_hosts_behind_one_nat_find_each_other_in_its_network() {
    let mut homes = Homes::behind_one_nat();
    homes.start();
    let file = homes.site.random_file("file", 4 << 20);
    let mut curl = homes.begin_download(1024);
    wait_for("a path within the network", || homes.is_direct());
    let early = homes.relayed();
    homes.wait_for_bytes(3 << 20);
    assert!(homes.relayed() - early < 1 << 20, "data does not go by the relay any more");
    assert!(curl.wait().unwrap().success());
    assert!(homes.has_got(&file));
    // The relay, which forwards the packets of the two, is told no address of theirs.
    let seen = homes.status(Who::Relay).to_string();
    assert!(!seen.contains(homes.direct) && !seen.contains(PRIVATE[0]), "{seen}");
}

#[test]
fn the_relay_carries_on_where_nats_let_nothing_through() {
    let homes = Homes::new(Symmetric, PortRestricted);
    let file = homes.site.random_file("file", 2 << 20);
    let done = homes.fetch(20);
    assert_eq!(done.stdout.split(' ').next(), Some("200"), "{done:?}");
    assert!(homes.has_got(&file));
    assert!(homes.relayed() > 2 << 20, "{}", homes.relayed());
    // The server's log tells the client by its key.
    let key = homes.own_key(Who::Client)["key_address"].as_str().unwrap().to_owned();
    let log = std::fs::read_to_string(homes.site.dir.join("log-9899")).unwrap();
    assert!(log.contains(&format!("connection from {key} ")), "{log}");
}

#[test]
fn datagrams_reach_a_host_that_is_known_by_its_key() {
    const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
    let mut homes = Homes::new(Symmetric, AddressRestricted);
    let rules = "remote enable udp any lifetime=2s\nlocal enable udp port 7000\n";
    for who in ["client", "server"] {
        std::fs::write(homes.site.dir.join(format!("rules-{who}")), rules).unwrap();
    }
    let mut reload = homes.command(Who::Server, MANYPATH);
    reload.args(["config", "reload"]);
    assert_eq!(finish(reload).code, Some(0));
    let mut server = homes.command(Who::Server, "python3");
    server.args([PROGRAM, "server", "0.0.0.0", "7000"]);
    homes.site.begin_service(server, "python3", "udp", 7000);
    let address = homes.own_key(Who::Server)["key_address"].as_str().unwrap().to_owned();
    let done = finish(homes.run(&format!("python3 {PROGRAM} echo {address} 7000")));
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "echo ok"), "{done:?}");
}

#[test]
fn a_connection_moves_to_the_direct_path_and_back() {
    let mut homes = Homes::wired(PortRestricted, PortRestricted);
    homes.on_server_nat(WALL);
    homes.start();
    let homes = &homes;
    let file = homes.site.random_file("file", 12 << 20);
    let mut curl = homes.begin_download(500);
    homes.wait_for_bytes(500_000);
    assert!(!homes.is_direct() && homes.relayed() > 400_000);
    homes.on_server_nat("nft delete table ip wall");
    wait_for("the connection to move to the direct path", || homes.is_direct());
    let moved = homes.relayed();
    let got = std::fs::metadata(homes.site.dir.join("got")).unwrap().len();
    homes.wait_for_bytes(got + 1_500_000);
    assert!(homes.relayed() - moved < 700_000, "it uses the direct path");
    homes.on_server_nat(WALL);
    let got = std::fs::metadata(homes.site.dir.join("got")).unwrap().len();
    assert!(got < 11 << 20, "the rest has no way but by the relay");
    assert!(curl.wait().unwrap().success());
    assert!(homes.has_got(&file));
}

#[test]
fn nobody_is_reached_who_is_not_registered_and_strangers_reach_nobody() {
    let homes = Homes::new(PortRestricted, PortRestricted);
    homes.site.random_file("file", 1000);
    let nobody = "http://[2001:2f::1]:8080/file";
    let curl = format!("curl -sS -g -m 30 -o got {nobody}; echo $?");
    let done = finish(
        homes.run(&format!("{curl}; {MANYPATH} status; {MANYPATH} doctor 2001:2f::1 2>&1 || true")),
    );
    assert_eq!(done.stdout.lines().next(), Some("7"), "{done:?}");
    let told = format!("no relay leads there: {} does not know the host", RELAY[0]);
    let by = done.stdout.lines().filter(|line| line.contains(&told));
    assert_eq!(by.count(), 2, "status and doctor say so: {done:?}");
    assert_eq!(homes.counter(Who::Relay, "stack_onward_hosts_not_registered"), 1);
    // The relay still knows the client; the server does not any more.
    let bob = homes.own_key(Who::Server)["key"].as_str().unwrap().to_owned();
    std::fs::write(homes.site.dir.join("authorized"), format!("{bob} bob\n")).unwrap();
    let mut reload = homes.command(Who::Server, MANYPATH);
    reload.args(["config", "reload"]);
    assert_eq!(finish(reload).code, Some(0));
    let line = format!("curl -sS -g -m 30 -o got {}; echo $?", homes.url("file"));
    let done = finish(homes.run(&line));
    assert_ne!(done.stdout.trim(), "0", "{done:?}");
    assert!(homes.counter(Who::Server, "stack_peers_not_authorized") > 0);
}

#[test]
fn relays_that_do_not_answer_are_passed_over() {
    let mut homes = Homes::wired(PortRestricted, PortRestricted);
    // Nobody is at the first one, on a network that is there.
    homes.relays = ["10.77.1.99,10.77.1.2", "10.78.0.99,10.78.0.1"];
    homes.start();
    let file = homes.site.random_file("file", 100_000);
    let done = homes.fetch(1);
    assert_eq!(done.stdout.split(' ').next(), Some("200"), "{done:?}");
    assert!(homes.has_got(&file));
}

#[test]
fn a_server_registers_again_when_its_relay_has_restarted() {
    let mut homes = Homes::new(PortRestricted, PortRestricted);
    let file = homes.site.random_file("file", 100_000);
    let at = homes.site.services.len() - 3;
    homes.site.services[at].kill().unwrap();
    homes.site.services[at].wait().unwrap();
    homes.start_relay(Who::Relay, &[]);
    wait_for("the server to be registered", || {
        homes.counter(Who::Relay, "stack_hosts_registered") > 0
    });
    let done = homes.fetch(1);
    assert_eq!(done.stdout.split(' ').next(), Some("200"), "{done:?}");
    assert!(homes.has_got(&file));
}

/// The path from the new network to the old relay is never confirmed, so it does not fail either.
#[test]
fn a_client_that_changes_its_network_leaves_a_relay_that_went_meanwhile() {
    let mut homes = Homes::wired(Symmetric, PortRestricted);
    homes.start_with_second_relay();
    let file = homes.site.random_file("file", 4 << 20);
    let mut curl = homes.begin_download(200);
    homes.wait_for_bytes(300_000);
    // After the relay there are the other one, the web server and the server's manypath.
    let relay = homes.site.services[homes.site.services.len() - 4].id();
    homes.sh(Who::Relay, &format!("kill -STOP {relay}"));
    let moved = "ip address del 192.168.2.2/24 dev eth; ip address add 192.168.2.7/24 dev eth
                 ip route add default via 192.168.2.1";
    homes.sh(Who::Client, moved);
    assert!(curl.wait().unwrap().success());
    assert!(homes.has_got(&file));
    let log = std::fs::read_to_string(homes.site.dir.join("log-client")).unwrap();
    assert!(log.contains("all paths to the relay 10.77.1.2:9899 have failed"), "{log}");
}

/// Seconds within its day of a line of a log.
fn seconds(line: &str) -> f64 {
    let time = line.split(['T', 'Z']).nth(1).unwrap_or_default();
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap_or(0.0))
}

/// Prints for each pair of NATs whether a direct path was found, how long after the program's connect, and when the
/// first byte was there: `cargo test -p manypath-cli --test it rendezvous::measure -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measure_pairs_of_nats() {
    let mut table = String::new();
    for client in Nat::ALL {
        for server in Nat::ALL {
            let homes = Homes::new(client, server);
            homes.site.random_file("file", 100_000);
            let done = homes.fetch(30);
            let first = done.stdout.split(' ').nth(1).and_then(|it| it.trim().parse::<f64>().ok());
            let log = std::fs::read_to_string(homes.site.dir.join("log-client")).unwrap();
            let at = |what: &str| log.lines().find(|line| line.contains(what)).map(seconds);
            let begun = at("stands for the key").unwrap();
            let direct = format!("to {}:", PUBLIC[1]);
            let found =
                log.lines().find(|line| line.contains(&direct) && line.ends_with("is active"));
            let way = found.map_or("relay".to_owned(), |line| {
                format!("direct after {:.0} ms", (seconds(line) - begun) * 1e3)
            });
            let first = first.map_or("-".to_owned(), |it| format!("{:.0}", it * 1e3));
            writeln!(table, "| {client:?} | {server:?} | {way} | {first} |").unwrap();
            let is_relayed = client == Symmetric && matches!(server, Symmetric | PortRestricted)
                || server == Symmetric && matches!(client, Symmetric | PortRestricted);
            assert_eq!(found.is_none(), is_relayed, "{client:?} and {server:?}: {log}");
        }
    }
    println!(
        "| client behind | server behind | way | first byte, ms |\n|---|---|---|---|\n{table}"
    );
}
