//! Serving a cgroup: one loop over what the kernel, the stacks and time say.

mod connects;
mod datagrams;
mod detours;
mod egress;
mod networks;
mod servers;
mod succession;
mod ways;

use crate::connections::{Connections, Phase};
use crate::group::Group;
use crate::kernel::{Programs, Ring};
use crate::layout::{Connecting, Event};
use crate::networks::Containers;
use crate::refusal::Refuser;
use crate::report::Report;
use crate::rival::{NotAttached, Rival};
use crate::routes::Routes;
use crate::tables::Tables;
use datagrams::Datagrams;
use detours::Detours;
use egress::Judge;
use libc::pollfd;
use manypath_control::{Role, manager};
use manypath_gate::door::Door;
use manypath_gate::gate::Gates;
use manypath_gate::join::Join;
use manypath_gate::poll::{interest, poll, raise_descriptor_limit};
use manypath_gate::socket;
use manypath_gate::stack_link::StackLink;
use manypath_gate::{ServerChoice, StackChoice};
use manypath_rules::RulesFile;
use networks::Networks;
use servers::Servers;
use socket2::{Domain, Socket, Type};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use succession::{Course, Succession};
use ways::Ways;

/// What to serve, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the cgroup.
    pub group: PathBuf,
    /// Make it when it is missing, and again whenever it goes: its programs are still to be started.
    pub make: bool,
    /// Which stack carries the connections.
    pub stack: StackChoice,
    /// Who leads peers to listening sockets; nobody when absent.
    pub server: Option<ServerChoice>,
    /// The table of rules; the stack has the same.
    pub rules: RulesFile,
    /// How programs in other network namespaces are served; not at all when absent.
    pub containers: Option<Containers>,
    /// Whether another process sees to all network namespaces but this one.
    pub inner: bool,
    /// Take over from another process that carries the programs of this very cgroup.
    pub replace: bool,
    /// Whether the service manager's main process is another one ([`manypath_control::anchor`]).
    pub anchored: bool,
    /// How long the stack may take for its first answer to a connect; three times as long while it is
    /// starting. Without an answer the programs use plain TCP until it comes; connects that wait for it
    /// and all that is carried wait thirty times as long, then everything ends.
    pub answer_limit: Duration,
    /// Called once when connects are taken.
    pub ready: fn(),
    /// Takes one line for the user.
    pub notice: fn(&str),
}

impl Options {
    /// After so long a stack that owes an answer counts as dead, also if nobody waits for it any more.
    fn longest_silence(&self) -> Duration {
        30 * self.answer_limit
    }
}

