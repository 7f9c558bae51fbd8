//! The stack dies and is replaced, hangs, or was never there: programs get plain TCP.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim};
use crate::launching::Ready;
use crate::network::Network;
use crate::python::client;

pub(crate) const TESTS: &[Test] = &[
    ("stack_killed_in_mid_transfer", killed),
    ("stack_killed_again_and_again", killed_repeatedly),
    ("stack_killed_while_deciding", killed_while_deciding),
    ("deaf_stack", deaf),
    ("no_stack", missing),
    ("sctp_only_without_a_stack", only_without_stack),
    ("sctp_only_and_a_deaf_stack", only_deaf),
    ("sctp_only_and_a_stack_that_dies", only_killed),
    ("sctp_only_out_of_reach", only_out_of_reach),
];

/// The client kills the stack itself: it finds its number in this file.
fn run_with_killer(text: &str) -> Done {
    let file = Ready::new();
    let shim = Shim::with(&["--pid-file", file.path().to_str().expect("path")]);
    let killer = format!(
        "
PID_FILE = '{file}'
def kill_stack():
    while not os.path.exists('{file}') or not open('{file}').read():
        time.sleep(0.01)
    stack = int(open('{file}').read())
    os.unlink('{file}')
    os.kill(stack, signal.SIGKILL)
{text}"
    );
    let words = client(&killer);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    shim.run(&words).expect_status(0)
}

fn killed(_: &Network) -> Verdict {
    let done = run_with_killer(
        "
running = tcp()
begin(running, SOURCE)
got = 0
while got < 3000000:
    got += len(running.recv(65536))
idle = tcp()
begin(idle, ECHO)
kill_stack()
killed = time.time()
try:
    while running.recv(65536):
        pass
    show('end of file')
except ConnectionResetError:
    show('reset')
try:
    idle.recv(1)
except ConnectionResetError:
    show('reset')
s = tcp()
show(begin(s, ECHO), s.getpeername(), s.getsockname()[0], echo(s), time.time() - killed < 1)
s = tcp(False)
show(begin(s, ECHO), wait(s), error(s), echo(s))
show(begin(tcp(), CLOSED))",
    );
    let expected = "reset\nreset\n0 ('10.99.0.2', 7003) 10.99.0.1 True True\n\
                    EINPROGRESS ['0x4'] 0 True\nECONNREFUSED\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    // The launcher may notice before the first of them, which another stack carries then, or while it asks.
    assert_eq!(done.count("sctp") + done.count("stack-lost"), 4, "{done:#?}");
    assert!(done.count("sctp") >= 3, "{done:#?}");
    assert!(done.report.contains("the stack was lost, and replaced=1"), "{done:#?}");
    let notices = done.stderr.matches("the stack has ended; new connections use another one");
    assert_eq!(notices.count(), 1, "{done:#?}");
    Verdict::Passed
}

/// Stacks that die are replaced later and later, and the user hears of the first.
fn killed_repeatedly(_: &Network) -> Verdict {
    let done = run_with_killer(
        "
begun = time.time()
while time.time() - begun < 2.5:
    if os.path.exists(PID_FILE) and open(PID_FILE).read():
        kill_stack()
        time.sleep(0.1)
    s = tcp()
    assert begin(s, ECHO) == 0 and echo(s)
    time.sleep(0.02)
time.sleep(2)
s = tcp()
show(begin(s, ECHO), echo(s))",
    );
    assert_eq!(done.stdout, "0 True\n", "{done:#?}");
    // At once, after one second, and at the end, after two more.
    assert_eq!(done.count("replaced"), 3, "{done:#?}");
    assert!(done.count("no-stack") > 10 && done.count("sctp") > 0, "{done:#?}");
    assert_eq!(done.stderr.matches("the stack has ended").count(), 1, "{done:#?}");
    Verdict::Passed
}

fn killed_while_deciding(_: &Network) -> Verdict {
    let done = run_with_killer(
        "
s = tcp(False)
show(begin(s, ECHO, SILENT))
def blocking(host, results):
    s = tcp()
    s.settimeout(None)
    results.append((raw(s, ECHO, host), echo(s)))
results = []
thread = threading.Thread(target=blocking, args=('10.99.0.2', results))
kill_stack_soon = threading.Timer(0.01, kill_stack)
kill_stack_soon.start()
kill_stack_soon.join()
begun = time.time()
events = wait(s)
show(events, error(s), time.time() - begun < 0.5)
thread.start()
thread.join()
show(results)",
    );
    let expected = "EINPROGRESS\n['0x1c'] ECONNABORTED True\n[(0, True)]\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    Verdict::Passed
}

