//! What happens where SCTP is not the answer: refused, silent, not allowed, dead.

use crate::common;

use common::gateways::sh;
use common::{Site, finish, stack_of, wait_for};
use manypath_lab::Host;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_closed_port_fails_as_on_tcp() {
    let mut site = Site::new();
    site.serve("8080,8090");
    let url = format!("http://{}:8090/", site.server());
    let direct = site.direct("curl", &["-sS", &url]);
    let through = site.through("curl", &["-sS", &url]);
    assert_eq!(direct.code, Some(7), "{direct:?}");
    assert_eq!(through.code, Some(7), "{through:?}");
}

#[test]
fn a_host_without_manypath_is_reached_by_plain_tcp() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{}:8080/small", site.server());
    let done =
        site.through("curl", &["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{done:?}");
}

/// INITs are repeated over the second uplink before the first one can be answered, and TCP takes longer than a silent peer
/// may.
#[test]
fn the_first_connection_over_a_long_way_is_carried() {
    let mut site = Site::with_paths(&["100mbit,400ms", "100mbit,400ms"]);
    site.web();
    site.serve("8080");
    site.random_file("small", 10_000);
    std::fs::write(site.dir.join("sysctl.conf"), "step_aside = never\n").expect("settings");
    let url = format!("http://{}:8080/small", site.server());
    let args = ["-sS", "-f", "-o", "/dev/null", &url];
    let done = finish(site.through_command(&["--report"], "curl", &args));
    assert!(done.stderr.contains("opened=1 sctp=1 tcp-relay=0"), "{done:?}");
}

/// A TCP connect that has begun outlasts a route that goes and comes back; so does one that begins over SCTP.
#[test]
fn a_route_that_comes_back_is_in_time_for_a_connect_that_has_begun() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    // Nothing answers, and the head start is long enough to take the route away meanwhile.
    let mut silent = foreign_udp(&site, "pass");
    let settings = "step_aside = never\ntcp_race = off\ntcp_head_start_ms = 3000\nfallback_timeout_ms = 4000\n";
    std::fs::write(site.dir.join("sysctl.conf"), settings).expect("settings");
    let url = format!("http://{}:8080/small", site.server());
    let is_under_way = || {
        let mut command = site.command(Host::Left, common::MANYPATH);
        command.args(["status", "--json"]);
        let status: serde_json::Value =
            serde_json::from_str(&finish(command).stdout).unwrap_or_default();
        !status["stacks"][0]["associations"][0].is_null()
    };
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url];
    let done = std::thread::scope(|scope| {
        let curl = scope.spawn(|| site.through("curl", &args));
        wait_for("a connect that is under way", is_under_way);
        sh(&site, Host::Left, "ip route del 10.77.1.0/24 dev pathA");
        std::thread::sleep(Duration::from_secs(5));
        sh(&site, Host::Left, "ip route add 10.77.1.0/24 dev pathA src 10.77.1.1");
        curl.join().expect("curl")
    });
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{done:?}");
    assert!(done.time > Duration::from_secs(5), "the connect did not meet the gap: {done:?}");
    let _ = silent.kill();
    let _ = silent.wait();
}

#[test]
fn a_port_that_is_not_allowed_is_reached_by_plain_tcp() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    site.serve("1234");
    let url = format!("http://{}:8080/small", site.server());
    let done =
        site.through("curl", &["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{done:?}");
}

/// What listens on the server's UDP port 9899 instead of manypath: it does `act` with each packet.
fn foreign_udp(site: &Site, act: &str) -> std::process::Child {
    let program = format!(
        "import os,socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
         s.bind(('0.0.0.0',9899))\nprint('bound',flush=True)\n\
         while True:\n p,a=s.recvfrom(65536)\n {act}"
    );
    let mut command = site.command(Host::Right, common::find("python3"));
    let mut child = command.args(["-c", &program]).stdout(Stdio::piped()).spawn().expect("python3");
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().expect("stdout"), &mut line).expect("bound");
    child
}

