//! `manypath gateway --lan`: hosts behind a router are carried without knowing of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use crate::common;

mod datagrams;
mod packets;

use common::gateways::{inner_host, sh};
use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::process::{Child, Command, Stdio};

const FILE: u64 = 6_000_000;
/// A server without manypath, behind the one with it.
const PLAIN: &str = "198.51.100.2";
const PLAIN_V6: &str = "fd99::2";
/// What BusyBox serves, and where.
const SERVE: [&str; 5] = ["-f", "-p", "8000", "-h", "www"];
/// What the network's hosts are.
const HOSTS: [&str; 3] = ["192.168.7.11", "192.168.8.12", "192.168.9.13"];

/// The left host is a router with two uplinks and three hosts behind it, the right one a server with manypath, and one
/// without it behind it.
struct Network {
    site: Site,
    /// Processes in the networks of the hosts and of the server without manypath.
    hosts: [u32; 3],
    plain: u32,
    interfaces: &'static str,
    content: Vec<u8>,
}

impl Network {
    /// Each host at an interface of its own, or both at a bridge.
    fn new(bridged: bool) -> Self {
        Self::with_server(bridged, |site| site.serve("8080"))
    }

    /// `serve` starts what the right host serves.
    fn with_server(bridged: bool, serve: impl FnOnce(&mut Site)) -> Self {
        let mut site = Site::with_paths(&["20mbit,10ms,queue=100", "20mbit,15ms,queue=100"]);
        site.web();
        let content = site.random_file("file", FILE);
        serve(&mut site);
        let plain = inner_host(&mut site, Host::Right);
        let line = format!(
            "ip link add out type veth peer name in netns {plain}; ip link set out up
             ip address add 198.51.100.1/24 dev out; echo 1 > /proc/sys/net/ipv4/ip_forward
             ip route add 192.168.0.0/16 via 10.77.1.1
             nsenter --net=/proc/{plain}/ns/net sh -ec '
               ip link set lo up; ip link set in up; ip address add {PLAIN}/24 dev in; ip route add default via 198.51.100.1
               ip address add {PLAIN_V6}/64 dev in nodad; ip -6 route add default via fd99::1'
             ip address add fd99::1/64 dev out nodad"
        );
        sh(&site, Host::Right, &line);
        let mut web = site.command(Host::Right, find("nsenter"));
        web.arg(format!("--net=/proc/{plain}/ns/net")).args(["busybox", "httpd"]).args(SERVE);
        site.begin_service(web, "busybox", "tcp6", 8000);
        let hosts = [(); 3].map(|()| inner_host(&mut site, Host::Left));
        let server_v6 = site.lab.address_v6(Host::Right, 0);
        let mut line = format!(
            "echo 1 > /proc/sys/net/ipv4/ip_forward; ip route add 198.51.100.0/24 via 10.77.1.2
             ip -6 route add fd99::/64 via {server_v6}\n"
        );
        for (number, pid) in (1..).zip(hosts) {
            let (subnet, host) = (6 + number, HOSTS[number - 1]);
            line += &format!(
                "ip link add lan{number} type veth peer name eth0 netns {pid}; ip link set lan{number} up
                 nsenter --net=/proc/{pid}/ns/net sh -ec 'ip link set lo up; ip link set eth0 up
                   ip address add {host}/24 dev eth0; ip route add default via 192.168.{subnet}.1
                   ip address add fd0{subnet}::1{number}/64 dev eth0 nodad; ip -6 route add default via fd0{subnet}::1'\n"
            );
        }
        line += match bridged {
            true => "ip link add br0 type bridge; ip link set br0 up; ip link set lan1 master br0; ip link set lan2 master br0; ip link set lan3 master br0
                     ip address add 192.168.7.1/24 dev br0; ip address add 192.168.8.1/24 dev br0; ip address add 192.168.9.1/24 dev br0
                     ip address add fd08::1/64 dev br0 nodad",
            false => "ip address add 192.168.7.1/24 dev lan1; ip address add 192.168.8.1/24 dev lan2; ip address add 192.168.9.1/24 dev lan3
             ip address add fd08::1/64 dev lan2 nodad",
        };
        sh(&site, Host::Left, &line);
        let interfaces = if bridged { "br0" } else { "lan1,lan2,lan3" };
        Self { site, hosts, plain, interfaces, content }
    }

