//! The codec, the handshake, the status transport and the runtime directory, over real sockets.

use manypath_control::status::FallbackReason;
use manypath_control::{
    ControlClient, ControlError, ControlListener, ControlSocket, Incoming, MAX_PACKET, OLDEST,
    Reply, Request, Role, StatusPart, Transport, VERSION, is_spoken, parts, runtime,
};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

fn message<T: serde::de::DeserializeOwned>(socket: &ControlSocket) -> (T, Option<OwnedFd>) {
    let Incoming::Message(message, fd) = socket.receive().expect("readable") else {
        unreachable!("the other side has closed");
    };
    (message, fd)
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("manypath-control-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("scratch directory");
    path
}

#[test]
fn every_message_survives_the_trip() {
    let (a, z) = ControlSocket::pair().expect("pair");
    let v4 = "192.0.2.1:80".parse().expect("address");
    let v6 = "[fe80::1%3]:80".parse().expect("address");
    let requests = [
        Request::Hello { version: VERSION, role: Role::Cli },
        Request::Open { id: u64::MAX, destination: v6, source: Some(v4), blocking: true },
        Request::Cancel { id: 1 },
        Request::Attach { id: 2 },
        Request::Status,
        Request::Stop,
    ];
    for request in requests {
        a.send(&request, None).expect("sent");
        assert_eq!(message::<Request>(&z).0, request);
    }
    let replies = [
        Reply::Welcome { version: VERSION, pid: 1, namespace: 2, counts_traffic: true },
        Reply::Pending { id: 3 },
        Reply::Direct { id: 3, reason: FallbackReason::Silent },
        Reply::Accepted { id: 3, transport: Transport::Sctp, local: v4, peer: v6 },
        Reply::Failed { id: 3, errno: 111 },
        Reply::Closed { id: 3 },
        Reply::StatusPart(StatusPart { index: 0, last: true, text: "{}".into() }),
    ];
    for reply in replies {
        z.send(&reply, None).expect("sent");
        assert_eq!(message::<Reply>(&a).0, reply);
    }
}

#[test]
fn a_descriptor_travels_with_its_message() {
    let (a, z) = ControlSocket::pair().expect("pair");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    a.send(&Request::Attach { id: 7 }, Some(writer.as_fd())).expect("sent");
    drop(writer);
    let (request, fd) = message::<Request>(&z);
    assert_eq!(request, Request::Attach { id: 7 });
    let mut file = File::from(fd.expect("descriptor"));
    file.write_all(b"through").expect("written");
    drop(file);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "through");
}

#[test]
fn closing_and_filling_are_told_apart() {
    let (a, z) = ControlSocket::pair().expect("pair");
    a.set_nonblocking(true).expect("non-blocking");
    let empty = a.receive::<Reply>().expect_err("nothing there");
    assert!(empty.is_would_block());
    let full = loop {
        if let Err(e) = a.send(&"x".repeat(MAX_PACKET - 2), None) {
            break e;
        }
    };
    assert!(full.is_would_block(), "{full}");
    drop(z);
    assert!(matches!(a.send(&Request::Status, None), Err(ControlError::Closed)));
    assert!(matches!(a.receive::<Reply>(), Ok(Incoming::Closed)));
}

#[test]
fn garbage_and_giants_are_refused() {
    let (a, z) = ControlSocket::pair().expect("pair");
    a.send(&"not a request", None).expect("sent");
    assert!(matches!(z.receive::<Request>(), Err(ControlError::Malformed(_))));
    a.send(&serde_json::json!({"open": {"id": -1}}), None).expect("sent");
    assert!(matches!(z.receive::<Request>(), Err(ControlError::Malformed(_))));
    let giant = "x".repeat(MAX_PACKET);
    assert!(matches!(a.send(&giant, None), Err(ControlError::TooLong(_))));
    let (stream, _other) = std::os::unix::net::UnixStream::pair().expect("pair");
    assert!(ControlSocket::adopt(stream.into()).is_err());
}

#[test]
fn a_client_meets_a_stack_and_gets_a_long_report() {
    let dir = scratch("meet");
    let listener = ControlListener::bind(&dir.join("1.sock"), 0o600).expect("bound");
    let path = listener.path().to_owned();
    let report: Vec<String> = (0..9000).map(|i| format!("\"ligne {i} \u{e9}\\\"")).collect();
    let expected = report.clone();
    let stack = thread::spawn(move || {
        let socket = listener.accept().expect("accepted");
        assert_eq!(socket.peer_credentials().expect("credentials").pid, std::process::id());
        assert!(matches!(message(&socket).0, Request::Hello { version: VERSION, .. }));
        let welcome =
            Reply::Welcome { version: VERSION, pid: 1, namespace: 2, counts_traffic: true };
        socket.send(&welcome, None).expect("sent");
        assert_eq!(message::<Request>(&socket).0, Request::Status);
        let parts = parts(&report).expect("parts");
        assert!(parts.len() > 2);
        for part in parts {
            socket.send(&Reply::StatusPart(part), None).expect("sent");
        }
    });
    let client = ControlClient::connect(&path, Role::Cli, LIMIT).expect("connected");
    assert_eq!(client.status::<Vec<String>>().expect("status"), expected);
    stack.join().expect("stack");
    assert!(!path.exists(), "the listener removes its file");
    std::fs::remove_dir_all(dir).expect("removed");
}

