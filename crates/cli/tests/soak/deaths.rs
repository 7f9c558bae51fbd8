//! What is killed and told to end, and what a program notices of it: how soon it can connect again, by plain
//! TCP, and how soon after the return of the daemon by manypath.

use crate::common::wait_for;
use crate::soak::agent::{Agent, Probe};
use crate::soak::dice::Dice;
use crate::soak::hosts::{Daemons, signal};
use crate::soak::ledger::{Ledger, Scope};
use crate::soak::vitals::{is_manypath, processes, within};
use manypath_lab::Host;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Connects of each agent after a death.
const PROBES: usize = 3;
/// For so long after a signal the kernel may still take the process, and whoever serves it may not have
/// noticed: a connect that begins then is one that was under way.
pub(super) const UNDER_WAY: Duration = Duration::from_millis(100);
/// Until connections must use manypath again, and a transfer must be under `manypath run`.
const RETURN: Duration = Duration::from_secs(20);

/// What was measured, by the kind of death.
#[derive(Default)]
pub(crate) struct Measured {
    deaths: BTreeMap<&'static str, usize>,
    /// Connects that failed because they were under way.
    under_way: BTreeMap<&'static str, usize>,
    /// Times of `connect` right after a death.
    fallback: BTreeMap<String, Vec<Duration>>,
    /// From the return of a daemon until a connection used it.
    back: BTreeMap<String, Vec<Duration>>,
    /// The same connects without manypath at the same time.
    plain: Vec<Duration>,
    pub(crate) faults: Vec<String>,
}

/// Kinds of deaths, in the order in which they come first.
pub(crate) const KINDS: [Kind; 8] = [
    Kind::ServerKilled,
    Kind::AttachStackKilled,
    Kind::RunStackKilled,
    Kind::ServerRestarted,
    Kind::DoorKilled,
    Kind::RedirectorKilled,
    Kind::WorkerStackKilled,
    Kind::RedirectorRestarted,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    ServerKilled,
    ServerRestarted,
    AttachStackKilled,
    RedirectorKilled,
    RedirectorRestarted,
    RunStackKilled,
    WorkerStackKilled,
    DoorKilled,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::ServerKilled => "serve killed",
            Self::ServerRestarted => "serve restarted",
            Self::AttachStackKilled => "stack of attach killed",
            Self::RedirectorKilled => "attach killed",
            Self::RedirectorRestarted => "attach restarted",
            Self::RunStackKilled => "stack of run killed",
            Self::WorkerStackKilled => "stack of a transfer killed",
            Self::DoorKilled => "door killed",
        }
    }
}

impl Kind {
    /// Whether connects that are under way go with it: those that the client's own daemons hold.
    const fn takes_along(self) -> bool {
        !matches!(self, Self::ServerKilled | Self::ServerRestarted)
    }
}

/// Whoever lets die, and looks.
pub(crate) struct Reaper<'a, 'b> {
    pub(crate) daemons: &'b mut Daemons<'a>,
    pub(crate) ledger: &'b Ledger,
    pub(crate) measured: &'b mut Measured,
    pub(crate) dice: &'b mut Dice,
}

impl Reaper<'_, '_> {
    /// The network works meanwhile.
    pub(crate) fn one(&mut self, kind: Kind) {
        let needs_cgroup = matches!(
            kind,
            Kind::AttachStackKilled | Kind::RedirectorKilled | Kind::RedirectorRestarted
        );
        if needs_cgroup && self.daemons.group.is_none() {
            return;
        }
        *self.measured.deaths.entry(kind.name()).or_default() += 1;
        match kind {
            Kind::ServerKilled => self.server(kind, "-KILL"),
            Kind::ServerRestarted => self.server(kind, "-TERM"),
            Kind::AttachStackKilled | Kind::RedirectorKilled | Kind::RedirectorRestarted => {
                self.attach(kind);
            }
            Kind::RunStackKilled => self.run_stack(kind),
            Kind::WorkerStackKilled => self.worker_stack(),
            Kind::DoorKilled => self.door(kind),
        }
    }

