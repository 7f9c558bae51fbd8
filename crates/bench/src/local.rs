//! A side on this machine: a host of a place.

use crate::folder::Folder;
use crate::guard::Guard;
use crate::job::{Answer, Question};
use crate::place::Place;
use crate::running::{PATIENCE, Running};
use crate::side::{Carried, Launch, Outcome, Side};
use crate::usage::{MARK, Processes, Usage};
use manypath_lab::Host;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long programs may take to end by themselves.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long iperf3 may take.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// What a stack would read of the user's files, and what they are called here.
const FILES: [(&str, &str); 6] = [
    ("MANYPATH_KEYS", "keys"),
    ("MANYPATH_RUNTIME_DIR", "run"),
    ("MANYPATH_PEERS", "peers"),
    ("MANYPATH_RULES", "rules"),
    ("MANYPATH_SYSCTL", "sysctl.conf"),
    // Runs begin with nothing that an earlier one has set up; any value will do.
    ("MANYPATH_OWN_STACK", "own"),
];

/// The option that the variable `ENCRYPT` stands for (docs/bench.md).
fn encrypt() -> Option<String> {
    std::env::var("ENCRYPT").ok().map(|when| format!("--encrypt={when}"))
}

/// One host of a place.
#[derive(Debug)]
pub(crate) struct LocalSide<'a> {
    place: &'a Place,
    host: Host,
    /// The manypath program.
    manypath: PathBuf,
    /// What has the workers: this program.
    own: PathBuf,
    mark: String,
    folder: Folder,
    started: Vec<(Running, Kind)>,
    processes: Processes,
    /// Ends all of this if we cannot.
    _guard: Guard,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Ends when its standard input does.
    Worker,
    /// As a worker; its launcher tells at the end what was carried.
    Carried,
    /// Has to be killed.
    Service,
}

impl<'a> LocalSide<'a> {
    pub(crate) fn new(place: &'a Place, host: Host, manypath: &Path) -> Outcome<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        let name = format!("manypath-bench-{}-{number}", std::process::id());
        Ok(Self {
            place,
            host,
            manypath: manypath.to_owned(),
            _guard: Guard::start(&own, &name)?,
            own,
            folder: Folder::new(&name).map_err(|e| format!("cannot create a directory: {e}"))?,
            mark: name,
            started: Vec::new(),
            processes: Processes::default(),
        })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = self.place.command(self.host, program);
        for (variable, file) in FILES {
            command.env(variable, self.folder.path().join(file));
        }
        command.env(MARK, &self.mark);
        command
    }

    fn start(&mut self, command: Command, kind: Kind) -> Outcome<usize> {
        let log = self.folder.path().join(format!("log-{}", self.started.len()));
        self.started.push((Running::start(command, log)?, kind));
        Ok(self.started.len() - 1)
    }

    fn worker(&mut self, job: &crate::job::Job, manypath: Option<u16>) -> Outcome<usize> {
        let job = serde_json::to_string(job).map_err(|e| e.to_string())?;
        let carrier = if manypath.is_some() { &self.manypath } else { &self.own };
        let mut command = self.command(carrier);
        if let Some(port) = manypath {
            // A server on another host has a new key for each run.
            let _none_yet = std::fs::remove_file(self.folder.path().join("keys/known_peers"));
            command.args(["run", "--client-only", "--json", "--peer-port", &port.to_string()]);
            // What is measured is SCTP, also where a user would get plain TCP.
            command.args(["--step-aside", "never"]).args(encrypt());
            command.args(self.place.stack_options(self.host)).arg("--").arg(&self.own);
        }
        command.args(["bench-worker", &job]);
        let kind = if manypath.is_some() { Kind::Carried } else { Kind::Worker };
        let number = self.start(command, kind)?;
        match self.answer(number)? {
            Answer::Ready => Ok(number),
            other @ (Answer::Progress(_) | Answer::Times(_)) => Err(unexpected(&other)),
        }
    }

    fn serve(&mut self, allow: &[u16], port: u16) -> Outcome<usize> {
        let address = self.address();
        let allow: Vec<_> = allow.iter().map(|port| self.allowed(address, *port)).collect();
        let mut command = self.command(&self.manypath);
        command.args(["serve", "--allow", &allow.join(","), "--port", &port.to_string()]);
        command.args(encrypt()).args(self.place.stack_options(self.host));
        let number = self.start(command, Kind::Service)?;
        self.until_bound(number, "udp", port)?;
        Ok(number)
    }

