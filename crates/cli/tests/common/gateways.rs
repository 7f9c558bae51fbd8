//! A server behind routers: it has one address, the client several uplinks.

use super::{Site, finish, wait_for};
use manypath_lab::Host;
use std::process::Stdio;

/// The server, behind the routers.
pub(crate) const SERVER: &str = "198.51.100.2";

/// How the server finds back, where nothing is translated.
pub(crate) const BACK: &str = "ip route add 10.77.0.0/16 via 198.51.100.1";

/// What a second lease brings: a default route with a higher metric.
pub(crate) const LEASES: &str = "ip route add default via 10.77.1.2 dev pathA metric 100
                                 ip route add default via 10.77.2.2 dev pathB metric 200";

/// The right host becomes the gateways of both uplinks, and the server is in a network behind it: there the
/// right host's programs run from now on.
pub(crate) fn behind_gateways(paths: &[&str], on_gateways: &str, on_client: &str) -> Site {
    let (mut site, pid) = with_inner_host(paths);
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
    site
}

/// A lab, and a process in one more network, which is not connected to anything yet.
pub(crate) fn with_inner_host(paths: &[&str]) -> (Site, u32) {
    let mut site = Site::with_paths(paths);
    let pid = inner_host(&mut site, Host::Right);
    (site, pid)
}

/// A process of `host` in a network of its own.
pub(crate) fn inner_host(site: &mut Site, host: Host) -> u32 {
    let mut inner = site.command(host, "unshare");
    inner.args(["-n", "sleep", "1000"]).stdin(Stdio::null());
    let inner = inner.spawn().expect("unshare");
    let pid = inner.id();
    site.services.push(inner);
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let outer = sh(site, host, "readlink /proc/self/ns/net");
    let is_apart = || {
        network(&pid.to_string()).is_some_and(|it| it.to_string_lossy() != outer.trim())
            && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "sleep\n")
    };
    wait_for("another network", is_apart);
    pid
}

/// More uplinks of the client, u1 to uN, in one network behind one router, each with a rate. Routes are not made.
pub(crate) fn add_lan(site: &mut Site, rates: &[&str]) {
    sh(site, Host::Right, "ip route add 192.168.7.0/24 via 198.51.100.1");
    let mut client = site.command(Host::Left, "sleep");
    let client = client.arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
    let pid = client.id();
    site.services.push(client);
    let inner = site.inner.take();
    let mut lines = "ip link add lan type bridge; ip link set lan up
                     ip address add 192.168.7.1/24 dev lan\n"
        .to_owned();
    for (number, rate) in (1..).zip(rates) {
        lines += &format!(
            "ip link add u{number} type veth peer name u{number} netns {pid}
             ip link set u{number} master lan; ip link set u{number} up
             tc qdisc add dev u{number} root tbf rate {rate} burst 15k latency 60ms\n"
        );
    }
    sh(site, Host::Right, &lines);
    site.inner = inner;
    for number in 1..=rates.len() {
        let address = format!(
            "ip link set u{number} up; ip address add 192.168.7.1{number}/24 dev u{number}"
        );
        sh(site, Host::Left, &address);
    }
}

/// Runs `line` with a shell on a host.
pub(crate) fn sh(site: &Site, host: Host, line: &str) -> String {
    let mut command = site.command(host, "sh");
    command.args(["-ec", line]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{line}: {done:?}");
    done.stdout
}