    /// What the router's packet filter and rules of routing are.
    fn rules(&self) -> String {
        sh(
            &self.site,
            Host::Left,
            "nft list ruleset; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all",
        )
    }

    fn gateway(&self, more: &[&str]) -> Child {
        let log = self.site.dir.join("gateway.log");
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.site.command(Host::Left, MANYPATH);
        command.args(["gateway", "--lan", self.interfaces, "-v"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        wait_for("the rules", || self.rules().contains("manypath_lan"));
        wait_for("the gateway", || !self.status().is_null());
        child
    }

    fn status(&self) -> Value {
        let mut command = self.site.command(Host::Left, MANYPATH);
        command.args(["status", "--json"]);
        let all: Value = serde_json::from_str(&finish(command).stdout).unwrap();
        all["stacks"][0].clone()
    }

    fn command(&self, host: usize, program: &str, args: &[&str]) -> Command {
        let mut command = self.site.command(Host::Left, find("nsenter"));
        command.arg(format!("--net=/proc/{}/ns/net", self.hosts[host]));
        command.arg(find(program)).args(args);
        command
    }

    fn run(&self, host: usize, program: &str, args: &[&str]) -> Finished {
        finish(self.command(host, program, args))
    }

    /// A host gets the file, whole.
    fn downloads(&self, host: usize, from: &str) {
        let url = format!("http://{from}/file");
        let done = match host {
            0 => self.run(host, "busybox", &["wget", "-q", "-O", "got0", &url]),
            _ => self.run(host, "curl", &["-sS", "-f", "-m", "50", "-o", "got1", &url]),
        };
        assert_eq!(done.code, Some(0), "{done:?}");
        let got = std::fs::read(self.site.dir.join(format!("got{host}"))).unwrap();
        assert!(got == self.content, "{} of {FILE} bytes", got.len());
    }

    fn with_manypath(&self) -> String {
        format!("{}:8080", self.site.server())
    }
}

fn plain() -> String {
    format!("{PLAIN}:8000")
}

fn end(mut gateway: Child) {
    assert!(Command::new("kill").arg(gateway.id().to_string()).status().unwrap().success());
    assert!(gateway.wait().unwrap().success());
}

/// Bytes that came in over each uplink.
fn by_uplink(status: &Value) -> [u64; 2] {
    ["pathA", "pathB"].map(|name| {
        let all = status["associations"].as_array().into_iter().flatten();
        let paths = all.flat_map(|one| one["paths"].as_array().unwrap());
        paths
            .filter(|path| path["interface"] == name)
            .map(|path| path["bytes_received"].as_u64().unwrap())
            .sum()
    })
}

/// `how`: how the rules lead connections to the gateway, as the status and the log say.
fn is_carried_and_left_as_it_was(network: &Network, how: &str) {
    let before = network.rules();
    let gateway = network.gateway(&[]);
    let allow = network.status()["allow"].to_string();
    let log = std::fs::read_to_string(network.site.dir.join("gateway.log")).unwrap();
    let first = network.interfaces.split(',').next().unwrap();
    let words = format!("the network at {first} ({how}");
    assert!(allow.contains(&words) && log.contains(&words), "{words}: {allow}\n{log}");
    let rules = network.rules();
    assert_eq!(rules.contains("redirect to"), how != "TPROXY", "{rules}");
    assert_eq!(rules.contains("tproxy to"), how == "TPROXY", "{rules}");
    for host in [0, 1] {
        network.downloads(host, &network.with_manypath());
        network.downloads(host, &plain());
    }
    let server = network.site.lab.address_v6(Host::Right, 0);
    network.downloads(1, &format!("[{server}]:8080"));
    wait_for("the ends", || {
        let status = network.status();
        let ended = |host: &Value| host["open"] == 0;
        status["door_hosts"].as_array().is_some_and(|all| all.len() == 3 && all.iter().all(ended))
    });
    let status = network.status();
    let hosts = &status["door_hosts"];
    for (at, host) in HOSTS.iter().take(2).enumerate() {
        let told = ["host", "carried", "plain", "open"].map(|name| hosts[at][name].clone());
        let expected: [Value; 4] = [(*host).into(), 1.into(), 1.into(), 0.into()];
        assert_eq!(told, expected, "{hosts}");
        assert!(hosts[at]["received_bytes"].as_u64().unwrap() > 2 * FILE, "{hosts}");
    }
    let told = ["host", "carried", "plain"].map(|name| hosts[2][name].clone());
    assert_eq!(told, ["fd08::12".into(), Value::from(1), 0.into()], "{hosts}");
    let locals = status["locals"].as_array().unwrap();
    let used = locals.iter().all(|one| one["interface"].as_str().unwrap().starts_with("path"));
    assert!(used, "the network is no uplink: {locals:?}");
    let uplinks = by_uplink(&status);
    assert!(uplinks.iter().all(|bytes| *bytes > FILE / 4), "both uplinks: {uplinks:?}");
    let sandbox = &status["sandbox"];
    assert_ne!(sandbox["user"], 0, "{sandbox}");
    assert_eq!(
        (&sandbox["seccomp"], &sandbox["capabilities"]),
        (&true.into(), &Value::Array(vec![]))
    );
    end(gateway);
    assert_eq!(network.rules(), before);
    network.downloads(0, &plain());
}

#[test]
fn hosts_at_interfaces_are_carried_and_the_router_is_left_as_it_was() {
    let network = Network::new(false);
    is_carried_and_left_as_it_was(&network, "TPROXY");
}

#[test]
fn hosts_at_a_bridge_whose_packets_are_filtered_are_carried_too() {
    let network = Network::new(true);
    // A switch of the bridge itself, which is there without the module that has one for all bridges.
    sh(&network.site, Host::Left, "ip link set br0 type bridge nf_call_iptables 1");
    is_carried_and_left_as_it_was(&network, "redirection: packets of the bridge are filtered");
}

#[test]
fn a_download_outlives_the_loss_of_an_uplink() {
    let network = Network::new(false);
    let gateway = network.gateway(&[]);
    let url = format!("http://{}/file", network.with_manypath());
    let mut command = network.command(0, "busybox", &["wget", "-q", "-O", "got", &url]);
    let mut download = command.stdin(Stdio::null()).spawn().unwrap();
    let got = network.site.dir.join("got");
    wait_for("a part of the file", || {
        std::fs::metadata(&got).is_ok_and(|got| got.len() > 1_000_000)
    });
    network.site.lab.path("A").expect("a path").down().expect("down");
    assert!(download.wait().unwrap().success());
    assert!(std::fs::read(got).unwrap() == network.content);
    end(gateway);
}

#[test]
fn what_is_not_for_the_gateway_goes_its_way() {
    let network = Network::new(false);
    // It has begun before the gateway.
    let slow = ["-sS", "-f", "-m", "50", "--limit-rate", "2M", "-o", "early"];
    let mut early =
        network.command(1, "curl", &[&slow[..], &[&format!("http://{}/file", plain())]].concat());
    let mut early = early.stdin(Stdio::null()).spawn().unwrap();
    let part = network.site.dir.join("early");
    wait_for("a part", || std::fs::metadata(&part).is_ok_and(|part| part.len() > 100_000));
    // What is carried leaves as the router's own does.
    sh(&network.site, Host::Left, "ip rule add from 192.168.7.0/24 lookup main");
    let gateway = network.gateway(&["--clients", "192.168.7.0/24"]);
    network.downloads(1, &plain());
    network.downloads(0, &plain());
    let status = network.status();
    let passed_by = "(TPROXY; the routing rule `from 192.168.7.0/24 lookup main` does not apply";
    assert!(status["allow"].to_string().contains(passed_by), "{status:#}");
    let hosts = &status["door_hosts"];
    assert_eq!((&hosts[0]["host"], &hosts[1]), (&HOSTS[0].into(), &Value::Null), "{hosts}");
    assert!(early.wait().unwrap().success());
    assert!(std::fs::read(part).unwrap() == network.content);
    // To the router itself, and to hosts beside it.
    let mut web = network.site.command(Host::Left, find("busybox"));
    let mut web = web.arg("httpd").args(SERVE).stdin(Stdio::null()).spawn().unwrap();
    wait_for("a server on the router", || common::bound(web.id(), "tcp6", 8000));
    network.downloads(0, "192.168.7.1:8000");
    web.kill().unwrap();
    web.wait().unwrap();
    let status = network.status();
    let host = &status["door_hosts"][0];
    assert_eq!(host["plain"].as_u64().unwrap() + host["open"].as_u64().unwrap(), 1, "{host}");
    // A refusal is one, and so is a destination that nobody leads to.
    let connects = |to: &[&str]| network.run(0, "busybox", &[&["nc", "-w", "5"], to].concat()).code;
    assert_ne!(connects(&[HOSTS[1], "9"]), Some(0));
    let unreachable = network.run(0, "curl", &["-sS", "-m", "20", "http://203.0.113.1/"]);
    assert_eq!(unreachable.code, Some(7), "the kernel says so at once: {unreachable:?}");
    end(gateway);
}

#[test]
fn strangers_find_no_way_through_the_port_of_a_network() {
    let network = Network::new(false);
    let gateway = network.gateway(&[]);
    let rules = network.rules();
    let port: String = rules
        .split("tproxy to :")
        .nth(1)
        .unwrap()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let mut outside = network.site.command(Host::Right, find("curl"));
    outside.args(["-sS", "-m", "20", &format!("http://10.77.1.1:{port}/")]);
    let done = finish(outside);
    assert_eq!(done.code, Some(7), "refused: {done:?}");
    for own in ["192.168.7.1", "10.77.1.1"] {
        let done = network.run(0, "curl", &["-sS", "-m", "20", &format!("http://{own}:{port}/")]);
        assert!(matches!(done.code, Some(7 | 52 | 55 | 56)), "refused or reset: {done:?}");
    }
    let counters = &network.status()["counters"];
    assert_eq!(counters.get("stack_tcp_relays_started"), None, "{counters}");
    assert_eq!(counters.get("stack_relays_started"), None, "{counters}");
    end(gateway);
}

#[test]
fn a_killed_gateway_leaves_a_network_that_works_and_rules_that_go() {
    let network = Network::new(false);
    let before = network.rules();
    let mut gateway = network.gateway(&[]);
    let second = {
        let mut command = network.site.command(Host::Left, MANYPATH);
        command.args(["gateway", "--lan", network.interfaces]).stdin(Stdio::null());
        finish(command)
    };
    assert!(second.stderr.contains("is at work"), "{second:?}");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    wait_for("the rules to go", || network.rules() == before);
    // Both at once, so that nobody is left to remove the rules.
    let mut gateway = network.gateway(&[]);
    let keepers = sh(&network.site, Host::Left, &format!("pgrep -P {} -f lan-rules", gateway.id()));
    sh(&network.site, Host::Left, &format!("kill -9 {} {}", keepers.trim(), gateway.id()));
    gateway.wait().unwrap();
    assert!(network.rules().contains("manypath_lan"));
    network.downloads(0, &plain());
    let mut remove = network.site.command(Host::Left, MANYPATH);
    remove.args(["gateway", "--lan", network.interfaces, "--remove"]);
    let done = finish(remove);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(network.rules(), before);
    // Left-overs do not keep the next one from its work.
    sh(
        &network.site,
        Host::Left,
        "nft add table inet manypath_lan; ip rule add pref 99 fwmark 0x4000000/0x4000000 lookup 9899",
    );
    let gateway = network.gateway(&[]);
    network.downloads(0, &network.with_manypath());
    end(gateway);
    assert_eq!(network.rules(), before);
}
