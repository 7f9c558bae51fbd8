//! Two hosts, two paths, servers on the right host: what every end-to-end test starts with.
#![allow(clippy::panic, reason = "a test that cannot be set up says why and fails")]

pub(crate) mod cgroup;
pub(crate) mod clients;
pub(crate) mod containers;
pub(crate) mod folder;
pub(crate) mod gateways;
pub(crate) mod machines;
pub(crate) mod options;
pub(crate) mod previous;
pub(crate) mod probe;
pub(crate) mod way;

use manypath_lab::{Host, Lab, LabSpec};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const MANYPATH: &str = env!("CARGO_BIN_EXE_manypath");

/// The longest that any program of a test may run.
const LIMIT: Duration = Duration::from_secs(60);

/// A lab with a work folder; everything in it ends with the test.
pub(crate) struct Site {
    pub(crate) lab: Lab,
    pub(crate) dir: PathBuf,
    pub(crate) services: Vec<Child>,
    /// A process in whose network the right host's programs run instead: the right host is a router
    /// then.
    pub(crate) inner: Option<u32>,
    /// For every program of both hosts.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// Whose programs are carried where tests are run with `MANYPATH_IN_CGROUP`.
    group: OnceLock<cgroup::Group>,
    /// The servers of the right host there.
    servers: OnceLock<cgroup::Group>,
}

/// A finished program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) time: Duration,
}

impl Site {
    /// Two paths: A 100 Mbit/s 5 ms, B 50 Mbit/s 10 ms.
    pub(crate) fn new() -> Self {
        Self::with_paths(&["100mbit,5ms,queue=200", "50mbit,10ms,queue=200"])
    }

    pub(crate) fn with_paths(paths: &[&str]) -> Self {
        let paths = paths.iter().map(|p| p.parse().expect("path spec")).collect();
        let lab = Lab::start(LabSpec::new(paths)).expect("a lab needs root or user namespaces");
        let dir = unique_dir();
        // Tests are about SCTP unless they say otherwise, however short a path is.
        std::fs::write(dir.join("sysctl.conf"), "step_aside = never\ntcp_race = off\n")
            .expect("settings");
        let (group, servers) = (OnceLock::new(), OnceLock::new());
        let (services, environment) = (Vec::new(), Vec::new());
        Self { lab, dir, services, inner: None, environment, group, servers }
    }

    /// The server's address on path A.
    pub(crate) fn server(&self) -> String {
        self.lab.address(Host::Right, 0).to_string()
    }

