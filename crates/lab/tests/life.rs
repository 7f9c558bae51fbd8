//! A lab's life: how it is reached from other processes, and that nothing is left of it.

use crate::support;

use manypath_lab::{Change, Host, Lab, LabError, LabSpec, cli};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Server, isolations, specs, start, this_binary};

/// Holds a lab named by the environment until it is ended.
pub(crate) fn holder() {
    let spec = LabSpec::new(specs(&["1ms"])).named(&std::env::var("LAB_TEST_NAME").unwrap());
    cli::run(spec).unwrap_or_else(|error| println!("{error}"));
    std::process::exit(0);
}

/// Starts a background lab named by the environment.
pub(crate) fn up() {
    let spec = LabSpec::new(specs(&["1ms"])).named(&std::env::var("LAB_TEST_NAME").unwrap());
    match cli::up(spec) {
        Ok(text) => print!("{text}"),
        Err(error) => println!("error: {error}"),
    }
    std::process::exit(0);
}

fn unique(tag: &str) -> String {
    format!("test-{tag}-{}", std::process::id())
}

fn named(tag: &str) -> Option<(String, Lab)> {
    let name = unique(tag);
    let lab = start(LabSpec::new(specs(&["1ms", "2ms"])).named(&name))?;
    Some((name, lab))
}

fn network_of(pid: u32) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Processes in the network namespace `network`.
fn inhabitants(network: &std::path::Path) -> usize {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| network_of(*pid).as_deref() == Some(network)).count()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_first_look_at_a_lab_says_of_its_priority_what_later_ones_say() {
    for _ in 0..5 {
        let Some(lab) = start(LabSpec::new(specs(&["1ms", "2ms"]))) else { return };
        let first = lab.status().unwrap().realtime;
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(first, lab.status().unwrap().realtime);
    }
}

