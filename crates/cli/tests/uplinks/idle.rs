//! A connection on which nothing is said for so long that both NATs forget it, unless HEARTBEATs keep the
//! mappings: how long the first words after that take.

use crate::common::Site;
use crate::uplinks::routed::two_nats;
use manypath_lab::Host;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/idle.py");
/// The port of the service, which `routed` opens to peers.
pub(crate) const PORT: u16 = 8090;
/// HB.interval, and what chance and an RTO add to it.
const HEARTBEATS: Duration = Duration::from_secs(32);

/// Lets the NATs forget what was silent for so long, and drop what comes for nobody, as home routers do.
fn forget_after(site: &Site, lifetime: Duration) {
    let seconds = lifetime.as_secs();
    let line = format!(
        "for timeout in udp_timeout udp_timeout_stream; do
           echo {seconds} > /proc/sys/net/netfilter/nf_conntrack_$timeout
         done
         nft add table ip silent
         nft add chain ip silent input '{{ type filter hook input priority 0; }}'
         nft add rule ip silent input iifname out udp dport 20000-60000 drop"
    );
    let mut gateways = site.lab.command(Host::Right, "sh");
    let done = gateways.args(["-ec", &line]).output().expect("sh");
    assert!(done.status.success(), "{done:?}");
}

/// What the first words after `idle` take, and a round trip after them, when `who` speaks first.
fn words_after(who: &str, idle: Duration, lifetime: Duration) -> [Duration; 2] {
    let (mut site, server) = two_nats();
    forget_after(&site, lifetime);
    site.service("python3", &[PROGRAM, "server", &PORT.to_string()], "tcp6", PORT);
    let port = PORT.to_string();
    let seconds = idle.as_secs().to_string();
    let args = [PROGRAM, "client", &server, &port, who, &seconds];
    let mut command = site.through_command(&[], "python3", &args);
    // It may take longer than other programs of tests.
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = child.spawn().expect("the program").wait_with_output().expect("its output");
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let time = |name: &str| Duration::from_secs_f64(told[name].as_f64().expect("ms") / 1e3);
    let times = ["first", "next"].map(time);
    assert_eq!(site.server_counter("flow_incoming"), 1, "it was carried");
    println!(
        "| {who} speaks first after {seconds} s, NATs forget after {} s | {:.0} | {:.0} |",
        lifetime.as_secs(),
        times[0].as_secs_f64() * 1e3,
        times[1].as_secs_f64() * 1e3
    );
    times
}

#[test]
fn a_client_goes_on_over_mappings_that_were_forgotten() {
    let [first, next] = words_after("client", Duration::from_secs(6), Duration::from_secs(2));
    assert!(first < Duration::from_secs(3), "{first:?}");
    assert!(next < Duration::from_secs(2), "{next:?}");
}

#[test]
#[ignore = "takes minutes: make test-full"]
fn words_after_a_long_silence_arrive_behind_two_nats() {
    let minute = Duration::from_secs(60);
    // HEARTBEATs keep the mappings.
    for who in ["client", "server"] {
        let [first, next] = words_after(who, minute + minute / 4, minute);
        let soon = Duration::from_millis(500);
        assert!(first < soon && next < soon, "{who}: {first:?} {next:?}");
    }
    // They come too rarely for these: a client's words open new ones, a server's wait for a HEARTBEAT.
    let [first, next] = words_after("client", minute / 3, minute / 6);
    assert!(first < Duration::from_secs(2) && next < Duration::from_secs(2), "{first:?} {next:?}");
    let [first, next] = words_after("server", minute / 3, minute / 6);
    assert!(first < HEARTBEATS && next < Duration::from_secs(2), "{first:?} {next:?}");
}
