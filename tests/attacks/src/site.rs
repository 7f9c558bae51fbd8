//! The hosts: a server, a client of it, and an attacker in a network of its own.
//!
//! ```text
//! client 10.77.1.1 ─ path A (emulated) ─ 10.77.1.2 server 203.0.113.1 ─ veth ─ 203.0.113.2 attacker
//!                                                                              198.51.100.0/24 are its, too
//! ```

use manypath_lab::{Host, Lab, LabSpec};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The server as the attacker sees it, the attacker, and the server as its client sees it.
pub(crate) const OUTER: &str = "203.0.113.1";
/// UDP ports of the server: its stack's, and one that a program only reads.
pub(crate) const STACK: u16 = 9899;
pub(crate) const SINK: u16 = 9;
pub(crate) const ATTACKER: &str = "203.0.113.2";
pub(crate) const INNER: &str = "10.77.1.2";
pub(crate) const CLIENT: &str = "10.77.1.1";
/// TCP port of the web server.
pub(crate) const WEB: u16 = 8080;
const PATIENCE: Duration = Duration::from_secs(10);

/// Whatever goes wrong with the hosts, as text.
pub(crate) type Outcome<T> = Result<T, String>;

pub(crate) struct Site {
    lab: Lab,
    manypath: PathBuf,
    /// Dropped after the lab, whose programs write into it.
    folder: Folder,
    children: Vec<Child>,
    /// A process in the attacker's network.
    attacker: u32,
    server: u32,
}

/// An attack under way; it ends with this.
pub(crate) struct Attack {
    child: Child,
    input: Option<ChildStdin>,
    name: String,
}

impl Attack {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says of itself when it has done its work.
    pub(crate) fn report(&mut self) -> Outcome<Value> {
        let mut line = String::new();
        let output = self.child.stdout.as_mut().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line).map_err(text("the attacker's report"))?;
        let mut said = String::new();
        if line.is_empty() {
            let errors = self.child.stderr.as_mut().ok_or("no errors")?;
            errors.read_to_string(&mut said).map_err(text("the attacker's errors"))?;
        }
        serde_json::from_str(&line).map_err(|_| format!("{}: {}", self.name, said.trim()))
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        drop(self.input.take());
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// What a client's connection was like.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fetched {
    pub(crate) whole: bool,
    pub(crate) carried: bool,
    /// Bytes per second.
    pub(crate) goodput: f64,
}

impl Site {
    /// Brings the hosts up with a web server and `manypath serve` on the server. `settings` and `rules` are lines
    /// of their files.
    pub(crate) fn start(manypath: &Path, settings: &str, rules: &str) -> Outcome<Self> {
        let path = "100mbit,5ms,queue=200".parse().map_err(|e| format!("{e}"))?;
        let lab = Lab::start(LabSpec::new(vec![path])).map_err(|e| e.to_string())?;
        let folder = Folder::new()?;
        let manypath = manypath.to_owned();
        let mut this = Self { lab, manypath, folder, children: Vec::new(), attacker: 0, server: 0 };
        this.write("sysctl.conf", &format!("step_aside = never\n{settings}"))?;
        this.write("rules", rules)?;
        this.connect_attacker()?;
        this.web()?;
        this.serve()?;
        Ok(this)
    }

    fn write(&self, name: &str, content: &str) -> Outcome<()> {
        std::fs::write(self.folder.0.join(name), content).map_err(text(name))
    }

    fn connect_attacker(&mut self) -> Outcome<()> {
        let mut anchor = self.lab.command(Host::Right, "unshare");
        // It ends with the pipe, however this process ends.
        anchor.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let anchor = anchor.spawn().map_err(text("unshare"))?;
        self.attacker = anchor.id();
        self.children.push(anchor);
        let net = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let ours = net(std::process::id());
        let right = self.network_of_server()?;
        wait("the attacker's network", || {
            let one = net(self.attacker);
            one.is_some()
                && one != ours
                && one.map(|one| one.display().to_string()) != Some(right.clone())
        })?;
        let pid = self.attacker.to_string();
        let server = [
            format!("link add mal0 type veth peer name mal1 netns {pid}"),
            "address add 203.0.113.1/24 dev mal0".into(),
            "link set mal0 up".into(),
            "route add 198.51.100.0/24 via 203.0.113.2".into(),
        ];
        let attacker = [
            "address add 203.0.113.2/24 dev mal1",
            "link set lo up",
            "link set mal1 up",
            "route add local 198.51.100.0/24 dev lo",
            "route add default via 203.0.113.1",
            // It forges the client's.
            "route add local 10.77.1.1/32 dev lo",
        ];
        for line in server {
            set(self.lab.command(Host::Right, "ip"), &line)?;
        }
        for line in attacker {
            let mut command = self.in_attackers_network();
            command.arg("ip");
            set(command, line)?;
        }
        Ok(())
    }

