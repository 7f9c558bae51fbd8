//! Names, for which nobody can ask a stack from outside.

use crate::attempt::{Open, sends_names};
use crate::config::{DEFAULT_UDP_PORT, Locals, RelayConfig, StackConfig};
use crate::ids::Client;
use crate::keys::KeyFiles;
use crate::stack::{Stack, Stopper};
use manypath_control::{ControlSocket, Incoming, Reply};
use manypath_flow::HostName;
use manypath_rules::Encrypt;
use manypath_trust::{IdentitySource, KnownPeersFile, load_or_create_identity};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Ends its stack with the test.
struct Running(Stopper, Option<std::thread::JoinHandle<()>>);

impl Running {
    fn start(stack: Stack) -> Self {
        let stopper = stack.stopper();
        Self(stopper, Some(std::thread::spawn(move || stack.run().unwrap())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.stop();
        std::thread::sleep(Duration::from_millis(20));
        let _ = self.0.stop();
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(folder: &Path, host: &str) -> KeyFiles {
    let identity = IdentitySource::File(folder.join(host));
    load_or_create_identity(&identity.path()).unwrap();
    let known_peers = KnownPeersFile::named(folder.join(format!("{host}-known_peers")));
    KeyFiles { identity, known_peers, ssh_hosts: false, authorized_peers: None }
}

/// A relay that connects to 127.0.0.1 and nowhere else, and a client of it that has not begun yet.
fn pair(folder: &Path, number: u8) -> (Running, Stack, ControlSocket) {
    let pid = std::process::id().to_be_bytes();
    let at = |host| Ipv4Addr::new(127, 128 | (pid[2] & 63), pid[3], number * 4 + host);
    let ours = keys(folder, "client");
    let list = folder.join("authorized");
    std::fs::write(&list, format!("{} client\n", ours.identity.load().unwrap().public_key()))
        .unwrap();
    let shared = |host| StackConfig {
        locals: Locals::List(vec![at(host).into()]),
        loopback_paths: true,
        ..StackConfig::default()
    };
    let to = vec!["127.0.0.1".parse().unwrap()];
    let relay = StackConfig {
        udp_port: DEFAULT_UDP_PORT,
        accept: true,
        relay: Some(RelayConfig { to, connections: 8, quota: None }),
        encrypt: Encrypt::Require,
        keys: Some(KeyFiles { authorized_peers: Some(list), ..keys(folder, "relay") }),
        ..shared(2)
    };
    let relay = Running::start(Stack::new(relay).unwrap());
    let (launcher, control) = ControlSocket::pair().unwrap();
    launcher.set_receive_timeout(Some(LIMIT)).unwrap();
    let via = Some(at(2).to_string().parse().unwrap());
    let mut client = StackConfig { via, keys: Some(ours), ..shared(1) };
    client.process.control = Some(control.into());
    (relay, Stack::new(client).unwrap(), launcher)
}

/// What a launcher hears that asks for a connection to a host by its name.
fn answer(number: u8, name: &str, port: u16) -> Reply {
    let folder =
        std::env::temp_dir().join(format!("manypath-onward-{}-{number}", std::process::id()));
    let folder = Folder(folder);
    std::fs::create_dir_all(&folder.0).unwrap();
    let (_relay, mut client, launcher) = pair(&folder.0, number);
    assert!(sends_names(&client.base.core, port));
    let destination = SocketAddr::from(([0; 4], port));
    let open = Open { blocking: true, waiting: true, ..Open::to(destination) };
    let asker = Client { control: 1.into(), id: 7 };
    let name = HostName::new(name).unwrap();
    client.attempts.on_open_named(&mut client.base, asker, open, name);
    let _client = Running::start(client);
    loop {
        match launcher.receive().unwrap() {
            Incoming::Message(Reply::Pending { id: 7 }, _) => {}
            Incoming::Message(reply, _) => return reply,
            Incoming::Closed => panic!("the stack has ended"),
        }
    }
}

#[test]
fn a_relay_resolves_names_and_judges_the_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reply = answer(1, "localhost", port);
    assert!(matches!(reply, Reply::Accepted { id: 7, .. }), "{reply:?}");
    listener.accept().unwrap();
    // A name for a place that is closed to the relay.
    let reply = answer(2, "127.0.0.2", port);
    assert!(matches!(reply, Reply::Direct { id: 7, .. }), "{reply:?}");
    // No name of a host.
    let reply = answer(3, "a..b", port);
    assert_eq!(reply, Reply::Failed { id: 7, errno: libc::EHOSTUNREACH });
}
