//! The launcher as a parent: exit statuses, signals, the terminal, what is left behind.

use crate::harness::{Test, Verdict};
use crate::launch::{Shim, direct, finish};
use crate::network::Network;
use crate::python::client;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("exit_statuses", exit_statuses),
    ("signals_are_passed_on", signals_are_passed_on),
    ("terminal_signals_reach_the_command_once", terminal),
    ("job_control", job_control),
    ("the_command_dies_with_its_launcher", death_of_the_launcher),
    ("processes_left_behind_keep_their_network", survivors),
    ("nested", nested),
];

fn exit_statuses(_: &Network) -> Verdict {
    let status = |command: &[&str]| {
        let done = Shim::default().run(command);
        (done.status, done.stderr)
    };
    assert_eq!(status(&["true"]).0, 0);
    assert_eq!(status(&["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]).0, 128 + 15);
    assert_eq!(status(&["sh", "-c", "kill -KILL $$"]).0, 128 + 9);
    let (code, text) = status(&["no-such-command-anywhere"]);
    assert_eq!(code, 127);
    assert!(text.contains("no-such-command-anywhere: command not found"), "{text}");
    let (code, text) = status(&["/etc/passwd"]);
    assert_eq!(code, 126);
    assert!(text.contains("/etc/passwd: Permission denied"), "{text}");
    assert_eq!(status(&["/tmp"]).0, 126);
    Verdict::Passed
}

fn signals_are_passed_on(_: &Network) -> Verdict {
    for (signal, name) in [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGUSR1, "USR1")]
    {
        let ready = Ready::new();
        let script =
            format!("trap 'echo got; exit 5' {name}; touch {ready}; while :; do sleep 0.05; done");
        let (child, report) = Shim::default().start(&["sh", "-c", &script]);
        ready.wait();
        kill(child.id().cast_signed(), signal);
        let done = finish(child, Some(report)).expect_status(5);
        assert_eq!(done.stdout, "got\n");
    }
    Verdict::Passed
}

/// Runs a launcher under a terminal of its own; `script` gets `launcher` (a pid) and `tty`.
fn under_terminal(command: &str, script: &str) -> String {
    let exe = std::env::current_exe().expect("own path");
    let text = format!(
        "
import pty, re
exe = {exe:?}
def start(command):
    pid, tty = pty.fork()
    if pid == 0:
        os._exit(shell([exe, 'as-launcher', '/dev/null', 'self', 'as-stack', '--', 'sh', '-c', command]))
    return pid, tty
def shell(command):
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            show('job ended', os.waitstatus_to_exitcode(status))
            return os.waitstatus_to_exitcode(status)
        show('job stopped')
        os.killpg(job, signal.SIGCONT)
def read_until(text):
    seen, end = b'', time.time() + 20
    while text not in seen and time.time() < end:
        if select.select([tty], [], [], 0.1)[0]:
            try:
                seen += os.read(tty, 1000)
            except OSError:
                break
    return seen.decode()
launcher, tty = start({command:?})
{script}"
    );
    let words = client(&text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    direct(&words).expect_status(0).stdout
}

fn terminal(_: &Network) -> Verdict {
    let command = "trap 'n=$((n+1)); echo hit $n' INT; echo ready; \
                   for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; exit 9";
    let script = "
read_until(b'ready')
os.write(tty, b'\\x03')
seen = read_until(b'never')
show(seen.count('hit'), os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]))";
    assert_eq!(under_terminal(command, script), "1 9\n");
    Verdict::Passed
}

/// The launcher as a job of a small shell: it must be seen stopped, and go on.
fn job_control(_: &Network) -> Verdict {
    let script = "
os.write(tty, b'\\x1a')
show(read_until(b'job stopped').count('job stopped'))
os.write(tty, b'go on\\n')
seen = read_until(b'job ended 4')
show('heard go on' in seen, 'job ended 4' in seen)";
    let command = "echo ready; read line; echo heard $line; exit 4";
    assert_eq!(
        under_terminal(command, &format!("read_until(b'ready')\n{script}")),
        "1\nTrue True\n"
    );
    Verdict::Passed
}

fn death_of_the_launcher(_: &Network) -> Verdict {
    let ready = Ready::new();
    let script = format!("echo $$ > {ready}.pid; touch {ready}; exec sleep 30");
    let (mut child, report) = Shim::default().start(&["sh", "-c", &script]);
    ready.wait();
    let pid_file = PathBuf::from(format!("{ready}.pid"));
    let pid: libc::pid_t = fs::read_to_string(&pid_file).expect("pid").trim().parse().expect("pid");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z ")
    };
    until("the command to die", || !alive());
    fs::remove_file(pid_file).expect("removed");
    fs::remove_file(report).expect("removed");
    Verdict::Passed
}

fn survivors(_: &Network) -> Verdict {
    let ready = Ready::new();
    let text = format!(
        "
if os.fork() == 0:
    os.closerange(0, 64)
    time.sleep(5)
    s = tcp()
    outcome = begin(s, ECHO), s.getpeername(), echo(s)
    open('{ready}.part', 'w').write(str(outcome))
    os.rename('{ready}.part', '{ready}')"
    );
    let words = client(&text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Whoever else kept the output open, under whatever number, would make its reader wait.
    let exe = std::env::current_exe().expect("own path");
    let shell = ["sh", "-c", "exec 9>&1; exec \"$@\"", "sh", exe.to_str().expect("path")];
    let launch = ["as-launcher", "/dev/null", "self", "as-stack", "--"];
    let done = direct(&[&shell[..], &launch, &words].concat()).expect_status(0);
    assert!(done.seconds < 4.0, "something waited for a process left behind: {done:#?}");
    ready.wait();
    assert_eq!(ready.text(), "(0, ('10.99.0.2', 7003), True)");
    Verdict::Passed
}

fn nested(_: &Network) -> Verdict {
    let exe = std::env::current_exe().expect("own path");
    let exe = exe.to_str().expect("path");
    let words = client("s = tcp()\nshow(begin(s, ECHO), s.getpeername(), echo(s))");
    let inner = [exe, "as-launcher", "/dev/null", "self", "as-stack", "--"];
    let words: Vec<&str> = inner.into_iter().chain(words.iter().map(String::as_str)).collect();
    let done = Shim::default().run(&words).expect_status(0);
    assert_eq!(done.stdout, "0 ('10.99.0.2', 7003) True\n");
    assert!(done.stderr.contains("already inside another `manypath run`"), "{done:#?}");
    assert_eq!(done.count("sctp"), 1, "{done:#?}");
    Verdict::Passed
}

/// A file that a command makes when it has come so far.
pub(crate) struct Ready(PathBuf);

impl Ready {
    pub(crate) fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("manypath-ready-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn wait(&self) {
        until("the command to come so far", || self.0.exists());
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).expect("text")
    }
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: plain numbers; the process is our own child, not reaped yet.
    unsafe { libc::kill(pid, signal) };
}
