//! When associations are encrypted, and what connections get when they cannot be.

use crate::common::peer::Peer;
use crate::common::{
    Host, LIMIT, Launcher, Network, Table, VirtualHost, counter, echo, exchange, pattern, service,
};
use manypath_control::Reply;
use manypath_control::status::{EncryptionStatus, FallbackReason, StackStatus};
use manypath_daemon::{DEFAULT_UDP_PORT, KeyFiles, SettingsFile, StackConfig};
use manypath_keys::PublicKey;
use manypath_rules::Encrypt::{self, Off, Opportunistic, Require};
use manypath_trust::{IdentitySource, KnownPeersFile, load_or_create_identity};
use manypath_wire::checksum::crc32c;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A folder for the keys of a test, that goes with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(network: Network) -> Self {
        let name = format!("manypath-test-keys-{}", network.server()[0]);
        let folder = Self(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir(&folder.0).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The files of a host.
    pub(crate) fn files(&self, host: &str) -> KeyFiles {
        let known_peers = KnownPeersFile::named(self.0.join(format!("{host}-known_peers")));
        let identity = IdentitySource::File(self.0.join(host));
        load_or_create_identity(&identity.path()).unwrap();
        KeyFiles { identity, known_peers, ssh_hosts: false, authorized_peers: None }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn key_of(files: &KeyFiles) -> PublicKey {
    files.identity.load().unwrap().public_key()
}

pub(crate) fn client(network: Network, encrypt: Encrypt) -> StackConfig {
    StackConfig { encrypt, ..network.client_config() }
}

pub(crate) fn server(network: Network, encrypt: Encrypt, allow: &[SocketAddr]) -> StackConfig {
    StackConfig { encrypt, ..network.server_config(allow) }
}

/// A server that takes nobody before there is a key in its list.
pub(crate) fn server_with_list(
    network: Network,
    folder: &Folder,
    destination: SocketAddr,
) -> (Host, Launcher, PathBuf) {
    let list = folder.0.join("authorized");
    fs::write(&list, "").unwrap();
    let keys = KeyFiles { authorized_peers: Some(list.clone()), ..folder.files("server") };
    let config = StackConfig { keys: Some(keys), ..server(network, Require, &[destination]) };
    let (server, launcher) = Host::with_launcher(config);
    (server, launcher, list)
}

pub(crate) fn encryption(status: &StackStatus) -> Option<&EncryptionStatus> {
    status.associations.first()?.encryption.as_ref()
}

/// Waits until the client has no association any more, so that the next one is made with whoever is there then.
pub(crate) fn wait_for_the_end(launcher: &Launcher) {
    launcher.wait_for("the end", |status| status.associations.is_empty());
}

/// Waits until the file has this peer and no other.
fn wait_for_known(files: &KeyFiles, peer: (IpAddr, PublicKey)) {
    let known = || files.known_peers.load().unwrap().peers().collect::<Vec<_>>();
    let begun = Instant::now();
    while known() != [peer] {
        assert!(begun.elapsed() < LIMIT, "{:?}", known());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a connect that must not be plain TCP hears.
pub(crate) fn errno(launcher: &mut Launcher, destination: SocketAddr) -> i32 {
    let (id, mut reply) = launcher.open(destination, true);
    while reply == (Reply::Pending { id }) {
        reply = launcher.answer(id);
    }
    match reply {
        Reply::Failed { errno, .. } => errno,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn hosts_that_both_can_encrypt_do_and_the_address_is_remembered_with_its_key() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let server = server(network, Opportunistic, &[destination]);
    let _server = Host::start(StackConfig { keys: Some(theirs.clone()), ..server });
    for (round, standing) in ["new", "known"].into_iter().enumerate() {
        let config = client(network, [Opportunistic, Require][round]);
        let config = StackConfig { keys: Some(ours.clone()), ..config };
        let (client, mut launcher) = Host::with_launcher(config);
        let stream = launcher.connect_sctp(destination);
        let status = launcher.status();
        let it = encryption(&status).unwrap();
        // The second stack has the ticket of the first one, and makes up for the handshake.
        assert_eq!((it.state.as_str(), it.resumed), ("encrypted", round == 1));
        assert!(it.epoch == 3 || it.epoch == 4 && it.resumed, "{}", it.epoch);
        assert_eq!(it.cipher_suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!(it.standing.as_deref(), Some(standing), "round {round}");
        let sent = pattern(1 << 20, 5);
        assert!(exchange(stream, sent.clone()) == sent);
        assert_eq!(counter(&status, "stack_associations_encrypted"), 1);
        drop((client, launcher));
        wait_for_known(&ours, (network.server()[0], key_of(&theirs)));
    }
}

#[test]
fn a_peer_that_does_not_encrypt_is_reached_without() {
    for (here, there) in [(Opportunistic, Off), (Off, Opportunistic), (Off, Off)] {
        let network = Network::new();
        let destination = service(network.server()[0], echo);
        let _server = Host::start(server(network, there, &[destination]));
        let (_client, mut launcher) = Host::with_launcher(client(network, here));
        let stream = launcher.connect_sctp(destination);
        assert_eq!(encryption(&launcher.status()), None, "{here:?} to {there:?}");
        assert_eq!(exchange(stream, vec![3; 30]), vec![3; 30]);
    }
}

#[test]
fn a_host_that_cannot_keep_its_key_encrypts_what_it_begins_and_says_so() {
    let network = Network::new();
    let folder = Folder::new(network);
    let mut nowhere = folder.files("nowhere");
    nowhere.identity = IdentitySource::File(folder.0.join("no/such/file"));
    let unkept = |config| StackConfig { keys: Some(nowhere.clone()), ..config };
    let destination = service(network.server()[0], echo);
    let first = Host::start(server(network, Opportunistic, &[destination]));
    let (client, mut launcher) = Host::with_launcher(unkept(client(network, Opportunistic)));
    let _stream = launcher.connect_sctp(destination);
    let status = launcher.status();
    assert_eq!(encryption(&status).unwrap().state, "encrypted");
    let why = status.identity.unwrap().unkept.unwrap();
    assert!(why.contains("no/such/file"), "{why}");
    drop((first, client));
    // Peers would know it by a key that it will not have again.
    let _second = Host::start(unkept(server(network, Opportunistic, &[destination])));
    let (_client, mut launcher) = Host::with_launcher(self::client(network, Opportunistic));
    let _stream = launcher.connect_sctp(destination);
    assert_eq!(encryption(&launcher.status()), None);
    let strict = StackConfig { keys: Some(nowhere.clone()), ..self::client(network, Require) };
    assert!(manypath_daemon::Stack::new(strict).is_err());
}

#[test]
fn who_requires_encryption_neither_sends_nor_takes_anything_without() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let plain = Host::start(server(network, Off, &[destination]));
    let (_client, mut launcher) = Host::with_launcher(client(network, Require));
    assert_eq!(errno(&mut launcher, destination), libc::ECONNREFUSED);
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_opens_refused_unencrypted"), 1);
    assert_eq!(counter(&status, "stack_tcp_relays_started"), 0);
    drop(plain);
    let _strict = Host::start(server(network, Require, &[destination]));
    let (_client, mut clear) = Host::with_launcher(client(network, Off));
    assert_eq!(clear.direct(destination).0, FallbackReason::EncryptionRequired);
    // What was refused is not remembered of the peer, which may be told to encrypt at any time.
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    assert_eq!(encryption(&launcher.status()).unwrap().state, "encrypted");
}

#[test]
fn a_rule_decides_in_place_of_the_setting() {
    let network = Network::new();
    let [open, closed] = [(); 2].map(|()| service(network.server()[0], echo));
    let _server = Host::start(server(network, Opportunistic, &[open, closed]));
    for (setting, rule) in [(Off, (closed, Require)), (Opportunistic, (open, Off))] {
        let (port, when) = (rule.0.port(), rule.1.name());
        let table = Table::new(network, &format!("remote enable port {port} encrypt={when}\n"));
        let config = StackConfig { rules: table.file(), ..client(network, setting) };
        let (_client, mut launcher) = Host::with_launcher(config);
        let _streams = [open, closed].map(|destination| launcher.connect_sctp(destination));
        let status = launcher.status();
        let encrypted: Vec<_> =
            status.associations.iter().map(|one| one.encryption.is_some()).collect();
        assert_eq!(encrypted, [false, true]);
        assert_eq!(status.associations[1].flows[0].destination, closed);
    }
}

#[test]
fn a_host_without_manypath_is_not_reached_if_encryption_is_required() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_client, mut launcher) = Host::with_launcher(client(network, Require));
    assert_eq!(errno(&mut launcher, destination), libc::ECONNREFUSED);
}

#[test]
fn a_changed_key_is_refused_until_the_old_one_is_forgotten() {
    let network = Network::new();
    let folder = Folder::new(network);
    let (ours, theirs) = (folder.files("client"), folder.files("server"));
    let destination = service(network.server()[0], echo);
    let start = |files: KeyFiles| {
        let config = server(network, Opportunistic, &[destination]);
        Host::start(StackConfig { keys: Some(files), ..config })
    };
    let first = start(theirs);
    let config = StackConfig { keys: Some(ours.clone()), ..client(network, Opportunistic) };
    let (_client, mut launcher) = Host::with_launcher(config);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    drop(first);
    wait_for_the_end(&launcher);
    let other = folder.files("other");
    let _second = start(other.clone());
    let (reason, _) = launcher.direct(destination);
    assert_eq!(reason, FallbackReason::KeyChanged);
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_peer_keys_changed"), 1);
    assert_eq!(status.fallbacks[&FallbackReason::KeyChanged], 1);
    let strict = StackConfig { keys: Some(ours.clone()), ..client(network, Require) };
    let strict =
        StackConfig { locals: manypath_daemon::Locals::List(vec![network.client()[1]]), ..strict };
    let (_strict, mut strict) = Host::with_launcher(strict);
    assert_eq!(errno(&mut strict, destination), libc::ECONNREFUSED);
    // `manypath key forget`, and stacks read it.
    ours.known_peers.change(|known| known.forget(network.server()[0])).unwrap();
    launcher.send(&manypath_control::Request::Reload);
    assert!(matches!(launcher.receive(), Reply::Reloaded { .. }));
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![4; 40]), vec![4; 40]);
    wait_for_known(&ours, (network.server()[0], key_of(&other)));
}

#[test]
fn a_peer_that_was_encrypted_does_not_become_plain() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let first = Host::start(server(network, Opportunistic, &[destination]));
    let (_client, mut launcher) = Host::with_launcher(client(network, Opportunistic));
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    drop(first);
    wait_for_the_end(&launcher);
    let (_second, theirs) = Host::with_launcher(server(network, Off, &[destination]));
    assert_eq!(launcher.direct(destination).0, FallbackReason::NoLongerEncrypted);
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_peers_no_longer_encrypted"), 1);
    // Nothing was asked of the other end.
    assert_eq!(counter(&theirs.status(), "flow_incoming"), 0);
}

#[test]
fn only_authorized_peers_are_taken_if_there_is_a_list_and_a_key_can_be_revoked() {
    let network = Network::new();
    let folder = Folder::new(network);
    let ours = folder.files("client");
    let destination = service(network.server()[0], echo);
    let (_server, theirs, list) = server_with_list(network, &folder, destination);
    let config = StackConfig { keys: Some(ours.clone()), ..client(network, Opportunistic) };
    let (_client, mut launcher) = Host::with_launcher(config);
    assert_eq!(launcher.direct(destination).0, FallbackReason::NotAuthorized);
    assert_eq!(counter(&theirs.status(), "stack_peers_not_authorized"), 1);
    let reload = || {
        theirs.send(&manypath_control::Request::Reload);
        assert!(matches!(theirs.receive(), Reply::Reloaded { .. }));
    };
    fs::write(&list, format!("{} test\n", key_of(&ours))).unwrap();
    reload();
    let mut stream = launcher.connect_sctp(destination);
    // It is a relay from here on: one that is still a connect would fail.
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let status = theirs.status();
    let it = encryption(&status).unwrap();
    assert_eq!((it.standing.as_deref(), it.name.as_deref()), (Some("authorized"), Some("test")));
    fs::write(&list, "").unwrap();
    reload();
    wait_for_the_end(&launcher);
}

#[test]
fn nothing_is_read_again_when_a_list_of_keys_cannot_be() {
    let network = Network::new();
    let folder = Folder::new(network);
    let mut ours = folder.files("client");
    let list = folder.0.join("authorized");
    fs::write(&list, "").unwrap();
    ours.authorized_peers = Some(list.clone());
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let table = Table::new(network, "default remote disable\n");
    let config = StackConfig { rules: table.file(), ..client(network, Opportunistic) };
    let (_client, mut launcher) = Host::with_launcher(StackConfig { keys: Some(ours), ..config });
    table.write("");
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    launcher.send(&manypath_control::Request::Reload);
    let Reply::Refused { why } = launcher.receive() else { panic!("a folder was read") };
    assert!(why.contains("authorized"), "{why}");
    assert_eq!(launcher.direct(destination).0, FallbackReason::Rule);
}

#[test]
fn nothing_changes_when_what_is_to_be_encrypted_from_now_on_cannot_be() {
    let network = Network::new();
    let folder = Folder::new(network);
    let mut ours = folder.files("client");
    ours.identity = IdentitySource::File(folder.path("there-is-none"));
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let (table, settings) = (Table::new(network, ""), folder.path("settings"));
    fs::write(&settings, "encrypt = off\n").unwrap();
    let (_client, mut launcher) = Host::with_launcher(StackConfig {
        rules: table.file(),
        settings: Some(SettingsFile::named(settings.clone())),
        keys: Some(ours),
        ..client(network, Off)
    });
    table.write("default remote disable\n");
    fs::write(&settings, "encrypt = require\n").unwrap();
    launcher.send(&manypath_control::Request::Reload);
    let Reply::Refused { why } = launcher.receive() else { panic!("there is no key") };
    assert!(why.contains("there-is-none"), "{why}");
    let sent = pattern(10_000, 5);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
}

/// Bytes that are not authentic, and peers that never complete the handshake.
#[test]
fn a_peer_that_shows_no_key_opens_nothing() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, launcher) = Host::with_launcher(server(network, Opportunistic, &[destination]));
    let key_management = manypath_engine::KeyManagement {
        methods: vec![manypath_keys::METHOD],
        roles: manypath_engine::KeyRoles::Either,
        required: false,
    };
    let config = manypath_engine::Config {
        port: 40_000,
        adaptation: Some(manypath_flow::ADAPTATION),
        key_management: Some(key_management),
        ..manypath_engine::Config::default()
    };
    let mut peer = Peer::new(network.client()[0], manypath_net::UdpPort::Ephemeral, config);
    let id = peer.establish(SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT));
    peer.ask(id, destination);
    peer.wait_closed();
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_key_exchanges_failed"), 1);
    assert_eq!(counter(&status, "flow_incoming"), 0);
}

