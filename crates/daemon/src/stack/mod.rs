//! The stack: one thread, one poll, everything a host needs to carry and accept flows.
//!
//! ```text
//! poll ─▶ events ─▶ timers ─▶ settle { endpoint ─▶ flow events ─▶ relays ─▶ messages ─▶ flush }
//! ```
//!
//! Every step is bounded; what is left over is remembered in a set and makes the next poll return
//! at once. Nothing is polled that cannot make progress.

mod associations;
mod confinement;
mod control;
mod drain;
mod events;
mod status;

use crate::attempt::{Attempts, Lookup, follow_reached, has_begun};
use crate::base::{Base, protection};
use crate::budgets::{Budgets, Quotas};
use crate::carriers;
use crate::config::{Encapsulation, RelayConfig, StackConfig};
use crate::control_server::ControlServer;
use crate::core::Core;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::doors::DoorRoom;
use crate::files::usages::{QUOTAS, UsageFile};
use crate::gateway::Callers;
use crate::keys::Keys;
use crate::locals::{self, Locals};
use crate::log;
use crate::names::Names;
use crate::parameters;
use crate::path_policies::PathPolicies;
use crate::peers::{Lifetimes, Peers};
use crate::phase::Phase;
use crate::relays::Relays;
use crate::rules::Rules;
use crate::scopes::LocalScopes;
use crate::scratch::Scratch;
use crate::service::Service;
use crate::services::Services;
use crate::settings::Settings;
use crate::sharing::{self, Sharing};
use crate::suspension;
use crate::takeover::{Predecessor, Succession};
use crate::timers::Timers;
use crate::token::Source;
use crate::uplinks::Uplinks;
use crate::watch::Watch;
use manypath_control::counted;
use manypath_engine::{Duration, Endpoint, Instant};
use manypath_net::{Clock, Driver, Inherited, Signals, SuspendWatch};
use manypath_rules::Rule;
use manypath_sandbox::Confinement;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Waker};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{info, warn};

/// Events taken from the kernel in one turn.
const EVENTS_PER_TURN: usize = 1024;
/// Rounds of settling in one turn: a flush makes room for more messages, and may cause events (an
/// unreachable network).
const ROUNDS_PER_TURN: usize = 8;

/// The host's stack: its rooms, and the loop that gives each its turn.
#[derive(Debug)]
pub struct Stack {
    clock: Clock,
    suspend_watch: SuspendWatch,
    poll: Poll,
    stopper: Stopper,
    uplinks: Uplinks,
    pub(crate) base: Base,
    /// The client side.
    pub(crate) attempts: Attempts,
    /// The server side.
    services: Services,
    relays: Relays,
    clients: Clients,
    pub(crate) datagrams: Datagrams,
    signals: Option<Signals>,
    service: Service,
    watch: Watch,
    settings: Settings,
    sharing: Sharing,
    /// Who takes over from this one.
    succession: Succession,
    /// What it may do to its host, if it has been confined.
    pub(crate) confinement: Option<Confinement>,
    scratch: Scratch,
    /// The last turn ended before everything that it caused was done.
    unsettled: bool,
}

/// Who comes in at ports of this host instead of being intercepted.
#[derive(Debug, Default)]
struct Clients {
    /// TCP clients of a gateway to SCTP.
    callers: Callers,
    doors: DoorRoom,
}

/// Ends a running stack from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Arc<Waker>,
    told: Arc<AtomicBool>,
}

impl Stopper {
    fn new(waker: Arc<Waker>) -> Self {
        Self { waker, told: Arc::default() }
    }

    /// Lets the stack end as SIGTERM does: flows may run on for
    /// [`exit_timeout`](StackConfig::exit_timeout), then they are reset.
    pub fn stop(&self) -> io::Result<()> {
        self.told.store(true, Ordering::Relaxed);
        self.waker.wake()
    }

    /// Whether the stack was told to end since the last call.
    pub(crate) fn is_told(&self) -> bool {
        self.told.swap(false, Ordering::Relaxed)
    }
}

