//! A stack that has run out of file descriptors, in a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed"
)]

mod common;

use common::{Host, LIMIT, Network, counter, echo, exchange, service, tcp_pair};
use manypath_control::{ControlSocket, Incoming, Reply, Request, Role, VERSION};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The limit is that of the process, and so of all tests in it.
static LIMITED: Mutex<()> = Mutex::new(());

/// Takes all descriptors that the process may have.
fn hoard() -> Vec<File> {
    limit_descriptors(200);
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Lets the process have no more than `count` descriptors.
fn limit_descriptors(count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: setrlimit reads the structure, which outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn control_callers_are_served_when_descriptors_are_free_again() {
    let _alone = LIMITED.lock();
    let directory = std::env::temp_dir().join(format!("manypath-fds-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut config = Network::new().client_config();
    config.process.runtime_dir = Some(directory.clone());
    let _stack = Host::start(config);
    let path = manypath_control::runtime::socket_path(&directory, std::process::id());
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    let caller = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    let hoard = hoard();
    caller.connect(&SockAddr::unix(&path).unwrap()).unwrap();
    // The stack has been told of the caller, and could not take it.
    std::thread::sleep(Duration::from_millis(300));
    drop(hoard);
    caller.set_read_timeout(Some(LIMIT)).unwrap();
    let control = ControlSocket::adopt(caller.into()).unwrap();
    control.send(&Request::Hello { version: VERSION, role: Role::Cli }, None).unwrap();
    let reply = control.receive::<Reply>().unwrap();
    assert!(matches!(reply, Incoming::Message(Reply::Welcome { .. }, None)));
    drop(std::fs::remove_dir_all(&directory));
}

/// The launcher keeps its line, with all that hangs on it.
#[test]
fn a_socket_for_which_there_is_no_descriptor_ends_its_own_connection_alone() {
    let _alone = LIMITED.lock();
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let other = launcher.connect_sctp(destination);
    let (id, first) = launcher.open(destination, true);
    assert_eq!(first, Reply::Pending { id });
    assert!(matches!(launcher.answer(id), Reply::Accepted { .. }));
    let (mut near, far) = tcp_pair();
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    let hoard = hoard();
    launcher.hand_over(id, &far);
    assert_eq!(launcher.answer(id), Reply::Closed { id });
    drop((hoard, far));
    assert_eq!(near.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(exchange(other, vec![4; 30]), vec![4; 30]);
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_attaches_without_socket"), 1);
    assert_eq!(counter(&status, "stack_control_protocol_errors"), 0);
}
