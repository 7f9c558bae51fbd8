//! Networks that block UDP, or all but one TCP port: by what the connections of programs get through.

use crate::common;

use common::gateways::sh;
use common::{MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::process::{Child, Stdio};

const BOTH: &str = "udp:443,tcp:443";
const FILE: u64 = 32 << 20;

/// A server behind a filter on its host: what the rules say of packets from the client.
fn filtered(rules: &str, carriers: &str) -> (Site, Vec<u8>) {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", FILE);
    site.service(
        MANYPATH,
        &["serve", "--allow", "8080", "-v", "--carriers", carriers],
        "udp",
        9899,
    );
    block(&site, rules);
    (site, content)
}

fn block(site: &Site, rules: &str) {
    let table = format!(
        "table inet t {{ chain c {{ type filter hook input priority 0; iif lo accept; {rules} }}; }}"
    );
    sh(site, Host::Right, &format!("nft '{table}'"));
}

/// A program that ends with its standard input. Its association is there until then.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.stdin.take();
        let _ = self.0.wait();
    }
}

/// Downloads the file through the carriers of a client, and checks it. How long the connect took is in the file got.time.
fn download(site: &Site, content: &[u8], options: &[&str]) -> Held {
    let options = [&["--carriers", BOTH], options].concat();
    let (place, server) = (site.dir.join("got").display().to_string(), site.server());
    let time = format!("-w '%{{time_connect}}' > {place}.time");
    let curl = format!("curl -sS -f -o {place} http://{server}:8080/file {time}");
    let script = format!("{curl}; echo $? > {place}.code; mv {place}.code {place}.done; read end");
    let mut command = site.through_command(&options, "sh", &["-c", &script]);
    let client = Held(command.stdin(Stdio::piped()).spawn().expect("sh"));
    wait_for("the download", || std::fs::exists(format!("{place}.done")).is_ok_and(|it| it));
    assert_eq!(std::fs::read_to_string(format!("{place}.done")).expect("a code"), "0\n");
    assert!(std::fs::read(&place).expect("the file") == content);
    client
}

/// The paths of the server's only association that carry data, by what carries them.
fn carriers(site: &Site) -> Vec<(String, u64)> {
    let status = site.server_status();
    let paths = status["associations"][0]["paths"].as_array().cloned().unwrap_or_default();
    let one = |path: &Value| {
        let carrier = path["carrier"].as_str().unwrap_or("usual").to_owned();
        (carrier, path["bytes_sent"].as_u64().unwrap_or(0))
    };
    paths.iter().filter(|path| path["state"] == "active").map(one).collect()
}

/// Both paths of a download are carried so.
fn both_are_carried_by(rules: &str, carrier: &str) {
    let (site, content) = filtered(rules, BOTH);
    let _client = download(&site, &content, &[]);
    assert_eq!(site.server_counter("flow_incoming"), 1, "{:#}", site.server_status());
    let paths = carriers(&site);
    assert_eq!(paths.len(), 2, "{:#}", site.server_status());
    for (by, sent) in paths {
        assert!(by == carrier && sent > FILE / 20, "{by}: {sent}: {:#}", site.server_status());
    }
}

#[test]
fn open_networks_use_the_usual_port() {
    both_are_carried_by("", "usual");
}

#[test]
fn a_blocked_port_is_left_for_another() {
    both_are_carried_by("udp dport { 899, 9899 } drop;", "udp:443");
}

#[test]
fn a_rejected_port_is_left_for_another() {
    both_are_carried_by("udp dport { 899, 9899 } reject;", "udp:443");
}

#[test]
fn where_udp_is_blocked_tcp_carries() {
    both_are_carried_by("meta l4proto udp drop;", "tcp:443");
}

#[test]
fn where_one_tcp_port_is_open_it_carries() {
    both_are_carried_by("tcp dport 443 accept; meta l4proto { tcp, udp } drop;", "tcp:443");
}

#[test]
fn each_uplink_finds_its_carrier_by_itself() {
    let (site, content) = filtered("", BOTH);
    let second = site.lab.address(Host::Right, 1);
    block(&site, &format!("ip daddr {second} meta l4proto udp drop;"));
    let _client = download(&site, &content, &[]);
    let mut paths = carriers(&site);
    paths.sort();
    let names: Vec<_> = paths.iter().map(|(by, _)| by.as_str()).collect();
    assert_eq!(names, ["tcp:443", "usual"], "{:#}", site.server_status());
    assert!(paths.iter().all(|(_, sent)| *sent > FILE / 20), "{paths:?}");
}

