//! Programs as users have them.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim};
use crate::network::Network;
use crate::python::client;
use crate::servers;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(crate) const TESTS: &[Test] = &[
    ("curl", curl),
    ("curl_refused", curl_refused),
    ("curl_parallel", curl_parallel),
    ("curl_large", curl_large),
    ("nc_half_close", nc),
    ("asyncio", asyncio),
    ("static_go", go),
    ("node_fetch", node),
];

const FAR: &str = "10.99.0.2";

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let look = format!("command -v {program}");
    let found = Command::new("sh").args(["-c", &look]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn missing(program: &str) -> Verdict {
    Verdict::Skipped(format!("{program} is not installed"))
}

fn run(command: &[&str]) -> Done {
    Shim::default().run(command)
}

fn url(bytes: usize) -> String {
    format!("http://{FAR}:{}/{bytes}", servers::HTTP)
}

fn curl(_: &Network) -> Verdict {
    if !has("curl") {
        return missing("curl");
    }
    let format = "%{http_code} %{size_download} %{remote_ip} %{local_ip}";
    let arguments = ["curl", "-sS", "-o", "/dev/null", "-w", format, "--tcp-fastopen"];
    for address in ["10.99.0.2", "[fd99::2]"] {
        let url = format!("http://{address}:{}/12345", servers::HTTP);
        let done = run(&[&arguments[..], &[&url]].concat()).expect_status(0);
        let bare = address.trim_matches(['[', ']']);
        let own = if bare.contains(':') { "fd99::1" } else { "10.99.0.1" };
        assert_eq!(done.stdout, format!("200 12345 {bare} {own}"), "{done:#?}");
        assert_eq!(done.count("sctp"), 1, "{done:#?}");
    }
    Verdict::Passed
}

fn curl_refused(_: &Network) -> Verdict {
    if !has("curl") {
        return missing("curl");
    }
    let url = format!("http://{FAR}:{}/", servers::CLOSED);
    let done = run(&["curl", "-sS", &url]).expect_status(7);
    assert!(
        done.stderr.contains("Couldn't connect") || done.stderr.contains("refused"),
        "{done:#?}"
    );
    assert_eq!(done.count("failed"), 1, "{done:#?}");
    Verdict::Passed
}

fn curl_parallel(_: &Network) -> Verdict {
    if !has("curl") {
        return missing("curl");
    }
    let urls: Vec<String> = (0..40).map(|i| format!("{}?{i}", url(1000))).collect();
    let mut command = vec!["curl", "-sS", "-Z", "--parallel-max", "20", "--no-keepalive"];
    command.extend(["-w", "%{http_code}\n", "-H", "Connection: close"]);
    for url in &urls {
        command.extend(["-o", "/dev/null", url]);
    }
    let done = run(&command).expect_status(0);
    assert_eq!(done.stdout.matches("200").count(), 40, "{done:#?}");
    assert_eq!(done.count("sctp"), 40, "{done:#?}");
    Verdict::Passed
}

fn curl_large(_: &Network) -> Verdict {
    if !has("curl") {
        return missing("curl");
    }
    let url = url(100_000_000);
    let done = run(&["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", &url]);
    let done = done.expect_status(0);
    assert_eq!((done.stdout.as_str(), done.count("sctp")), ("100000000", 1), "{done:#?}");
    Verdict::Passed
}

fn nc(_: &Network) -> Verdict {
    if !has("nc") {
        return missing("nc");
    }
    let script = format!("head -c 300000 /dev/zero | nc -N {FAR} {}", servers::COUNT);
    let done = run(&["sh", "-c", &script]).expect_status(0);
    assert_eq!(done.stdout, "300000 0000000000000000\n");
    assert_eq!(done.count("sctp"), 1, "{done:#?}");
    Verdict::Passed
}

fn asyncio(_: &Network) -> Verdict {
    let words = client(
        "
import asyncio
async def one(i):
    reader, writer = await asyncio.open_connection(FAR, ECHO)
    peer = writer.get_extra_info('peername')
    writer.write(b'%d' % i)
    writer.write_eof()
    data = await reader.read()
    writer.close()
    return peer == (FAR, ECHO) and data == b'%d' % i
async def main():
    show(all(await asyncio.gather(*map(one, range(50)))))
    try:
        await asyncio.open_connection(FAR, CLOSED)
    except ConnectionRefusedError:
        show('refused')
asyncio.run(main())",
    );
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = run(&words).expect_status(0);
    assert_eq!(done.stdout, "True\nrefused\n", "{done:#?}");
    assert_eq!((done.count("sctp"), done.count("failed")), (50, 1), "{done:#?}");
    Verdict::Passed
}

fn go(_: &Network) -> Verdict {
    let go = if has("go") { "go" } else { "/usr/local/go/bin/go" };
    if !has(go) {
        return missing("go");
    }
    let folder = Scratch::new("go");
    let source = folder.0.join("client.go");
    fs::write(&source, include_str!("client.go")).expect("source");
    let program = folder.0.join("client");
    let mut build = Command::new(go);
    build.env("CGO_ENABLED", "0").args(["build", "-o"]).arg(&program).arg(&source);
    let built = build.current_dir(&folder.0).output().expect("go");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let closed = format!("http://{FAR}:{}/", servers::CLOSED);
    let done = run(&[program.to_str().expect("path"), &url(5000), &closed]).expect_status(0);
    assert_eq!(done.stdout, "20 of 20\nrefused: true\n", "{done:#?}");
    assert!(done.count("sctp") >= 20, "{done:#?}");
    Verdict::Passed
}

fn node(_: &Network) -> Verdict {
    if !has("node") {
        return missing("node");
    }
    let script = "
const [good, closed] = process.argv.slice(1);
(async () => {
  const all = Array.from({length: 10}, () => fetch(good).then(r => r.arrayBuffer()));
  console.log((await Promise.all(all)).map(b => b.byteLength).join());
  await fetch(closed).catch(e => console.log(e.cause.code));
})();";
    let closed = format!("http://{FAR}:{}/", servers::CLOSED);
    let done = run(&["node", "-e", script, &url(7000), &closed]).expect_status(0);
    assert_eq!(done.stdout, format!("{}\nECONNREFUSED\n", ["7000"; 10].join(",")), "{done:#?}");
    assert!(done.count("sctp") >= 1, "{done:#?}");
    Verdict::Passed
}

/// A folder that is removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("manypath-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