/// Both ends and the time between are the test's, so that an hour passes at once.
#[test]
fn new_keys_are_made_while_data_flows_over_two_paths() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let config = server(network, Require, &[destination]);
    let mut server = VirtualHost::new(StackConfig { seed: Some([2; 32]), ..config });
    let mut client = VirtualHost::new(client(network, Require));
    client.open(1, destination);
    let mut now = 0;
    let mut turn = |client: &mut VirtualHost, step: u64| {
        now += step;
        server.replies(now);
        client.replies(now)
    };
    let begun = Instant::now();
    let accepted = |reply: &Reply| matches!(reply, Reply::Accepted { .. });
    while !turn(&mut client, 1).iter().any(accepted) {
        assert!(begun.elapsed() < LIMIT);
    }
    let stream = client.attach(1);
    let epoch = |client: &VirtualHost| encryption(&client.status()).map_or(0, |it| it.epoch);
    while now_of(&client) < Duration::from_secs(3599) {
        turn(&mut client, 250);
    }
    assert_eq!(epoch(&client), 3);
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    let carried = std::thread::spawn(move || comes_back(stream, &told));
    while !carried.is_finished() {
        assert!(begun.elapsed() < LIMIT * 3, "{:#?}", client.status());
        over.store(epoch(&client) > 3, Ordering::Relaxed);
        turn(&mut client, 1);
    }
    assert!(carried.join().unwrap());
    let status = client.status();
    let it = encryption(&status).unwrap();
    assert_eq!((it.epoch, it.packets_dropped), (4, 0));
    let paths = &status.associations[0].paths;
    assert!(paths.len() == 2 && paths.iter().all(|path| path.bytes_sent > 1 << 20), "{paths:#?}");
}