/// An HTTP proxy at port 3128, which connects to anywhere.
const PROXY: &str = r#"
import socket, threading
def pipe(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
    finally: b.close()
def serve(near):
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += near.recv(1)
    host, port = head.split()[1].decode().rsplit(":", 1)
    far = socket.create_connection((host, int(port)))
    near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    threading.Thread(target=pipe, args=(near, far)).start()
    pipe(far, near)
listener = socket.create_server(("0.0.0.0", 3128))
while True: threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"#;

#[test]
fn where_only_a_proxy_is_reached_it_carries() {
    let (mut site, content) = filtered("", BOTH);
    site.service("python3", &["-c", PROXY], "tcp", 3128);
    block(&site, "tcp dport 3128 accept; meta l4proto { tcp, udp } drop;");
    site.environment.push(("HTTPS_PROXY", format!("http://{}:3128/", site.server()).into()));
    let _client = download(&site, &content, &["--carriers", "proxy:443"]);
    assert_eq!(site.server_counter("flow_incoming"), 1, "{:#}", site.server_status());
}

/// Who has TCP port 443 may have port 80, too; who has port 8443 may be anybody.
#[test]
fn carriers_below_1024_carry_services_below_1024() {
    for (port, carried) in [(443, 1), (8443, 0)] {
        let mut site = Site::new();
        site.random_file("file", 1 << 16);
        let root = site.dir.join("www").display().to_string();
        site.service("python3", &["-m", "http.server", "-d", &root, "80"], "tcp", 80);
        let carrier = format!("tcp:{port}");
        site.service(MANYPATH, &["serve", "--allow", "80", "--carriers", &carrier], "udp", 9899);
        block(&site, "meta l4proto udp drop;");
        let url = format!("http://{}:80/file", site.server());
        let options = ["--carriers", &carrier];
        let args = ["-sS", "-f", "-o", "/dev/null", &url];
        let done = finish(site.through_command(&options, "curl", &args));
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(site.server_counter("flow_incoming"), carried, "{carrier}");
    }
}

/// UDP is blocked in the middle of a download, and the client says what carries it.
#[test]
fn a_download_survives_when_udp_is_blocked() {
    let (site, content) = filtered("", BOTH);
    let url = format!("http://{}:8080/file", site.server());
    let place = site.dir.join("got").display().to_string();
    let args = ["-sS", "-f", "--limit-rate", "8M", "-o", &place, &url];
    let mut client = site.through_command(&["--carriers", BOTH], "curl", &args);
    let mut client = client.spawn().expect("curl");
    let begun = || std::fs::metadata(&place).is_ok_and(|file| file.len() > FILE / 8);
    wait_for("a part of the file", begun);
    block(&site, "meta l4proto udp drop;");
    let of_client = || {
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["status", "--json"]);
        let status: Value = serde_json::from_str(&finish(command).stdout).unwrap_or_default();
        let stacks = status["stacks"].as_array().cloned().unwrap_or_default();
        let paths = stacks.iter().filter_map(|stack| stack["associations"][0]["paths"].as_array());
        paths.flatten().any(|path| path["carrier"] == "tcp:443")
    };
    wait_for("TCP", of_client);
    assert!(client.wait().expect("curl").success());
    assert!(std::fs::read(&place).expect("the file") == content);
}

/// The table of docs/carriers.md: what is blocked, how long a first connect takes, and by what paths the server is reached.
#[test]
#[ignore = "prints figures"]
fn matrix() {
    let cases = [
        ("nothing", ""),
        ("UDP 899 and 9899, dropped", "udp dport { 899, 9899 } drop;"),
        ("UDP 899 and 9899, rejected", "udp dport { 899, 9899 } reject;"),
        ("UDP", "meta l4proto udp drop;"),
        ("UDP on path B", "ip daddr 10.77.2.2 meta l4proto udp drop;"),
        ("all but TCP 443", "tcp dport 443 accept; meta l4proto { tcp, udp } drop;"),
        ("all but an HTTP proxy", "tcp dport 3128 accept; meta l4proto { tcp, udp } drop;"),
    ];
    for (name, rules) in cases {
        let (mut site, content) = filtered("", BOTH);
        site.service("python3", &["-c", PROXY], "tcp", 3128);
        let proxy = format!("http://{}:3128/", site.server());
        site.environment.push(("HTTPS_PROXY", proxy.into()));
        block(&site, rules);
        let _client = download(&site, &content, &["--carriers", "proxy:443"]);
        let time = std::fs::read_to_string(site.dir.join("got.time")).expect("a time");
        let by: Vec<_> = carriers(&site).into_iter().map(|(by, _)| by).collect();
        println!("| {name} | {time} s | {} |", by.join(", "));
    }
}

/// A port that another program has is no reason not to serve.
#[test]
fn a_server_goes_on_without_a_carrier_that_is_taken() {
    let mut site = Site::new();
    site.web();
    let taken = "udp:443,tcp:8080";
    site.service(MANYPATH, &["serve", "--allow", "8080", "-v", "--carriers", taken], "udp", 9899);
    let log = std::fs::read_to_string(site.dir.join("log-9899")).expect("a log");
    assert!(log.contains("tcp:8080: TCP port 8080 is in use"), "{log}");
    assert!(log.contains("UDP port 9899 and 899, udp:443 for"), "{log}");
}

/// What a server holds by TCP is open again at once after it has ended, and a successor has it at once.
#[test]
fn a_successor_accepts_connections_that_carry() {
    let (mut site, content) = filtered("meta l4proto udp drop;", BOTH);
    let args = ["serve", "--allow", "8080", "-v", "--carriers", BOTH, "--replace"];
    site.service(MANYPATH, &args, "udp", 9899);
    let successor = || {
        let mut command = site.command(Host::Right, MANYPATH);
        command.args(["status", "--json"]);
        let status: Value = serde_json::from_str(&finish(command).stdout).unwrap_or_default();
        let stacks = status["stacks"].as_array().cloned().unwrap_or_default();
        let mut all = stacks.into_iter().map(|stack| stack["counters"].clone());
        all.find(|counters| counters["stack_took_over"] == 1)
    };
    wait_for("a takeover", || successor().is_some());
    let _client = download(&site, &content, &[]);
    assert_eq!(successor().expect("it runs")["flow_incoming"], 1);
}
