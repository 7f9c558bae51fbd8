//! Networks that block UDP, or all but one TCP port: by what the connections of programs get through.

use crate::common;

use crate::relays::{authorize, list};
use common::gateways::sh;
use common::{MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::process::{Child, Stdio};

const BOTH: &str = "udp:443,tcp:443";
const TLS: &str = "udp:443,tls:443";
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
    block_at(site, Host::Right, rules);
}

fn block_at(site: &Site, host: Host, rules: &str) {
    let table = format!(
        "table inet t {{ chain c {{ type filter hook input priority 0; iif lo accept; {rules} }}; }}"
    );
    sh(site, host, &format!("nft '{table}'"));
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
    download_by(site, content, &[&["--carriers", BOTH], options].concat())
}

fn download_by(site: &Site, content: &[u8], options: &[&str]) -> Held {
    download_from(&site.server(), site, content, options)
}

fn download_from(server: &str, site: &Site, content: &[u8], options: &[&str]) -> Held {
    let place = site.dir.join("got").display().to_string();
    let time = format!("-w '%{{time_connect}}' > {place}.time");
    let curl = format!("curl -sS -g -f -o {place} http://{server}:8080/file {time}");
    let script = format!("{curl}; echo $? > {place}.code; mv {place}.code {place}.done; read end");
    let mut command = site.through_command(options, "sh", &["-c", &script]);
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

/// Whether packets on a path with this carrier wait for those before them, as the server's only association knows it.
fn is_in_order(site: &Site, carrier: Option<&str>) -> bool {
    let status = site.server_status();
    let mut paths = status["associations"][0]["paths"].as_array().cloned().unwrap_or_default();
    paths.retain(|path| path["carrier"].as_str() == carrier && path["state"] == "active");
    assert!(!paths.is_empty(), "{carrier:?}: {status:#}");
    paths.iter().all(|path| path["hold_up_us"].is_u64())
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
    assert!(is_in_order(&site, Some("tcp:443")) && !is_in_order(&site, None));
    assert!(paths.iter().all(|(_, sent)| *sent > FILE / 20), "{paths:?}");
}

#[test]
fn where_one_port_is_open_tls_carries() {
    let (site, content) = filtered("tcp dport 443 accept; meta l4proto { tcp, udp } drop;", TLS);
    let options = ["--carriers", TLS, "--tls-name", "www.example"];
    let _client = download_by(&site, &content, &options);
    assert_eq!(site.server_counter("flow_incoming"), 1, "{:#}", site.server_status());
    let paths = carriers(&site);
    assert_eq!(paths.len(), 2, "{:#}", site.server_status());
    assert!(paths.iter().all(|(by, sent)| by == "tls:443" && *sent > FILE / 20), "{paths:?}");
    assert!(is_in_order(&site, Some("tls:443")), "{:#}", site.server_status());
    let mut command = site.command(Host::Right, MANYPATH);
    command.arg("status");
    let said = finish(command);
    assert!(said.stdout.contains(" ms longer over TCP"), "{said:?}");
}

/// Nothing else leads to the service.
#[test]
fn a_server_with_several_loops_is_reached_by_tls() {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", FILE);
    let args = ["serve", "--allow", "8080", "-v", "--carriers", TLS, "--loops", "2"];
    site.service(MANYPATH, &args, "udp", 9899);
    block(&site, "tcp dport 443 accept; meta l4proto { tcp, udp } drop;");
    let _client = download_by(&site, &content, &["--carriers", TLS]);
    let log = std::fs::read_to_string(site.dir.join("log-9899")).expect("a log");
    assert!(!log.contains("do not reach"), "{log}");
}

/// nginx at 127.0.0.1:8443, which says in TLS who its client is.
fn web_server_in_tls(site: &mut Site) {
    let dir = site.dir.join("tls");
    std::fs::create_dir_all(&dir).expect("a folder");
    let d = dir.display();
    sh(
        site,
        Host::Right,
        &format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -keyout {d}/key -out {d}/chain -subj /CN=www.example -days 2 2>/dev/null"
        ),
    );
    let conf = format!(
        "daemon off;\nmaster_process off;\npid {d}/pid;\nerror_log {d}/error.log;\nevents {{}}\n\
         http {{\naccess_log off;\nclient_body_temp_path {d}/b;\nproxy_temp_path {d}/p;\n\
         fastcgi_temp_path {d}/f;\nuwsgi_temp_path {d}/u;\nscgi_temp_path {d}/s;\n\
         server {{ listen 127.0.0.1:8443 ssl proxy_protocol;\n\
         ssl_certificate {d}/chain; ssl_certificate_key {d}/key;\n\
         set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;\n\
         location / {{ return 200 \"you are $remote_addr\"; }} }}\n}}\n"
    );
    std::fs::write(dir.join("conf"), conf).expect("nginx.conf");
    let place = dir.display().to_string();
    let conf = dir.join("conf").display().to_string();
    let log = dir.join("error.log").display().to_string();
    site.service("nginx", &["-p", &place, "-c", &conf, "-e", &log], "tcp", 8443);
}

