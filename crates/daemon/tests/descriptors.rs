//! A stack that has run out of file descriptors, in a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed"
)]

mod common;

use common::{Host, LIMIT, Network};
use manypath_control::{ControlSocket, Incoming, Reply, Request, Role, VERSION};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::time::{Duration, Instant};

/// Lets the process have no more than `count` descriptors.
fn limit_descriptors(count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: setrlimit reads the structure, which outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn control_callers_are_served_when_descriptors_are_free_again() {
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
    limit_descriptors(200);
    let hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
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