    fn network_of_server(&self) -> Outcome<String> {
        let mut command = self.lab.command(Host::Right, "readlink");
        let output = command.arg("/proc/self/ns/net").output().map_err(text("readlink"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn in_attackers_network(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.attacker));
        command
    }

    fn web(&mut self) -> Outcome<()> {
        let (d, r) = (self.folder.0.display().to_string(), self.folder.0.join("www"));
        let file = std::fs::File::create(r.join("large")).map_err(text("large"))?;
        file.set_len(1 << 30).map_err(text("large"))?;
        self.write("www/small", &"x".repeat(10_000))?;
        let conf = format!(
            "daemon off;\nmaster_process off;\npid {d}/pid;\nerror_log {d}/error.log;\nevents {{}}\n\
             http {{\naccess_log off;\nclient_body_temp_path {d}/b;\nproxy_temp_path {d}/p;\n\
             fastcgi_temp_path {d}/f;\nuwsgi_temp_path {d}/u;\nscgi_temp_path {d}/s;\n\
             server {{ listen 0.0.0.0:{WEB}; root {0}; }}\n\
             server {{ listen {INNER}:8003; root {0}; }}\n\
             server {{ listen 127.0.0.1:8004; root {0}; }}\n\
             server {{ listen 0.0.0.0:8022; root {0}; }}\n\
             server {{ listen 0.0.0.0:8002 proxy_protocol; root {0};\n\
             location / {{ return 200 $proxy_protocol_addr; }} }}\n}}\n",
            r.display()
        );
        self.write("conf", &conf)?;
        let mut command = self.command(Host::Right, "/usr/sbin/nginx");
        command
            .args(["-p", &d, "-c"])
            .arg(self.folder.0.join("conf"))
            .arg("-e")
            .arg(self.folder.0.join("e"));
        self.spawn(command, "nginx")?;
        let mut port = self.lab.command(Host::Right, "cat");
        port.arg("/proc/net/tcp");
        wait("nginx", || {
            let table = port.output().map(|output| output.stdout).unwrap_or_default();
            String::from_utf8_lossy(&table).contains(&format!(":{WEB:04X} 00000000:0000 0A"))
        })
    }

    /// Allowed are the web server and ports that listen elsewhere; 8022 is not.
    fn serve(&mut self) -> Outcome<()> {
        let mut command = self.command(Host::Right, &self.manypath);
        command.args(["serve", "-v", "--allow", &format!("{WEB},8002,8003,8004")]);
        self.server = self.spawn(command, "serve")?;
        let log = self.folder.0.join("log-serve");
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        wait("manypath serve", || said().contains("accepting associations"))
    }

    fn spawn(&mut self, mut command: Command, name: &str) -> Outcome<u32> {
        let log =
            std::fs::File::create(self.folder.0.join(format!("log-{name}"))).map_err(text(name))?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(text(name))?).stderr(log);
        let child = command.spawn().map_err(text(name))?;
        let pid = child.id();
        self.children.push(child);
        Ok(pid)
    }

    fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.lab.command(host, program);
        command.env("MANYPATH_RUNTIME_DIR", self.folder.0.join(format!("run-{host}")));
        command.env("MANYPATH_OWN_STACK", "1");
        for (name, file) in [("RULES", "rules"), ("SYSCTL", "sysctl.conf"), ("PATHS", "paths")] {
            command.env(format!("MANYPATH_{name}"), self.folder.0.join(file));
        }
        command.env("MANYPATH_KEYS", self.folder.0.join(format!("keys-{host}")));
        command.env("MANYPATH_PEERS", self.folder.0.join(format!("peers-{host}")));
        command.current_dir(&self.folder.0);
        command
    }

    /// Starts an attack: the words of its command line after its name and the server.
    pub(crate) fn attack(&self, name: &str, words: &str) -> Outcome<Attack> {
        self.attack_at(OUTER, STACK, name, words)
    }

    /// The same against another address and UDP port of the server.
    pub(crate) fn attack_at(
        &self,
        address: &str,
        port: u16,
        name: &str,
        words: &str,
    ) -> Outcome<Attack> {
        let mut command = self.in_attackers_network();
        command.arg(std::env::current_exe().map_err(text("this program"))?);
        Self::begin(command, name, &format!("{address}:{port} {words}"))
    }

    /// Lets the attacker's ICMP come in by the client's path, as if it joined that path behind the emulated link.
    pub(crate) fn join_path_by_icmp(&self) -> Outcome<()> {
        let lines = [
            "qdisc add dev mal0 ingress",
            "filter add dev mal0 parent ffff: protocol ip u32 match ip protocol 1 0xff \
             action mirred ingress redirect dev pathA",
        ];
        lines.into_iter().try_for_each(|line| set(self.lab.command(Host::Right, "tc"), line))
    }

    /// A program on the server that reads UDP port [`SINK`] and does nothing else.
    pub(crate) fn sink(&self) -> Outcome<Attack> {
        let this = std::env::current_exe().map_err(text("this program"))?;
        let mut sink =
            Self::begin(self.command(Host::Right, this), "sink", &format!("0.0.0.0:{SINK}"))?;
        sink.report().map(|_listening| sink)
    }

    fn begin(mut command: Command, name: &str, words: &str) -> Outcome<Attack> {
        command.args(["attacker", name]).args(words.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(text(name))?;
        let input = child.stdin.take();
        Ok(Attack { child, input, name: name.to_owned() })
    }

    /// Runs an attack from outside to its end.
    pub(crate) fn attacked(&self, name: &str, words: &str) -> Outcome<Value> {
        self.attack(name, words)?.report()
    }

    /// A page of the web server as the client gets it, over manypath or plain TCP, within `seconds`.
    pub(crate) fn fetch(&self, page: &str, seconds: f64, over_manypath: bool) -> Outcome<Fetched> {
        let mut command = if over_manypath {
            let mut command = self.command(Host::Left, &self.manypath);
            command.args(["run", "--json", "--", "curl"]);
            command
        } else {
            self.command(Host::Left, "curl")
        };
        let url = format!("http://{INNER}:{WEB}/{page}");
        command.args(["-sS", "-f", "-o", "/dev/null", "-w", "%{http_code} %{speed_download}"]);
        command.args(["--max-time", &seconds.to_string(), &url]).stdin(Stdio::null());
        let output = command.output().map_err(text("curl"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = said.split_whitespace();
        let begun = words.next() == Some("200");
        let goodput = words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let carried = report.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let carried = carried.filter(|report| report["sctp"] == 1).count() == 1;
        Ok(Fetched { whole: begun && output.status.success(), carried, goodput })
    }

    /// Lets the client ask again a server that was too slow once.
    pub(crate) fn forget_peers(&self) {
        let _there_may_be_none = std::fs::remove_file(self.folder.0.join("peers-left"));
    }

    /// What the server's stack says of itself.
    pub(crate) fn status(&self) -> Outcome<Value> {
        let mut command = self.command(Host::Right, &self.manypath);
        let output = command.args(["status", "--json"]).output().map_err(text("status"))?;
        let all: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| "the server's stack does not answer".to_owned())?;
        Ok(all["stacks"][0].clone())
    }

    pub(crate) fn counter(&self, name: &str) -> Outcome<u64> {
        Ok(self.status()?["counters"][name].as_u64().unwrap_or(0))
    }

    /// The process of the server's stack.
    pub(crate) fn stack(&self) -> Outcome<u32> {
        let pid = self.status()?["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.ok_or_else(|| "the stack has no number".to_owned())
    }

    /// Resident memory of the server's stack in MiB.
    pub(crate) fn memory(&self) -> Outcome<f64> {
        let pid = self.stack()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        let status = status.map_err(text("memory of the stack"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| "no VmRSS".to_owned())
    }

    /// The server's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log-serve")).unwrap_or_default()
    }

    /// Whether the server that was started is still the one that runs.
    pub(crate) fn server_lives(&mut self) -> bool {
        let server = self.server;
        let mut server = self.children.iter_mut().filter(|child| child.id() == server);
        server.any(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _gone = child.kill();
            let _gone = child.wait();
        }
    }
}

/// Processor time that a process has used, in seconds.
pub(crate) fn processor_time(pid: u32) -> Outcome<f64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(text("threads"))?;
    let mut nanoseconds = 0.0;
    for task in tasks {
        let file = task.map_err(text("threads"))?.path().join("schedstat");
        let line = std::fs::read_to_string(file).map_err(text("schedstat"))?;
        nanoseconds +=
            line.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e9)
}

/// The folder of a site's files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Outcome<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("manypath-attacks-{process}-{number}"));
        std::fs::create_dir_all(path.join("www")).map_err(text("the work folder"))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    /// A stack of a client may still remember its peers in a file while it ends.
    fn drop(&mut self) {
        for _ in 0..20 {
            let _again = std::fs::remove_dir_all(&self.0);
            std::thread::sleep(Duration::from_millis(50));
            if !self.0.exists() {
                return;
            }
        }
    }
}

fn wait(what: &str, mut condition: impl FnMut() -> bool) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > until {
            return Err(format!("{what} does not come up"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Changes the network by `ip` or `tc`.
fn set(mut command: Command, line: &str) -> Outcome<()> {
    let output = command.args(line.split_whitespace()).output().map_err(text(line))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{line}: {}", said.trim())) }
}

/// An error with what it is about.
fn text(what: &str) -> impl FnOnce(std::io::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}
