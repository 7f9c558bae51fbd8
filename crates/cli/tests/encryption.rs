//! Stock programs over encrypted associations, and what they get when an association cannot be encrypted.

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
/// A second implementation of SCTP, DTLS chunks and key management.
const JUDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../keys/tests/judge/peer.py");
const PATHS: [&str; 2] = ["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"];
const RULES: &str = "remote enable udp ports 7000-7999 lifetime=2s\n";

/// A service of datagrams and one of files on the right host, behind a server with these options.
fn site(options: &[&str]) -> Site {
    let mut site = Site::with_paths(&PATHS);
    std::fs::write(site.dir.join("rules"), RULES).expect("rules");
    site.service("python3", &[PROGRAM, "server", "0.0.0.0", "7000"], "udp", 7000);
    site.web();
    let args = ["serve", "--allow", "8080,7000/udp", "-v"];
    site.service(MANYPATH, &[&args[..], options].concat(), "udp", 9899);
    site
}

fn fetch(site: &Site, options: &[&str]) -> Finished {
    let url = format!("http://{}:8080/file", site.server());
    finish(site.through_command(options, "curl", &["-s", "-o", "got", &url]))
}

fn query(site: &Site, options: &[&str]) -> Finished {
    finish(site.through_command(options, "python3", &[PROGRAM, "query", &site.server(), "7000"]))
}

