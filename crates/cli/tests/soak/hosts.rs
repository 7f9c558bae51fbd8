//! The two hosts: real servers on the right one, what carries clients on the left one, and the daemons that
//! come and go.

use crate::common::cgroup::{self, Group};
use crate::common::{MANYPATH, Site, find, wait_for};
use crate::soak::agent::Agent;
use crate::soak::ledger::Carrier;
use manypath_lab::Host;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Servers and clients that are made for this test.
pub(crate) const SOAK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/soak.py");

/// A is the path of the addresses that programs name, so that plain TCP has it alone.
pub(crate) const PATHS: [&str; 3] =
    ["60mbit,5ms,queue=200", "30mbit,15ms,queue=200", "20mbit,30ms,queue=200"];
/// Names of the paths of [`PATHS`], with their delays.
pub(crate) const DELAYS_MS: [(&str, u64); 3] = [("A", 5), ("B", 15), ("C", 30)];

/// What the server opens to peers.
const ALLOW: &str = "8080,7000,7001,7002,7003/udp,8730,2222";
/// UDP port of the door of the server that is under `manypath run`.
const DOOR: &str = "9898";
/// Long enough to be used, short enough for many deaths in a quarter of an hour.
pub(crate) const NEGATIVE_CACHE_S: u64 = 2;
const SIZES: [u64; 6] = [1_000, 17_000, 100_000, 400_000, 1_500_000, 6_000_000];

/// What does not change while the soak runs: all workers share it.
pub(crate) struct Hosts {
    pub(crate) site: Site,
    pub(crate) server: String,
    /// Names and places of the files that the servers have, small ones first.
    pub(crate) files: Vec<(String, PathBuf)>,
    pub(crate) ssh_options: Vec<String>,
    pub(crate) user: String,
    /// The cgroup of clients.
    pub(crate) cgroup: Option<PathBuf>,
    /// When all began.
    pub(crate) begun: Instant,
    /// Where each host has a file system of its own for logs, sockets and caches of manypath.
    pub(crate) disk: Option<PathBuf>,
}

impl Hosts {
    /// Starts the servers.
    pub(crate) fn start() -> (Self, Option<Group>) {
        Self::start_on(Site::with_paths(&PATHS), None)
    }

    /// The same on hosts that are there; `disk` is where each of them has a file system for what manypath keeps.
    pub(crate) fn start_on(mut site: Site, disk: Option<PathBuf>) -> (Self, Option<Group>) {
        let settings = format!("negative_cache_s = {NEGATIVE_CACHE_S}\n");
        std::fs::write(site.dir.join("sysctl.conf"), settings).expect("settings");
        let rules = "remote enable udp port 7003 lifetime=2s\n";
        std::fs::write(site.dir.join("rules"), rules).expect("rules");
        let files = SIZES.iter().enumerate().map(|(number, bytes)| {
            let name = format!("f{number}");
            site.random_file(&name, *bytes);
            let path = site.dir.join("www").join(&name);
            (name, path)
        });
        let files = files.collect();
        site.web();
        site.ssh();
        start_programs(&mut site);
        let group = Group::new();
        let id = Command::new("id").arg("-un").output().expect("id");
        let hosts = Self {
            server: site.server(),
            files,
            ssh_options: site.ssh_options(),
            user: String::from_utf8_lossy(&id.stdout).trim().to_owned(),
            cgroup: group.as_ref().map(|group| group.dir.clone()),
            begun: Instant::now(),
            disk,
            site,
        };
        (hosts, group)
    }

    /// The time of the soak.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whose connections are carried, and how.
    pub(crate) fn carriers(&self) -> Vec<Carrier> {
        let mut all = vec![Carrier::Run, Carrier::Run, Carrier::Door];
        if self.cgroup.is_some() {
            all.extend([Carrier::Attach; 3]);
        }
        all
    }