/// Sends 10 MB, and more until it is over. Whether all has come back.
fn comes_back(mut stream: TcpStream, over: &AtomicBool) -> bool {
    let mut writer = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    let mut sent = Vec::new();
    while sent.len() < 10 << 20 || !over.load(Ordering::Relaxed) {
        let some = pattern(64 << 10, 1 + sent.len() as u64);
        writer.write_all(&some).unwrap();
        sent.extend(some);
    }
    writer.shutdown(Shutdown::Write).unwrap();
    reader.join().unwrap() == sent
}

fn now_of(host: &VirtualHost) -> Duration {
    Duration::from_millis(host.status().uptime_ms)
}

/// Somebody between a client and the server of a network, on the port where the client looks for it.
pub(crate) struct Middle {
    pub(crate) seen: Arc<Mutex<Vec<Vec<u8>>>>,
    strips: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    front: UdpSocket,
    client: Arc<Mutex<Option<SocketAddr>>>,
}

/// Where the server is then.
const BEHIND: u16 = DEFAULT_UDP_PORT + 1;

impl Middle {
    pub(crate) fn between(network: Network) -> Self {
        let front = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
        let back = UdpSocket::bind((network.client()[1], 0)).unwrap();
        back.connect((network.server()[0], BEHIND)).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let client = Arc::new(Mutex::new(None));
        let this = Self {
            seen: Arc::default(),
            strips: Arc::default(),
            over: Arc::default(),
            front: front.try_clone().unwrap(),
            client: client.clone(),
        };
        let (peer, out, forth) = (client.clone(), back.try_clone().unwrap(), front.try_clone());
        let forth = forth.unwrap();
        this.pass_on(
            move |buffer| {
                let (len, from) = forth.recv_from(buffer).ok()?;
                *peer.lock().unwrap() = Some(from);
                Some(len)
            },
            move |packet| drop(out.send(packet)),
        );
        this.pass_on(
            move |buffer| back.recv(buffer).ok(),
            move |packet| {
                let to = client.lock().unwrap().unwrap();
                drop(front.send_to(packet, to));
            },
        );
        this
    }