#[test]
fn a_peer_that_answers_garbage_is_reached_by_plain_tcp() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{}:8080/small", site.server());
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url];
    // Noise, our own packet sent back, and the same with damage.
    for answer in ["os.urandom(200)", "p", "p[:20]+os.urandom(40)"] {
        let mut peer = foreign_udp(&site, &format!("s.sendto({answer},a)"));
        let done = site.through("curl", &args);
        let _ = peer.kill();
        let _ = peer.wait();
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{answer}: {done:?}");
    }
}

#[test]
fn a_destination_without_a_route_is_unreachable_at_once() {
    let site = Site::new();
    let ask = "import errno, socket, sys\n\
               s = socket.socket()\n\
               print(errno.errorcode[s.connect_ex(('198.51.100.1', 80))])";
    assert_eq!(site.direct("python3", &["-c", ask]).stdout, "ENETUNREACH\n");
    let command = site.through_command(&["--report", "--json"], "python3", &["-c", ask]);
    let done = finish(command);
    assert_eq!(done.stdout, "ENETUNREACH\n", "{done:?}");
    // Not because nobody has answered.
    assert!(common::in_cgroup() || done.stderr.contains("no-local-address"), "{done:?}");
}

#[test]
fn a_silent_peer_costs_at_most_the_fallback_timeout() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let mut silent = foreign_udp(&site, "pass");
    let url = format!("http://{}:8080/small", site.server());
    // %{time_connect} is what the program itself sees; ssh-like blocking connects are probed below.
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{time_connect}", &url];
    let times: Vec<f64> =
        (0..5).map(|_| site.through("curl", &args).stdout.parse().expect("time")).collect();
    let median = median(times);
    assert!(median < 0.3 + 0.15, "connect took {median} s");

    let program = "import socket,sys,time\nt=time.time()\ns=socket.create_connection((sys.argv[1],8080))\nprint(time.time()-t)";
    let times: Vec<f64> = (0..5)
        .map(|_| {
            site.through("python3", &["-c", program, &site.server()])
                .stdout
                .trim()
                .parse()
                .expect("time")
        })
        .collect();
    let median = self::median(times);
    let _ = silent.kill();
    let _ = silent.wait();
    assert!(median < 0.3 + 0.15, "blocking connect took {median} s");
}