fn deaf(_: &Network) -> Verdict {
    let words = client(
        "
for i in range(3):
    begun = time.time()
    s = tcp(i == 1)
    show(begin(s, ECHO), bool(wait(s)), echo(s), 2.9 < time.time() - begun < 5)",
    );
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = Shim::with(&["deaf"]).run(&words).expect_status(0);
    let expected = "EINPROGRESS True True True\n0 True True False\nEINPROGRESS True True False\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    assert_eq!((done.count("stack-silent"), done.count("no-stack")), (1, 2), "{done:#?}");
    Verdict::Passed
}

fn missing(_: &Network) -> Verdict {
    let words = client("s = tcp()\nshow(begin(s, ECHO), echo(s))");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = Shim { stack: vec![], ..Shim::default() }.run(&words).expect_status(0);
    assert_eq!(done.stdout, "0 True\n");
    assert!(done.stderr.contains("no stack, all connections are plain TCP"), "{done:#?}");
    assert_eq!(done.count("no-stack"), 1, "{done:#?}");
    Verdict::Passed
}

/// Runs a client for which a rule forbids plain TCP to the far host's first address, and to that alone.
fn run_with_rule(shim: &Shim, text: &str) -> Done {
    let rules = Ready::new();
    let rule = "remote enable host 10.99.0.2 sctp-only=on\n";
    std::fs::write(rules.path(), rule).expect("rules");
    let words = client(&text.replace("RULES", &format!("'{rules}'")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shim = Shim { rules: Some(rules.path().to_owned()), ..shim.clone() };
    shim.run(&words).expect_status(0)
}

fn only_without_stack(_: &Network) -> Verdict {
    let text = "
s = tcp()
show(begin(s, ECHO), begin(s, ECHO))
s = tcp(False)
show(begin(s, ECHO), begin(s, ECHO, '10.99.0.5'), wait(s), error(s), echo(s))
s = tcp()
show(name(libc.sendto(s.fileno(), b'x', 1, socket.MSG_FASTOPEN,
    struct.pack('=H', 2) + struct.pack('!H4s8x', ECHO, socket.inet_aton(FAR)), 16) + 1), name(ctypes.get_errno()))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
show(begin(s, ECHO), s.getpeername()[0])
open(RULES, 'w').write('')
s = tcp()
show(begin(s, ECHO), echo(s))";
    let done = run_with_rule(&Shim { stack: vec![], ..Shim::default() }, text);
    let expected = "ENETUNREACH ENETUNREACH\nENETUNREACH EINPROGRESS ['0x4'] 0 True\n\
                    0 ENETUNREACH\n0 10.99.0.2\n0 True\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    let (_, refused) = done.report.split_once("only SCTP may be used:").expect("refusals");
    assert!(refused.starts_with(" no-stack=4"), "{done:#?}");
    Verdict::Passed
}

fn only_deaf(_: &Network) -> Verdict {
    let text = "
begun = time.time()
show(begin(tcp(), ECHO), 2.9 < time.time() - begun < 5)
s = tcp(False)
show(begin(s, ECHO))";
    let done = run_with_rule(&Shim::with(&["deaf"]), text);
    assert_eq!(done.stdout, "ETIMEDOUT True\nENETUNREACH\n", "{done:#?}");
    assert!(done.report.contains("no-stack=1 stack-silent=1"), "{done:#?}");
    Verdict::Passed
}

fn only_killed(_: &Network) -> Verdict {
    let file = Ready::new();
    let shim = Shim::with(&["--delay", "60000", "--pid-file", file.path().to_str().expect("path")]);
    let text = format!(
        "
def kill_stack():
    while not os.path.exists('{file}') or not open('{file}').read():
        time.sleep(0.01)
    time.sleep(0.2)
    stack = int(open('{file}').read())
    os.unlink('{file}')
    os.kill(stack, signal.SIGKILL)
for _ in range(2):
    killer = threading.Thread(target=kill_stack)
    killer.start()
    show(begin(tcp(), ECHO))
    killer.join()
show(begin(tcp(), ECHO))"
    );
    let done = run_with_rule(&shim, &text);
    assert_eq!(done.stdout, "ENETUNREACH\nENETUNREACH\nENETUNREACH\n", "{done:#?}");
    assert!(done.report.contains("no-stack=1 stack-lost=2"), "{done:#?}");
    Verdict::Passed
}

fn only_out_of_reach(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("needs root".to_owned());
    }
    let text = "
s = tcp()
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'here')
show(begin(s, ECHO), begin(s, ECHO, '10.99.0.5'), echo(s))
s = tcp()
show(begin(s, ECHO), echo(s))";
    let done = run_with_rule(&Shim::default(), text);
    assert_eq!(done.stdout, "ENETUNREACH 0 True\n0 True\n", "{done:#?}");
    assert_eq!((done.count("sctp"), done.count("bound-to-device")), (1, 1), "{done:#?}");
    Verdict::Passed
}