    fn server(&mut self, kind: Kind, how: &str) {
        self.await_manypath("before", "run");
        self.await_manypath("before", "attach");
        self.ledger.death(Scope::Server, how == "-TERM");
        signal(self.daemons.serve.id(), how);
        if how == "-KILL" {
            self.daemons.serve.wait().expect("its end");
        }
        self.probe_all(kind);
        self.wait_for_end_of_server();
        std::thread::sleep(Duration::from_millis(self.dice.range(0, 1_500)));
        self.daemons.start_serve();
        self.ledger.is_back();
        self.await_manypath(kind.name(), "run");
        self.await_manypath(kind.name(), "attach");
    }

    fn wait_for_end_of_server(&mut self) {
        let serve = &mut self.daemons.serve;
        wait_for("the end of manypath serve", || matches!(serve.try_wait(), Ok(Some(_))));
    }

    fn attach(&mut self, kind: Kind) {
        self.await_manypath("before", "attach");
        self.ledger.death(Scope::Attach, false);
        let Daemons { hosts, group: Some(group), .. } = &mut *self.daemons else { return };
        if kind == Kind::AttachStackKilled {
            group.kill_stack();
        } else {
            signal(group.pid(), if kind == Kind::RedirectorKilled { "-KILL" } else { "-TERM" });
        }
        self.ledger.signal_sent();
        let site = &hosts.site;
        self.probe(kind, "attach");
        if let Some(group) = &mut self.daemons.group {
            group.end(site, Host::Left, "-TERM");
        }
        self.daemons.attach();
        self.await_manypath(kind.name(), "attach");
    }

    fn run_stack(&mut self, kind: Kind) {
        self.await_manypath("before", "run");
        let launcher = self.daemons.agents.run.pid();
        let Some(stack) = stack_of(launcher) else {
            return self.fault("the launcher of the agent has no stack".to_owned());
        };
        signal(stack, "-KILL");
        self.probe(kind, "run");
        self.daemons.renew_run_agent();
        self.await_manypath(kind.name(), "run");
    }

    /// The stack of whatever transfer is at work under `manypath run`.
    fn worker_stack(&mut self) {
        let found = within(RETURN, || match self.transfer_stack() {
            Some((worker, stack)) => {
                self.ledger.death(Scope::Worker(worker), false);
                signal(stack, "-KILL");
                true
            }
            None => false,
        });
        if !found {
            self.fault(format!("no transfer was under manypath run for {RETURN:?}"));
        }
    }

    fn transfer_stack(&self) -> Option<(usize, u32)> {
        let namespace = namespace(self.daemons.agents.plain.pid());
        let stacks = processes(&namespace).into_iter().filter(|pid| is_stack(*pid));
        stacks.filter_map(|pid| Some((worker_of(pid)?, pid))).next()
    }

    fn door(&mut self, kind: Kind) {
        let Some(pid) = self.daemons.door_pid() else {
            return self.fault("the server under manypath run has no door".to_owned());
        };
        self.await_door("before");
        self.ledger.death(Scope::Door, false);
        signal(pid, "-KILL");
        self.probe(kind, "door");
        let daemons = &*self.daemons;
        let begun = Instant::now();
        if !within(RETURN, || daemons.door_pid().is_some_and(|new| new != pid)) {
            return self.fault("no new door came".to_owned());
        }
        let key = format!("{}: a new door", kind.name());
        self.measured.back.entry(key).or_default().push(begun.elapsed());
        self.await_door(kind.name());
    }

    /// Connects until the door's stack has carried one.
    fn await_door(&mut self, after: &str) {
        let begun = Instant::now();
        let carried = within(RETURN, || {
            let before = self.daemons.door_accepted();
            let probe = self.daemons.agents.door.probe();
            probe.is_ok() && self.daemons.door_accepted() > before
        });
        self.note_return(after, "door", carried.then(|| begun.elapsed()));
    }

    /// Connects until `manypath serve` has carried one.
    fn await_manypath(&mut self, after: &str, name: &'static str) {
        let server = self.daemons.hosts.server.clone();
        let begun = Instant::now();
        let Some(agent) = self.agent(name) else { return };
        let mut last = None;
        let carried = within(RETURN, || {
            let probe = agent.probe();
            let carried = probe.as_ref().is_ok_and(|probe| probe.is_carried(&server));
            last = Some(probe);
            carried
        });
        self.note_return(after, name, carried.then(|| begun.elapsed()));
        if let Some(Err(error)) = last {
            self.fault(format!("{after}: {name}: a connect failed: {error}"));
        }
    }

