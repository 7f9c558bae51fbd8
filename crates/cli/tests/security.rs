//! What docs/security.md promises, on living hosts.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Another user of this host.
const STRANGER: u32 = 65_534;

fn fetch(site: &Site, port: u16, name: &str) -> Finished {
    let url = format!("http://{}:{port}/{name}", site.server());
    site.through("curl", &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url])
}

/// Resident memory of the server's stack, in KiB.
fn resident(site: &Site) -> u64 {
    let pid = site.server_status()["pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Sends INITs that were made before, each from one of many ports, as fast as it goes.
const FLOOD: &str = "
import socket, struct, sys
host, count = sys.argv[1], int(sys.argv[2])
table = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (0x82f63b78 if n & 1 else 0)
    table.append(n)
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xffffffff
def init(tag):
    parameters = struct.pack('>HHI', 0xc006, 8, 0x6d500001)
    body = struct.pack('>IIHHI', tag, 100000, 10, 10, tag) + parameters
    chunk = struct.pack('>BBH', 1, 0, 4 + len(body)) + body
    port = 1024 + tag % 60000
    head = struct.pack('>HHI', port, 29899, 0)
    return head + struct.pack('<I', crc32c(head + bytes(4) + chunk)) + chunk
packets = [init(1 + n * 7919) for n in range(2000)]
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
for n in range(count):
    sockets[n % 50].sendto(packets[n % 2000], (host, 9899))
";

#[test]
fn a_flood_of_inits_leaves_a_server_as_small_as_it_was_and_able_to_serve() {
    let mut site = Site::with_paths(&["1gbit,1ms,queue=1000", "1gbit,1ms,queue=1000"]);
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    assert_eq!(fetch(&site, 8080, "small").stdout, "200");
    let flood = |count: &str| {
        let server = site.server();
        let done = site.direct("python3", &["-c", FLOOD, &server, count]);
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    // The first ones make buffers grow that any traffic would.
    flood("5000");
    let before = resident(&site);
    flood("50000");
    let after = resident(&site);
    let status = site.server_status();
    let counter = |name: &str| status["counters"][name].as_u64().unwrap();
    let wrong = ["sctp_malformed_packets", "sctp_bad_checksum", "sctp_refused_inits"];
    assert_eq!(wrong.map(counter), [0; 3], "they are INITs that a server answers");
    let (answered, limited) = (counter("udp_packets_sent"), counter("sctp_rate_limited_replies"));
    assert!(answered > 300 && answered + limited > 5000, "and it did: {status}");
    assert!(status["associations"].as_array().unwrap().len() <= 1, "{status}");
    assert!(after <= before + 512, "{before} KiB became {after} KiB");
    assert_eq!(fetch(&site, 8080, "small").stdout, "200");
}

/// nginx on every address, for clients that it takes for this host's own.
fn trusting_web(site: &mut Site) {
    site.web();
    let conf = site.dir.join("nginx/conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let only_local =
        "listen 0.0.0.0:8082; listen [::]:8082; allow 127.0.0.0/8; allow ::1; deny all;";
    let text = text.replace("listen 127.0.0.1:8081;", only_local);
    let other = site.dir.join("trusting");
    std::fs::create_dir_all(&other).unwrap();
    let text = text
        .replace(&site.dir.join("nginx").display().to_string(), &other.display().to_string())
        .replace(":8080;", ":8083;");
    std::fs::write(other.join("conf"), text).unwrap();
    let text = |path: &Path| path.display().to_string();
    let (prefix, conf, log) =
        (text(&other), text(&other.join("conf")), text(&other.join("error.log")));
    site.service("nginx", &["-p", &prefix, "-c", &conf, "-e", &log], "tcp", 8082);
}

#[test]
fn a_service_that_trusts_loopback_does_not_trust_peers() {
    let mut site = Site::new();
    trusting_web(&mut site);
    site.random_file("small", 10_000);
    site.serve("8080,8082");
    assert_eq!(fetch(&site, 8082, "small").stdout, "403");
    assert_eq!(fetch(&site, 8080, "small").stdout, "200");
    assert_eq!(site.server_counter("stack_relays_started"), 2, "both went over SCTP");
}

#[test]
fn another_user_of_the_host_can_neither_ask_nor_order_a_stack() {
    let mut site = Site::new();
    site.web();
    site.serve("8080");
    let run = site.dir.join("run");
    let sockets: Vec<_> = std::fs::read_dir(&run).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!sockets.is_empty(), "the server has a control socket");
    // Even where the directories and the sockets let everybody pass.
    let mut above = Some(run.as_path());
    while let Some(directory) = above.filter(|one| one.starts_with(site.dir.parent().unwrap())) {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
        above = directory.parent();
    }
    for socket in &sockets {
        std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666)).unwrap();
        let knock = "import socket,sys; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); \
                     s.connect(sys.argv[1])\ntry: s.send(b'{\"hello\":{\"version\":3,\"role\":\"cli\"}}'); \
                     print(s.recv(100))\nexcept OSError: print(b'')";
        let mut command = site.command(Host::Right, "setpriv");
        let user = format!("--reuid={STRANGER}");
        command.args([&user, "--clear-groups", "--", "python3", "-c", knock]).arg(socket);
        // The user's own python3 may be out of a stranger's reach.
        command.current_dir("/").env("PATH", "/usr/bin:/bin");
        let done = finish(command);
        assert_eq!((done.code, done.stdout.trim()), (Some(0), "b''"), "{done:?}");
    }
    let turned_away = site.server_counter("stack_control_connections_of_other_users");
    assert_eq!(turned_away, sockets.len() as u64);
    let mut command = site.command(Host::Right, MANYPATH);
    command.arg("status");
    assert_eq!(finish(command).code, Some(0), "its own user is heard");
}

#[test]
fn rules_that_change_under_load_break_no_connection_and_hold_for_the_next() {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("long", 12_000_000);
    site.serve("8080");
    let url = format!("http://{}:8080/long", site.server());
    let copy = site.dir.join("copy");
    let mut long = site.through_command(&["--json"], "curl", &["-sS", "-f", "-o"]);
    long.arg(&copy).arg(&url);
    let long = std::thread::spawn(move || finish(long));
    let rules = |args: &[&str]| {
        let mut command = site.command(Host::Left, MANYPATH);
        command.arg("rules").args(args);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    let rule = ["remote", "disable", "port", "8080"];
    let mut carried = [0; 2];
    for round in 0..6 {
        let disabled = round % 2;
        match round {
            0 => {}
            _ if disabled == 1 => rules(&[&["add"], &rule[..]].concat()),
            _ => rules(&[&["delete"], &rule[..]].concat()),
        }
        let command = site.through_command(
            &["--json"],
            "curl",
            &["-sS", "-f", "-r", "0-999", "-o", "/dev/null", &url],
        );
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{done:?}");
        let report: serde_json::Value = serde_json::from_str(done.stderr.trim()).unwrap();
        carried[disabled] += report["sctp"].as_u64().unwrap();
    }
    let done = long.join().unwrap();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&copy).unwrap() == content, "the copy is damaged");
    let report: serde_json::Value = serde_json::from_str(done.stderr.trim()).unwrap();
    assert_eq!(report["sctp"], 1, "{report}");
    assert_eq!(carried, [3, 0], "rules hold for the next connection");
    wait_for("the end of the long one", || site.server_counter("stack_relays_finished") >= 4);
}
