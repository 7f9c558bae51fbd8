//! The stack dies, hangs, or was never there: programs get plain TCP.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim};
use crate::launching::Ready;
use crate::network::Network;
use crate::python::client;

pub(crate) const TESTS: &[Test] = &[
    ("stack_killed_in_mid_transfer", killed),
    ("stack_killed_while_deciding", killed_while_deciding),
    ("deaf_stack", deaf),
    ("no_stack", missing),
];

/// The client kills the stack itself: it finds its number in this file.
fn run_with_killer(text: &str) -> Done {
    let file = Ready::new();
    let shim = Shim::with(&["--pid-file", file.path().to_str().expect("path")]);
    let killer = format!(
        "
def kill_stack():
    while not os.path.exists('{file}') or not open('{file}').read():
        time.sleep(0.01)
    os.kill(int(open('{file}').read()), signal.SIGKILL)
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
    // The launcher may notice before the first of them or while it asks.
    let plain = done.count("no-stack") + done.count("stack-lost");
    assert_eq!((done.count("sctp"), plain), (2, 3), "{done:#?}");
    assert!(done.report.contains("the stack was lost"), "{done:#?}");
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
    let done = Shim { nobody: false, stack: vec![] }.run(&words).expect_status(0);
    assert_eq!(done.stdout, "0 True\n");
    assert!(done.stderr.contains("no stack, all connections are plain TCP"), "{done:#?}");
    assert_eq!(done.count("no-stack"), 1, "{done:#?}");
    Verdict::Passed
}
