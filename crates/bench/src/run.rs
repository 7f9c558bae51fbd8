//! One run: one workload over one transport, from the start of its programs to their end.

use crate::case::{Direction, Settings, Transport, Workload};
use crate::job::{Answer, Job, Part, Progress, Question, Task, Times};
use crate::side::{Carried, Launch, Outcome};
use crate::stage::{Interval, Run, Stage};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

impl Stage<'_> {
    /// Makes a run. Whatever was started for it has ended afterwards.
    pub(crate) fn run(
        &mut self,
        workload: Workload,
        transport: Transport,
        settings: &Settings,
    ) -> Outcome<Run> {
        let result = self.measure(workload, transport, settings);
        // The client's programs end while the server's are still there, as in real life.
        let carried = self.client.stop();
        let stopped = self.server.stop();
        let mut run = result?;
        run.carried = carried?;
        stopped?;
        check_carried(&run, transport)?;
        Ok(run)
    }

    fn measure(
        &mut self,
        workload: Workload,
        transport: Transport,
        settings: &Settings,
    ) -> Outcome<Run> {
        if transport == Transport::Iperf3 {
            return crate::iperf::run(self, workload, settings);
        }
        let manypath = (transport == Transport::Manypath).then(|| settings.manypath_port());
        let plan = Plan::new(workload, transport, settings);
        if let Some(port) = manypath {
            let allow = vec![settings.data_port(), settings.answer_port()];
            self.server.launch(&Launch::Serve { allow, port })?;
        }
        let any: IpAddr = match self.server.address() {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let job = plan.job(true, any, self.server.locals());
        let server = self.server.launch(&Launch::Worker { job, manypath: None })?;
        let job = plan.job(false, self.server.address(), self.client.locals());
        let client = self.client.launch(&Launch::Worker { job, manypath })?;
        let omit = match settings.bytes {
            Some(_) => Duration::ZERO,
            None => settings.omit.unwrap_or(Duration::from_millis(300) + self.rtt * 10),
        };
        self.sleep(omit)?;
        let from_connect = transport == Transport::Encrypted;
        Watch { stage: self, client, server, workload, settings, from_connect }.watch()
    }

    /// Sleeps, unless the user wants an end.
    pub(crate) fn sleep(&self, time: Duration) -> Outcome<()> {
        let end = Instant::now() + time;
        loop {
            if (self.interrupted)() {
                return Err("interrupted".to_owned());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A fallback to plain TCP would be measured as something that it is not.
fn check_carried(run: &Run, transport: Transport) -> Outcome<()> {
    match run.carried {
        Some(Carried { opened, sctp }) if sctp == 0 || (sctp < opened && run.times.is_none()) => {
            Err(format!("manypath has carried {sctp} of {opened} connections, others went by TCP"))
        }
        None if transport == Transport::Manypath => Err("manypath has not reported".to_owned()),
        Some(_) | None => Ok(()),
    }
}

/// Who does what.
struct Plan<'a> {
    workload: Workload,
    transport: Transport,
    settings: &'a Settings,
}

impl<'a> Plan<'a> {
    fn new(workload: Workload, transport: Transport, settings: &'a Settings) -> Self {
        Self { workload, transport, settings }
    }

    /// The work of the side that listens, or of the one that connects.
    fn job(&self, listen: bool, server: IpAddr, locals: Vec<IpAddr>) -> Job {
        let task = self.workload.client_task();
        let mut parts = vec![self.part(listen, task, (server, self.settings.data_port()), locals)];
        if self.workload == (Workload::Latency { loaded: true }) {
            let at = (server, self.settings.answer_port());
            // The load is there before the first question.
            parts.push(self.part(listen, Task::Ask, at, Vec::new()));
        }
        Job { parts }
    }

    fn part(
        &self,
        listen: bool,
        client_task: Task,
        at: (IpAddr, u16),
        locals: Vec<IpAddr>,
    ) -> Part {
        let task = if listen { client_task.opposite() } else { client_task };
        Part {
            listen,
            address: SocketAddr::from(at),
            locals,
            carrier: self.transport.carrier(),
            task,
            flows: if client_task == Task::Ask { 1 } else { self.workload.flows() },
            length: self.settings.length(task, self.transport),
            limit: self.settings.bytes.filter(|_| client_task != Task::Ask),
            congestion: Some(self.settings.congestion.clone()),
        }
    }
}

/// A run whose programs are at work.
struct Watch<'s, 'a, 'c> {
    stage: &'s mut Stage<'a>,
    client: usize,
    server: usize,
    workload: Workload,
    settings: &'c Settings,
    /// The time begins with the client's connect, which the server knows nothing of.
    from_connect: bool,
}

/// Counters of both sides at a time.
#[derive(Clone, Copy)]
struct Look {
    client: Progress,
    server: Progress,
    /// Of the part that asks.
    operations: u64,
}

impl Look {
    /// When nothing but the flows was there.
    fn of_opening(self) -> Self {
        let opening = |now: Progress| Progress { nanos: now.opened, ..Progress::default() };
        Self { client: opening(self.client), server: opening(self.server), operations: 0 }
    }
}

impl Watch<'_, '_, '_> {
    fn watch(&mut self) -> Outcome<Run> {
        let stage = &mut *self.stage;
        stage.client.look()?;
        stage.server.look()?;
        let mut before = (stage.client.usage()?, stage.server.usage()?);
        // What was noted until now was not to be measured.
        self.times()?;
        let mut first = self.look()?;
        if self.settings.bytes.is_some() {
            // All bytes count, those that have arrived already too.
            before = Default::default();
            first = first.of_opening();
        }
        let intervals = self.intervals(first)?;
        let last = self.look()?;
        let after = (self.stage.client.usage()?, self.stage.server.usage()?);
        let times = self.times()?;
        let (seconds, bytes) = self.arrived(first, last);
        Ok(Run {
            seconds,
            bytes,
            client: after.0.since(&before.0),
            server: after.1.since(&before.1),
            operations: last.operations - first.operations,
            times: times.filter(|times| times.count > 0),
            intervals,
            carried: None,
        })
    }

    /// Looks on until the end, interval by interval.
    fn intervals(&mut self, first: Look) -> Outcome<Vec<Interval>> {
        let (mut intervals, mut last) = (Vec::new(), first);
        let begun = Instant::now();
        loop {
            let left = self.settings.time.saturating_sub(begun.elapsed());
            let step = match self.settings.bytes {
                Some(_) => Duration::from_millis(10),
                None => left.min(self.settings.interval),
            };
            self.stage.sleep(step)?;
            let look = self.look()?;
            let (seconds, bytes) = self.arrived(last, look);
            let over = match self.settings.bytes {
                Some(limit) => self.arrived(first.of_opening(), look).1 >= limit,
                None => begun.elapsed() >= self.settings.time,
            };
            if over || seconds >= self.settings.interval.as_secs_f64() {
                let start = self.arrived(first, last).0;
                let interval = Interval { start, end: start + seconds, bytes };
                (self.stage.on_interval)(&interval);
                intervals.push(interval);
                last = look;
            }
            if over {
                return Ok(intervals);
            }
        }
    }

    /// Seconds and bytes that arrived between two looks.
    fn arrived(&self, from: Look, to: Look) -> (f64, u64) {
        let one = |from: Progress, to: Progress| {
            let seconds = to.nanos.saturating_sub(from.nanos) as f64 / 1e9;
            (seconds, to.received.saturating_sub(from.received))
        };
        let up = one(from.server, to.server);
        let down = one(from.client, to.client);
        match self.workload {
            Workload::Throughput { direction: Direction::Up, .. }
            | Workload::Latency { .. }
            | Workload::Connects { .. } => up,
            Workload::Throughput { direction: Direction::Down, .. } => down,
            Workload::Throughput { direction: Direction::Both, .. } => (up.0, up.1 + down.1),
        }
    }

    fn look(&mut self) -> Outcome<Look> {
        let client = progress(self.stage.client.ask(self.client, Question::Progress)?)?;
        let server = progress(self.stage.server.ask(self.server, Question::Progress)?)?;
        let first = |all: &[Progress]| all.first().copied().unwrap_or_default();
        let operations = client.iter().map(|part| part.operations).sum();
        let (client, mut server) = (first(&client), first(&server));
        if self.from_connect {
            (server.nanos, server.opened) = (client.nanos, client.opened);
        }
        Ok(Look { client, server, operations })
    }

    /// Times that the client has noted since the last call.
    fn times(&mut self) -> Outcome<Option<Times>> {
        match self.stage.client.ask(self.client, Question::Times)? {
            Answer::Times(parts) => Ok(parts.last().copied()),
            other @ (Answer::Ready | Answer::Progress(_)) => Err(format!("{other:?}?")),
        }
    }
}

fn progress(answer: Answer) -> Outcome<Vec<Progress>> {
    match answer {
        Answer::Progress(parts) => Ok(parts),
        other @ (Answer::Ready | Answer::Times(_)) => Err(format!("{other:?}?")),
    }
}