/// What comes of a connection to a stack that speaks `theirs` alone, as stacks did before version 13.
fn connect_to_stack_of(theirs: u32) -> Result<ControlClient, ControlError> {
    let dir = scratch(&format!("version-{theirs}"));
    let listener = ControlListener::bind(&dir.join("1.sock"), 0o600).expect("bound");
    let path = listener.path().to_owned();
    let stack = thread::spawn(move || {
        let mut last = None;
        while last != Some(theirs) {
            let socket = listener.accept().expect("accepted");
            let Request::Hello { version, .. } = message(&socket).0 else {
                unreachable!("no hello")
            };
            let welcome =
                Reply::Welcome { version: theirs, pid: 1, namespace: 2, counts_traffic: false };
            socket.send(&welcome, None).expect("sent");
            last = if is_spoken(theirs) { Some(version) } else { Some(theirs) };
        }
    });
    let outcome = ControlClient::connect(&path, Role::Cli, LIMIT);
    stack.join().expect("stack");
    std::fs::remove_dir_all(dir).expect("removed");
    outcome
}

#[test]
fn the_previous_version_is_spoken_and_others_are_named() {
    for version in [OLDEST, VERSION] {
        assert_eq!(connect_to_stack_of(version).expect("connected").version(), version);
    }
    for version in [OLDEST - 1, VERSION + 1] {
        let outcome = connect_to_stack_of(version);
        assert!(matches!(outcome, Err(ControlError::Version { theirs }) if theirs == version));
    }
}

#[test]
fn a_living_stack_is_not_displaced_and_a_dead_one_is() {
    let dir = scratch("displace");
    let path = runtime::socket_path(&dir, 17);
    let first = ControlListener::bind(&path, 0o600).expect("bound");
    let second = ControlListener::bind(&path, 0o600).expect_err("in use");
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    std::fs::hard_link(&path, dir.join("keep")).expect("kept");
    drop(first);
    std::fs::rename(dir.join("keep"), &path).expect("stale file");
    ControlListener::bind(&path, 0o600).expect("stale file replaced");
    std::fs::remove_dir_all(dir).expect("removed");
}

/// Who bound the name for another process does not keep it from a third one.
#[test]
fn a_name_is_free_when_the_socket_that_was_given_away_is_closed() {
    let dir = scratch("given-away");
    let path = runtime::socket_path(&dir, 18);
    let given = ControlListener::bind(&path, 0o600).expect("bound").give_away().expect("given");
    assert!(path.exists(), "the file stays with the socket");
    let in_use = ControlListener::clear(&path).expect_err("in use");
    assert_eq!(in_use.kind(), std::io::ErrorKind::AddrInUse);
    drop(given);
    let next = ControlListener::bind(&path, 0o600).expect("free");
    drop(next);
    ControlListener::clear(&path).expect("nothing is there");
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn the_runtime_directory_is_searched_and_swept() {
    let dir = scratch("runtime");
    // SAFETY: no other test of this program reads or writes this variable.
    unsafe { std::env::set_var("MANYPATH_RUNTIME_DIR", &dir) };
    let place = runtime::directory();
    let alive = ControlListener::bind(&runtime::socket_path(&dir, 21), 0o600).expect("bound");
    let dead = runtime::socket_path(&dir, 20);
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("stale file"));
    std::fs::write(dir.join("notes.txt"), "not a stack").expect("written");
    let stacks = runtime::stacks();
    assert_eq!(stacks.iter().map(|s| s.pid).collect::<Vec<_>>(), [21]);
    assert!(!dead.exists(), "the stale file is swept");
    assert_eq!(place.expect("directory"), dir);
    drop(alive);
    std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("opened to the world");
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("stale file"));
    assert_eq!(runtime::stacks(), [], "anybody could have put a socket there");
    assert!(dead.exists(), "nothing is removed there");
    let unsafe_place = runtime::directory().expect_err("writable by others");
    assert!(unsafe_place.to_string().contains("written by others"), "{unsafe_place}");
    std::fs::remove_dir_all(dir).expect("removed");
}

/// Stacks of 0.2.0 do not know the word, and launchers of 0.2.0 pass over it.
#[test]
fn a_welcome_without_a_word_of_traffic_is_one_of_a_stack_that_does_not_count_it() {
    let (a, z) = ControlSocket::pair().expect("pair");
    let welcome = serde_json::json!({"version": VERSION, "pid": 1, "namespace": 2});
    a.send(&serde_json::json!({ "welcome": welcome }), None).expect("sent");
    let expected = Reply::Welcome { version: VERSION, pid: 1, namespace: 2, counts_traffic: false };
    assert_eq!(message::<Reply>(&z).0, expected);
}

/// Whoever lists stacks removes files at which nobody listens.
#[test]
fn a_stack_that_has_just_begun_is_not_taken_for_a_dead_one() {
    let dir = scratch("begins");
    let path = runtime::socket_path(&dir, 19);
    thread::scope(|scope| {
        let (over, end) = std::sync::mpsc::channel::<()>();
        let lister = {
            let path = path.clone();
            scope.spawn(move || {
                while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    let _ = ControlListener::clear(&path);
                }
            })
        };
        for _ in 0..2000 {
            let stack = ControlListener::bind(&path, 0o600).expect("bound");
            assert!(stack.is_found() && stack.path() == path);
            drop(stack);
        }
        drop(over);
        lister.join().expect("no panic");
    });
    std::fs::remove_dir_all(dir).expect("removed");
}