    fn allowed(&self, address: IpAddr, port: u16) -> String {
        match self.place.locals(self.host).is_empty() {
            true => port.to_string(),
            false => format!("{address}:{port}"),
        }
    }

    fn iperf_server(&mut self, port: u16) -> Outcome<usize> {
        let mut command = self.command(Path::new("iperf3"));
        command.args(["-s", "-1", "-p", &port.to_string()]);
        let number = self.start(command, Kind::Service)?;
        self.until_bound(number, "tcp", port)?;
        Ok(number)
    }

    fn iperf_client(&mut self, arguments: &[String]) -> Outcome<usize> {
        let mut command = self.command(Path::new("iperf3"));
        command.args(arguments);
        self.start(command, Kind::Service)
    }

    /// Waits until a service listens.
    fn until_bound(&mut self, number: usize, protocol: &str, port: u16) -> Outcome<()> {
        let begun = Instant::now();
        let (running, _) = &mut self.started[number];
        while !bound(running.id(), protocol, port) {
            if !running.runs() || begun.elapsed() > PATIENCE {
                return Err(format!("a service failed to start: {}", running.log()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn answer(&mut self, number: usize) -> Outcome<Answer> {
        let line = self.started[number].0.line()?;
        serde_json::from_str(&line).map_err(|e| format!("a worker said '{line}': {e}"))
    }
}

impl Side for LocalSide<'_> {
    fn launch(&mut self, launch: &Launch) -> Outcome<usize> {
        match launch {
            Launch::Worker { job, manypath } => self.worker(job, *manypath),
            Launch::Serve { allow, port } => self.serve(allow, *port),
            Launch::IperfServer { port } => self.iperf_server(*port),
            Launch::IperfClient(arguments) => self.iperf_client(arguments),
        }
    }

    fn ask(&mut self, number: usize, question: Question) -> Outcome<Answer> {
        let question = serde_json::to_string(&question).map_err(|e| e.to_string())?;
        let (running, _) = self.started.get_mut(number).ok_or("no such program")?;
        running.tell(&question)?;
        self.answer(number)
    }

    fn output(&mut self, number: usize) -> Outcome<String> {
        let (running, _) = self.started.get_mut(number).ok_or("no such program")?;
        running.output(LONGEST)
    }

    fn look(&mut self) -> Outcome<()> {
        self.processes = Processes::marked(&self.mark);
        Ok(())
    }

    fn usage(&mut self) -> Outcome<Usage> {
        Ok(self.processes.usage())
    }

    fn stop(&mut self) -> Outcome<Option<Carried>> {
        let mut carried = None;
        while let Some((mut running, kind)) = self.started.pop() {
            match kind {
                Kind::Worker => running.end(FAREWELL),
                Kind::Service => running.end(Duration::ZERO),
                Kind::Carried => {
                    running.end(FAREWELL);
                    carried = Some(report(&running.log())?);
                }
            }
        }
        Processes::end_marked(&self.mark, Duration::from_millis(300));
        Ok(carried)
    }

    fn address(&self) -> IpAddr {
        self.place.address(self.host)
    }

    fn locals(&self) -> Vec<IpAddr> {
        self.place.locals(self.host)
    }
}

impl Drop for LocalSide<'_> {
    fn drop(&mut self) {
        self.started.clear();
        Processes::end_marked(&self.mark, Duration::ZERO);
    }
}

/// The report of `manypath run`, the last line on its standard error.
fn report(log: &str) -> Outcome<Carried> {
    let last = log.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|_| format!("manypath run did not report: {log}"))
}

fn unexpected(answer: &Answer) -> String {
    format!("an answer that does not fit: {answer:?}")
}

/// Whether `port` is bound (UDP) or listened on (TCP) in the network namespace of `pid`.
fn bound(pid: u32, protocol: &str, port: u16) -> bool {
    let state = if protocol == "tcp" { "0A" } else { "07" };
    let families = [protocol.to_owned(), format!("{protocol}6")];
    families.iter().any(|name| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            local.ends_with(&format!(":{port:04X}")) && fields.nth(1) == Some(state)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_launcher_is_its_last_line() {
        let log = "a warning\n{\"status\":0,\"opened\":3,\"sctp\":2,\"tcp_relay\":1}";
        assert_eq!(report(log), Ok(Carried { opened: 3, sctp: 2 }));
        assert!(report("killed").is_err_and(|why| why.contains("killed")));
    }
}