    /// What launchers of workers are told besides, where the cause of each failure is looked for.
    fn verbose(&self, worker: usize) -> &'static [&'static str] {
        if self.disk.is_some() && worker != usize::MAX { &["-v"] } else { &[] }
    }

    /// Options of a daemon that logs to the small disk, if there is one.
    fn log_options(&self, name: &str) -> Vec<String> {
        let file = self.disk.as_ref().map(|disk| disk.join(name).display().to_string());
        file.map_or_else(Vec::new, |file| vec!["--log".to_owned(), file])
    }

    /// A program on the client's host. `worker` marks its processes.
    pub(crate) fn client(
        &self,
        carrier: Carrier,
        worker: usize,
        program: &str,
        args: &[&str],
    ) -> Command {
        let mut command = match (carrier, &self.cgroup) {
            (Carrier::Attach, Some(dir)) => {
                cgroup::enter(dir, &self.site, Host::Left, program, args)
            }
            (Carrier::Run | Carrier::Attach, _) => {
                self.site.through_command(self.verbose(worker), program, args)
            }
            (Carrier::Door, _) => {
                let options = [&["--peer-port", DOOR], self.verbose(worker)].concat();
                let mut command = self.site.through_command(&options, program, args);
                // What is known of the other port must not count here.
                let place = self.disk.as_ref().unwrap_or(&self.site.dir);
                command.env("MANYPATH_PEERS", place.join("peers-of-door"));
                command
            }
            (Carrier::Plain, _) => {
                let mut command = self.site.command(Host::Left, find(program));
                command.args(args);
                command
            }
        };
        command.env("MANYPATH_SOAK_WORKER", worker.to_string());
        command
    }
}

/// Servers besides the web server and sshd.
fn start_programs(site: &mut Site) {
    for (part, port) in [("digest", 7000), ("breaking", 7002)] {
        site.service("python3", &[SOAK, part, &port.to_string()], "tcp", port);
    }
    site.service("python3", &[SOAK, "datagrams-server", "7003"], "udp", 7003);
    let put = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/put_server.py");
    site.service("python3", &[put, "7001"], "tcp", 7001);
    let conf = site.dir.join("rsyncd.conf");
    let www = site.dir.join("www");
    let text = format!("use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {}\n", www.display());
    std::fs::write(&conf, text).expect("rsyncd.conf");
    let conf = format!("--config={}", conf.display());
    site.service("rsync", &["--daemon", "--no-detach", "--port=8730", &conf], "tcp", 8730);
}

/// What is killed and started again.
pub(crate) struct Daemons<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) serve: Child,
    /// A server under `manypath run`, with a door of its own.
    pub(crate) served: Child,
    pub(crate) group: Option<Group>,
    pub(crate) agents: Agents,
}

/// Programs that are there all the time and connect when they are asked to.
pub(crate) struct Agents {
    /// Without manypath: what the machine and the path cost.
    pub(crate) plain: Agent,
    pub(crate) run: Agent,
    pub(crate) attach: Option<Agent>,
    /// To the server under `manypath run`.
    pub(crate) door: Agent,
}

impl<'a> Daemons<'a> {
    pub(crate) fn start(hosts: &'a Hosts, mut group: Option<Group>) -> Self {
        let serve = start_serve(hosts);
        let served = start_served(hosts);
        if let Some(group) = &mut group {
            attach(hosts, group);
        }
        let mut plain = hosts.site.command(Host::Left, find("python3"));
        plain.args([SOAK, "agent", &hosts.server, "7000"]);
        let agents = Agents {
            plain: Agent::start(plain),
            run: agent(hosts, Carrier::Run, "7000"),
            attach: group.is_some().then(|| agent(hosts, Carrier::Attach, "7000")),
            door: agent(hosts, Carrier::Door, "7100"),
        };
        Self { hosts, serve, served, group, agents }
    }

    /// The agent under `manypath run` anew, whose launcher has lost its stack.
    pub(crate) fn renew_run_agent(&mut self) {
        self.agents.run = agent(self.hosts, Carrier::Run, "7000");
    }

    pub(crate) fn start_serve(&mut self) {
        self.serve = start_serve(self.hosts);
    }

    pub(crate) fn attach(&mut self) {
        if let Some(group) = &mut self.group {
            attach(self.hosts, group);
        }
    }