#[test]
fn a_long_round_trip_is_not_silence() {
    let mut site = Site::with_paths(&["20mbit,300ms,queue=100"]);
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    let url = format!("http://{}:8080/small", site.server());
    let done = finish(site.through_command(
        &["--json"],
        "curl",
        &["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url],
    ));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{done:?}");
    let report = done.stderr.lines().last().expect("a report");
    let report: serde_json::Value = serde_json::from_str(report).expect("JSON");
    assert_eq!((&report["sctp"], &report["tcp_relay"]), (&1.into(), &0.into()), "{report}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn an_unreachable_host_fails_as_on_tcp() {
    let site = Site::new();
    let url = "http://192.0.2.1:8080/";
    let direct = site.direct("curl", &["-sS", "--connect-timeout", "3", url]);
    let through = site.through("curl", &["-sS", "--connect-timeout", "3", url]);
    assert_eq!(direct.code, through.code, "{direct:?} {through:?}");
}

#[test]
fn killing_the_stack_ends_connections_and_leaves_plain_tcp() {
    let mut site = Site::with_paths(&["20mbit,5ms,queue=100", "10mbit,10ms,queue=100"]);
    site.web();
    site.random_file("file", 20_000_000);
    site.random_file("small", 10_000);
    site.serve("8080");
    // One program, so that both connections belong to one launcher.
    let script = format!(
        "curl -sS -f -o /dev/null http://{0}:8080/file; echo first $?; \
         curl -sS -f -m 1 -o /dev/null -w '%{{size_download}}' http://{0}:8080/small; echo; echo second $?",
        site.server()
    );
    let mut command = site.through_command(&[], "sh", &["-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("manypath run");
    wait_for("the transfer to run", || {
        let status = site.server_status();
        status["associations"][0]["flows"][0]["bytes_out"].as_u64().unwrap_or(0) > 1_000_000
    });
    let stack = stack_of(child.id());
    let killed = Instant::now();
    let status = Command::new("kill").args(["-9", &stack.to_string()]).status().expect("kill");
    assert!(status.success());
    let output = child.wait_with_output().expect("output");
    let took = killed.elapsed();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("first ") && lines[0] != "first 0", "{text}");
    assert_eq!(lines[1..], ["10000", "second 0"], "{text}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_cut_path_is_survived_and_used_again() {
    let mut site = Site::with_paths(&["20mbit,10ms,queue=100", "10mbit,40ms,queue=100"]);
    site.web();
    let content = site.random_file("file", 12_000_000);
    site.serve("8080");
    let out = site.dir.join("got").display().to_string();
    let url = format!("http://{}:8080/file", site.server());
    let mut command = site.through_command(&[], "curl", &["-sS", "-f", "-o", &out, &url]);
    let child = command.stdin(Stdio::null()).spawn().expect("manypath run");
    let size = || std::fs::metadata(&out).map_or(0, |m| m.len());
    wait_for("the transfer to run", || size() > 2_000_000);
    let path = site.lab.path("A").expect("path A");
    path.down().expect("cut");
    let at_cut = size();
    wait_for("progress without path A", || size() > at_cut + 500_000);
    path.up().expect("restore");
    let restored = site.lab.elapsed().expect("clock");
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success());
    assert!(std::fs::read(&out).expect("file") == content, "the file arrived damaged");
    let samples = site.lab.samples(0).expect("samples");
    let first = (restored.as_nanos() / samples.bucket.as_nanos()) as usize + 1;
    let path_a = samples.paths.iter().find(|p| p.name == "A").expect("A");
    let after: u64 =
        path_a.towards_left.iter().skip(first.saturating_sub(samples.first as usize)).sum();
    assert!(after > 500_000, "path A carried {after} bytes after it returned");
}

#[test]
fn wrong_use_gets_a_clear_message() {
    let site = Site::new();
    let say = |args: &[&str]| {
        let mut command = site.command(Host::Left, common::MANYPATH);
        command.args(args);
        let done = finish(command);
        (done.code, done.stderr)
    };
    assert_eq!(say(&["run"]).0, Some(125));
    let (code, text) = say(&["run", "--", "no-such-program"]);
    assert_eq!(code, Some(127), "{text}");
    assert!(text.contains("no-such-program"), "{text}");
    let (code, text) = say(&["serve", "--allow", "nonsense"]);
    assert!(code != Some(0) && text.contains("nonsense"), "{code:?} {text}");
    for out_of_reach in ["127.0.0.1:22", "[::1]:22", "0.0.0.0:22"] {
        let (code, text) = say(&["serve", "--allow", out_of_reach]);
        assert!(code == Some(2) && text.contains(out_of_reach), "{code:?} {text}");
    }
    let (code, text) = say(&["lab", "--name", "none", "path", "A", "down"]);
    assert!(code != Some(0) && text.contains("none"), "{code:?} {text}");
    let (code, text) = say(&["run", "--daemon", "/nonexistent.sock", "--", "true"]);
    assert!(code != Some(0) && text.contains("/nonexistent.sock"), "{code:?} {text}");
}

#[test]
fn a_busy_port_is_named() {
    let mut site = Site::new();
    site.serve("8080");
    let mut command = site.command(Host::Right, common::MANYPATH);
    command.args(["serve", "--allow", "8080"]);
    let done = finish(command);
    assert_ne!(done.code, Some(0));
    assert!(done.stderr.contains("9899") && done.stderr.contains("--port"), "{done:?}");
}