    fn pass_on(
        &self,
        receive: impl Fn(&mut [u8]) -> Option<usize> + Send + 'static,
        send: impl Fn(&[u8]) + Send + 'static,
    ) {
        let (seen, strips, over) = (self.seen.clone(), self.strips.clone(), self.over.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while !over.load(Ordering::Relaxed) {
                let Some(len) = receive(&mut buffer) else { continue };
                let mut packet = buffer[..len].to_vec();
                if strips.load(Ordering::Relaxed) {
                    strip(&mut packet);
                }
                send(&packet);
                seen.lock().unwrap().push(packet);
            }
        });
    }

    /// Sends to the client as if the server had.
    pub(crate) fn forge(&self, packet: &mut [u8]) {
        seal(packet);
        let client = self.client.lock().unwrap().unwrap();
        self.front.send_to(packet, client).unwrap();
    }

    fn has_seen(&self, bytes: &[u8]) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.iter().any(|packet| packet.windows(bytes.len()).any(|part| part == bytes))
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Gives a packet the checksum that it must have.
fn seal(packet: &mut [u8]) {
    packet[8..12].fill(0);
    let sum = crc32c(&[packet]).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
}

/// Takes what is said about key management out of an INIT or INIT ACK.
fn strip(packet: &mut Vec<u8>) {
    const KEY_MANAGEMENT: [u8; 2] = [0x80, 0x06];
    let word =
        |packet: &[u8], at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    if packet.len() < 36 || !matches!(packet[12], 1 | 2) {
        return;
    }
    let mut at = 32;
    while at + 4 <= packet.len() {
        let len = word(packet, at + 2).next_multiple_of(4);
        if packet[at..at + 2] == KEY_MANAGEMENT {
            packet.drain(at..at + len);
            let whole = word(packet, 14) - len;
            packet[14..16].copy_from_slice(&u16::try_from(whole).unwrap().to_be_bytes());
            seal(packet);
            return;
        }
        at += len;
    }
}