/// Why a cgroup is served no longer, or not at all. Its programs use plain TCP.
#[derive(Debug)]
pub enum Error {
    /// It was not begun.
    Setup(&'static str, io::Error),
    /// Another process carries the programs of the cgroup.
    Rival(Rival),
    /// The stack has ended, or does not answer.
    StackLost(String),
    /// The kernel has taken something back.
    Kernel(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(what, error) => write!(f, "{what}: {error}"),
            Self::Rival(rival) => rival.fmt(f),
            Self::StackLost(why) => write!(f, "{why}; programs use plain TCP"),
            Self::Kernel(error) => write!(f, "the kernel: {error}; programs use plain TCP"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<NotAttached> for Error {
    fn from(error: NotAttached) -> Self {
        match error {
            NotAttached::Rival(rival) => Self::Rival(rival),
            NotAttached::Kernel(error) => Self::Kernel(error),
        }
    }
}

/// Serves a cgroup until a signal (`SIGTERM`, `SIGINT`) ends it, or until another process has taken over (`SIGUSR1`)
/// and the connections that are carried here have ended. If that process dies before, this one serves again.
///
/// # Errors
/// [`Error::Setup`] and [`Error::Rival`] before anything is attached; the others when programs use plain TCP again.
pub fn run(options: &Options) -> Result<Report, Error> {
    raise_descriptor_limit();
    let mut succession =
        Succession::new(options.anchored).map_err(|e| Error::Setup("signals", e))?;
    let mut redirector = Redirector::new(options)?;
    let mut served = redirector.start();
    let mut course = Course::Serves;
    while served.is_ok() {
        let mut entries = succession.interests().to_vec();
        entries.extend(redirector.interests());
        poll(&mut entries, succession.timeout(redirector.timeout()));
        course = succession.turn(&mut redirector);
        if course != Course::Serves {
            break;
        }
        served = redirector.turn();
        if let Some(text) = redirector.servers.take_notice() {
            (options.notice)(&text);
        }
    }
    if course != Course::Serves && !succession.is_orphaned() {
        redirector.dismiss_predecessors();
    }
    if course == Course::EndsAll {
        redirector.stop_stack();
    }
    redirector.end();
    served.map(|()| redirector.report())
}

/// Everything about one cgroup.
#[derive(Debug)]
struct Redirector {
    options: Options,
    stack: StackLink,
    servers: Servers,
    tables: Tables,
    ring: Ring,
    gates: Gates,
    refuser: Refuser,
    /// Refusals that are repeated, as a program that is still inside its connect does not hear the first.
    refusals: Vec<(Instant, u32, Connecting, i32)>,
    connections: Connections,
    /// Since when the stack owes an answer.
    silent_since: Option<Instant>,
    ways: Ways,
    routes: Routes,
    datagrams: Datagrams,
    detours: Detours,
    judge: Judge,
    networks: Networks,
    /// Connects that the host's egress policy has kept from the stack.
    barred: u64,
    /// When another process has taken over.
    succeeded_at: Option<Instant>,
    report: Report,
    group: Group,
    programs: Programs,
}

impl Redirector {
    fn new(options: &Options) -> Result<Self, Error> {
        let setup = |what| move |error| Error::Setup(what, error);
        let group =
            Group::new(&options.group, options.make, options.replace).map_err(setup("cgroup"))?;
        // Before a stack is started in vain.
        group.refuse_rivals()?;
        // Without it nobody could tell who waits at the gate, and every connect would wait there for ever.
        crate::listening::can_ask().map_err(setup("tcp_diag"))?;
        let mut programs = Programs::load().map_err(setup("eBPF"))?;
        let namespace = namespace().map_err(setup("network namespace"))?;
        let tables = Tables::new(&mut programs, namespace, options.inner).map_err(setup("eBPF"))?;
        let ring = programs.take_map("events").and_then(Ring::new).map_err(setup("eBPF"))?;
        let datagrams =
            programs.take_map("datagrams").and_then(Ring::new).map_err(setup("eBPF"))?;
        let refuser = Refuser::new().map_err(setup("raw sockets"))?;
        let routes = Routes::new().map_err(setup("routes"))?;
        let judge = Judge::new().map_err(setup("egress policy"))?;
        let networks = Networks::new(options.containers.clone()).map_err(setup("containers"))?;
        let stack = StackLink::new(&options.stack, Role::Redirector).map_err(setup("stack"))?;
        let server = options.server.clone().filter(|_| programs.can_serve());
        if options.server.is_some() && server.is_none() {
            (options.notice)("servers stay plain TCP: that needs Linux 5.15 or newer");
        }
        let servers = Servers::new(Door::new(server, Role::Redirector));
        let (options, gates, connections, report) =
            (options.clone(), Gates::default(), Connections::default(), Report::default());
        Ok(Self {
            options,
            stack,
            servers,
            tables,
            ring,
            gates,
            refuser,
            refusals: Vec::new(),
            connections,
            silent_since: None,
            ways: Ways::default(),
            routes,
            datagrams: Datagrams::new(datagrams),
            detours: Detours::default(),
            judge,
            networks,
            barred: 0,
            succeeded_at: None,
            report,
            group,
            programs,
        })
    }

    /// Puts everything in place, and the programs to work last.
    fn start(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + 3 * self.options.answer_limit;
        while self.stack.is_starting() {
            poll(&mut [self.stack.interest()], Some(Duration::from_millis(20)));
            self.handle_stack()?;
            if Instant::now() > limit {
                return Err(Error::StackLost("the stack does not start".to_owned()));
            }
        }
        self.read_rules();
        self.read_routes();
        self.set_gates()?;
        self.open_door(Instant::now());
        while self.servers.is_opening() && Instant::now() < limit {
            poll(&mut [self.servers.interest()], Some(Duration::from_millis(20)));
            self.handle_door();
        }
        if let Some(error) = self.programs.mute() {
            (self.options.notice)(&format!("TCP_INFO and SO_RCVBUF tell of loopback: {error}"));
        }
        self.group.attach(&self.programs)?;
        self.scan();
        manager::tell(&[manager::News::Ready]);
        (self.options.ready)();
        Ok(())
    }

    fn interests(&self) -> Vec<pollfd> {
        let mut entries = vec![
            interest(self.ring.as_fd().as_raw_fd()),
            self.datagrams.interest(),
            interest(self.routes.news.as_fd().as_raw_fd()),
            interest(self.group.as_fd().as_raw_fd()),
            self.stack.interest(),
            self.servers.interest(),
        ];
        entries.extend(self.detours.interests());
        entries.extend(self.networks.interests());
        let far_ends = self.connections.waiting().filter_map(|(_, one)| match &one.phase {
            Phase::Joining(Join::Connecting { far, .. }) => Some(far.as_raw_fd()),
            Phase::Barred { own } => Some(own.as_raw_fd()),
            Phase::Unrouted { .. }
            | Phase::Asking { .. }
            | Phase::Held
            | Phase::Joining(Join::Delayed { .. })
            | Phase::Active => None,
        });
        entries.extend(far_ends.map(|fd| pollfd { fd, events: libc::POLLOUT, revents: 0 }));
        entries
    }

    fn timeout(&self) -> Option<Duration> {
        let phases = self.connections.waiting().filter_map(|(_, one)| match one.phase {
            Phase::Asking { until } | Phase::Joining(Join::Delayed { until, .. }) => Some(until),
            Phase::Unrouted { again, .. } => Some(again),
            Phase::Held
            | Phase::Barred { .. }
            | Phase::Joining(Join::Connecting { .. })
            | Phase::Active => None,
        });
        let refusals = self.refusals.iter().map(|(at, ..)| *at);
        let others = [
            self.routes.deadline(),
            Some(self.servers.next_deadline()),
            self.datagrams.deadline(),
            self.ways.deadline(),
            self.networks.deadline(),
            self.silent_since.map(|since| since + self.options.longest_silence()),
        ];
        let next = phases.chain(refusals).chain(others.into_iter().flatten()).min();
        // The poll counts whole milliseconds.
        let now = Instant::now();
        next.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1))
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.handle_stack()?;
        self.handle_events();
        self.handle_datagrams();
        self.handle_detours();
        self.handle_far_ends();
        self.handle_barred();
        self.handle_door();
        if self.group.drain() {
            self.group.attach(&self.programs)?;
            self.scan();
        }
        let now = Instant::now();
        self.routes.look(now);
        self.handle_time(now)
    }

    fn handle_events(&mut self) {
        let mut events = Vec::new();
        self.ring.read(|bytes| events.extend(Event::parse(bytes)));
        for event in events {
            match event {
                Event::Connecting(of) => self.on_connecting(of),
                Event::Listening => self.scan(),
                Event::Option(cookie, setting) => self.on_option(cookie, setting),
                Event::Asked(key) => self.on_asked(key),
            }
        }
    }

    fn handle_time(&mut self, now: Instant) -> Result<(), Error> {
        if self.routes.take_due(now) {
            self.read_routes();
        }
        self.repeat_refusals(now);
        self.handle_networks(now);
        self.renew_ways(now);
        if self.handle_servers_time(now) {
            // Also when nobody has told that the group was made anew.
            self.group.attach(&self.programs)?;
        }
        self.handle_limits(now)
    }

    /// The kernel's own answer holds where the table cannot be read.
    fn read_routes(&mut self) {
        let read = Routes::read().and_then(|routes| self.tables.set_routes(&routes));
        if let Err(error) = read {
            (self.options.notice)(&format!("routes: {error}; connects there are plain TCP"));
        }
    }

    /// A table that is wrong has not been taken by the stack either.
    fn read_rules(&mut self) {
        if self.has_successor() {
            return;
        }
        let table = match self.options.rules.read() {
            Ok(document) => document.table(),
            Err(error) => return (self.options.notice)(&format!("rules: {error}")),
        };
        if let Err(error) = self.tables.set_rules(&table) {
            (self.options.notice)(&format!("rules: {error}"));
        }
        self.judge.rules = table;
        self.adopt_datagram_rules();
    }

    /// Leads the next sockets of a family to the gate that has most room, unless the stack is silent. A host may
    /// have no IPv6.
    fn set_gate(&mut self, v6: bool) -> Result<(), Error> {
        if self.silent_since.is_some() {
            return Ok(self.tables.set_gate(v6, None)?);
        }
        let gate = self.gates.next(v6);
        let port = gate.map(|gate| gate.port()).ok();
        if port.is_none() && !v6 {
            return Err(Error::Kernel(io::Error::other("no gate at 127.0.0.1")));
        }
        Ok(self.tables.set_gate(v6, port)?)
    }

    fn set_gates(&mut self) -> Result<(), Error> {
        self.set_gate(false)?;
        self.set_gate(true)
    }

    fn report(&self) -> Report {
        let mut report = self.report.clone();
        report.left = self.tables.counts();
        report.opened = report.left.remove("carried").unwrap_or(0).saturating_sub(self.barred);
        if self.barred > 0 {
            *report.left.entry("egress-policy".into()).or_default() += self.barred;
        }
        report.refused = report.left.remove("sctp-only").unwrap_or(0);
        report.datagrams = self.datagram_report();
        self.networks.add_to(&mut report);
        report
    }

    /// From now on connects are plain TCP and datagrams plain UDP. Connects that wait hear that it was given up.
    fn end(&mut self) {
        self.end_datagrams();
        let _ = self.tables.set_gate(false, None);
        let _ = self.tables.set_gate(true, None);
        self.handle_events();
        let waiting: Vec<u64> = self.connections.waiting().map(|(id, _)| id).collect();
        waiting.into_iter().for_each(|id| self.fail(id, libc::ECONNABORTED));
        self.resign();
        self.end_networks();
    }
}

fn namespace() -> io::Result<u64> {
    let probe = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket::namespace(probe.as_fd())
}
