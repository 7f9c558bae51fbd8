//! `manypath run`: the launcher's life.

use crate::command::{Change, Command};
use crate::descriptors::Descriptors;
use crate::filter::{Filter, NATIVE, Trapped};
use crate::handover::{self, Handover};
use crate::machine::{self, Obstacle, Plan};
use crate::only_sctp::OnlySctp;
use crate::options::{Outcome, RunError, RunOptions, ShimState};
use crate::program::LastThread;
use crate::report::Report;
use crate::seccomp::Listener;
use crate::seccomp::Servers;
use crate::signals::{Arrived, Mask, Signals};
use crate::stack_link::StackLink;
use crate::supervisor::Supervisor;
use libc::pollfd;
use manypath_control::Role;
use manypath_gate::poll::{has, interest, poll, raise_descriptor_limit};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

/// Traps taken in one turn of the loop, before the stack is heard again.
const TRAPS_PER_TURN: usize = 32;
/// With so few descriptors to look at, the next turn costs no more than to look whether there is another trap.
const FEW: usize = 16;
/// How long the report waits for connections that are about to end, and for stacks to say what they have carried.
const TRAFFIC_LIMIT: Duration = Duration::from_secs(1);
const TRAFFIC_TICK: Duration = Duration::from_millis(10);

/// Runs a command with its connections taken to a stack, and waits for its end.
///
/// Must be called on the main thread of a process that has no other (it starts some where it has to wait for memory
/// of programs of other users): the command dies with the
/// calling thread, and processes that the command leaves behind are served by a fork of this one.
///
/// # Errors
/// Only when the command was not run. A missing stack, kernel facility or permission is told by a
/// notice, and the command uses plain TCP.
pub fn run(options: &RunOptions) -> Result<Outcome, RunError> {
    let signals = Signals::block().map_err(RunError::Launcher)?;
    let plan = Chosen::new(options, machine::look());
    let (command, listener) = plan.start(options, signals.inherited()).inspect_err(|_| {
        signals.inherited().restore();
    })?;
    let (supervisor, shim) = match (listener, plan) {
        (_, Chosen::Without(shim)) => (None, shim),
        (Ok(listener), Chosen::With(_, descriptors)) => {
            (supervise(options, listener, descriptors), ShimState::Active)
        }
        (Err(error), Chosen::With(..)) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            (None, ShimState::Unavailable(Obstacle::Refused { errno }))
        }
    };
    explain(options, &shim);
    let mut launcher = Launcher { command, signals, supervisor, stop_asked: false };
    let status = launcher.run_to_end(options);
    if options.count_traffic {
        launcher.count_traffic();
    }
    let report = launcher.report();
    launcher.serve_survivors(options);
    launcher.signals.inherited().restore();
    Ok(Outcome { status, shim, report })
}

/// What is done with this command on this machine.
enum Chosen {
    /// It is put under the filter.
    With(Servers, Descriptors),
    /// It is not.
    Without(ShimState),
}

impl Chosen {
    fn new(options: &RunOptions, plan: Plan) -> Self {
        match plan {
            Plan::Translate(servers) => {
                Self::With(servers, Descriptors::Copied(LastThread::default()))
            }
            Plan::HandOver(servers, obstacle) => match hand_over(options) {
                Some(handover) => Self::With(servers, Descriptors::HandedOver(handover)),
                None => Self::Without(ShimState::Unavailable(obstacle)),
            },
            Plan::Nested => Self::Without(ShimState::Nested),
            Plan::Outside(obstacle) => Self::Without(ShimState::Unavailable(obstacle)),
        }
    }

    fn start(
        &self,
        options: &RunOptions,
        signals: Mask,
    ) -> Result<(Command, io::Result<Listener>), RunError> {
        let Self::With(servers, descriptors) = self else {
            return Command::start(&options.command, (None, Servers::Never), &[], signals);
        };
        let trapped = trapped(options, *servers, descriptors);
        let filter = NATIVE.map(|arch| Filter::new(&arch, trapped));
        let library = options.handover.as_deref().zip(descriptors.handover());
        let environment = library.map(|(library, handover)| handover.environment(library, trapped));
        let environment = environment.unwrap_or_default();
        Command::start(&options.command, (filter, *servers), &environment, signals)
    }
}