    /// A command on a host, with the test's runtime folder.
    pub(crate) fn command(&self, host: Host, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.inner.filter(|_| host == Host::Right) {
            Some(inner) => {
                let mut command = self.lab.command(host, find("nsenter"));
                command.arg(format!("--net=/proc/{inner}/ns/net")).arg(program);
                command
            }
            None => self.lab.command(host, program),
        };
        command.env("MANYPATH_RUNTIME_DIR", self.dir.join("run")).current_dir(&self.dir);
        // Nothing of this machine's user takes part, and nothing is left to other tests.
        command.env("MANYPATH_OWN_STACK", "1");
        command.env("MANYPATH_PEERS", self.dir.join("peers"));
        command.env("MANYPATH_RULES", self.dir.join("rules"));
        command.env("MANYPATH_SYSCTL", self.dir.join("sysctl.conf"));
        command.env("MANYPATH_PATHS", self.dir.join("paths"));
        command.env("MANYPATH_KEYS", self.keys(host));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The folder of the keys of a host.
    pub(crate) fn keys(&self, host: Host) -> PathBuf {
        self.dir.join(if host == Host::Left { "keys-left" } else { "keys-right" })
    }

    /// Starts a server on the right host and waits for its port.
    pub(crate) fn service(&mut self, program: &str, args: &[&str], protocol: &str, port: u16) {
        self.service_on(Host::Right, program, args, protocol, port);
    }

    /// The same on any host.
    pub(crate) fn service_on(
        &mut self,
        host: Host,
        program: &str,
        args: &[&str],
        protocol: &str,
        port: u16,
    ) {
        let mut command = self.command(host, find(program));
        command.args(args);
        self.begin_service(command, program, protocol, port);
    }

    /// Starts a server on the right host through manypath, and waits for its port.
    pub(crate) fn service_through(
        &mut self,
        program: &str,
        args: &[&str],
        protocol: &str,
        port: u16,
    ) {
        let command = if in_cgroup() {
            let group = self.servers.get_or_init(|| cgroup::Group::of_servers(self));
            group.command(self, Host::Right, program, args)
        } else {
            let mut command = self.command(Host::Right, MANYPATH);
            command.args(["run", "-v", "--"]).arg(find(program)).args(args);
            command
        };
        self.begin_service(command, program, protocol, port);
    }

    /// Runs the command of a server, and waits for its port.
    pub(crate) fn begin_service(
        &mut self,
        mut command: Command,
        program: &str,
        protocol: &str,
        port: u16,
    ) {
        let path = self.dir.join(format!("log-{port}"));
        let log = std::fs::File::create(&path).expect("log");
        command.stdin(Stdio::null());
        command.stdout(log.try_clone().expect("log")).stderr(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{program}: {e}"));
        let pid = child.id();
        self.services.push(child);
        wait_for(&format!("{program} on port {port}"), || bound(pid, protocol, port));
        if program == MANYPATH && command.get_args().any(|word| word == "serve") {
            // It opens a socket for each address, one after the other.
            let said = || std::fs::read_to_string(&path).unwrap_or_default();
            wait_for("manypath serve", || said().contains("accepting associations"));
        }
    }

    /// `manypath serve` on the right host.
    pub(crate) fn serve(&mut self, allow: &str) {
        self.service(MANYPATH, &["serve", "--allow", allow, "-v"], "udp", 9899);
    }

    /// nginx on the right host with `files` folder as its root, on port 8080.
    pub(crate) fn web(&mut self) {
        let (dir, root) = (self.dir.join("nginx"), self.dir.join("www"));
        std::fs::create_dir_all(&dir).expect("nginx folder");
        std::fs::create_dir_all(&root).expect("www folder");
        let (d, r) = (dir.display(), root.display());
        let conf = format!(
            "daemon off;\nmaster_process off;\npid {d}/pid;\nerror_log {d}/error.log;\nevents {{}}\n\
             http {{\naccess_log off;\nclient_body_temp_path {d}/b;\nproxy_temp_path {d}/p;\n\
             fastcgi_temp_path {d}/f;\nuwsgi_temp_path {d}/u;\nscgi_temp_path {d}/s;\n\
             server {{ listen 0.0.0.0:8080; listen [::]:8080; root {r}; }}\n\
             server {{ listen 127.0.0.1:8081; root {r}; }}\n}}\n"
        );
        std::fs::write(dir.join("conf"), conf).expect("nginx.conf");
        let (d, c) = (dir.display().to_string(), dir.join("conf").display().to_string());
        let log = dir.join("error.log").display().to_string();
        self.service("nginx", &["-p", &d, "-c", &c, "-e", &log], "tcp", 8080);
    }

    /// sshd on the right host, port 2222, with keys of its own.
    pub(crate) fn ssh(&mut self) {
        self.ssh_files();
        let conf = self.dir.join("sshd_config").display().to_string();
        self.service("sshd", &["-D", "-e", "-f", &conf], "tcp", 2222);
    }

    /// The files of sshd and its clients.
    pub(crate) fn ssh_files(&self) {
        for key in ["host_key", "client_key"] {
            let status = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(self.dir.join(key))
                .status()
                .expect("ssh-keygen");
            assert!(status.success());
        }
        let _ = std::fs::create_dir_all("/run/sshd");
        let d = self.dir.display();
        let conf = format!(
            "Port 2222\nListenAddress 0.0.0.0\nHostKey {d}/host_key\n\
             AuthorizedKeysFile {d}/client_key.pub\nStrictModes no\nUsePAM no\nUseDNS no\n\
             PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nMaxStartups 100\n\
             Subsystem sftp internal-sftp\n"
        );
        std::fs::write(self.dir.join("sshd_config"), conf).expect("sshd_config");
    }

    /// Options that make OpenSSH clients use the test's keys.
    pub(crate) fn ssh_options(&self) -> Vec<String> {
        let key = self.dir.join("client_key").display().to_string();
        [
            "-q",
            "-F",
            "/dev/null",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ]
        .into_iter()
        .chain(["-o", "IdentitiesOnly=yes", "-i", &key])
        .map(str::to_owned)
        .collect()
    }

    /// A file of random bytes in the web server's root; returns its content.
    pub(crate) fn random_file(&self, name: &str, bytes: u64) -> Vec<u8> {
        let mut content = Vec::new();
        let source = std::fs::File::open("/dev/urandom").expect("urandom");
        source.take(bytes).read_to_end(&mut content).expect("random bytes");
        let root = self.dir.join("www");
        std::fs::create_dir_all(&root).expect("www");
        std::fs::write(root.join(name), &content).expect("file");
        content
    }

    /// Runs a program on the left host as it is.
    pub(crate) fn direct(&self, program: &str, args: &[&str]) -> Finished {
        let mut command = self.command(Host::Left, find(program));
        command.args(args);
        finish(command)
    }

    /// Runs a program on the left host through manypath.
    pub(crate) fn through(&self, program: &str, args: &[&str]) -> Finished {
        finish(self.through_command(&[], program, args))
    }

    /// The command of [`Site::through`], with options for `manypath run`. With `MANYPATH_IN_CGROUP` in the
    /// environment it is carried by `manypath attach` instead.
    pub(crate) fn through_command(
        &self,
        options: &[&str],
        program: &str,
        args: &[&str],
    ) -> Command {
        if in_cgroup() {
            let group = self.group.get_or_init(|| cgroup::Group::of_clients(self));
            return group.command(self, Host::Left, program, args);
        }
        let mut command = self.command(Host::Left, MANYPATH);
        command.arg("run").args(options).arg("--").arg(find(program)).args(args);
        command
    }

    /// What the server's stack says: the JSON of `manypath status` on the right host.
    pub(crate) fn server_status(&self) -> serde_json::Value {
        let mut command = self.command(Host::Right, MANYPATH);
        command.args(["status", "--json"]);
        let output = finish(command);
        let all: serde_json::Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|e| panic!("status is not JSON: {e}: {output:?}"));
        all["stacks"][0].clone()
    }

    /// What the stack of a host says that accepts associations for programs under `manypath run`.
    pub(crate) fn door_status(&self, host: Host) -> serde_json::Value {
        let mut command = self.command(host, MANYPATH);
        command.args(["status", "--json"]);
        let output = finish(command);
        let all: serde_json::Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|e| panic!("status is not JSON: {e}: {output:?}"));
        let mut stacks = all["stacks"].as_array().expect("stacks").iter();
        stacks.rfind(|stack| stack["accepting"] == true).cloned().unwrap_or_default()
    }