impl Stack {
    /// Opens the sockets. Errors say what could not be opened and what to do about it.
    pub fn new(mut config: StackConfig) -> io::Result<Self> {
        let clock = Clock::start();
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let (settings, ignored) = Settings::load(&mut config).map_err(io::Error::other)?;
        carriers::check(&config)?;
        log::set_levels(&config.log);
        ignored.iter().for_each(|wrong| warn!(target: log::CONTROL, "{wrong}; ignored"));
        let mut driver =
            Driver::new(Endpoint::new(parameters::of_endpoint(&config), seed(&config)?));
        if config.seed.is_some() {
            driver.ignore_arrival_times();
        }
        let waker = Arc::new(Waker::new(&registry, Source::Wake.token())?);
        if let Some(seat) = &config.process.seat {
            driver.take_seat(seat);
            seat.wake_by(waker.clone());
        }
        let predecessor = Predecessor::ask(&mut config);
        let sockets = std::mem::take(&mut config.process.sockets);
        driver.inherit(inherited(sockets, &config)?);
        let locals = match config.process.listeners_only {
            true => Locals::default(),
            false => locals::open(&config, &mut driver, &registry)?,
        };
        let control = ControlServer::open(&mut config, &registry)?;
        let signals = watch_signals(&config, &registry)?;
        let (memory, tickets) = (config.window_memory(), config.process.tickets.clone());
        RelayConfig::check(&config)?;
        let mut stack = Self {
            attempts: Attempts::new(Peers::new(lifetimes(&config), config.peer_memory.take())),
            watch: Watch::default(),
            settings,
            clock,
            suspend_watch: watch_suspensions(&registry)?,
            poll,
            stopper: Stopper::new(waker.clone()),
            uplinks: Uplinks::default(),
            clients: Clients::default(),
            datagrams: Datagrams::new(lifetimes(&config)),
            signals,
            service: Service::new(config.process.service, config.loop_index() == 0),
            sharing: Sharing::default(),
            succession: Succession::default(),
            confinement: None,
            scratch: Scratch::default(),
            unsettled: false,
            services: Services::default(),
            relays: Relays::default(),
            base: Base::new(
                Core {
                    now: clock.now(),
                    control,
                    registry,
                    driver,
                    locals,
                    scopes: LocalScopes::default(),
                    path_policies: PathPolicies::load(config.paths.take())
                        .map_err(io::Error::other)?,
                    quotas: Quotas::load(quota_file(&config), config.process.quotas.clone()),
                    budgets: Budgets::load(config.budgets.take().map(UsageFile::named)),
                    rules: Rules::load(
                        config.rules.take(),
                        config.allow.iter().copied().map(Rule::from),
                    )
                    .map_err(io::Error::other)?,
                    timers: Timers::default(),
                    counters: Counters::default(),
                    phase: Phase::Running,
                    last_id: 0,
                    names: Names::new(waker),
                    to_onward: VecDeque::new(),
                    config,
                },
                Keys::new(tickets),
                memory,
            ),
        };
        protection::load_keys(&mut stack.base)?;
        protection::offer_keys(&mut stack.base);
        sharing::begin(&mut stack.base.core);
        stack.clients.callers = Callers::begin(&mut stack.base.core)?;
        stack.clients.doors = DoorRoom::begin(&mut stack.base.core)?;
        stack.datagrams.begin_packets(&mut stack.base);
        stack.services.listen_direct(&mut stack.base);
        stack.attempts.peers.recall_kept(&mut stack.base.core);
        stack.attempts.relays.find(&mut stack.base.core, Lookup::Now);
        if !stack.base.core.config.process.listeners_only {
            stack.begin_service();
        }
        stack.succession.take_over(&mut stack.base, predecessor)?;
        stack.succession.keep_line(&mut stack.base);
        Ok(stack)
    }

    /// The sockets are open.
    fn begin_service(&mut self) {
        carriers::begin(&mut self.base.core);
        self.base.core.announce();
        self.base.core.reread_scopes();
        self.base.core.follow_budgets();
        let core = &mut self.base.core;
        core.path_policies.follow_hours(core.now, &mut core.timers);
        self.attempts.peers.notice_networks(&self.base.core);
        self.uplinks.watch_network(&mut self.base);
        self.datagrams.rendezvous.begin_registering(&mut self.base);
        if self.base.core.config.accept {
            self.services.name_door(&mut self.base);
        }
    }

    /// Opens the sockets of a stack that was to wait with that.
    fn open_sockets(&mut self) -> io::Result<()> {
        let core = &mut self.base.core;
        core.locals = locals::open(&core.config, &mut core.driver, &core.registry)?;
        self.begin_service();
        Ok(())
    }

