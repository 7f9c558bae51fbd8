//! Attempts that take their time, and sockets that are left alone.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim, direct};
use crate::network::Network;
use crate::python::client;

pub(crate) const TESTS: &[Test] = &[
    ("interrupted_connect_succeeds_in_the_background", interrupted),
    ("limited_connect_succeeds_in_the_background", limited),
    ("interrupted_connect_is_refused_in_the_background", interrupted_refused),
    ("calls_during_an_attempt", during),
    ("a_waiting_call_hears_the_true_error", late_error),
    ("a_killed_program_leaves_nothing", killed_program),
    ("answers_are_counted", counted),
    ("connects_in_a_row_go_ahead_of_the_stack", ahead),
    ("bound_to_device", bound_to_device),
    ("foreign_source", foreign_source),
    ("other_network_namespace", other_namespace),
    ("not_dumpable", not_dumpable),
    ("hidden_calls", hidden),
];

fn run(shim: &Shim, text: &str) -> Done {
    let words = client(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    shim.run(&words).expect_status(0)
}

fn slow() -> Shim {
    Shim::with(&["--delay", "1500"])
}

#[track_caller]
fn expect(done: &Done, stdout: &str) {
    assert_eq!(done.stdout, stdout, "{done:#?}");
}

const ALARM: &str = "
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.2)
";

fn interrupted(_: &Network) -> Verdict {
    let text = format!(
        "{ALARM}
s = tcp()
show(raw(s, ECHO))
time.sleep(0.5)
show(wait(s), error(s), s.getpeername(), raw(s, ECHO), raw(s, ECHO), echo(s))"
    );
    expect(&run(&slow(), &text), "EINTR\n['0x4'] 0 ('10.99.0.2', 7003) 0 EISCONN True\n");
    Verdict::Passed
}

fn limited(_: &Network) -> Verdict {
    let text = "
s = tcp()
s.setsockopt(socket.SOL_SOCKET, 21, struct.pack('ll', 0, 200000))
begun = time.time()
show(raw(s, ECHO), 0.15 < time.time() - begun < 1.4)
show(wait(s), error(s), raw(s, ECHO), echo(s))";
    expect(&run(&slow(), text), "EINPROGRESS True\n['0x4'] 0 0 True\n");
    Verdict::Passed
}

fn interrupted_refused(_: &Network) -> Verdict {
    let text = format!(
        "{ALARM}
s = tcp()
show(raw(s, CLOSED))
show(raw(s, CLOSED), raw(s, ECHO), echo(s))"
    );
    expect(&run(&slow(), &text), "EINTR\nECONNREFUSED 0 True\n");
    Verdict::Passed
}

fn during(_: &Network) -> Verdict {
    let text = "
s = tcp()
results = []
threads = [threading.Thread(target=lambda: results.append(raw(s, ECHO))) for _ in range(3)]
[t.start() for t in threads]
time.sleep(0.1)
d = s.dup()
d.setblocking(False)
show(raw(d, ECHO))
d.setblocking(True)
[t.join() for t in threads]
show(sorted(map(str, results)), echo(s))
s = tcp(False)
show(begin(s, ECHO), begin(s, ECHO))
s.setblocking(True)
show(raw(s, ECHO), raw(s, ECHO), echo(s))";
    let done = run(&slow(), text);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], "EALREADY", "{done:#?}");
    // All were waiting for the same attempt; the kernel says so to the first, or to each.
    assert!(lines[1].starts_with("['0', ") && lines[1].ends_with("] True"), "{done:#?}");
    assert_eq!(lines[2..], ["EINPROGRESS EALREADY", "0 EISCONN True"], "{done:#?}");
    Verdict::Passed
}

fn late_error(_: &Network) -> Verdict {
    let text = "
s = tcp(False)
first = begin(s, CLOSED)
s.setblocking(True)
begun = time.time()
second = raw(s, CLOSED)
show(first, second, time.time() - begun > 0.2, raw(s, ECHO), echo(s))";
    expect(&run(&slow(), text), "EINPROGRESS ECONNREFUSED True 0 True\n");
    Verdict::Passed
}