    /// A counter of the server's stack.
    pub(crate) fn server_counter(&self, name: &str) -> u64 {
        self.server_status()["counters"][name].as_u64().unwrap_or(0)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.group.take());
        for service in &mut self.services {
            let _ = service.kill();
            let _ = service.wait();
        }
        if let Some(servers) = self.servers.take() {
            servers.kill_programs();
        }
        if std::thread::panicking() {
            eprintln!("the test's files stay in {}", self.dir.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Whether `manypath attach` carries the programs of tests instead of `manypath run`.
pub(crate) fn in_cgroup() -> bool {
    std::env::var_os("MANYPATH_IN_CGROUP").is_some()
}

/// Runs a command to its end, at most a minute.
pub(crate) fn finish(command: Command) -> Finished {
    finish_within(command, LIMIT)
}

/// Runs a command to its end; kills it after `limit`.
pub(crate) fn finish_within(mut command: Command, limit: Duration) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What the program has started is killed with it.
    command.process_group(0);
    let started = Instant::now();
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let pid = child.id();
    let (done, waiter) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waiter
            .recv_timeout(limit)
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let _ = Command::new("kill").args(["-9", "--", &format!("-{pid}")]).status();
        }
    });
    let Output { status, stdout, stderr } = child.wait_with_output().expect("output");
    let time = started.elapsed();
    let _ = done.send(());
    let _ = watchdog.join();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr), time }
}

/// The full path of a program, also where only root's PATH has it.
pub(crate) fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/go/bin"].map(PathBuf::from);
    let all = std::env::split_paths(&path).chain(more);
    let found = all.map(|dir| dir.join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{program} is missing: run scripts/setup build demo test"))
}

/// The embedded stack among the children of the launcher.
pub(crate) fn stack_of(launcher: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let children = children.expect("children");
    let is_stack = |pid: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some("stack")
    };
    children.split_whitespace().find(is_stack).expect("a stack").parse().expect("pid")
}

/// Waits until `condition` holds, at most a minute: a busy machine may take ten seconds to start a program.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process's network namespace has the port bound (UDP) or listened on (TCP).
pub(crate) fn bound(pid: u32, protocol: &str, port: u16) -> bool {
    let state = if protocol.starts_with("tcp") { "0A" } else { "07" };
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/{protocol}")).unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&format!(":{port:04X}")) && fields.nth(1) == Some(state)
    })
}

fn unique_dir() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("work folder");
    dir
}

/// A program of the newest PostgreSQL that is installed.
pub(crate) fn postgresql(program: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("run scripts/setup full");
    let newest = versions.flatten().map(|one| one.path()).max().expect("a version");
    newest.join("bin").join(program).display().to_string()
}