    /// A handle that ends the stack from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Works until the stack has been told to end, or its launcher has gone and its flows have
    /// ended. Errors are those of the poll itself.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        self.service.tell_ready(&mut self.base.core);
        while !self.base.core.phase.is_over() {
            self.pause();
            let timeout = self.clock.until(self.next_turn());
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            self.turn(self.clock.now(), &events);
        }
        self.end();
        Ok(())
    }

    fn pause(&mut self) {
        let (now, due) = (self.clock.now(), self.next_turn());
        if let Some(pause) = self.base.core.driver.pause(now, due) {
            std::thread::sleep(pause);
        }
    }

    /// Does one turn without waiting, for a caller with a clock of its own in place of [`run`](Self::run): `now`
    /// counts from about the making of the stack. Whether the kernel had news. Errors are those of the poll itself.
    pub fn turn_at(&mut self, now: Instant) -> io::Result<bool> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        self.poll.poll(&mut events, Some(Duration::ZERO))?;
        self.turn(now, &events);
        Ok(!events.is_empty())
    }

    fn turn(&mut self, now: Instant, events: &Events) {
        self.base.core.now = now;
        self.base.core.count("turns");
        suspension::notice(&mut self.suspend_watch, &mut self.base, &mut self.relays);
        self.base.core.refresh_path_policies();
        for event in events {
            self.base.core.driver.handle_event(self.base.core.now, event);
        }
        // Packets first: the endpoint learns of them as of their arrival, before what programs do at this instant.
        self.base.core.driver.handle_timeout(self.base.core.now);
        for event in events {
            self.on_event(event);
        }
        self.attempts.notice_closed_ports(&mut self.base);
        // What the peers did comes before what launchers ask for, so that they are told the truth.
        self.drain_endpoint();
        self.drain_flow_events();
        self.send_awaited();
        self.attempts.follow_answers(&mut self.base);
        // An answer that has come is no answer to what a timer asks for. If this process was suspended, it is late itself,
        // and not those who have answered.
        self.serve_doors();
        self.serve_control();
        self.send_awaited();
        while let Some(timer) = self.base.core.timers.pop(self.base.core.now) {
            self.on_timer(timer);
        }
        self.settle();
    }

    /// Whether the doors had anything to hear or to ask for.
    fn serve_doors(&mut self) -> bool {
        let Self { base, attempts, relays, datagrams, .. } = self;
        self.clients.doors.serve(base, attempts, relays, datagrams)
    }

    /// Lets everything that was caused take effect, and sends what came of it.
    fn settle(&mut self) {
        self.unsettled = true;
        self.relays.begin_turn();
        for round in 0..ROUNDS_PER_TURN {
            let news = self.drain_endpoint() | self.serve_doors();
            self.drop_broken();
            let idle = self.base.is_settled() && !self.base.core.driver.has_parcels();
            if round > 0 && !news && idle && !self.relays.has_work() {
                self.unsettled = false;
                break;
            }
            self.drain_flow_events();
            self.relays.service(&mut self.base, &mut self.scratch, |base, ended| {
                self.services.on_relay_over(base, ended);
            });
            self.datagrams.service(&mut self.base, &mut self.scratch);
            self.drain_flow_events();
            self.datagrams.rendezvous.carry_parcels(&mut self.base, &self.attempts);
            self.send();
            follow_reached(&mut self.attempts, &mut self.base);
        }
        self.base.core.control.follow_rooms(&self.base.core.registry);
        self.relays.end_turn();
        self.attempts.peers.plan_saving(&mut self.base.core);
    }

    /// Sends now what a program waits for and nothing else in this turn changes: what a blocking connect asks its peer, and
    /// the answer to such a question.
    fn send_awaited(&mut self) {
        if has_begun(&self.attempts) || self.relays.has_begun() {
            self.send();
        }
    }

    fn send(&mut self) {
        self.base.pump_messages();
        self.base.core.driver.flush(self.base.core.now);
        self.relays.watch_begun(&mut self.base, |base, ended| {
            self.services.on_relay_over(base, ended);
        });
        self.attempts.follow_begun(&mut self.base);
    }

    /// When the next turn is due if the kernel has no news before: the origin means at once.
    pub fn next_turn(&self) -> Option<Instant> {
        let work = self.relays.has_work() || self.datagrams.has_work();
        if self.unsettled || work || !self.base.core.control.unread.is_empty() {
            return Some(Instant::ZERO);
        }
        let deadlines = [self.base.core.timers.next(), self.base.core.driver.timeout()];
        deadlines.into_iter().flatten().min()
    }

    /// Lets changed settings take effect: for associations to come, and at once where that can be.
    fn adopt_settings(&mut self) {
        let config = &self.base.core.config;
        log::set_levels(&config.log);
        self.attempts.peers.set_lifetimes(lifetimes(config));
        self.datagrams.services.set_lifetimes(lifetimes(config));
        self.base.memory().set_limit(config.window_memory());
        self.base.core.driver.endpoint_mut().configure(|engine| {
            engine.rto_initial = parameters::initial_rto(config);
            engine.rto_min = config.limits.rto_min;
            engine.rto_max = config.limits.rto_max;
            engine.path_max_retransmits = config.limits.path_rtx_max;
            engine.shared_bottleneck = config.carrying.shared_bottleneck;
            engine.announce = config.carrying.announce;
        });
        let redundancy = config.carrying.redundancy;
        self.base.core.driver.endpoint_mut().set_redundancy(self.base.core.now, redundancy);
    }
}

