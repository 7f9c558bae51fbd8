//! Private network namespaces, one per thread, gone with the thread and its sockets.

use std::process::Command;
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
            // SAFETY: unshare(CLONE_NEWNET) concerns only the calling thread.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
            ip("link set lo up");
            test()
        });
        Some(inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
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