#[test]
fn dropping_a_lab_ends_what_runs_on_its_hosts() {
    for isolation in isolations() {
        let Some(lab) = start(LabSpec { isolation, ..LabSpec::new(specs(&["1ms"])) }) else {
            continue;
        };
        // A shell that ignores SIGTERM, in a session of its own, with a child: all must go.
        let script = "trap '' TERM; setsid sleep 600 & echo here; wait";
        let mut child = lab
            .command(Host::Right, "sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let network = network_of(child.id()).unwrap();
        assert!(inhabitants(&network) >= 2);
        drop(lab);
        assert!(!child.wait().unwrap().success());
        assert_eq!(inhabitants(&network), 0, "{isolation:?}");
    }
}

#[test]
fn killing_the_holder_leaves_nothing() {
    if start(LabSpec::new(specs(&["1ms"]))).is_none() {
        return;
    }
    for signal in ["-KILL", "-INT", "-TERM"] {
        let name = unique(&format!("killed{signal}"));
        let mut command = Command::new(this_binary());
        support::program(&mut command, "holder", &[]);
        let mut holder = command.env("LAB_TEST_NAME", &name).stdout(Stdio::null()).spawn().unwrap();
        eventually("the lab comes up", || Lab::attach(&name).is_ok());
        let lab = Lab::attach(&name).unwrap();
        let mut sleeper = lab.command(Host::Left, "sleep").arg("600").spawn().unwrap();
        let network = network_of(sleeper.id()).unwrap();
        drop(lab);
        assert!(
            Command::new("kill")
                .args([signal, &holder.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        holder.wait().unwrap();
        assert!(!sleeper.wait().unwrap().success());
        eventually("the anchors go", || inhabitants(&network) == 0);
        assert!(matches!(Lab::attach(&name), Err(LabError::NotRunning(_))));
        let socket = support::socket_of(&name);
        eventually("the socket goes", || !socket.exists());
    }
}

#[test]
fn another_process_reaches_a_lab_by_its_name() {
    let Some((name, lab)) = named("attach") else { return };
    let _server = Server::start(&lab, Host::Right, "udp-echo", &["10.77.1.2:7"]);
    let other = Lab::attach(&name).unwrap();
    assert_eq!(other.path_names(), ["A", "B"]);
    other.path("b").unwrap().set(&[Change::Delay(Duration::from_millis(9))]).unwrap();
    assert_eq!(lab.status().unwrap().paths[1].towards_left.delay_ms, 9.0);
    let answer = support::run(&other, Host::Left, "udp-rtt", &["10.77.1.2:7", "3"]);
    assert!(answer.ends_with(" 3"), "{answer}");
    assert_eq!(lab.samples(0).unwrap().paths.len(), other.samples(0).unwrap().paths.len());
    let text = cli::path(&name, "A", Some(Host::Right), &["rate".into(), "5mbit".into()]).unwrap();
    assert!(text.contains("5 Mbit/s") && text.contains("unlimited"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&cli::status(&name, true).unwrap()).unwrap();
    assert_eq!(json["paths"][0]["towards_right"]["rate_bps"], 5_000_000);
    assert_eq!(json["paths"][0]["towards_right"]["packets_out"], 3);
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let Some((name, lab)) = named("mistakes") else { return };
    let again = LabSpec::new(specs(&["1ms"])).named(&name);
    assert!(matches!(Lab::start(again), Err(LabError::NameInUse(_))));
    let text = cli::down(&name).unwrap_err().to_string();
    assert!(text.contains("part of a running program"), "{text}");
    assert!(cli::path(&name, "Z", None, &["down".into()]).unwrap_err().to_string().contains("'Z'"));
    assert!(cli::capture(&name, None).unwrap_err().to_string().contains("no capture is running"));
    let error = lab.capture(std::path::Path::new("/nonexistent/x.pcapng")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/x.pcapng"), "{error}");
    let text = cli::exec(&name, Host::Left, &["no-such-program".into()]).to_string();
    assert!(text.contains("cannot run no-such-program on left"), "{text}");
    let text = cli::status("no-such-lab", false).unwrap_err().to_string();
    assert!(text.contains("manypath-lab up"), "{text}");
}

#[test]
fn the_foreground_lab_ends_when_asked() {
    let name = unique("down");
    let mut command = Command::new(this_binary());
    support::program(&mut command, "holder", &[]);
    let mut holder = command
        .env("LAB_TEST_NAME", &name)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let first = lines.find_map(|line| line.ok().filter(|l| l.contains("lab ")));
    if first.as_ref().is_none_or(|line| line.contains("cannot make")) {
        println!("SKIPPED: {first:?}");
        holder.wait().unwrap();
        return;
    }
    eventually("the lab ends", || cli::down(&name).is_ok());
    assert!(holder.wait().unwrap().success());
    assert!(matches!(Lab::attach(&name), Err(LabError::NotRunning(_))));
}

#[test]
fn the_background_lab_stays_until_it_is_taken_down() {
    let name = unique("up");
    let run_up = || {
        let mut command = Command::new(this_binary());
        support::program(&mut command, "up", &[]);
        // The output ends when the command does: the lab must not hold its streams.
        let output = command.env("LAB_TEST_NAME", &name).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = run_up();
    if first.contains("cannot make") {
        println!("SKIPPED: {first}");
        return;
    }
    assert!(first.contains("lab exec"), "{first}");
    assert!(run_up().contains("is up already"));
    let status = cli::status(&name, false).unwrap();
    assert!(status.contains("pathA"), "{status}");
    let lab = Lab::attach(&name).unwrap();
    let mut sleeper = lab.command(Host::Right, "sleep").arg("600").spawn().unwrap();
    let network = network_of(sleeper.id()).unwrap();
    assert!(cli::down(&name).unwrap().contains("is down"));
    // It says so when all is over, not before.
    assert_eq!(inhabitants(&network), 0);
    assert!(!sleeper.wait().unwrap().success());
    assert!(matches!(Lab::attach(&name), Err(LabError::NotRunning(_))));
    assert!(!support::socket_of(&name).exists());
}

#[test]
fn mptcp_uses_both_paths_or_says_why_not() {
    let Some((_, lab)) = named("mptcp") else { return };
    match lab.enable_mptcp() {
        Ok(()) => {
            let shown =
                lab.command(Host::Right, "ip").args(["mptcp", "endpoint"]).output().unwrap();
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(shown.contains("10.77.2.2") && shown.contains("signal"), "{shown}");
            lab.enable_mptcp().unwrap();
        }
        Err(error) => assert!(matches!(error, LabError::Missing(_)), "{error}"),
    }
}

#[test]
fn congestion_control_can_be_chosen_where_iproute2_is() {
    for isolation in isolations() {
        let Some(lab) = start(LabSpec { isolation, ..LabSpec::new(specs(&["1ms"])) }) else {
            continue;
        };
        for name in ["reno", "cubic"] {
            match lab.set_congestion_control(name) {
                Err(error) => {
                    assert!(matches!(error, LabError::Missing(_)), "{error}");
                    println!("SKIPPED: {error}");
                }
                Ok(()) => {
                    for address in ["10.77.1.2:9", "[fd77:1::2]:9"] {
                        let _sink = Server::start(&lab, Host::Right, "tcp-sink", &[address]);
                        let answer = support::run(&lab, Host::Left, "tcp-congestion", &[address]);
                        assert_eq!(answer, name, "{address}, {isolation:?}");
                    }
                }
            }
        }
        let error = lab.set_congestion_control("nonsense").unwrap_err().to_string();
        assert!(error.contains("reno"), "{error}");
    }
}
