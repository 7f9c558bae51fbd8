//! `manypath gateway --socks`: programs that know nothing of manypath go through a proxy that carries them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use crate::common;

use common::gateways::sh;
use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use serde_json::Value;
use std::process::{Command, Stdio};

const PROXY: &str = "127.0.0.1:1080";

fn success(done: Finished) -> Finished {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// A web server with manypath on the right host, and a proxy on the left one.
fn site(more: &[&str]) -> Site {
    let mut site = Site::new();
    site.web();
    site.serve("8080,2222");
    let args = ["gateway", "--socks", "127.0.0.1", "-v"];
    site.service_on(Host::Left, MANYPATH, &[&args[..], more].concat(), "tcp", 1080);
    site
}

fn curl(site: &Site, args: &[&str]) -> Finished {
    site.direct("curl", &[&["-sS", "--max-time", "50"], args].concat())
}

fn left_status(site: &Site) -> Value {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["status", "--json"]);
    let all: Value = serde_json::from_str(&finish(command).stdout).unwrap();
    all["stacks"][0].clone()
}

/// How many connections the server was asked for.
fn carried(site: &Site) -> u64 {
    site.server_counter("flow_incoming")
}

#[test]
fn curl_and_git_and_ssh_go_over_both_protocols() {
    let mut site = site(&[]);
    site.ssh();
    let content = site.random_file("file", 3_000_000);
    let url = format!("http://{}:8080", site.server());
    for proxy in [["--socks5-hostname", PROXY], ["-px", PROXY]] {
        let file = format!("{url}/file");
        success(curl(&site, &[&proxy[..], &["-f", "-o", "got", &file]].concat()));
        assert!(std::fs::read(site.dir.join("got")).unwrap() == content, "{proxy:?}");
    }
    assert_eq!(carried(&site), 2);
    let repository = site.dir.join("www/repository");
    let make = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git update-server-info";
    std::fs::create_dir_all(&repository).unwrap();
    let mut git = Command::new("sh");
    success(finish({
        git.args(["-ec", make]).current_dir(&repository);
        git
    }));
    let clone = format!("{url}/repository/.git");
    let proxy = format!("http.proxy=socks5h://{PROXY}");
    success(site.direct("git", &["-c", &proxy, "clone", "-q", &clone, "copy"]));
    assert!(site.dir.join("copy/.git/HEAD").exists());
    let before = carried(&site);
    assert!(before > 2);
    for kind in ["socks5", "http"] {
        let by = format!("ProxyCommand=ncat --proxy {PROXY} --proxy-type {kind} %h %p");
        let target = format!("root@{}", site.server());
        let mut args = site.ssh_options();
        args.extend(["-p", "2222", "-o", &by, &target, "echo", "hello"].map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(success(site.direct("ssh", &args)).stdout, "hello\n");
    }
    assert_eq!(carried(&site), before + 2);
    let hosts = left_status(&site)["door_hosts"].clone();
    assert_eq!((&hosts[0]["host"], &hosts[1]), (&"127.0.0.1".into(), &Value::Null), "{hosts}");
    assert!(hosts[0]["received_bytes"].as_u64().unwrap() > 6_000_000, "{hosts}");
}

#[test]
#[ignore = "slow; make test-full"]
fn chromium_loads_a_page_through_a_socks_proxy() {
    let site = site(&[]);
    let page = "<!doctype html><title>-</title><script src=script.js></script>";
    site.random_file("none", 1);
    std::fs::write(site.dir.join("www/index.html"), page).unwrap();
    std::fs::write(site.dir.join("www/script.js"), "document.title = 'loaded'").unwrap();
    let (data, proxy) = (
        format!("--user-data-dir={}/data", site.dir.display()),
        format!("--proxy-server=socks5://{PROXY}"),
    );
    let url = format!("http://{}:8080/index.html", site.server());
    let args = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        &data,
        &proxy,
        "--dump-dom",
        &url,
    ];
    let done = success(site.direct("chromium", &args));
    assert!(done.stdout.contains("<title>loaded</title>"), "{done:?}");
    assert!(carried(&site) >= 1);
}