/// Beside that of budgets.
fn quota_file(config: &StackConfig) -> Option<UsageFile> {
    let place = config.budgets.as_ref()?.with_file_name(QUOTAS);
    Some(UsageFile::named(place))
}

impl Core {
    fn announce(&self) {
        if self.config.loop_index() > 0 {
            return;
        }
        let loops = counted(self.config.loops(), "engine loop", "engine loops");
        match &self.config.process.loops_reason {
            Some(why) => warn!(target: log::STACK, "{loops} {why}"),
            None if self.config.loops() > 1 => info!(target: log::STACK, "{loops}"),
            None => {}
        }
        let port = self.locals.udp_port();
        for local in &self.locals.open {
            info!(target: log::STACK, "using {} ({})", local.address.addr.ip(), local.interface);
        }
        if self.locals.open.is_empty() {
            warn!(target: log::STACK, "no interface with a usable address is up yet");
        }
        if self.config.accept {
            let port = if port == 0 { self.config.udp_port } else { port };
            let allow = match self.config.process.listeners_only {
                true => "listeners of programs".to_owned(),
                false => self.open_services().join(", "),
            };
            let second = self.locals.second_port.map(|port| format!(" and {port}"));
            let at = match self.config.encapsulation {
                Encapsulation::Udp => {
                    let beside = self.locals.carriers.iter().map(|carrier| format!(", {carrier}"));
                    let beside: String = beside.collect();
                    format!("on UDP port {port}{}{beside}", second.unwrap_or_default())
                }
                Encapsulation::Native => "directly over IP (protocol 132)".to_owned(),
            };
            info!(target: log::STACK, "accepting associations {at} for {allow}");
        }
    }
}

/// The sockets of the service manager, which must be where peers look.
fn inherited(sockets: Vec<OwnedFd>, config: &StackConfig) -> io::Result<Inherited> {
    let sockets = Inherited::adopt(sockets)?;
    match sockets.port(&config.beside_ports())? {
        Some(theirs) if theirs != config.udp_port => {
            let text =
                format!("the service manager's sockets have UDP port {theirs}: --port {theirs}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        _ => Ok(sockets),
    }
}

fn lifetimes(config: &StackConfig) -> Lifetimes {
    Lifetimes { plain: config.limits.negative_cache, carried: config.limits.positive_cache }
}

/// What a stack does that has its process to itself.
fn watch_signals(config: &StackConfig, registry: &Registry) -> io::Result<Option<Signals>> {
    if !config.process.handle_signals {
        return Ok(None);
    }
    // The usual limit serves until it is reached, and then refusals are counted.
    let _ = manypath_net::raise_descriptor_limit();
    manypath_net::keep_freed_memory();
    let signals = Signals::watch()?;
    let token = Source::Signal.token();
    registry.register(&mut SourceFd(&signals.as_raw_fd()), token, Interest::READABLE)?;
    Ok(Some(signals))
}

/// A wait for the poll lasts too long if the machine is suspended meanwhile.
fn watch_suspensions(registry: &Registry) -> io::Result<SuspendWatch> {
    let watch = SuspendWatch::new()?;
    let token = Source::Clock.token();
    registry.register(&mut SourceFd(&watch.as_raw_fd()), token, Interest::READABLE)?;
    Ok(watch)
}

fn seed(config: &StackConfig) -> io::Result<[u8; 32]> {
    if let Some(seed) = config.seed {
        return Ok(seed);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}
