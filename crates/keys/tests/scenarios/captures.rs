//! Wireshark's view of protected associations, by packaging/wireshark/sctp_dtls.lua: without a log of keys it shows
//! nothing of what was protected, with one everything.

use crate::judge::{SUITES, Trial, hex};
use crate::managed::Managed;
use crate::messages::offering;
use crate::pair::{Side, address, millis};
use manypath_engine::{Config, Duration, LocalAddress, PathAddr};
use manypath_keys::KeyLogFile;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures");
const DISSECTOR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/sctp_dtls.lua");
/// What must not be read: a message of each end, and an address that is announced later.
const OF_A: &[u8] = b"a message of A";
const OF_Z: &[u8] = b"a message of Z";
const LATER: [u8; 4] = [10, 9, 0, 7];

const DTLS: &str = "65";
const ASCONF: &str = "193";

/// A packet, whose sender that was, and where it went.
type Sent = (Side, PathAddr, Vec<u8>);

/// A capture of packets in UDP and IPv4 (LINKTYPE_RAW), a millisecond apart.
fn pcap(packets: &[Sent]) -> Vec<u8> {
    let mut file = Vec::new();
    [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65535, 101_u32]
        .iter()
        .for_each(|word| file.extend(word.to_le_bytes()));
    for (number, (_, path, packet)) in (0_u32..).zip(packets) {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (path.local, path.remote) else {
            panic!("addresses of IPv4")
        };
        let (datagram, len) = (8 + packet.len() as u16, 28 + packet.len() as u32);
        let time = [number / 1000, number % 1000 * 1000];
        [time[0], time[1], len, len].iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend([0x45, 0]);
        file.extend((20 + datagram).to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        file.extend(from.ip().octets().into_iter().chain(to.ip().octets()));
        for word in [from.port(), to.port(), datagram, 0] {
            file.extend(word.to_be_bytes());
        }
        file.extend(packet);
    }
    file
}

/// A file that is gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("manypath-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// What tshark shows of a packet.
struct Shown {
    chunks: Vec<String>,
    /// PPIDs of DATA chunks.
    ppids: Vec<String>,
    payload: String,
    addresses: String,
    epoch: String,
    locked: bool,
    /// Types of TLS handshake messages.
    handshake: String,
    is_pvalid: bool,
    /// Key management methods that are offered.
    methods: String,
    malformed: bool,
    /// Records without a checksum are taken, in an INIT or INIT ACK.
    takes_zero: bool,
    /// It is one.
    omits_checksum: bool,
}

const FIELDS: [&str; 13] = [
    "sctp.chunk_type",
    "sctp.data_payload_proto_id",
    "data.data",
    "sctp.parameter_ipv4_address",
    "sctp_dtls.epoch",
    "sctp_dtls.locked",
    "tls.handshake.type",
    "sctp_dtls.pvalid",
    "sctp_dtls.method",
    "_ws.malformed",
    "sctp_dtls.error_detection",
    "sctp_dtls.no_checksum",
    "sctp.checksum.status",
];

impl Shown {
    fn new(line: &str) -> Self {
        let fields: Vec<_> = line.split('\t').collect();
        let [
            chunks,
            ppids,
            payload,
            addresses,
            epoch,
            locked,
            tls,
            pvalid,
            methods,
            malformed,
            takes_zero,
            omitted,
            checksum,
        ] = fields[..]
        else {
            panic!("{line}")
        };
        assert!(!checksum.contains('0'), "0 is bad");
        let list = |text: &str| {
            text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        Self {
            chunks: list(chunks),
            ppids: list(ppids),
            payload: payload.replace(':', ""),
            addresses: addresses.to_owned(),
            epoch: epoch.to_owned(),
            locked: !locked.is_empty(),
            handshake: tls.to_owned(),
            is_pvalid: !pvalid.is_empty(),
            methods: methods.to_owned(),
            malformed: !malformed.is_empty(),
            takes_zero: !takes_zero.is_empty(),
            omits_checksum: !omitted.is_empty(),
        }
    }

    fn is_protected(&self) -> bool {
        self.chunks.iter().any(|kind| kind == DTLS)
    }
}

/// What tshark shows of a capture, with a log of keys if there is one; none if it is not installed.
fn dissect(capture: &Path, key_log: Option<&Path>) -> Option<Vec<Shown>> {
    let mut command = Command::new("tshark");
    command.env_remove("MANYPATH_KEYLOG").arg("-X").arg(format!("lua_script:{DISSECTOR}"));
    if let Some(log) = key_log {
        command.arg("-o").arg(format!("sctp_dtls.keylog:{}", log.display()));
    }
    command.arg("-r").arg(capture).args(["-T", "fields"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "tshark is missing: apt install tshark");
            println!("SKIPPED: tshark is missing. Install it with: apt install tshark");
            return None;
        }
        output => output.unwrap(),
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(Shown::new).collect())
}

/// Two ends over two paths, from setup to shutdown, with messages, an address that is announced, and new keys. The
/// capture, and the log of keys of one end.
fn protected_association() -> (Vec<u8>, String) {
    let config = |side| Config { address_reconfiguration: true, ..offering(side) };
    let mut it = Managed::with(2, config(Side::A), config(Side::Z));
    it.waiting = vec![OF_A];
    it.connect();
    it.run(Duration::from_secs(1));
    it.send(Side::Z, OF_Z);
    it.run(millis(500));
    let addr = SocketAddr::from((LATER, address(Side::A, 1).port()));
    let later = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.a.endpoint.announce_local_address(it.pair.now, later);
    it.run(Duration::from_secs(1));
    it.rekey(Side::A);
    it.run(Duration::from_secs(1));
    it.send(Side::Z, &[7; 3000]);
    it.run(Duration::from_secs(35));
    it.pair.a.endpoint.shutdown(it.pair.now, it.a.id.unwrap());
    it.run(Duration::from_secs(1));
    (pcap(&it.pair.recorded), it.a.key_log.join("\n") + "\n")
}

/// The committed capture and its log of keys, made anew under `MANYPATH_UPDATE`.
fn golden() -> [PathBuf; 2] {
    let files = ["protected.pcap", "protected.keys"].map(|name| Path::new(CAPTURES).join(name));
    if std::env::var_os("MANYPATH_UPDATE").is_some() {
        let (capture, log) = protected_association();
        std::fs::write(&files[0], capture).unwrap();
        std::fs::write(&files[1], log).unwrap();
    }
    files
}

#[test]
fn without_the_keys_nothing_that_is_protected_is_readable() {
    let [capture, _] = golden();
    let Some(shown) = dissect(&capture, None) else { return };
    let first = shown.iter().position(Shown::is_protected).unwrap();
    assert!(shown.len() > first + 30);
    assert!(shown[..first].iter().all(|it| it.ppids.iter().all(|ppid| ppid == "4242")));
    for packet in &shown[first..] {
        assert!(packet.chunks == [DTLS] && packet.locked);
        assert_eq!(packet.payload.len() + packet.addresses.len() + packet.epoch.len(), 0);
    }
    let bytes = std::fs::read(&capture).unwrap();
    for secret in [OF_A, OF_Z, &[7; 16]] {
        assert!(!bytes.windows(secret.len()).any(|it| it == secret));
    }
}

#[test]
fn with_the_keys_everything_is_readable() {
    let [capture, log] = golden();
    let Some(shown) = dissect(&capture, Some(&log)) else { return };
    assert!(shown.iter().all(|it| !it.locked && !it.malformed));
    let protected: Vec<_> = shown.iter().filter(|it| it.is_protected()).collect();
    let epochs: BTreeSet<_> = protected.iter().map(|it| it.epoch.as_str()).collect();
    assert_eq!(epochs, BTreeSet::from(["3", "4"]));
    let kinds: BTreeSet<_> =
        protected.iter().flat_map(|it| &it.chunks).map(String::as_str).collect();
    // DATA, SACK, HEARTBEAT and its answer, SHUTDOWN to its end, DTLS, ASCONF-ACK, ASCONF
    let expected = ["0", "3", "4", "5", "7", "8", "14", DTLS, "128", ASCONF];
    assert!(kinds.is_superset(&BTreeSet::from(expected)), "{kinds:?}");
    for message in [OF_A, OF_Z, &[7; 3000]] {
        assert!(shown.iter().any(|it| it.payload == hex(message)));
    }
    assert!(protected.iter().any(|it| it.addresses.contains("10.9.0.7")));
    // ClientHello and ServerHello, for two epochs, and twice PVALID for each
    let count = |kind| shown.iter().filter(|it| it.handshake == kind).count();
    let pvalid = shown.iter().filter(|it| it.is_pvalid).count();
    assert_eq!((count("1"), count("2"), pvalid), (2, 2, 4));
    let offers: Vec<_> = shown.iter().map(|it| it.methods.as_str()).collect();
    assert_eq!(offers[..3], ["240", "240", ""]);
    assert!(shown.iter().map(|it| it.takes_zero).eq((0..shown.len()).map(|number| number < 2)));
    let omitted = protected.iter().filter(|it| it.omits_checksum).count();
    assert!(omitted > 30 && shown[..4].iter().all(|it| !it.omits_checksum));
}

#[test]
fn each_cipher_suite_is_opened_and_a_record_that_was_changed_is_not() {
    for suite in SUITES {
        let mut trial = Trial::new(Side::A, &["--suites", suite]);
        trial.connect();
        trial.send(&[b'x'; 1000]);
        let is_record = |(_, _, packet): &&mut Sent| packet[12] == 0x41;
        let (_, _, last) = trial.packets.iter_mut().rfind(is_record).unwrap();
        // Behind the headers of packet, chunk and record.
        last[20] ^= 1;
        let capture = Scratch::new(&format!("{suite}.pcap"), &pcap(&trial.packets));
        let log = trial.it.a.key_log.join("\n");
        assert!(log.lines().all(|line| line.split(' ').nth(3) == Some(suite)), "{log}");
        let log = Scratch::new(&format!("{suite}.keys"), log.as_bytes());
        let Some(shown) = dissect(&capture.0, Some(&log.0)) else { return };
        let protected = shown.iter().filter(|it| it.is_protected()).count();
        let locked = shown.iter().filter(|it| it.locked).count();
        assert!((protected > 6) && locked == 1, "{suite}: {locked} of {protected}");
        assert!(shown.iter().any(|it| it.payload == hex(&[b'x'; 1000])));
    }
}

#[test]
fn both_ends_log_the_same_keys_in_a_file_that_only_its_owner_may_open() {
    let mut it = Managed::protected(1);
    it.rekey(Side::A);
    it.run(Duration::from_secs(1));
    let sorted = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&it.a.key_log), sorted(&it.z.key_log));
    assert_eq!(it.a.key_log.len(), 4);
    let file = Scratch::new("log.keys", b"");
    let open = |mode| {
        std::fs::set_permissions(&file.0, PermissionsExt::from_mode(mode)).unwrap();
        KeyLogFile::new(OpenOptions::new().append(true).open(&file.0).unwrap())
    };
    let mut log = open(0o600).unwrap();
    it.a.key_log.iter().for_each(|line| log.write(line).unwrap());
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), it.a.key_log.join("\n") + "\n");
    let refused = open(0o640).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
}