/// Prepares for sockets that the command hands over, if there is a library that lets it.
fn hand_over(options: &RunOptions) -> Option<Handover> {
    let program = options.command.first()?;
    let library = options.handover.as_ref();
    let linked = library.is_some_and(|it| handover::is_preloadable(Path::new(program), it));
    let handover = if linked { Handover::new().ok() } else { None };
    if handover.is_some() && options.datagrams {
        let text = "datagrams stay plain UDP: the launcher may not copy sockets of programs here";
        (options.notice)(text);
    }
    handover
}

/// Which calls are trapped besides those of clients.
fn trapped(options: &RunOptions, servers: Servers, descriptors: &Descriptors) -> Trapped {
    let wanted = options.server.is_some();
    let accepts = wanted && servers != Servers::Never;
    let datagrams = options.datagrams && descriptors.handover().is_none();
    Trapped { servers: wanted, accepts, datagrams }
}

fn supervise(
    options: &RunOptions,
    listener: Listener,
    descriptors: Descriptors,
) -> Option<Supervisor> {
    raise_descriptor_limit();
    let stack = StackLink::new(&options.stack, Role::Launcher).unwrap_or_else(|e| {
        (options.notice)(&format!("no stack, all connections are plain TCP: {e}"));
        StackLink::default()
    });
    Some(Supervisor::new(listener, stack, NATIVE?, descriptors, options))
}

/// Says why the command runs outside the shim, if it does.
fn explain(options: &RunOptions, shim: &ShimState) {
    match shim {
        ShimState::Active => {}
        ShimState::Nested => {
            let text = "already inside another `manypath run`, which serves this command too";
            (options.notice)(text);
        }
        ShimState::Unavailable(obstacle) => {
            // Nobody sees the connects that such rules are about.
            let broken = OnlySctp::new(options.rules.clone()).holds_somewhere();
            let too = if broken { ", also where a rule allows SCTP only" } else { "" };
            (options.notice)(&format!("all connections are plain TCP{too}: {obstacle}"));
        }
    }
}

struct Launcher {
    command: Command,
    signals: Signals,
    supervisor: Option<Supervisor>,
    /// The job was asked to stop; we stop when the command has.
    stop_asked: bool,
}

impl Launcher {
    fn run_to_end(&mut self, options: &RunOptions) -> u8 {
        loop {
            if self.turn(options)
                && let Some(status) = self.handle_signals()
            {
                return status;
            }
        }
    }

    /// Learns what the stacks have carried.
    fn count_traffic(&mut self) {
        let Some(supervisor) = &mut self.supervisor else { return };
        turn_while(supervisor, Supervisor::has_open_connections);
        supervisor.ask_traffic();
        turn_while(supervisor, Supervisor::awaits_traffic);
    }

    fn report(&self) -> Report {
        self.supervisor.as_ref().map_or_else(Report::default, Supervisor::report_so_far)
    }

    /// Waits for something to do, and does it. Whether a signal has arrived.
    fn turn(&mut self, options: &RunOptions) -> bool {
        let signals = self.signals.as_raw_fd();
        match &mut self.supervisor {
            Some(supervisor) => {
                let arrived = turn(supervisor, signals, None);
                let notices = [
                    supervisor.stack.take_notice(),
                    supervisor.accepts.take_notice(),
                    supervisor.take_notice(),
                ];
                notices.iter().flatten().for_each(|text| (options.notice)(text));
                arrived
            }
            None => poll(&mut [interest(signals)], None) > 0,
        }
    }

    /// The command's exit status, once it has ended.
    fn handle_signals(&mut self) -> Option<u8> {
        let mut stopped = false;
        while let Some(arrived) = self.signals.read() {
            match arrived {
                Arrived::Pass(signal) => self.command.signal(signal),
                Arrived::Stop => self.stop_asked = true,
                Arrived::Child | Arrived::Ours => {}
            }
        }
        while let Some(change) = self.command.change() {
            match change {
                Change::Ended(status) => return Some(status),
                Change::Stopped => stopped = true,
                Change::Continued => stopped = false,
            }
        }
        if stopped && std::mem::take(&mut self.stop_asked) {
            self.stop_with_command();
        }
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.stack.reap();
            supervisor.accepts.reap();
        }
        None
    }

    /// Lets the shell see the job stopped. Returns when it goes on.
    fn stop_with_command(&self) {
        // SAFETY: plain numbers.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.command.signal(libc::SIGCONT);
    }

    /// Processes that the command has left behind are still under the filter, which nobody can
    /// take off: a fork of the launcher goes on answering, in the background, until the last ends.
    fn serve_survivors(&mut self, options: &RunOptions) {
        let Some(supervisor) = &mut self.supervisor else { return };
        if is_deserted(&supervisor.listener) {
            return;
        }
        supervisor.settle_accesses();
        // SAFETY: the process has no other thread but such as wait inside a system call and hold no lock, so the
        // child may do anything.
        match unsafe { libc::fork() } {
            0 => {
                supervisor.descriptors.handover().inspect(|it| it.give_to(process::id()));
                detach();
                while !is_deserted(&supervisor.listener) {
                    turn(supervisor, -1, None);
                }
                // An exit drops nothing.
                supervisor.descriptors.handover().inspect(|it| it.remove());
                process::exit(0);
            }
            -1 => (options.notice)("processes left behind by the command lose their network"),
            child => {
                supervisor.descriptors.handover().inspect(|it| it.give_to(child.unsigned_abs()));
            }
        }
    }
}

