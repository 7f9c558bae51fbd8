//! The router between client and server is somebody in the middle (docs/key-management.md).

use super::home::{ONE_HOME, ONE_UPLINK, PUBLIC, behind, on_router};
use crate::common::gateways::sh;
use crate::common::{MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/middle_man.py");
/// What nobody on the way is to read.
const SECRET: &str = "what nobody on the way is to read";
/// Everything goes to the server. The counter tells how many TCP connections were begun.
const HONEST: &str = "
  chain pre {
    type nat hook prerouting priority -100;
    ip daddr 203.0.113.1 tcp dport 8080 counter dnat to 10.9.1.2
    ip daddr 203.0.113.1 udp dport 9899 dnat to 10.9.1.2
  }
  chain post {
    type nat hook postrouting priority 100;
    iifname out1 snat to 203.0.113.1
  }";

/// The client and the server, which have met before, and the router between them.
fn acquainted() -> Site {
    let mut site = behind(HONEST, ONE_UPLINK);
    sh(&site, Host::Right, ONE_HOME);
    site.web();
    std::fs::create_dir_all(site.dir.join("www")).expect("a folder");
    std::fs::write(site.dir.join("www/file"), SECRET.repeat(3000)).expect("a file");
    let args = ["serve", "--allow", "8080", "--encrypt", "opportunistic", "-v"];
    site.service(MANYPATH, &args, "udp", 9899);
    let (code, report) = fetch(&site, "require");
    assert_eq!((code, &report["sctp"]), (Some(0), &Value::from(1)), "{report}");
    assert_eq!(tcp_connections(&mut site), 0);
    site
}

/// Downloads the file; how curl ended, and what the launcher says.
fn fetch(site: &Site, encrypt: &str) -> (Option<i32>, Value) {
    let _ = std::fs::remove_file(site.dir.join("got"));
    // What was remembered of the last attempt must not decide.
    let _ = std::fs::remove_file(site.dir.join("peers"));
    let url = format!("http://{}:8080/file", PUBLIC[0]);
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["run", "--json", "--encrypt", encrypt, "--"]);
    command.arg(find("curl")).args(["-sS", "-f", "-o", "got", &url]);
    let done = finish(command);
    let mut reports = done.stderr.lines().filter_map(|line| serde_json::from_str(line).ok());
    (done.code, reports.next_back().unwrap_or_default())
}

fn has_got(site: &Site) -> bool {
    std::fs::read_to_string(site.dir.join("got")).is_ok_and(|got| got == SECRET.repeat(3000))
}

/// TCP connections to the service that the router has seen begin.
fn tcp_connections(site: &mut Site) -> u64 {
    let listed = on_router(site, "nft list table ip nat");
    let mut words = listed.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).and_then(|count| count.parse().ok()).expect("a counter")
}

/// From now on UDP for the server goes to a port of the router.
fn intercept(site: &mut Site, port: u16) {
    let nat =
        HONEST.replace("dport 9899 dnat to 10.9.1.2", &format!("dport 9899 redirect to {port}"));
    on_router(site, &format!("nft flush table ip nat; nft -f - <<.\ntable ip nat {{{nat}\n}}\n."));
    // What is known of earlier flows would go on.
    on_router(site, &format!("{} -F", find("conntrack").display()));
}

fn names(report: &Value, reason: &str) -> bool {
    report.to_string().contains(reason)
}

#[test]
fn somebody_who_takes_the_offer_out_is_noticed_and_reads_nothing_that_must_be_encrypted() {
    let mut site = acquainted();
    let counts = site.dir.join("counts");
    let inner = site.inner.take();
    let path = counts.display().to_string();
    let args = [PROGRAM, "9900", "10.9.1.2", "9899", &path, SECRET];
    site.service("python3", &args, "udp", 9900);
    site.inner = inner;
    intercept(&mut site, 9900);
    let counted = || -> Vec<u64> {
        let text = std::fs::read_to_string(&counts).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };

    let (code, report) = fetch(&site, "require");
    assert_eq!(code, Some(7), "curl cannot connect: {report}");
    assert!(!has_got(&site));
    wait_for("a changed INIT", || counted().first().is_some_and(|changed| *changed > 0));
    assert_eq!((tcp_connections(&mut site), counted()[1]), (0, 0), "nothing in clear");

    let (code, report) = fetch(&site, "opportunistic");
    assert_eq!((code, has_got(&site)), (Some(0), true), "plain TCP: {report}");
    assert!(names(&report, "no-longer-encrypted"), "{report}");
    assert_eq!(counted()[1], 0, "nothing was sent to the middle over SCTP");
    assert_eq!(tcp_connections(&mut site), 1);

    // Who does not know the peer believes the middle: what `require` is for.
    std::fs::remove_file(site.keys(Host::Left).join("known_peers")).expect("known_peers");
    let (code, report) = fetch(&site, "opportunistic");
    assert_eq!((code, has_got(&site), &report["sctp"]), (Some(0), true, &1.into()), "{report}");
    assert!(counted()[1] > 0, "that was plain, as the middle could read");
    let (code, report) = fetch(&site, "require");
    assert_eq!(code, Some(7), "{report}");
}

#[test]
fn somebody_who_answers_with_a_key_of_its_own_is_noticed_and_gets_nothing() {
    let mut site = acquainted();
    let inner = site.inner.take();
    let keys = site.dir.join("keys-middle");
    let mut middle = site.command(Host::Right, MANYPATH);
    middle.env("MANYPATH_KEYS", &keys).env("MANYPATH_RUNTIME_DIR", site.dir.join("run-middle"));
    middle.args(["serve", "--allow", "8080", "--encrypt", "require", "-v"]);
    // The log of the server is named by its port.
    std::fs::rename(site.dir.join("log-9899"), site.dir.join("log-server")).expect("a log");
    site.begin_service(middle, MANYPATH, "udp", 9899);
    site.inner = inner;
    intercept(&mut site, 9899);
    let log = site.dir.join("log-9899");
    let met = || std::fs::read_to_string(&log).expect("a log").matches(": accepted").count();

    let (code, report) = fetch(&site, "require");
    assert_eq!(code, Some(7), "curl cannot connect: {report}");
    let (code, report) = fetch(&site, "opportunistic");
    assert_eq!((code, has_got(&site)), (Some(0), true), "plain TCP: {report}");
    assert!(names(&report, "key-changed"), "{report}");
    assert_eq!(tcp_connections(&mut site), 1);
    assert!(met() > 1, "the middle has been asked each time");
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(!log.contains("connection from"), "and has got no connection: {log}");
}
