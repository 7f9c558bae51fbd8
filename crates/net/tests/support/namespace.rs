//! Private network namespaces, one per thread, gone with the thread and its sockets.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

/// Runs `test` in a network namespace of its own, which has only loopback. Without root there is no
/// such namespace: says so and does not run it.
pub(crate) fn in_namespace<T: Send>(test: impl FnOnce() -> T + Send) -> Option<T> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: a network namespace needs root");
        return None;
    }
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_new_namespace();
            test()
        });
        Some(inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Runs `test` in a second namespace while the caller waits in the first. Before that, `connect`
/// runs in the caller's namespace with the number of the thread to which interfaces can be moved
/// (`ip link set dev X netns NUMBER`). What `test` returns keeps its sockets, and they keep the
/// namespace.
pub(crate) fn in_peer_namespace<T: Send>(
    connect: impl FnOnce(i32),
    test: impl FnOnce() -> T + Send,
) -> T {
    let (number, numbers) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    // The channel's end goes into the scope: if `connect` panics, the second thread must not wait.
    thread::scope(move |scope| {
        let inside = scope.spawn(move || {
            enter_new_namespace();
            // SAFETY: gettid has no preconditions.
            number.send(unsafe { libc::gettid() }).expect("the caller waits");
            gone.recv().expect("the caller has connected the namespaces");
            test()
        });
        connect(numbers.recv().expect("the second namespace"));
        go.send(()).expect("the second namespace waits");
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn enter_new_namespace() {
    // SAFETY: unshare(CLONE_NEWNET) concerns only the calling thread.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
    ip("link set lo up");
}

/// Runs `ip` with `arguments`, in the namespace of the calling thread.
pub(crate) fn ip(arguments: &str) {
    run("ip", arguments);
}

/// Runs a command that must succeed.
pub(crate) fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments}");
}