/// Turns while the report `waits`, for [`TRAFFIC_LIMIT`] at most.
fn turn_while(supervisor: &mut Supervisor, waits: fn(&Supervisor) -> bool) {
    let until = Instant::now() + TRAFFIC_LIMIT;
    while waits(supervisor) && Instant::now() < until {
        turn(supervisor, -1, Some(TRAFFIC_TICK));
    }
}

/// One turn of the loop, which sleeps for at most `limit`; the signals' descriptor only wakes it. Whether it did.
fn turn(supervisor: &mut Supervisor, signals: RawFd, limit: Option<Duration>) -> bool {
    // The listener of a filter that nobody is under any more is ready for ever.
    let is_over = limit.is_some() && is_deserted(&supervisor.listener);
    let listener = if is_over { -1 } else { supervisor.listener.as_raw_fd() };
    let mut entries = vec![interest(signals), interest(listener), supervisor.stack.interest()];
    entries.push(interest(supervisor.access_news()));
    let completing: Vec<(u64, pollfd)> = supervisor.table.completing().collect();
    entries.extend(completing.iter().map(|(_, far)| *far));
    entries.extend(supervisor.accepts.interests());
    entries.extend(supervisor.datagram_interests());
    let handover = supervisor.descriptors.handover();
    entries.extend(handover.map(|it| interest(it.as_raw_fd())));
    poll(&mut entries, supervisor.timeout().into_iter().chain(limit).min());
    let far = entries.get(4..).unwrap_or_default().iter().zip(&completing);
    let far: Vec<u64> = far.filter(|(far, _)| far.revents != 0).map(|(_, (id, _))| *id).collect();
    // Whoever sends sockets waits while the queue is full.
    supervisor.descriptors.handover().inspect(|it| it.receive());
    // The stack first: a new connect must not be given to one that has just died.
    supervisor.handle_stack(entries[2].revents != 0);
    supervisor.handle_door();
    let mut traps = [entries[1]];
    let most = if entries.len() <= FEW { 1 } else { TRAPS_PER_TURN };
    for left in (0..most).rev() {
        if !has(&traps, libc::POLLIN) || supervisor.handle_trap().is_err() || left == 0 {
            break;
        }
        traps = [interest(listener)];
        poll(&mut traps, Some(Duration::ZERO));
    }
    supervisor.handle_accesses();
    supervisor.handle_receives();
    supervisor.handle_watches();
    supervisor.handle_far_ends(far);
    supervisor.handle_time(Instant::now());
    entries[0].revents != 0
}

/// Whether no process is under the filter any more.
fn is_deserted(listener: &Listener) -> bool {
    let mut entry = [interest(listener.as_raw_fd())];
    poll(&mut entry, Some(Duration::ZERO)) > 0 && has(&entry, libc::POLLHUP)
}

/// Leaves the terminal, the standard streams and whatever else our caller had left open: somebody
/// may wait for their end. All descriptors of our own are closed on exec, inherited ones are not.
fn detach() {
    for fd in (3..descriptor_limit()).filter(|fd| is_inherited(*fd)) {
        // SAFETY: nothing in this process owns an inherited descriptor.
        unsafe { libc::close(fd) };
    }
    // SAFETY: plain system calls on constant strings and numbers.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
    }
}

fn is_inherited(fd: RawFd) -> bool {
    // SAFETY: plain numbers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// One more than the highest open descriptor.
fn descriptor_limit() -> RawFd {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.max().map_or(3, |highest| highest + 1)
}