/// A client that reaches its server by way of the middle alone.
pub(crate) fn through(network: Network, encrypt: Encrypt) -> StackConfig {
    let locals = manypath_daemon::Locals::List(vec![network.client()[0]]);
    StackConfig { locals, ..client(network, encrypt) }
}

pub(crate) fn behind(network: Network, encrypt: Encrypt, allow: &[SocketAddr]) -> StackConfig {
    let locals = manypath_daemon::Locals::List(vec![network.server()[0]]);
    StackConfig { locals, udp_port: BEHIND, ..server(network, encrypt, allow) }
}

#[test]
fn nobody_on_the_way_reads_what_is_carried() {
    const SECRET: &[u8] = b"what nobody else is to read";
    for encrypt in [Off, Opportunistic] {
        let network = Network::new();
        let destination = service(network.server()[0], echo);
        let middle = Middle::between(network);
        let _server = Host::start(behind(network, encrypt, &[destination]));
        let (_client, mut launcher) = Host::with_launcher(through(network, encrypt));
        let sent = SECRET.repeat(10_000);
        assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
        let carried: usize = middle.seen.lock().unwrap().iter().map(Vec::len).sum();
        assert!(carried > 2 * sent.len());
        assert_eq!(middle.has_seen(SECRET), encrypt == Off);
    }
}

#[test]
fn who_takes_the_offer_out_is_noticed_once_the_peer_is_known() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let middle = Middle::between(network);
    let _server = Host::start(behind(network, Opportunistic, &[destination]));
    let mut config = through(network, Opportunistic);
    config.limits.idle_timeout = Duration::ZERO;
    let (_client, mut launcher) = Host::with_launcher(config);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    wait_for_the_end(&launcher);
    middle.strips.store(true, Ordering::Relaxed);
    assert_eq!(launcher.direct(destination).0, FallbackReason::NoLongerEncrypted);
    middle.strips.store(false, Ordering::Relaxed);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
}