#[test]
fn errors_reach_curl_as_they_are() {
    let site = site(&[]);
    let closed = format!("http://{}:81/", site.server());
    let done = curl(&site, &["--socks5-hostname", PROXY, &closed]);
    assert!(done.stderr.contains("(5)"), "refused: {done:?}");
    let done = curl(&site, &["-px", PROXY, &closed]);
    assert!(done.stderr.contains("502"), "{done:?}");
    let done = curl(&site, &["-x", PROXY, &closed]);
    assert!(done.stdout.contains("CONNECT only"), "{done:?}");
    let done = curl(&site, &["--socks5-hostname", PROXY, "http://198.51.100.9/"]);
    assert!(done.stderr.contains("(3)"), "network unreachable: {done:?}");
}

/// A server of names that knows one, `server.test`, and its address.
const NAMES: &str = "
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 53))
while True:
    q, a = s.recvfrom(512)
    end = q.index(b'\\0', 12) + 5
    known = q[12:end-5] == b'\\x06server\\x04test' and q[end-4:end-2] == b'\\0\\x01'
    exists = q[12:end-5] == b'\\x06server\\x04test'
    head = q[:2] + (b'\\x81\\x80' if exists else b'\\x81\\x83') + struct.pack('>HHHH', 1, int(known), 0, 0)
    answer = b'\\xc0\\x0c\\0\\x01\\0\\x01\\0\\0\\0\\x3c\\0\\x04' + socket.inet_aton(sys.argv[1]) if known else b''
    s.sendto(head + q[12:end] + answer, a)
";

