//! Programs whose connections a relay leads on, over both uplinks, to servers without manypath.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::gateways::{SERVER, behind_gateways, sh};
use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::io::Read;
use std::process::Stdio;

const PATHS: [&str; 2] = ["20mbit,10ms,queue=100", "10mbit,15ms,queue=100"];
/// The relay, at its first address.
pub(crate) const RELAY: &str = "10.77.1.2";

/// The client has two uplinks to the relay, behind which is a web server that knows nothing of it.
pub(crate) fn site(relay_options: &[&str]) -> Site {
    site_for("", relay_options)
}

/// The same without a relay yet.
pub(crate) fn site_before_relay() -> Site {
    let mut site = behind_gateways(&PATHS, "", "ip route add 198.51.100.0/24 via 10.77.1.2");
    sh(&site, Host::Right, "ip route add 10.77.0.0/16 via 198.51.100.1");
    site.web();
    site
}

/// The same, with these peers in the relay's list in place of the client.
fn site_for(peers: &str, relay_options: &[&str]) -> Site {
    let mut site = site_before_relay();
    let inner = site.inner.take();
    authorize(&site);
    let list = list(&site);
    if !peers.is_empty() {
        std::fs::write(&list, peers).unwrap();
    }
    let args = ["serve", "-v", "--relay", "--authorized", &list];
    site.service(MANYPATH, &[&args[..], relay_options].concat(), "udp", 9899);
    site.inner = inner;
    site
}

pub(crate) fn list(site: &Site) -> String {
    site.dir.join("authorized").display().to_string()
}

/// Writes the client's key into the relay's list, as its user would.
pub(crate) fn authorize(site: &Site) {
    let mut show = site.command(Host::Left, MANYPATH);
    show.args(["key", "show", "--json"]);
    let done = finish(show);
    let shown: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let key = shown["keys"][0]["key"].as_str().expect("a key");
    std::fs::write(list(site), format!("{key} client\n")).unwrap();
}

pub(crate) const OPEN: [&str; 2] = ["--relay-to", "198.51.100.2:8080"];

fn fetch(site: &Site, options: &[&str], file: &str) -> Finished {
    let url = format!("http://{SERVER}:8080/{file}");
    let args = ["-sS", "-f", "-o", "got", "-w", "%{http_code} %{remote_ip}", &url];
    finish(site.through_command(options, "curl", &args))
}

/// The status of the relay.
pub(crate) fn relay_status(site: &mut Site) -> serde_json::Value {
    let inner = site.inner.take();
    let status = site.server_status();
    site.inner = inner;
    status
}

#[test]
fn a_download_from_a_server_without_manypath_uses_both_uplinks() {
    let mut site = site(&OPEN);
    let file = site.random_file("file", 4 << 20);
    // The association goes with its client.
    let script = format!("curl -sS -f -o got http://{SERVER}:8080/file && echo done && read -r _");
    let mut command = site.through_command(&["--via", RELAY], "sh", &["-c", &script]);
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
    assert!(std::fs::read(site.dir.join("got")).unwrap() == file, "the file has arrived");
    let mut status = serde_json::Value::Null;
    wait_for("the relay's count", || {
        status = relay_status(&mut site);
        status["relayed_peers"][0]["from_destinations_bytes"].as_u64() > Some(4 << 20)
    });
    drop(client.stdin.take());
    client.wait().unwrap();
    let peers = status["relayed_peers"].as_array().unwrap();
    assert_eq!((peers.len(), &peers[0]["opened"]), (1, &1.into()), "{peers:?}");
    let paths = status["associations"][0]["paths"].as_array().cloned().unwrap_or_default();
    let sent: Vec<_> = paths.iter().filter_map(|path| path["bytes_sent"].as_u64()).collect();
    assert!(sent.iter().filter(|sent| **sent > 500_000).count() >= 2, "{sent:?}");
}