    fn note_return(&mut self, after: &str, name: &str, took: Option<Duration>) {
        match took {
            None => self.fault(format!("{after}: {name}: manypath was not used again")),
            Some(_) if after == "before" => {}
            Some(took) => {
                let key = format!("{after}: {name}");
                self.measured.back.entry(key).or_default().push(took);
            }
        }
    }

    /// Connects of both agents to the server that is served no more.
    fn probe_all(&mut self, kind: Kind) {
        self.probe(kind, "run");
        self.probe(kind, "attach");
    }

    /// A program connects some times right after a death.
    fn probe(&mut self, kind: Kind, name: &'static str) {
        let (death, mut left) = (Instant::now(), PROBES);
        while left > 0 {
            let under_way = kind.takes_along() && death.elapsed() < UNDER_WAY;
            let Some(agent) = self.agent(name) else { return };
            match agent.probe() {
                Ok(Probe { connect, .. }) => {
                    let key = format!("{}: {name}", kind.name());
                    self.measured.fallback.entry(key).or_default().push(connect);
                    left -= 1;
                }
                Err(_) if under_way => {
                    *self.measured.under_way.entry(kind.name()).or_default() += 1;
                }
                Err(error) => {
                    self.fault(format!("{kind:?}: {name}: a connect failed: {error}"));
                    left -= 1;
                }
            }
            if let Ok(Probe { connect, .. }) = self.daemons.agents.plain.probe() {
                self.measured.plain.push(connect);
            }
        }
    }

    fn agent(&mut self, name: &str) -> Option<&mut Agent> {
        let agents = &mut self.daemons.agents;
        match name {
            "run" => Some(&mut agents.run),
            "attach" => agents.attach.as_mut(),
            _ => Some(&mut agents.door),
        }
    }

    fn fault(&mut self, what: String) {
        println!("soak: FAULT: {what}");
        self.measured.faults.push(what);
    }
}

/// The network that a process is in.
pub(crate) fn namespace(pid: u32) -> std::path::PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("a process")
}

fn is_stack(pid: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1) == Some("stack")
}

fn stack_of(launcher: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let children = children.unwrap_or_default();
    let mut pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.find(|pid| is_manypath(*pid) && is_stack(*pid))
}

pub(crate) fn worker_of(pid: u32) -> Option<usize> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let mut entries = environment.split('\0');
    let worker = entries.find_map(|entry| entry.strip_prefix("MANYPATH_SOAK_WORKER="))?;
    worker.parse().ok().filter(|worker| *worker != usize::MAX)
}

impl Measured {
    /// Connects after deaths that took longer than `bar`, beyond what the slowest took that knew nothing of
    /// manypath.
    pub(crate) fn too_slow(&self, bar: Duration) -> Vec<String> {
        let bar = bar + self.plain.iter().max().copied().unwrap_or_default();
        let worst = self.fallback.iter().map(|(name, times)| (name, times.iter().max()));
        let slow = worst.filter_map(|(name, worst)| Some((name, worst.filter(|it| **it > bar)?)));
        slow.map(|(name, worst)| format!("{name}: a connect took {worst:?}")).collect()
    }

    pub(crate) fn as_json(&self) -> Value {
        let all = |table: &BTreeMap<String, Vec<Duration>>| {
            let rows = table.iter().map(|(name, times)| (name.clone(), spread(times)));
            Value::Object(rows.collect())
        };
        json!({
            "deaths": self.deaths,
            "connects_lost_under_way": self.under_way,
            "connect_after_ms": all(&self.fallback),
            "plain_tcp_connect_ms": spread(&self.plain),
            "carried_again_after_ms": all(&self.back),
        })
    }
}

fn spread(times: &[Duration]) -> Value {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    sorted.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 10.0).round() / 10.0;
    let median = sorted.get(sorted.len() / 2).copied().map(round);
    json!({ "count": sorted.len(), "median": median, "worst": sorted.last().copied().map(round) })
}