#[test]
fn a_proxy_without_rights_looks_names_up() {
    let mut site = Site::new();
    site.web();
    site.serve("8080");
    let content = site.random_file("file", 100_000);
    let server = site.server();
    sh(&site, Host::Left, "ip link set lo up");
    site.service_on(Host::Left, "python3", &["-c", NAMES, &server], "udp", 53);
    std::fs::write(site.dir.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
    let mut gateway = site.command(Host::Left, find("unshare"));
    let line =
        "mount --bind resolv.conf /etc/resolv.conf && exec \"$0\" gateway --socks 127.0.0.1 -v";
    gateway.args(["-m", "sh", "-ec", line, MANYPATH]);
    site.begin_service(gateway, MANYPATH, "tcp", 1080);
    let url = "http://server.test:8080/file";
    success(curl(&site, &["-f", "--socks5-hostname", PROXY, "-o", "got", url]));
    assert!(std::fs::read(site.dir.join("got")).unwrap() == content);
    success(curl(&site, &["-f", "-px", PROXY, "-o", "got", url]));
    assert_eq!(carried(&site), 2);
    let done = curl(&site, &["--socks5-hostname", PROXY, "http://nobody.test/"]);
    assert!(done.stderr.contains("(4)"), "no such host: {done:?}");
    let sandbox = &left_status(&site)["sandbox"];
    assert_ne!(sandbox["user"], 0, "{sandbox}");
    assert_eq!(
        (&sandbox["seccomp"], &sandbox["capabilities"]),
        (&true.into(), &Value::Array(vec![]))
    );
}

/// A SOCKS client that sends one datagram, `PROXY HOST PORT`; prints what comes back, and from where.
const ASK: &str = "
import socket, struct, sys
proxy, host, port = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
tcp = socket.create_connection((proxy, 1080), 10)
def take(count):
    got = b''
    while len(got) < count:
        more = tcp.recv(count - len(got))
        if not more: sys.exit('closed')
        got += more
    return got
tcp.sendall(b'\\x05\\x01\\x00\\x05\\x03\\x00\\x01' + bytes(6))
answer = take(12)
if answer[3]: sys.exit('refused')
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(float(sys.argv[4]) if len(sys.argv) > 4 else 10)
udp.sendto(b'\\0\\0\\0\\x03' + bytes([len(host)]) + host + struct.pack('!H', port) + b'question', (socket.inet_ntoa(answer[6:10]), struct.unpack('!H', answer[10:])[0]))
try:
    got = udp.recv(2000)
    print(socket.inet_ntoa(got[4:8]), struct.unpack('!H', got[8:10])[0], got[10:].decode())
except TimeoutError:
    print('nothing')
";

const DATAGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");

#[test]
fn datagrams_go_over_socks_but_not_to_the_proxys_own_host() {
    let mut site = Site::new();
    sh(&site, Host::Left, "ip link set lo up");
    std::fs::write(site.dir.join("rules"), "remote enable udp any lifetime=2s\n").unwrap();
    site.service("python3", &[DATAGRAMS, "server", "0.0.0.0", "7000"], "udp", 7000);
    site.service_on(Host::Left, "python3", &[DATAGRAMS, "server", "0.0.0.0", "7001"], "udp", 7001);
    site.service(MANYPATH, &["serve", "--allow", "7000/udp", "-v"], "udp", 9899);
    let (server, proxy) = (site.server(), site.lab.address(Host::Left, 0).to_string());
    let args = ["gateway", "--socks", &proxy, "--clients", "10.77.0.0/16", "-v"];
    site.service_on(Host::Left, MANYPATH, &args, "tcp", 1080);
    let ask = |host: &str, port: &str, wait: &str| {
        let mut command = site.command(Host::Right, "python3");
        command.args(["-c", ASK, &proxy, host, port, wait]);
        success(finish(command)).stdout.trim().to_owned()
    };
    for _ in 0..2 {
        assert_eq!(ask(&server, "7000", "20"), format!("{server} 7000 question"));
    }
    assert_eq!(site.server_counter("datagram_accepted"), 2);
    for own in [proxy.as_str(), "127.0.0.1", "localhost", "10.77.2.1"] {
        assert_eq!(ask(own, "7001", "0.5"), "nothing", "{own}");
    }
    let status = left_status(&site);
    assert_eq!(status["counters"]["stack_door_datagrams_refused"], 4, "{status}");
    assert_eq!(status["door_hosts"][0]["carried"], 2, "{status}");
}

#[test]
fn a_proxy_is_open_to_nobody_by_mistake() {
    let mut site = Site::new();
    site.web();
    let gateway = |args: &[&str]| {
        let mut command = site.command(Host::Left, MANYPATH);
        command.arg("gateway").args(args).stdin(Stdio::null());
        finish(command)
    };
    for at in ["0.0.0.0", "::", "10.77.1.1:1080"] {
        let done = gateway(&["--socks", at]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(
            done.stderr.contains("an open proxy") && done.stderr.contains("--clients"),
            "{done:?}"
        );
    }
    std::fs::write(site.dir.join("users"), "ann:secret\n").unwrap();
    let done = gateway(&["--socks", "0.0.0.0", "--password-file", "users"]);
    assert!(done.stderr.contains("chmod 600"), "{done:?}");
    let args = ["gateway", "--socks", "0.0.0.0", "--clients", "10.77.2.0/24", "-v"];
    site.service_on(Host::Left, MANYPATH, &args, "tcp", 1080);
    let from = |address: &str, to: &str| {
        let mut command = site.command(Host::Right, find("curl"));
        let proxy = "socks5h://10.77.1.1:1080";
        command.args(["-sS", "-m", "20", "--interface", address, "-x", proxy, to]);
        finish(command)
    };
    let web = format!("http://{}:8080/", site.server());
    assert_ne!(from("10.77.1.2", &web).code, Some(0), "an address that is none of the clients'");
    assert!(!from("10.77.1.2", &web).stderr.contains("SOCKS5"), "it hears nothing of the proxy");
    assert!(from("10.77.2.2", &web).stdout.contains("403"), "nginx forbids to list its folder");
    for inside in [
        "http://127.0.0.1:1080/",
        "http://10.77.1.1:1080/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://0.0.0.0/",
        "http://localhost:1080/",
        "http://2130706433:1080/",
    ] {
        let done = from("10.77.2.2", inside);
        assert!(done.stderr.contains("(2)"), "{inside}: {done:?}");
    }
}
