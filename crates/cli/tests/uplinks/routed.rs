//! Client and server with routers between them: the server has one address, the client two uplinks.

use crate::cases::{Case, TWO, ms};
use crate::common::{Site, wait_for};
use crate::course::{FILE, Happening, sh};
use manypath_lab::Host;
use std::process::{Command, Stdio};

/// The server, behind the routers.
const SERVER: &str = "198.51.100.2";

/// The right host becomes the gateways of both uplinks, and the server is in a network behind it.
fn behind_gateways(on_gateways: &str, on_client: &str) -> (Site, String) {
    let mut site = Site::with_paths(TWO);
    let mut server = site.command(Host::Right, "unshare");
    server.args(["-n", "sleep", "1000"]).stdin(Stdio::null());
    let server = server.spawn().expect("unshare");
    let pid = server.id();
    site.services.push(server);
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let gateways = sh(&site, Host::Right, "readlink /proc/self/ns/net");
    let is_apart = || {
        network(&pid.to_string()).is_some_and(|it| it.to_string_lossy() != gateways.trim())
            && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "sleep\n")
    };
    wait_for("the server's network", is_apart);
    let wire = format!(
        "ip link add out type veth peer name in netns {pid}; ip link set out up
         ip address add 198.51.100.1/24 dev out; ip address add 198.51.100.12/24 dev out
         echo 1 > /proc/sys/net/ipv4/ip_forward; {on_gateways}"
    );
    sh(&site, Host::Right, &wire);
    sh(&site, Host::Left, on_client);
    site.inner = Some(pid);
    let link = format!("ip link set lo up; ip link set in up; ip address add {SERVER}/24 dev in");
    sh(&site, Host::Right, &link);
    site.web();
    site.random_file("file", FILE);
    site.serve("8080");
    (site, SERVER.to_owned())
}

/// Two more uplinks of the client, in one network behind one router: 20 and 10 Mbit/s. Those of the lab are
/// switched off.
fn twins() -> (Site, String) {
    let (mut site, server) = behind_gateways("", "ip link set pathA down; ip link set pathB down");
    sh(&site, Host::Right, "ip route add 192.168.7.0/24 via 198.51.100.1");
    let mut client = site.command(Host::Left, "sleep");
    let client = client.arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
    let pid = client.id();
    site.services.push(client);
    let inner = site.inner.take();
    let mut lines = "ip link add lan type bridge; ip link set lan up
                     ip address add 192.168.7.1/24 dev lan\n"
        .to_owned();
    for (link, rate) in [("u1", "20mbit"), ("u2", "10mbit")] {
        lines += &format!(
            "ip link add {link} type veth peer name {link} netns {pid}
             ip link set {link} master lan; ip link set {link} up
             tc qdisc add dev {link} root tbf rate {rate} burst 15k latency 60ms\n"
        );
    }
    sh(&site, Host::Right, &lines);
    site.inner = inner;
    let leases = "for i in 1 2; do
                    ip link set u$i up; ip address add 192.168.7.1$i/24 dev u$i
                    ip route add default via 192.168.7.1 dev u$i metric ${i}00
                  done";
    sh(&site, Host::Left, leases);
    (site, server)
}

/// How the server finds back, where nothing is translated.
const BACK: &str = "ip route add 10.77.0.0/16 via 198.51.100.1";

/// What a second lease brings: a default route with a higher metric.
const LEASES: &str = "ip route add default via 10.77.1.2 dev pathA metric 100
                      ip route add default via 10.77.2.2 dev pathB metric 200";

fn two_gateways() -> (Site, String) {
    let (site, server) = behind_gateways("", LEASES);
    sh(&site, Host::Right, BACK);
    (site, server)
}

/// The gateways as two NATs with an address each.
const NATS: &str = "nft -f - <<.
table ip nat {
  chain post {
    type nat hook postrouting priority 100;
    iifname pathA oifname out ip protocol udp snat to 198.51.100.1:20000-60000 fully-random
    iifname pathB oifname out ip protocol udp snat to 198.51.100.12:20000-60000 fully-random
    iifname pathA oifname out snat to 198.51.100.1
    iifname pathB oifname out snat to 198.51.100.12
  }
}
.
";

fn two_nats() -> (Site, String) {
    behind_gateways(NATS, LEASES)
}

pub(crate) const TWINS: Case = Case {
    name: "both uplinks in one subnet",
    site: twins,
    happenings: || vec![(ms(0), Box::new(|_: &Site| {}))],
    watch: ms(4000),
    dark: ms(0),
};

/// Both NATs forget everything, so that all comes from other ports.
fn forget() -> Vec<Happening<'static>> {
    let forget = |site: &Site| {
        let mut command: Command = site.lab.command(Host::Right, "conntrack");
        let done = command.arg("-F").output().expect("conntrack: scripts/setup test");
        assert!(done.status.success(), "{done:?}");
    };
    vec![(ms(0), Box::new(forget))]
}

pub(crate) const GATEWAYS: Case = Case {
    name: "two gateways, the second default route with a higher metric",
    site: two_gateways,
    happenings: || vec![(ms(0), Box::new(|_: &Site| {}))],
    watch: ms(4000),
    dark: ms(0),
};

pub(crate) const NATTED: Case = Case {
    name: "behind two NATs",
    site: two_nats,
    happenings: || vec![(ms(0), Box::new(|_: &Site| {}))],
    watch: ms(4000),
    dark: ms(0),
};

pub(crate) const REBOUND: Case = Case {
    name: "behind two NATs that both forget their mappings",
    site: two_nats,
    happenings: forget,
    watch: ms(6000),
    dark: ms(0),
};

#[test]
fn both_uplinks_carry_where_each_has_its_own_gateway() {
    let (_site, course) = GATEWAYS.run();
    assert!(course.carried.iter().all(Option::is_some), "{course:?}");
}

#[test]
fn both_uplinks_carry_behind_two_nats_and_after_these_have_forgotten_them() {
    let (_site, course) = REBOUND.run();
    let lasts = |it: &Option<(_, _)>| it.is_some_and(|(_, last)| last > ms(4000));
    assert!(course.carried.iter().all(lasts), "{course:?}");
}

#[test]
fn both_uplinks_in_one_subnet_carry() {
    let (site, _) = TWINS.run();
    for link in ["u1", "u2"] {
        let file = format!("grep {link}: /proc/net/dev | cut -d: -f2");
        let counts = sh(&site, Host::Left, &file);
        let received = counts.split_whitespace().next().expect("a count");
        assert!(received.parse::<u64>().expect("a number") > 500_000, "{link}: {counts}");
    }
}