fn killed_program(_: &Network) -> Verdict {
    let text = "
pid = os.fork()
if pid == 0:
    raw(tcp(), ECHO, SILENT)
time.sleep(0.2)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
time.sleep(0.1)
s = tcp()
show(begin(s, ECHO), echo(s))";
    let done = run(&Shim::default(), text);
    expect(&done, "0 True\n");
    assert_eq!(done.count("given-up"), 1, "{done:#?}");
    Verdict::Passed
}

fn counted(_: &Network) -> Verdict {
    let text = "
for host in '10.99.0.2', '10.99.0.3', '10.99.0.4':
    for blocking in True, False:
        s = tcp(blocking)
        begin(s, ECHO, host)
        wait(s)
        echo(s)
begin(tcp(), CLOSED)";
    let done = run(&Shim::default(), text);
    let counts = ["opened", "sctp", "tcp-relay", "failed", "remembered", "silent"];
    assert_eq!(counts.map(|name| done.count(name)), [7, 2, 1, 1, 2, 1], "{done:#?}");
    Verdict::Passed
}

/// The seventh connect would be left to the kernel, and is relayed; then each waits for its answer again.
fn ahead(_: &Network) -> Verdict {
    let text = "
for host in ['10.99.0.2'] * 6 + ['10.99.0.3'] * 3:
    s = tcp(False)
    show(begin(s, ECHO, host), wait(s), error(s), s.getpeername() == (host, ECHO), echo(s))";
    let done = run(&Shim::default(), text);
    expect(&done, &"EINPROGRESS ['0x4'] 0 True True\n".repeat(9));
    let counts = ["opened", "sctp", "tcp-relay", "remembered"];
    assert_eq!(counts.map(|name| done.count(name)), [9, 6, 1, 2], "{done:#?}");
    Verdict::Passed
}

fn bound_to_device(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("binding to a device needs root".into());
    }
    let text = "
s = tcp()
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'here')
show(begin(s, ECHO), echo(s))";
    let done = run(&Shim::default(), text);
    expect(&done, "0 True\n");
    assert_eq!(done.count("bound-to-device"), 1, "{done:#?}");
    Verdict::Passed
}

/// A source address that this host does not have cannot be used, but the kernel must say so.
fn foreign_source(_: &Network) -> Verdict {
    let text = "
IP_FREEBIND = 15
s = tcp()
s.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
s.bind(('192.0.2.77', 0))
show(begin(s, ECHO), s.getsockname()[0])";
    let done = run(&Shim::default(), text);
    expect(&done, "ENETUNREACH 192.0.2.77\n");
    assert_eq!(done.count("foreign-source"), 1, "{done:#?}");
    Verdict::Passed
}

fn other_namespace(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("another network needs root".into());
    }
    let text = "
CLONE_NEWNET = 0x40000000
assert libc.unshare(CLONE_NEWNET) == 0
subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
show(begin(tcp(), ECHO))";
    let done = run(&Shim::default(), text);
    expect(&done, "ENETUNREACH\n");
    assert_eq!(done.count("other-network-namespace"), 1, "{done:#?}");
    Verdict::Passed
}

fn not_dumpable(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("only the real root can become somebody else".into());
    }
    let text = "
libc.prctl(4, 0, 0, 0, 0)
s = tcp()
show(begin(s, ECHO), s.getpeername(), echo(s))";
    let done = run(&Shim { nobody: true, ..Shim::default() }, text);
    expect(&done, "0 ('10.99.0.2', 7003) True\n");
    assert_eq!(done.count("out-of-reach"), 1, "{done:#?}");
    assert!(done.stderr.contains("are plain TCP: it hides its memory"), "{done:#?}");
    Verdict::Passed
}

fn hidden(_: &Network) -> Verdict {
    let text = "
parameters = ctypes.create_string_buffer(256)
show(libc.syscall(425, 1, parameters) >= 0, name(ctypes.get_errno()))
try:
    tcp().setsockopt(socket.IPPROTO_TCP, 30, 1)
    show('set')
except OSError as e:
    show(name(e.errno))";
    let done = run(&Shim::default(), text);
    expect(&done, "False ENOSYS\nENOPROTOOPT\n");
    let words = client(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let without = direct(&words);
    assert!(without.stdout.ends_with("set\n"), "{without:#?}");
    Verdict::Passed
}
