//! `manypath-lab bench`: that bytes flow, fields are there and agree, errors are told, nothing is left.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MANYPATH: &str = env!("CARGO_BIN_EXE_manypath-lab");

fn bench(args: &[&str]) -> Output {
    Command::new(MANYPATH).arg("bench").args(args).output().unwrap()
}

/// What a short run prints as JSON.
fn results(args: &[&str]) -> Value {
    // BBR may take half a second of the first to find the rate of loopback.
    let output = bench(&[&["--json", "--runs", "1", "-t", "1", "-O", "0.1"], args].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn row<'a>(json: &'a Value, case: &str, transport: &str) -> &'a Value {
    let rows = json["results"].as_array().unwrap();
    let found = rows.iter().find(|row| row["case"] == case && row["transport"] == transport);
    found.unwrap_or_else(|| panic!("no {case} by {transport}: {json}"))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field}: {row}"))
}

/// Fails if a field is not what the runs of its row say.
fn check_throughput(row: &Value) {
    let run = &row["runs"][0];
    let (bytes, seconds) = (number(run, "bytes"), number(run, "seconds"));
    assert!(bytes > 1e6 && (0.25..5.0).contains(&seconds), "{row}");
    assert!((number(row, "goodput_mbps") / (bytes * 8e-6 / seconds) - 1.0).abs() < 1e-6);
    let sum: f64 = row["cpu_s_of"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    let cost = sum / (bytes / f64::from(1 << 30));
    assert!(cost > 0.0 && (number(row, "cpu_s_per_gib") / cost - 1.0).abs() < 1e-6, "{row}");
}

#[test]
fn throughput_on_loopback_is_measured_for_every_transport_and_related_to_tcp() {
    let transports = "tcp,manypath,association,encrypted,udp";
    let json = results(&[
        "--place",
        "loopback",
        "--case",
        "throughput",
        "--transport",
        transports,
        "-p",
        "6101",
    ]);
    for transport in transports.split(',') {
        check_throughput(row(&json, "loopback/throughput", transport));
    }
    let tcp = number(row(&json, "loopback/throughput", "tcp"), "goodput_mbps");
    let manypath = row(&json, "loopback/throughput", "manypath");
    assert!((number(manypath, "ratio") - number(manypath, "goodput_mbps") / tcp).abs() < 1e-9);
    let parts: Vec<_> = manypath["cpu_s_of"].as_object().unwrap().keys().cloned().collect();
    let all =
        ["client launcher", "client program", "client stack", "server program", "server stack"];
    assert_eq!(parts, all);
    assert_eq!(manypath["runs"][0]["carried"]["sctp"], 1, "not by TCP: {manypath}");
    // As iperf3's users look for it.
    let end = &json["end"]["sum_received"];
    assert_eq!(end["bytes"], manypath["runs"][0]["bytes"]);
    assert_eq!(json["start"]["test_start"]["protocol"], "manypath");
}

#[test]
fn bytes_go_the_way_that_was_asked_for_and_as_many_as_were() {
    let common = ["--place", "loopback", "--transport", "tcp,manypath", "-p", "6111"];
    let json = results(&[&common[..], &["-R", "-P", "3"]].concat());
    for transport in ["tcp", "manypath"] {
        let row = row(&json, "loopback/reverse-3", transport);
        check_throughput(row);
        assert_eq!(row["flows"], 3);
    }
    let json: Value = {
        let args = ["--json", "--runs", "1", "-n", "3M", "-i", "0.1"];
        serde_json::from_slice(&bench(&[&common[..], &args].concat()).stdout).unwrap()
    };
    for transport in ["tcp", "manypath"] {
        let row = row(&json, "loopback/throughput", transport);
        let sum: f64 = row["runs"][0]["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| number(i, "bytes"))
            .sum();
        assert_eq!(sum, number(&row["runs"][0], "bytes"), "intervals make up the run");
        assert!(sum <= f64::from(3 << 20) && sum > 0.0, "{row}");
    }
}

#[test]
fn times_and_connects_are_counted() {
    let json = results(&[
        "--place",
        "loopback",
        "--transport",
        "tcp,manypath",
        "-p",
        "6121",
        "--case",
        "latency,latency-loaded,connects",
    ]);
    for transport in ["tcp", "manypath"] {
        for case in ["loopback/latency", "loopback/latency-loaded"] {
            let row = row(&json, case, transport);
            let [p50, p95, p99] = ["p50_ms", "p95_ms", "p99_ms"].map(|field| number(row, field));
            assert!(0.0 < p50 && p50 <= p95 && p95 <= p99, "{row}");
        }
        assert!(number(row(&json, "loopback/latency-loaded", transport), "goodput_mbps") > 1.0);
        let row = row(&json, "loopback/connects", transport);
        assert!(number(row, "connects_per_s") > 10.0, "{row}");
        assert!(number(row, "cpu_ms_per_connect") > 0.0);
    }
}

/// Without root there is no veth; the message says so.
#[test]
fn a_veth_pair_is_made_and_files_are_written() {
    let dir = std::env::temp_dir().join(format!("manypath-bench-test-{}", std::process::id()));
    let folder = dir.to_string_lossy().into_owned();
    let args =
        ["--place", "veth", "--case", "throughput", "--transport", "tcp,association", "-p", "6131"];
    if !is_root() {
        let output = bench(&args);
        assert!(String::from_utf8_lossy(&output.stderr).contains("root"));
        return;
    }
    let json = results(&[&args[..], &["--output", &folder]].concat());
    check_throughput(row(&json, "veth/throughput", "association"));
    assert_eq!(json["congestion_control_pinned_on"][0], "hosts");
    for (file, begin) in [("bench.svg", "<svg"), ("bench.md", "# "), ("bench.json", "{")] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        assert!(text.starts_with(begin), "{file}: {text}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_emulated_path_bounds_every_transport() {
    let json = results(&[
        "--lab",
        "rate=20mbit,delay=5ms,queue=50",
        "--case",
        "throughput",
        "--transport",
        "tcp,manypath,udp",
        "-p",
        "6141",
    ]);
    for transport in ["tcp", "manypath"] {
        let mbps = number(row(&json, "lab/throughput", transport), "goodput_mbps");
        assert!((2.0..21.0).contains(&mbps), "{transport}: {mbps}");
    }
    assert_eq!(json["skipped"][0]["transport"], "udp");
}

/// From the connect on it is two round trips at least: that of the INIT, and that of the COOKIE ECHO and what comes with
/// it. Two kilobytes are there after one and a half from the opening on.
#[test]
fn an_encrypted_association_is_timed_from_its_connect_on_and_a_plain_one_from_its_opening() {
    let lab = ["--lab", "rate=20mbit,delay=100ms", "--transport", "association,encrypted"];
    let args = ["--json", "--runs", "1", "-n", "2K", "-p", "6181", "--case", "throughput,reverse"];
    let output = bench(&[&lab[..], &args].concat());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for case in ["lab/throughput", "lab/reverse"] {
        let seconds = |transport| number(&row(&json, case, transport)["runs"][0], "seconds");
        let (plain, encrypted) = (seconds("association"), seconds("encrypted"));
        println!("{case}: {plain:.3} s from the opening on, {encrypted:.3} s from the connect on");
        assert!(encrypted > 0.4, "{case}: {plain} {encrypted}");
    }
}

/// A server that is killed at the end, however that comes.
struct Server(Child);

impl Server {
    fn start(port: &str) -> Self {
        let mut command = Command::new(MANYPATH);
        command.args(["bench", "-s", "-p", port]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_measures_towards_a_server() {
    let _server = Server::start("6151");
    let json = results(&[
        "-c",
        "127.0.1.2",
        "-p",
        "6151",
        "--transport",
        "tcp,manypath,association",
        "--case",
        "throughput,latency",
    ]);
    for transport in ["tcp", "manypath", "association"] {
        check_throughput(row(&json, "network/throughput", transport));
    }
    assert!(number(row(&json, "network/latency", "manypath"), "p50_ms") > 0.0);
    // As iperf3 is tried first.
    let json = results(&["-c", "localhost", "-p", "6151", "--transport", "tcp,manypath"]);
    check_throughput(row(&json, "network/throughput", "manypath"));
}

#[test]
fn what_cannot_be_is_told_with_its_reason() {
    for (args, status, words) in [
        (&["-c", "127.0.1.2", "-p", "6999"][..], 1, "cannot reach"),
        (&["--time", "0"][..], 2, "--time"),
        (&["--runs", "0"][..], 2, "--runs"),
        (&["-P", "0"][..], 2, "--parallel"),
        (&["-l", "64G"][..], 2, "--length"),
        (&["--transport", "quic"][..], 2, "association"),
        (&["-C", "nonesuch", "--place", "loopback"][..], 2, "nonesuch"),
        (&["--lab", "rate=fast"][..], 1, "fast"),
        (&["-s", "-c", "here"][..], 2, "cannot be used with"),
        (&["--place", "loopback", "--case", "latency", "--transport", "udp"][..], 1, "throughput"),
    ] {
        let output = bench(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let (mut child, name) = at_work("6161");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!((marked(&name), folders(&name)), (0, 0));
}

#[test]
fn killed_it_leaves_nothing_behind() {
    let (mut child, name) = at_work("6171");
    child.kill().unwrap();
    child.wait().unwrap();
    until("all have ended", || (marked(&name), folders(&name)) == (0, 0));
}

/// A measurement through manypath, when its programs are at work, and how names of what is its own begin.
fn at_work(port: &str) -> (Child, String) {
    let mut command = Command::new(MANYPATH);
    command.args(["bench", "--place", "loopback", "--transport", "manypath", "-t", "60"]);
    let child = command.args(["-p", port]).stderr(Stdio::null()).spawn().unwrap();
    let name = format!("manypath-bench-{}-", child.id());
    until("the programs are at work", || marked(&name) >= 4);
    (child, name)
}

/// Number of temporary folders whose name begins so.
fn folders(name: &str) -> usize {
    let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(name)).count()
}

/// Number of processes with a mark that begins so.
fn marked(mark: &str) -> usize {
    let mark = format!("MANYPATH_BENCH={mark}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|p| std::fs::read(p.path().join("environ")).ok());
    let has = |environment: &Vec<u8>| {
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
    };
    environments.filter(has).count()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}