/// Clients of the web server and carriers come to one port; the certificate of both is the same.
#[test]
fn a_web_server_and_carriers_share_a_port() {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", FILE);
    web_server_in_tls(&mut site);
    let (chain, key) = (site.dir.join("tls/chain"), site.dir.join("tls/key"));
    let (chain, key) = (chain.display().to_string(), key.display().to_string());
    let mut args = vec!["serve", "--allow", "8080", "-v", "--carriers", "tls:443"];
    args.extend([
        "--behind",
        "127.0.0.1:8443,proxy",
        "--tls-certificate",
        &chain,
        "--tls-key",
        &key,
    ]);
    site.service(MANYPATH, &args, "udp", 9899);
    block(&site, "tcp dport 443 accept; meta l4proto { tcp, udp } drop;");
    let _client = download_by(&site, &content, &["--carriers", "tls:443"]);
    assert!(carriers(&site).iter().all(|(by, _)| by == "tls:443"), "{:#}", site.server_status());
    let url = format!("https://{}/", site.server());
    let seen = site.direct("curl", &["-sS", "-k", "--max-time", "20", &url]);
    assert_eq!(seen.stdout, format!("you are {}", site.lab.address(Host::Left, 0)), "{seen:?}");
    assert_eq!(site.server_counter("udp_carrier_passes"), 1, "{:#}", site.server_status());
}

#[test]
fn a_certificate_without_a_carrier_that_shows_it_is_an_error() {
    let mut site = Site::new();
    web_server_in_tls(&mut site);
    let [chain, key] = ["tls/chain", "tls/key"].map(|name| site.dir.join(name));
    for carriers in [&[][..], &["--carriers", "udp:443,tcp:443"]] {
        let mut serve = site.command(Host::Right, MANYPATH);
        serve.args(["serve", "--allow", "8080"]).args(carriers);
        serve.arg("--tls-certificate").arg(&chain).arg("--tls-key").arg(&key);
        let done = finish(serve);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains("add --carriers tls:443"), "{done:?}");
    }
}