#[test]
fn connections_and_datagrams_are_encrypted_and_the_key_of_the_server_is_kept() {
    let site = site(&["--encrypt", "opportunistic"]);
    let file = site.random_file("file", 2 << 20);
    // A stack of its own for each, as root, whose keeper writes what it learns.
    // The second one has the ticket that the first one has left.
    for (round, (how, standing)) in
        [("encrypted", "new"), ("resumed", "known")].into_iter().enumerate()
    {
        let options = ["--encrypt", ["opportunistic", "require"][round], "-v"];
        let done = fetch(&site, &options);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(std::fs::read(site.dir.join("got")).expect("got"), file);
        let word = format!("{how} by TLS_AES_128_GCM_SHA256, {standing} key SHA256:");
        assert!(done.stderr.contains(&word), "{done:?}");
        let tickets = site.keys(Host::Left).join("tickets");
        // The stack may end after its program.
        wait_for("a ticket in the file", || {
            let text = std::fs::read_to_string(&tickets).unwrap_or_default();
            text.lines().filter(|line| !line.starts_with('#')).count() == 1
        });
        let mode = std::fs::metadata(tickets).expect("tickets").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let known = std::fs::read_to_string(site.keys(Host::Left).join("known_peers"));
        assert!(known.expect("known_peers").starts_with(&format!("{} ", site.server())));
    }
    let done = query(&site, &["--encrypt", "require", "--report"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(site.server_counter("datagram_accepted"), 1);
    assert_eq!(site.server_counter("stack_associations_encrypted"), 3);
}

#[test]
fn all_loops_of_a_server_have_its_key() {
    let site = site(&["--encrypt", "require", "--loops", "2"]);
    site.random_file("file", 1000);
    let fetched = (0..6).filter(|_| fetch(&site, &["--encrypt", "require"]).code == Some(0));
    assert_eq!(fetched.count(), 6, "the address has one key");
    let mut status = site.command(Host::Right, MANYPATH);
    status.args(["status", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&finish(status).stdout).expect("JSON");
    let loops = all["stacks"].as_array().expect("stacks").iter();
    let encrypted =
        loops.filter_map(|one| one["counters"]["stack_associations_encrypted"].as_u64());
    assert_eq!(encrypted.sum::<u64>(), 6);
}

#[test]
fn what_must_be_encrypted_fails_where_it_cannot_be() {
    let site = site(&["--encrypt", "off"]);
    site.random_file("file", 1000);
    let done = fetch(&site, &["--encrypt", "require"]);
    assert_eq!(done.code, Some(7), "curl cannot connect: {done:?}");
    let done = query(&site, &["--encrypt", "require"]);
    assert_ne!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("refused"), "{done:?}");
    assert_eq!(site.server_counter("datagram_accepted"), 0);
    // Where a rule says it, everything else goes on.
    let rules = format!("{RULES}remote enable port 8080 encrypt=require\n");
    std::fs::write(site.dir.join("rules"), rules).expect("rules");
    assert_eq!(fetch(&site, &[]).code, Some(7));
    assert_eq!(query(&site, &[]).code, Some(0));
}

/// Control messages and bytes of a flow's opener, and bytes of its acceptor (docs/flow-protocol.md section 2).
const CONTROL: u32 = 0x6d50_0100;
const OF_OPENER: u32 = 0x6d50_0101;
const OF_ACCEPTOR: u32 = 0x6d50_0102;

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// OPEN of a flow to this port of `server`.
fn open(server: &str, port: u16) -> String {
    let address: std::net::Ipv4Addr = server.parse().expect("an address of IPv4");
    let address = format!("0400{port:04x}{:08x}", u32::from(address));
    format!("0101000000000001{:08x}{address}{address}", 65_536)
}

#[test]
fn another_implementation_is_served_and_the_log_has_its_keys() {
    let mut site = Site::with_paths(&PATHS);
    site.web();
    std::fs::write(site.dir.join("www/file"), "what is served").expect("a file");
    let log = site.dir.join("keys.log");
    let mut server = site.command(Host::Right, MANYPATH);
    server.args(["serve", "--allow", "8080", "-v", "--encrypt", "require"]);
    server.env("MANYPATH_KEYLOG", &log);
    site.begin_service(server, MANYPATH, "udp", 9899);
    let own = format!("{}:9899", site.lab.address(Host::Left, 0));
    let mut judge = site.command(Host::Left, find("timeout"));
    judge.args(["60", "python3", "-B", JUDGE, "--adaptation", "6d500001", "--udp", &own]);
    let mut judge = judge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
    let mut input = judge.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(judge.stdout.take().expect("a pipe")).lines();
    let mut wait_for = |start: &str| {
        let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(start)));
        told.unwrap_or_else(|| panic!("no {start}")).expect("text")
    };
    let mut say = |line: String| writeln!(input, "{line}").expect("the judge listens");
    say(format!("connect 29899 {} 9899", site.server()));
    wait_for("protected ");
    say(format!("send 2 {CONTROL} {}", open(&site.server(), 8080)));
    say(format!("send 2 {OF_OPENER} {}", hex("GET /file HTTP/1.0\r\n\r\n")));
    wait_for(&format!("message 2 {CONTROL} 02"));
    let answer = wait_for(&format!("message 2 {OF_ACCEPTOR} "));
    assert!(answer.contains(&hex("200 OK")), "{answer}");
    say("rekey".to_owned());
    wait_for("epoch 4 ");
    drop(input);
    judge.wait().expect("it ends with its input");
    let keys = std::fs::read_to_string(&log).expect("a log of keys");
    let of_keys = keys.lines().filter(|line| line.starts_with("SCTP_DTLS_KEY ")).count();
    assert_eq!((keys.lines().count(), of_keys), (4, 4), "{keys}");
    assert_eq!(std::fs::metadata(&log).expect("its mode").permissions().mode() & 0o777, 0o600);
}

/// A line of what tshark shows of a packet: where it comes from, types of its chunks, PPIDs, payload and addresses.
struct Shown {
    from: String,
    chunks: Vec<String>,
    ppids: Vec<String>,
    readable: bool,
}

const FIELDS: [&str; 5] = [
    "ip.src",
    "sctp.chunk_type",
    "sctp.data_payload_proto_id",
    "data.data",
    "sctp.parameter_ipv4_address",
];
/// The DTLS chunk, and the PPID of key management.
const DTLS: &str = "65";
const KEY_MANAGEMENT: &str = "4242";

