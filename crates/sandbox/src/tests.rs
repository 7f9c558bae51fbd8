//! Measures concern single threads: each test limits one of its own.

use super::*;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::thread;

const USER: User = User { uid: 65533, gid: 65533 };

/// Runs it in a thread of its own, under limits.
fn confined<T: Send>(
    families: &[i32],
    readable: &[&Path],
    run: impl FnOnce(Confinement) -> T + Send,
) -> T {
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then_some(USER);
    let capabilities = CapabilitySet::empty();
    let limits = Limits { user, capabilities, families, readable: Some(readable) };
    thread::scope(|scope| scope.spawn(|| run(confine(&limits))).join().unwrap())
}

fn own_status() -> String {
    fs::read_to_string("/proc/thread-self/status").unwrap()
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim_start_matches(':').trim().replace('\t', " ")
}

#[test]
fn a_confined_process_has_no_rights_of_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (confinement, status) = confined(&[], &[Path::new("/proc")], |it| (it, own_status()));
    let missing = confinement.missing.iter().filter(|one| !one.starts_with("Landlock"));
    assert_eq!(missing.count(), 0, "{confinement:?}");
    assert_eq!((confinement.user, confinement.capabilities.bits()), (USER.uid, 0));
    assert_eq!(field(&status, "Uid"), "65533 65533 65533 65533");
    assert_eq!(field(&status, "Gid"), "65533 65533 65533 65533");
    assert_eq!(field(&status, "Groups"), "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(&status, set), "0000000000000000", "{set}");
    }
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()));
}

#[test]
fn calls_that_it_does_not_need_are_refused_and_the_others_work() {
    confined(&[libc::AF_INET], &[], |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let refused = UnixDatagram::unbound().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        let program = std::process::Command::new("/bin/true").spawn().unwrap_err();
        assert!(program.raw_os_error().is_some_and(|error| error == libc::EPERM), "{program}");
        thread::spawn(|| ()).join().unwrap();
    });
}

#[test]
fn files_that_it_does_not_need_are_out_of_reach() {
    let open = tempfile("open");
    let closed = tempfile("closed");
    confined(&[], &[&open], |confinement| {
        if !confinement.landlock {
            return;
        }
        fs::read_to_string(open.join("file")).unwrap();
        let refused = fs::read_to_string(closed.join("file")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(fs::write(open.join("file"), "").is_err());
    });
    fs::remove_dir_all(open).unwrap();
    fs::remove_dir_all(closed).unwrap();
}

fn tempfile(name: &str) -> std::path::PathBuf {
    let name = format!("manypath-sandbox-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("file"), "text").unwrap();
    directory
}