/// An HTTP proxy at port 3128, which connects to anywhere, for those who show what the variable AUTH says.
const PROXY: &str = r#"
import os, socket, threading
def pipe(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
    finally: b.close()
def serve(near):
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += near.recv(1)
    if os.environ.get("AUTH", "").encode() not in head:
        return near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
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

/// A proxy that asks for a password, which stands in the environment or in a file; what the port speaks is TLS.
#[test]
fn a_proxy_with_a_password_carries_tls_and_nobody_sees_the_password() {
    for in_file in [false, true] {
        let (mut site, content) = filtered("", TLS);
        let auth = "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        let mut proxy = site.command(Host::Right, "python3");
        proxy.args(["-c", PROXY]).env("AUTH", auth);
        site.begin_service(proxy, "python3", "tcp", 3128);
        block(&site, "tcp dport 3128 accept; meta l4proto { tcp, udp } drop;");
        let place = format!("{}:3128/", site.server());
        if in_file {
            use std::os::unix::fs::PermissionsExt;
            let file = site.dir.join("proxy-user");
            std::fs::write(&file, "Aladdin:open sesame\n").expect("a file");
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, mode).expect("a mode");
            site.environment.push(("HTTPS_PROXY", format!("http://{place}").into()));
            site.environment.push(("MANYPATH_PROXY_USER", file));
        } else {
            let url = format!("http://Aladdin:open%20sesame@{place}");
            site.environment.push(("HTTPS_PROXY", url.into()));
        }
        let log = site.dir.join("client.log").display().to_string();
        let options = ["--carriers", "tls:443,proxy:443", "-vv", "--log", &log];
        let _client = download_by(&site, &content, &options);
        assert_eq!(site.server_counter("flow_incoming"), 1, "{:#}", site.server_status());
        let said = std::fs::read_to_string(&log).expect("a log");
        let mut command = site.command(Host::Left, "ps");
        command.args(["-eww", "-o", "args"]);
        let shown = finish(command);
        for secret in ["sesame", "QWxhZGRpb"] {
            assert!(!said.contains(secret), "{said}");
            assert!(!shown.stdout.contains(secret), "{}", shown.stdout);
        }
    }
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

/// What the client has, beside a server that has IPv4 and IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    BothFamilies,
    /// It asks for the server's IPv6 address, and has no address or route of IPv4.
    V6Alone,
    /// It asks for an IPv4 address, which the server reaches as a relay.
    V6AndRelay,
}

/// What a network lets pass: the rules of the server's host for what the client sends, and those of the client's host for
/// what comes back.
struct Row {
    name: &'static str,
    there: &'static str,
    back: &'static str,
    client: Client,
}

const fn row(name: &'static str, there: &'static str) -> Row {
    Row { name, there, back: "", client: Client::BothFamilies }
}

const fn without_v4(name: &'static str, there: &'static str) -> Row {
    Row { client: Client::V6Alone, ..row(name, there) }
}

const fn by_relay(name: &'static str, there: &'static str) -> Row {
    Row { client: Client::V6AndRelay, ..row(name, there) }
}

const NO_UDP: &str = "meta l4proto udp drop;";

const MATRIX: [Row; 12] = [
    row("nothing", ""),
    row("UDP 899 and 9899, dropped", "udp dport { 899, 9899 } drop;"),
    row("UDP 899 and 9899, rejected", "udp dport { 899, 9899 } reject;"),
    row("UDP", NO_UDP),
    row("UDP on path B", "ip daddr 10.77.2.2 meta l4proto udp drop;"),
    Row { back: NO_UDP, ..row("UDP from the server alone", "") },
    row("all but TCP 443", "tcp dport 443 accept; meta l4proto { tcp, udp } drop;"),
    row("all but an HTTP proxy", "tcp dport 3128 accept; meta l4proto { tcp, udp } drop;"),
    without_v4("all but IPv6", ""),
    without_v4("all but IPv6, and UDP", NO_UDP),
    by_relay("all but IPv6, to a server with IPv4 alone", ""),
    by_relay("all but IPv6, and UDP, to a server with IPv4 alone", NO_UDP),
];

/// The server's host, as a relay, has an address of IPv4 in another network.
const BEYOND: &str = "198.51.100.2";

/// The server of [`filtered`] for the client of a row.
fn server_for(row: &Row, by: &str) -> (Site, Vec<u8>) {
    if row.client != Client::V6AndRelay {
        return filtered(row.there, by);
    }
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", FILE);
    let network = format!(
        "ip link add out type veth peer name in; ip link set out up; ip link set in up
         ip address add {BEYOND}/24 dev out"
    );
    sh(&site, Host::Right, &network);
    authorize(&site);
    let (list, to) = (list(&site), format!("{BEYOND}:8080"));
    let relay = ["--relay", "--authorized", &list, "--relay-to", &to];
    let args = ["serve", "--allow", "8080", "-v", "--carriers", by];
    site.service(MANYPATH, &[&args[..], &relay].concat(), "udp", 9899);
    block(&site, row.there);
    (site, content)
}

