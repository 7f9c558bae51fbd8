//! Two hosts joined by a cable: this process's network namespace, where programs and the test
//! stack run, and a far one, where the servers are. Both vanish with the process.
//!
//! ```text
//!  here                         far
//!  10.99.0.1, fd99::1  <----->  10.99.0.2..5, fd99::2..5
//!  10.98.0.0/24, fd98::/64 are routed to far, which drops them: silent destinations
//! ```

use crate::servers;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The two hosts.
pub(crate) struct Network {
    /// Whether this is the real root, who may become somebody else.
    pub(crate) real_root: bool,
}

impl Network {
    /// Moves this process into a namespace of its own and makes the far host. The process must
    /// still be single-threaded.
    pub(crate) fn new() -> Result<Self, String> {
        let real_root = enter_namespace().map_err(|e| e.to_string())?;
        let (tell_thread, thread_id) = mpsc::channel();
        let (plug, plugged) = mpsc::channel::<()>();
        let (tell_ready, ready) = mpsc::channel();
        thread::spawn(move || {
            tell_thread.send(unshare_network()).expect("listener");
            plugged.recv().expect("cable");
            tell_ready.send(set_up_far()).expect("listener");
            loop {
                thread::park();
            }
        });
        let far = thread_id.recv().expect("far thread").map_err(|e| e.to_string())?;
        ip("link set lo up")?;
        ip("link add here type veth peer name far")?;
        ip(&format!("link set far netns {far}"))?;
        ip("address add 10.99.0.1/24 dev here")?;
        ip("address add fd99::1/64 dev here nodad")?;
        ip("link set here up")?;
        plug.send(()).expect("far thread");
        ready.recv_timeout(Duration::from_secs(20)).map_err(|e| e.to_string())??;
        ip("route add 10.98.0.0/24 via 10.99.0.2")?;
        ip("route add fd98::/64 via fd99::2")?;
        Ok(Self { real_root })
    }
}

fn set_up_far() -> Result<(), String> {
    ip("link set lo up")?;
    let mut addresses = Vec::new();
    for host in 2..=5 {
        let (v4, v6) = (format!("10.99.0.{host}"), format!("fd99::{host}"));
        ip(&format!("address add {v4}/24 dev far"))?;
        ip(&format!("address add {v6}/64 dev far nodad"))?;
        addresses.extend([v4, v6].map(|text| text.parse::<IpAddr>().expect("address")));
    }
    ip("link set far up")?;
    servers::start(&addresses).map_err(|e| e.to_string())
}

/// True as the real root; otherwise a user namespace makes us root of a network of our own.
fn enter_namespace() -> io::Result<bool> {
    // SAFETY: takes nothing.
    let user = unsafe { libc::geteuid() };
    if user == 0 && unshare(libc::CLONE_NEWNET).is_ok() {
        return Ok(true);
    }
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    Ok(false)
}

/// Gives the calling thread a network of its own; returns the thread's number.
fn unshare_network() -> io::Result<libc::pid_t> {
    unshare(libc::CLONE_NEWNET)?;
    // SAFETY: takes nothing.
    Ok(unsafe { libc::gettid() })
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: plain numbers.
    if unsafe { libc::unshare(what) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip").args(args.split(' ')).output();
    let output = output.map_err(|e| format!("ip: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {args}: {text}")) }
}