    /// The status of the server's stacks: `manypath serve` and the door.
    pub(crate) fn door_pid(&self) -> Option<u32> {
        let stacks = stacks(self.hosts, Host::Right);
        let door = stacks.iter().find(|stack| stack["udp_port"] == 9898)?;
        let offered = door["listeners"].as_array()?.iter().any(|one| one["offered"] == true);
        let pid = door["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.filter(|_| offered)
    }

    /// Connections that the door has led to its server.
    pub(crate) fn door_accepted(&self) -> u64 {
        let stacks = stacks(self.hosts, Host::Right);
        let door = stacks.iter().find(|stack| stack["udp_port"] == 9898);
        door.and_then(|door| door["counters"]["stack_relays_started"].as_u64()).unwrap_or(0)
    }

    /// Connections that `manypath serve` has carried since it was started.
    pub(crate) fn carried(&self) -> u64 {
        let stacks = stacks(self.hosts, Host::Right);
        let serve = stacks.iter().find(|stack| stack["udp_port"] == 9899);
        serve.and_then(|it| it["counters"]["stack_relays_started"].as_u64()).unwrap_or(0)
    }

    /// Ends all daemons in good order; says which would not end.
    pub(crate) fn end(mut self) -> Vec<String> {
        let agents = self.agents;
        let mut lingering: Vec<String> = agents.all().into_iter().filter_map(Agent::end).collect();
        drop(self.group.take());
        for (name, child) in [("serve", &mut self.serve), ("served", &mut self.served)] {
            signal(child.id(), "-TERM");
            let ended = crate::soak::vitals::within(Duration::from_secs(10), || {
                matches!(child.try_wait(), Ok(Some(_)))
            });
            if !ended {
                lingering.push(format!("{name} goes on after SIGTERM"));
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        lingering
    }
}

impl Agents {
    fn all(self) -> Vec<Agent> {
        [Some(self.plain), Some(self.run), self.attach, Some(self.door)]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn attach(hosts: &Hosts, group: &mut Group) {
    let place = hosts.disk.as_ref().unwrap_or(&hosts.site.dir);
    let log = place.join("log-of-stack-of-attach").display().to_string();
    group.attach(&hosts.site, Host::Left, &["-v", "--log", &log]);
}

fn agent(hosts: &Hosts, carrier: Carrier, port: &str) -> Agent {
    let args = [SOAK, "agent", &hosts.server, port];
    Agent::start(hosts.client(carrier, usize::MAX, "python3", &args))
}

fn logged(hosts: &Hosts, name: &str, mut command: Command) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(hosts.site.dir.join(name));
    let log = log.expect("log");
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("log")).stderr(log);
    command.spawn().expect("manypath")
}

/// Like a service manager: the process is there when its port is.
fn start_serve(hosts: &Hosts) -> Child {
    let mut command = hosts.site.command(Host::Right, MANYPATH);
    command.args(["serve", "--allow", ALLOW, "-v"]).args(hosts.log_options("log-serve"));
    let child = logged(hosts, "log-serve", command);
    wait_for("manypath serve", || crate::common::bound(child.id(), "udp", 9899));
    child
}

fn start_served(hosts: &Hosts) -> Child {
    let mut command = hosts.site.command(Host::Right, MANYPATH);
    command.args(["run", "--port", DOOR]).args(hosts.log_options("log-served"));
    command.arg("--").arg(find("python3"));
    command.args([SOAK, "digest", "7100"]);
    let child = logged(hosts, "log-served", command);
    wait_for("the server under manypath run", || crate::common::bound(child.id(), "tcp", 7100));
    child
}

/// The stacks of a host, as `manypath status` has them.
pub(crate) fn stacks(hosts: &Hosts, host: Host) -> Vec<serde_json::Value> {
    let mut command = hosts.site.command(host, MANYPATH);
    command.args(["status", "--json"]);
    let done = crate::common::finish(command);
    let all: serde_json::Value = serde_json::from_str(&done.stdout).unwrap_or_default();
    all["stacks"].as_array().cloned().unwrap_or_default()
}

/// Sends a signal to a process that this test has started.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill");
}