/// How long the connect of a row took, and by what paths the server was reached.
fn reached(row: &Row, by: &str) -> (String, Vec<String>) {
    let (mut site, content) = server_for(row, by);
    if !row.back.is_empty() {
        block_at(&site, Host::Left, row.back);
    }
    if row.client != Client::BothFamilies {
        let lines = "for path in A B; do ip -4 address flush dev path$path; done; ip -4 route";
        assert_eq!(sh(&site, Host::Left, lines), "", "no route is left");
    }
    site.service("python3", &["-c", PROXY], "tcp", 3128);
    let proxy = format!("http://{}:3128/", site.server());
    site.environment.push(("HTTPS_PROXY", proxy.into()));
    let six = format!("[{}]", site.lab.address_v6(Host::Right, 0));
    let (server, via) = match row.client {
        Client::BothFamilies => (site.server(), vec![]),
        Client::V6Alone => (six, vec![]),
        Client::V6AndRelay => (BEYOND.to_owned(), vec!["--via", &six]),
    };
    let options = [&["--carriers", by, "--carriers", "proxy:443"], &via[..]].concat();
    let _client = download_from(&server, &site, &content, &options);
    let why = site.server_status();
    assert_eq!(why["counters"]["flow_incoming"], 1, "{} by {by}: {why:#}", row.name);
    let relayed = why["relayed_peers"][0]["opened"].as_u64().unwrap_or(0);
    assert_eq!(relayed, u64::from(!via.is_empty()), "{} by {by}: {why:#}", row.name);
    let mut paths: Vec<_> = carriers(&site).into_iter().map(|(by, _)| by).collect();
    paths.sort();
    (std::fs::read_to_string(site.dir.join("got.time")).expect("a time"), paths)
}

/// The table of docs/carriers.md: what is blocked, how long a first connect takes, and by what paths the server is reached,
/// where TCP is offered and where TLS is. `MANYPATH_ROW` chooses rows by a part of their name.
#[test]
#[ignore = "prints figures"]
fn matrix() {
    let wanted = std::env::var("MANYPATH_ROW").unwrap_or_default();
    for row in MATRIX.iter().filter(|row| row.name.contains(&wanted)) {
        let cells = [BOTH, TLS].map(|by| {
            let (time, paths) = reached(row, by);
            let ms = time.parse::<f64>().expect("seconds") * 1000.0;
            format!("{} | {ms:.0} ms", paths.join(", "))
        });
        println!("| {} | {} |", row.name, cells.join(" | "));
    }
}

fn carriers_of_row(name: &str) -> Vec<String> {
    reached(MATRIX.iter().find(|row| row.name == name).expect("a row"), BOTH).1
}

#[test]
fn a_client_without_ipv4_reaches_a_server_by_udp_and_by_tcp() {
    assert_eq!(carriers_of_row("all but IPv6"), ["usual", "usual"]);
    assert_eq!(carriers_of_row("all but IPv6, and UDP"), ["tcp:443", "tcp:443"]);
}

#[test]
fn a_client_without_ipv4_reaches_a_server_with_ipv4_alone_by_a_relay() {
    let name = "all but IPv6, to a server with IPv4 alone";
    assert_eq!(carriers_of_row(name), ["usual", "usual"]);
    let name = "all but IPv6, and UDP, to a server with IPv4 alone";
    assert_eq!(carriers_of_row(name), ["tcp:443", "tcp:443"]);
}

/// A proxy brings the INIT once more, late and from another address, which must not end the association.
#[test]
fn a_proxy_that_answers_late_ends_nothing() {
    assert_eq!(carriers_of_row("UDP"), ["tcp:443", "tcp:443"]);
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
