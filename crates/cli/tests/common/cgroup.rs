//! A cgroup of the test's own, with manypath at work on it.

use super::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A cgroup; it goes with the test.
pub(crate) struct Group {
    pub(crate) dir: PathBuf,
    attached: Option<Child>,
}

/// Where cgroup2 is mounted, if this machine lets us load eBPF programs for it.
pub(crate) fn place() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    let place = PathBuf::from(mount.split(' ').nth(1)?);
    let root = Command::new("id").arg("-u").output().expect("id").stdout == b"0\n";
    root.then_some(place)
}

impl Group {
    /// A new cgroup, or `None`, said loudly, where this machine has no cgroup eBPF.
    pub(crate) fn new() -> Option<Self> {
        let Some(place) = place() else {
            eprintln!("SKIPPED: no cgroup2 here, or not root: nothing of cgroups is tested");
            return None;
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = place.join(format!("manypath-test-{}-{number}", std::process::id()));
        fs::create_dir(&dir).expect("a cgroup");
        Some(Self { dir, attached: None })
    }

    /// A cgroup of the left host, at work.
    pub(crate) fn of_clients(site: &Site) -> Self {
        let mut group = Self::new().expect("MANYPATH_IN_CGROUP needs cgroup2 and root");
        group.attach(site, Host::Left, &[]);
        group
    }

    /// A cgroup of the right host, at work on the servers that are going to be in it.
    pub(crate) fn of_servers(site: &Site) -> Self {
        let mut group = Self::new().expect("MANYPATH_IN_CGROUP needs cgroup2 and root");
        group.attach(site, Host::Right, &["-v"]);
        group
    }

    /// A cgroup that manypath is going to make.
    pub(crate) fn to_be_made(dir: PathBuf) -> Self {
        Self { dir, attached: None }
    }

    /// Starts `manypath attach` on a host, and waits until it is at work.
    pub(crate) fn attach(&mut self, site: &Site, host: Host, options: &[&str]) {
        let dir = self.dir.display().to_string();
        self.start(site, host, &[&["attach", "--cgroup", &dir], options].concat());
    }

    /// Starts manypath with arguments that make it attach here.
    pub(crate) fn start(&mut self, site: &Site, host: Host, args: &[&str]) {
        let mut command = site.command(host, MANYPATH);
        command.args(args);
        self.start_by(command, site, host);
    }

    /// Starts what attaches manypath here.
    pub(crate) fn start_by(&mut self, mut command: Command, site: &Site, host: Host) {
        let log = fs::File::create(site.dir.join(format!("attach-{host:?}"))).expect("log");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("attach");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("stdout");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        self.attached = Some(child);
        let said = fs::read_to_string(site.dir.join(format!("attach-{host:?}")));
        assert_eq!(line, "READY\n", "{said:?}");
    }

    /// A process that somebody else has attached here.
    pub(crate) fn adopt(&mut self, attached: Child) {
        self.attached = Some(attached);
    }

    /// A command on a host, in the cgroup.
    pub(crate) fn command(&self, site: &Site, host: Host, program: &str, args: &[&str]) -> Command {
        enter(&self.dir, site, host, program, args)
    }

    /// Runs a program of the left host in the cgroup.
    pub(crate) fn through(&self, site: &Site, program: &str, args: &[&str]) -> Finished {
        finish(self.command(site, Host::Left, program, args))
    }

    /// Kills all that is in it.
    pub(crate) fn kill_programs(&self) {
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }

    /// Ends it by a signal; what it says at the end.
    pub(crate) fn end(&mut self, site: &Site, host: Host, signal: &str) -> String {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(sent.success());
        self.wait(site, host)
    }

    /// Waits for its end; what it says then.
    pub(crate) fn wait(&mut self, site: &Site, host: Host) -> String {
        self.attached.take().expect("attached").wait().expect("its end");
        fs::read_to_string(site.dir.join(format!("attach-{host:?}"))).expect("log")
    }

    /// The process that serves the cgroup.
    pub(crate) fn pid(&self) -> u32 {
        self.attached.as_ref().expect("attached").id()
    }

    /// Its stack.
    pub(crate) fn stack(&self) -> u32 {
        children(self.pid()).next().expect("a stack")
    }

    /// Those that serve networks of containers for it.
    pub(crate) fn servers_of_networks(&self) -> Vec<u32> {
        let serves = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("\0--inner\0")
        };
        children(self.pid()).filter(serves).collect()
    }

    /// Ends its stack the hard way.
    pub(crate) fn kill_stack(&self) {
        let stack = self.stack().to_string();
        assert!(Command::new("kill").args(["-9", &stack]).status().expect("kill").success());
    }

    /// The links among them.
    pub(crate) fn links(&self) -> Vec<String> {
        self.ebpf().into_iter().filter(|one| one.starts_with("link:")).collect()
    }

    /// The links, programs and maps of eBPF that it holds, by the kernel's numbers.
    pub(crate) fn ebpf(&self) -> Vec<String> {
        ebpf(&["of", &self.pid().to_string()])
    }
}

/// A command on a host, in the cgroup whose folder is `dir`.
pub(crate) fn enter(dir: &Path, site: &Site, host: Host, program: &str, args: &[&str]) -> Command {
    let mut command = site.command(host, find("sh"));
    let procs = dir.join("cgroup.procs").display().to_string();
    let enter = "echo $$ > \"$1\" && shift && exec \"$@\"";
    command.args(["-c", enter, "sh", &procs]).arg(find(program)).args(args);
    command
}

/// Those that still exist.
pub(crate) fn alive(objects: &[String]) -> Vec<String> {
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    ebpf(&[&["alive"], &objects[..]].concat())
}

/// The children of a process.
fn children(pid: u32) -> impl Iterator<Item = u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("children");
    let pids: Vec<u32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    pids.into_iter()
}

pub(crate) fn ebpf(args: &[&str]) -> Vec<String> {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/ebpf_ids.py");
    let mut command = Command::new(find("python3"));
    command.arg(list).args(args);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout.lines().map(str::to_owned).collect()
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.attached.take() {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let _ = fs::remove_dir(&self.dir);
        } else {
            wait_for("the cgroup to be empty", || {
                fs::remove_dir(&self.dir).is_ok() || !self.dir.exists()
            });
        }
    }
}