impl Shown {
    fn new(line: &str) -> Self {
        let fields: Vec<_> = line.split('\t').collect();
        let fields = <[&str; FIELDS.len()]>::try_from(fields).expect("all fields");
        let [from, chunks, ppids, data, addresses] = fields;
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let ppids = if ppids.is_empty() { Vec::new() } else { list(ppids) };
        let readable = !data.is_empty() || !addresses.is_empty();
        Self { from: from.to_owned(), chunks: list(chunks), ppids, readable }
    }

    fn is_sealed(&self) -> bool {
        self.chunks == [DTLS]
    }
}

/// What tshark shows of a download through a server with these options, and the bytes of the capture.
fn captured(site: &Site, options: &[&str]) -> (Vec<Shown>, Vec<u8>) {
    let capture = site.dir.join("capture.pcapng");
    site.lab.capture(&capture).expect("a capture");
    let done = fetch(site, options);
    assert_eq!(done.code, Some(0), "{done:?}");
    site.lab.stop_capture().expect("a capture");
    let mut tshark = std::process::Command::new("tshark");
    tshark.arg("-r").arg(&capture).args(["-Y", "sctp", "-T", "fields"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let shown = finish(tshark);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown = shown.stdout.lines().map(Shown::new).collect();
    (shown, std::fs::read(&capture).expect("the capture"))
}

/// The key of a host, made now.
fn key_of(site: &Site, host: Host) -> String {
    let mut command = site.command(host, MANYPATH);
    command.args(["key", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&finish(command).stdout).expect("JSON");
    shown["keys"][0]["key"].as_str().expect("a key").to_owned()
}

#[test]
fn a_capture_of_a_whole_transfer_shows_neither_payload_nor_flows_nor_addresses() {
    const SECRET: &[u8] = b"what nobody on the way is to read";
    let mut site = Site::with_paths(&PATHS);
    site.web();
    let file = SECRET.repeat(30_000);
    std::fs::write(site.dir.join("www/file"), &file).expect("a file");
    let (list, log) = (site.dir.join("authorized"), site.dir.join("log-9899"));
    std::fs::write(&list, format!("{} curl's host\n", key_of(&site, Host::Left))).expect("a list");
    let list = list.to_str().expect("UTF-8");
    let args = ["serve", "--allow", "8080", "--authorized", list, "-v"];
    site.service(MANYPATH, &args, "udp", 9899);
    let (shown, bytes) = captured(&site, &["--encrypt", "require"]);
    assert_eq!(std::fs::read(site.dir.join("got")).expect("got"), file);
    assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET));
    assert!(shown.iter().flat_map(|it| &it.ppids).all(|ppid| ppid == KEY_MANAGEMENT));
    // Both ends have their keys when both have sealed something.
    let first = shown.iter().position(Shown::is_sealed).expect("a sealed packet");
    let sealer = &shown[first].from;
    let both = shown.iter().position(|it| it.is_sealed() && it.from != *sealer).expect("both");
    assert!(shown.len() > both + 500, "{}", shown.len());
    for (number, it) in shown.iter().enumerate().skip(both) {
        assert!(it.is_sealed() && !it.readable, "packet {number}: {:?}", it.chunks);
    }
    wait_for("a line about the connection", || {
        let logged = std::fs::read_to_string(&log).expect("a log");
        logged.lines().any(|line| {
            line.contains("connection from ") && line.contains(" by curl's host: ended after")
        })
    });
}

/// What the test above looks for is there without encryption.
#[test]
fn a_capture_of_a_plain_transfer_shows_all_of_it() {
    let site = site(&["--encrypt", "off"]);
    std::fs::write(site.dir.join("www/file"), "read by everybody ".repeat(30_000)).expect("a file");
    let (shown, bytes) = captured(&site, &["--encrypt", "off"]);
    assert!(bytes.windows(17).any(|part| part == b"read by everybody"));
    assert!(shown.iter().any(|it| it.ppids.contains(&CONTROL.to_string())));
    assert!(shown.iter().any(|it| it.readable) && !shown.iter().any(Shown::is_sealed));
}