#[test]
fn a_connection_outlives_an_uplink() {
    let mut site = site(&OPEN);
    let file = site.random_file("file", 2 << 20);
    let url = format!("http://{SERVER}:8080/file");
    let args = ["-sS", "-f", "-o", "got", "--limit-rate", "500k", &url];
    let mut command = site.through_command(&["--via", RELAY], "curl", &args);
    let mut curl = command.stdin(Stdio::null()).spawn().unwrap();
    wait_for("the download", || {
        std::fs::metadata(site.dir.join("got")).is_ok_and(|it| it.len() > 300_000)
    });
    site.lab.path("A").unwrap().down().unwrap();
    assert!(curl.wait().unwrap().success());
    assert!(std::fs::read(site.dir.join("got")).unwrap() == file);
    assert_eq!(relay_status(&mut site)["relayed_peers"][0]["failed"], 0);
}

#[test]
fn programs_hear_what_the_relay_has_met_and_closed_places_are_reached_without_it() {
    let mut site = site(&["--relay-to", "198.51.100.2:8080-8090"]);
    site.random_file("file", 1000);
    let curl = |port: &str| {
        let url = format!("http://{SERVER}:{port}/file");
        let args = ["-sS", "-f", "-o", "got", &url];
        finish(site.through_command(&["--via", RELAY, "-v"], "curl", &args))
    };
    let refused = curl("8085");
    assert_eq!(refused.code, Some(7), "nobody listens there: {refused:?}");
    assert!(refused.stderr.contains("refused"), "{refused:?}");
    // The relay is not open to it, and the client has a way of its own.
    let closed = curl("8091");
    assert_eq!(closed.code, Some(7), "{closed:?}");
    assert!(closed.stderr.contains("the relay does not relay to this destination"), "{closed:?}");
    let peer = relay_status(&mut site)["relayed_peers"][0].clone();
    assert_eq!((&peer["failed"], &peer["denied"]), (&1.into(), &1.into()), "{peer}");
}

