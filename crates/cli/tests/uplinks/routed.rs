//! Client and server with routers between them: the server has one address, the client two uplinks.

use crate::common::Site;
use crate::common::gateways::{self, BACK, LEASES, SERVER, add_lan, sh};
use crate::uplinks::cases::{Case, TWO, ms};
use crate::uplinks::course::{FILE, Happening};
use manypath_lab::Host;
use std::process::Command;

/// The right host becomes the gateways of both uplinks; the server serves the file.
fn behind_gateways(on_gateways: &str, on_client: &str) -> (Site, String) {
    serving(gateways::behind_gateways(TWO, on_gateways, on_client))
}

fn serving(mut site: Site) -> (Site, String) {
    site.web();
    site.random_file("file", FILE);
    site.serve(&format!("8080,{}", crate::uplinks::idle::PORT));
    (site, SERVER.to_owned())
}

/// Two more uplinks of the client, in one network behind one router: 20 and 10 Mbit/s. Those of the lab are
/// switched off.
fn twins() -> (Site, String) {
    let off = "ip link set pathA down; ip link set pathB down";
    let mut site = gateways::behind_gateways(TWO, "", off);
    add_lan(&mut site, &["20mbit", "10mbit"]);
    let leases = "for i in 1 2; do
                    ip route add default via 192.168.7.1 dev u$i metric ${i}00
                  done";
    sh(&site, Host::Left, leases);
    serving(site)
}

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

pub(crate) fn two_nats() -> (Site, String) {
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