#[test]
fn a_relay_demands_a_list_of_keys_and_says_so() {
    let site = Site::new();
    let serve = |options: &[&str]| {
        let mut command = site.command(Host::Right, MANYPATH);
        command.arg("serve").args(options);
        finish(command)
    };
    let done = serve(&["--relay"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("--relay needs --authorized FILE"), "{done:?}");
    std::fs::write(list(&site), "").unwrap();
    let done = serve(&["--relay", "--authorized", &list(&site), "--encrypt", "opportunistic"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("--encrypt require"), "{done:?}");
    let done = serve(&["--relay-to", "10.0.0.0/8"]);
    assert_eq!(done.code, Some(2), "{done:?}");
}

#[test]
fn a_stranger_gets_nothing_from_a_relay() {
    let mut site = site_for("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= another\n", &OPEN);
    site.random_file("file", 1000);
    // The server is reached all the same: by plain TCP over the first uplink.
    let done = fetch(&site, &["--via", RELAY], "file");
    assert_eq!(done.code, Some(0), "{done:?}");
    let status = relay_status(&mut site);
    assert_eq!(status["relayed_peers"].as_array().map(Vec::len), Some(0), "{status}");
    assert!(status["counters"]["stack_peers_not_authorized"].as_u64() >= Some(1));
    // With no other way allowed it is not.
    std::fs::write(site.dir.join("rules"), "remote enable port 8080 sctp-only=on\n").unwrap();
    let done = fetch(&site, &["--via", RELAY], "file");
    assert_eq!(done.code, Some(7), "{done:?}");
}

/// Runs shell lines under one `manypath run`, each as soon as the one before has ended and `between` has been done.
fn in_steps(
    site: &mut Site,
    options: &[&str],
    lines: &[&str],
    mut between: impl FnMut(&mut Site, usize),
) -> Finished {
    let step = |(number, line): (usize, &&str)| {
        format!("{line}; touch did{number}; until [ -e go{number} ]; do sleep 0.05; done\n")
    };
    let script: String = lines.iter().enumerate().map(step).collect();
    std::fs::write(site.dir.join("steps"), script).unwrap();
    let mut command = site.command(Host::Left, "timeout");
    command.args(["50", MANYPATH, "run", "-v"]).args(options).args(["--", "sh", "steps"]);
    command.stdin(Stdio::null());
    let output = std::fs::File::create(site.dir.join("out")).unwrap();
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let mut run = command.spawn().unwrap();
    for (number, line) in lines.iter().enumerate() {
        wait_for(line, || site.dir.join(format!("did{number}")).exists());
        between(site, number);
        std::fs::write(site.dir.join(format!("go{number}")), "").unwrap();
    }
    let code = run.wait().unwrap().code();
    let stdout = std::fs::read_to_string(site.dir.join("out")).unwrap();
    Finished { code, stdout, stderr: String::new(), time: std::time::Duration::ZERO }
}

/// Prints the status of a download, or the code with which curl ends.
fn get() -> String {
    format!(
        "curl -sS -f -m 20 -o got -w 'got %{{http_code}}\\n' http://{SERVER}:8080/file || echo failed $?"
    )
}

fn outcomes(done: &Finished) -> Vec<&str> {
    let is_one = |line: &&str| line.starts_with("got 2") || line.starts_with("failed ");
    done.stdout.lines().filter(is_one).collect()
}

#[test]
fn when_a_relay_is_killed_the_next_one_is_used_and_then_what_the_rule_says() {
    let mut site = site(&OPEN);
    site.random_file("file", 1000);
    // Its own address, as connections to a relay itself are direct.
    sh(&site, Host::Right, "ip address add 198.51.100.3/24 dev in");
    let args = ["serve", "--relay", "--authorized", &list(&site)];
    let first = site.services.len() - 1;
    site.service(MANYPATH, &[&args[..], &OPEN].concat(), "udp", 9899);
    let second = site.services.len() - 1;
    let (mut opened, get) = (Vec::new(), get());
    // With the last relay gone the rules allow plain TCP, and then do not.
    let kill = |site: &mut Site, which: usize| {
        site.services[which].kill().unwrap();
        site.services[which].wait().unwrap();
    };
    let lines = [get.as_str(); 4];
    let done =
        in_steps(&mut site, &["--via", RELAY, "--via", "198.51.100.3"], &lines, |site, step| {
            match step {
                0 => kill(site, first),
                1 => {
                    opened.push(site.server_status()["relayed_peers"][0]["opened"].clone());
                    kill(site, second);
                }
                2 => {
                    let rule = "remote enable port 8080 sctp-only=on\n";
                    std::fs::write(site.dir.join("rules"), rule).unwrap();
                    let mut reload = site.command(Host::Left, MANYPATH);
                    reload.args(["config", "reload"]);
                    let reload = finish(reload);
                    assert_eq!(reload.code, Some(0), "{reload:?}");
                }
                _ => {}
            }
        });
    let outcomes = outcomes(&done);
    assert_eq!(outcomes[..3], ["got 200"; 3], "{done:?}");
    assert!(outcomes.len() == 4 && outcomes[3].starts_with("failed "), "{done:?}");
    assert_eq!(opened, [1], "{done:?}");
}

#[test]
fn datagrams_and_dns_go_by_the_relay_over_both_uplinks() {
    const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
    let mut site = site(&["--relay-to", "198.51.100.2:5000-8000"]);
    std::fs::write(site.dir.join("rules"), "remote enable udp any lifetime=2s\n").unwrap();
    site.service("python3", &[PROGRAM, "server", "0.0.0.0", "7000"], "udp", 7000);
    site.service("python3", &[PROGRAM, "dns", "0.0.0.0", "5353"], "udp", 5353);
    let through = |site: &Site, program: &str, args: &[&str]| {
        finish(site.through_command(&["--via", RELAY, "-v"], program, args))
    };
    let echoed = through(&site, "python3", &[PROGRAM, "echo", SERVER, "7000"]);
    assert_eq!((echoed.code, echoed.stdout.trim()), (Some(0), "echo ok"), "{echoed:?}");
    let at = format!("@{SERVER}");
    let args = [at.as_str(), "-p", "5353", "+short", "+time=3", "+tries=3", "example.org"];
    let answer = through(&site, "dig", &args);
    assert_eq!(answer.stdout.trim(), "192.0.2.53", "{answer:?}");
    let sent = [PROGRAM, "send", SERVER, "7000", "200", "5"];
    let sent = through(&site, "python3", &sent);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let closed = through(&site, "python3", &[PROGRAM, "query", SERVER, "9000"]);
    assert!(closed.stderr.contains("the relay does not relay to this destination"), "{closed:?}");
    let peer = relay_status(&mut site)["relayed_peers"][0].clone();
    assert!(peer["opened"].as_u64() >= Some(3) && peer["denied"] == 1, "{peer}");
    assert!(peer["from_destinations_bytes"].as_u64() > Some(120_000), "{peer}");
}

/// Seconds that curl takes for its first byte, and for everything, in the middle of five runs.
fn times(site: &Site, options: Option<&[&str]>, url: &str) -> (f64, f64) {
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{time_starttransfer} %{time_total}", url];
    let mut all: Vec<(f64, f64)> = (0..5)
        .map(|_| {
            let done = match options {
                Some(options) => finish(site.through_command(options, "curl", &args)),
                None => site.direct("curl", &args),
            };
            assert_eq!(done.code, Some(0), "{done:?}");
            let mut words = done.stdout.split(' ').map(|word| word.parse::<f64>().unwrap());
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect();
    let mut middle = |part: fn(&(f64, f64)) -> f64| {
        all.sort_by(|one, other| part(one).total_cmp(&part(other)));
        part(&all[2])
    };
    (middle(|it| it.0), middle(|it| it.1))
}

/// Prints how fast a download through a relay is beside one between two hosts with manypath, and how soon its first byte
/// comes beside plain TCP: `cargo test -p manypath-cli --test it relays::measure -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measure_a_relay_beside_a_direct_pair() {
    const BYTES: u64 = 16 << 20;
    let mut site = site(&[&OPEN[..], &["--allow", "8080"]].concat());
    site.random_file("file", BYTES);
    site.random_file("byte", 1);
    let far = |file: &str| format!("http://{SERVER}:8080/{file}");
    // A stack that stays, so that the association is there, as for all but the first connection.
    let keep = ["--via", RELAY];
    let shared = |mut command: std::process::Command| {
        command.env_remove("MANYPATH_OWN_STACK");
        command
    };
    let first = |site: &Site| {
        let url = far("byte");
        let args = ["-sS", "-o", "/dev/null", "-w", "%{time_starttransfer}", &url];
        let done = finish(shared(site.through_command(&keep, "curl", &args)));
        done.stdout.parse::<f64>().unwrap_or_else(|_| panic!("{done:?}"))
    };
    let cold = first(&site);
    let mut warm: Vec<f64> = (0..5).map(|_| first(&site)).collect();
    warm.sort_by(f64::total_cmp);
    let (plain, _) = times(&site, None, &far("byte"));
    println!(
        "first byte: plain TCP {:.1} ms, by the relay {:.1} ms, with a new association {:.1} ms",
        plain * 1e3,
        warm[2] * 1e3,
        cold * 1e3
    );
    let (_, relayed) = times(&site, Some(&keep), &far("file"));
    // The relay's host itself serves the same file.
    let inner = site.inner.take();
    let (dir, inner_dir) = (site.dir.join("nginx"), site.dir.join("nginx-far"));
    std::fs::rename(&dir, &inner_dir).unwrap();
    site.web();
    site.inner = inner;
    let near = format!("http://{RELAY}:8080/file");
    let (_, direct) = times(&site, Some(&["--encrypt", "require"]), &near);
    let rate = |seconds: f64| BYTES as f64 * 8.0 / seconds / 1e6;
    println!(
        "download of {BYTES} bytes: direct pair {:.1} Mbit/s, by the relay {:.1} Mbit/s: {:.2}",
        rate(direct),
        rate(relayed),
        direct / relayed
    );
}
