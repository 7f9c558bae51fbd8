//! One scenario with one peer: a lab, both programs, a capture of everything between them, and the verdict.

use crate::peer::{Carrier, Peer, succeed};
use crate::program::Program;
use crate::scenario::{Expect, Initiator, OURS, Plan, Scenario, Side, THEIRS};
use crate::tshark::{self, Captured};
use manypath_lab::{Change, Host, Lab, LabSpec};
use serde_json::Value;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// A guest boots before its program starts.
const READY: Duration = Duration::from_secs(60);

/// What came of one run, or why there was none.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Everything was as it should be: how long it took, or how fast it was, and packets in the capture.
    Good(String, u64),
    Failed(String),
    /// The peer cannot do this.
    Unsupported(&'static str),
    /// This machine cannot run the peer.
    Missing(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Good(figure, packets) => write!(f, "good, {figure}, {packets} packets"),
            Self::Failed(reason) => write!(f, "FAILED: {reason}"),
            Self::Unsupported(reason) => write!(f, "not possible: {reason}"),
            Self::Missing(reason) => write!(f, "not run: {reason}"),
        }
    }
}

/// Programs that are built, and a place for files.
pub(crate) struct Tools {
    dir: PathBuf,
    keep: Option<PathBuf>,
    count: Cell<u32>,
}

impl Tools {
    pub(crate) fn new(keep: Option<&str>) -> Result<Self, String> {
        let dir = std::env::temp_dir().join(format!("manypath-interop-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let tools = Self { dir, keep: keep.map(PathBuf::from), count: Cell::new(0) };
        let library = std::env::current_exe().map_err(|error| error.to_string())?;
        let library = library.parent().unwrap_or(Path::new(".")).display().to_string();
        tools.compile(
            "manypath",
            &["-D_GNU_SOURCE", "-DMANYPATH", &format!("-I{WORKSPACE}/crates/sctp/include")],
            &[&format!("-L{library}"), &format!("-Wl,-rpath,{library}"), "-lmanypath_sctp"],
        )?;
        Ok(tools)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the program `name` is.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A file below `tests/peers`.
    pub(crate) fn source(&self, name: &str) -> String {
        std::path::absolute(format!("{WORKSPACE}/tests/peers/{name}"))
            .map_or_else(|_| name.to_owned(), |path| path.display().to_string())
    }

    /// Builds the program for stacks with the sockets API.
    pub(crate) fn compile(
        &self,
        name: &str,
        flags: &[&str],
        libraries: &[&str],
    ) -> Result<(), String> {
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror"]).args(flags);
        compiler.arg("-o").arg(self.program(name)).arg(self.source("sockets/peer.c"));
        compiler.args(libraries).arg("-lpthread");
        succeed(compiler)
    }

    /// A file with what a guest shall do, and a name for the guest.
    pub(crate) fn guest(&self, job: &str) -> Result<(String, String), String> {
        let identity = format!("guest{}-{}", std::process::id(), self.number());
        let file = self.dir.join(format!("{identity}.job"));
        std::fs::write(&file, job).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok((file.display().to_string(), identity))
    }

    fn number(&self) -> u32 {
        self.count.replace(self.count.get() + 1)
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.dir);
    }
}

/// What is to be judged.
struct Seen {
    /// What the ends say of themselves; nothing of one that was killed.
    ends: [Value; 2],
    /// The checksum of what a killed one had sent.
    before: Option<String>,
    captured: Captured,
    addresses: [Vec<String>; 2],
}

impl Seen {
    /// From the establishment to the end, as the slower end saw it.
    fn seconds(&self) -> f64 {
        let seconds = self.ends.iter().filter_map(|end| end["seconds"].as_f64());
        seconds.fold(0.0, f64::max)
    }

    /// Mbit/s from us.
    fn rate(&self, scenario: &Scenario) -> f64 {
        scenario.bytes[OURS] as f64 * 8e-6 / self.seconds().max(1e-3)
    }
}

/// Runs `scenario` and judges it.
pub(crate) fn run(
    tools: &Tools,
    peer: &dyn Peer,
    scenario: &Scenario,
    initiator: Initiator,
) -> Outcome {
    let done = Run::start(tools, peer, scenario, initiator).and_then(|run| run.observe());
    let judged = done.and_then(|seen| judge(peer, scenario, initiator, &seen).map(|()| seen));
    match judged {
        Ok(seen) => {
            let figure = match scenario.expect {
                Expect::Rate(_) => format!("{:.1} Mbit/s", seen.rate(scenario)),
                Expect::Complete
                | Expect::Chunks(..)
                | Expect::GivenUp(_)
                | Expect::Reset(..)
                | Expect::Aborted(_)
                | Expect::Restarted => format!("{:.1} s", seen.seconds()),
            };
            Outcome::Good(figure, seen.captured.packets)
        }
        Err(reason) => Outcome::Failed(reason),
    }
}

/// Does something with everything between the hosts captured, and reads the capture. `ours`: our addresses; `many`: there may
/// be many packets under way.
pub(crate) fn capture<T>(
    tools: &Tools,
    lab: &Lab,
    name: &str,
    ours: &[String],
    many: bool,
    act: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Captured), String> {
    let file = tools.keep.as_deref().unwrap_or(tools.dir()).join(format!("{name}.pcapng"));
    lab.capture(&file).map_err(|error| error.to_string())?;
    let done = act();
    let summary = lab.stop_capture().map_err(|error| error.to_string())?;
    let captured = tshark::read(&file, ours, many);
    if tools.keep.is_none() {
        std::fs::remove_file(&file).map_err(|error| error.to_string())?;
    }
    let done = done?;
    if summary.missed > 0 {
        return Err(format!("{} packets are missing in the capture", summary.missed));
    }
    Ok((done, captured?))
}

struct Run<'a> {
    tools: &'a Tools,
    peer: &'a dyn Peer,
    scenario: &'a Scenario,
    initiator: Initiator,
    lab: Lab,
    addresses: [Vec<String>; 2],
}

impl<'a> Run<'a> {
    fn start(
        tools: &'a Tools,
        peer: &'a dyn Peer,
        scenario: &'a Scenario,
        initiator: Initiator,
    ) -> Result<Self, String> {
        let path = scenario.path.parse().map_err(|error| format!("{error}"))?;
        let spec = LabSpec::new(vec![path; scenario.paths]);
        let lab = Lab::start(spec).map_err(|error| error.to_string())?;
        peer.join(&lab, scenario.paths)?;
        let ours = (0..scenario.paths).map(|path| lab.address(Host::Left, path).to_string());
        let addresses = [ours.collect(), peer.addresses(&lab, scenario.paths)];
        Ok(Self { tools, peer, scenario, initiator, lab, addresses })
    }

    /// Both ends to their end.
    fn observe(self) -> Result<Seen, String> {
        let name = format!("{}-{}-{:?}", self.peer.id(), self.scenario.id, self.initiator);
        let many = self.scenario.has_large_window() || self.peer.sends_small_packets();
        let transfer = || self.transfer();
        let ((ends, before), captured) =
            capture(self.tools, &self.lab, &name, &self.addresses[OURS], many, transfer)?;
        Ok(Seen { ends, before, captured, addresses: self.addresses })
    }

    fn transfer(&self) -> Result<([Value; 2], Option<String>), String> {
        let listener = if self.initiator == Initiator::Ours { THEIRS } else { OURS };
        let client = 1 - listener;
        let mut server = self.program(listener, self.server_options(1 - listener))?;
        server.wait_for("ready", READY).map_err(said(listener))?;
        let mut before = None;
        if self.scenario.plan == Plan::Restart {
            let mut first = self.program(client, words("hang=1 seed=1 receive=0"))?;
            before = Some(first.wait_for("sent", READY + self.limit()).map_err(said(client))?);
            server.wait_for("mark", self.limit()).map_err(said(listener))?;
        }
        let mut second = self.program(client, self.client_options())?;
        if self.scenario.plan == Plan::Cut {
            let ours = if listener == OURS { &mut server } else { &mut second };
            ours.wait_for("mark", READY + self.limit()).map_err(said(OURS))?;
            let path = self.lab.path("A").map_err(|error| error.to_string())?;
            path.set(&[Change::Down]).map_err(|error| error.to_string())?;
        }
        let of_client = second.result(READY + self.limit()).map_err(said(client));
        let of_server = server.result(self.limit()).map_err(said(listener));
        let ends = match (of_client, of_server) {
            (Ok(client), Ok(server)) => [server, client],
            (client, server) => {
                let complaints: Vec<_> =
                    [client.err(), server.err()].into_iter().flatten().collect();
                return Err(complaints.join("; "));
            }
        };
        second.finish();
        server.finish();
        let [server, client] = ends;
        Ok((if listener == OURS { [server, client] } else { [client, server] }, before))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.scenario.seconds + 5)
    }

    /// With a restart, the one that listens only receives, from both.
    fn server_options(&self, client: Side) -> Vec<String> {
        match self.scenario.plan {
            Plan::Restart => words(&format!("send=0 wait=1 mark={}", self.scenario.bytes[client])),
            Plan::Transfer | Plan::Cut => vec![],
        }
    }

    fn client_options(&self) -> Vec<String> {
        match self.scenario.plan {
            Plan::Restart => words("seed=2 receive=0"),
            Plan::Transfer | Plan::Cut => vec![],
        }
    }

    /// Starts one end.
    fn program(&self, side: Side, more: Vec<String>) -> Result<Program, String> {
        let scenario = self.scenario;
        let begins = (side == OURS) == (self.initiator == Initiator::Ours);
        let mut args = vec![if begins { "connect" } else { "listen" }.to_owned()];
        args.push(self.addresses[side].join(","));
        if begins {
            args.push(self.addresses[1 - side].join(","));
        }
        args.push(format!("send={}", scenario.bytes[side]));
        args.push(format!("receive={}", scenario.receive[side]));
        args.push(format!("seconds={}", scenario.seconds));
        args.push(format!("seed={}", 11 + side));
        args.extend(scenario.both.iter().chain(&scenario.each[side]).map(|&word| word.to_owned()));
        if side == OURS {
            args.extend(self.peer.our_options().iter().map(|&word| word.to_owned()));
        }
        args.extend(more);
        let command = if side == OURS {
            self.our_command(&args)
        } else {
            self.peer.command(self.tools, &self.lab, &args)?
        };
        Program::start(command)
    }

    fn our_command(&self, args: &[String]) -> Command {
        let mut command = self.lab.command(Host::Left, self.tools.program("manypath"));
        let carrier = match self.peer.carrier() {
            Carrier::Udp => "udp",
            Carrier::Ip => "native",
        };
        command.args(args).env("MANYPATH_SCTP_ENCAPSULATION", carrier);
        // Cargo names a folder there in which an older library may lie.
        command.env_remove("LD_LIBRARY_PATH");
        command
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Names the side in a complaint.
fn said(side: Side) -> impl Fn(String) -> String {
    move |complaint| format!("{}: {complaint}", ["ours", "the peer"][side])
}

fn judge(
    peer: &dyn Peer,
    scenario: &Scenario,
    initiator: Initiator,
    seen: &Seen,
) -> Result<(), String> {
    let told = |what: &str| format!("{what}; ours {}, theirs {}", seen.ends[0], seen.ends[1]);
    let held = |holds: bool, what: &str| if holds { Ok(()) } else { Err(told(what)) };
    let number = |side: Side, name: &str| seen.ends[side][name].as_u64().unwrap_or(0);
    let counted = |side: Side, kind: u8| seen.captured.count(&seen.addresses[side], kind);
    let arrived = |from: Side| {
        let digests = [&seen.ends[from]["sent_digest"], &seen.ends[1 - from]["received_digest"]];
        held(number(from, "sent") >= scenario.bytes[from], "not everything was sent")?;
        held(digests[0] == digests[1], "what was received is not what was sent")
    };
    let graceful = || {
        let end = |side: Side| number(side, "aborted") == 0 && seen.ends[side]["end"] == "shutdown";
        held(end(OURS) && end(THEIRS), "the end was not a graceful one")
    };
    match scenario.expect {
        Expect::Complete => graceful().and(arrived(OURS)).and(arrived(THEIRS)),
        Expect::Chunks(kind, least) => {
            let enough = counted(OURS, kind) >= least && counted(THEIRS, kind) >= least;
            held(enough, &format!("there were too few chunks of type {kind}"))?;
            graceful().and(arrived(OURS)).and(arrived(THEIRS))
        }
        Expect::GivenUp(side) => {
            let (all, got) = (number(side, "sent_messages"), number(1 - side, "received_messages"));
            held(got < all, "no message was given up")?;
            // Linux goes on at its rate when its messages get lost: of how many there are left we demand nothing.
            held(side == THEIRS || got * 10 > all * 8, "we gave up many messages")?;
            let lost = seen.captured.count_dropped(&seen.addresses[side], tshark::DATA)
                + seen.captured.count_dropped(&seen.addresses[side], tshark::I_DATA);
            // The socket of a receiver that does not get the processor for long drops some, too.
            let few = all / 100;
            held(got + lost + few >= all, &format!("{lost} packets were lost, but more messages"))?;
            let is_told = side == OURS || peer.tells_what_it_gave_up();
            let failed = number(side, "send_failed");
            held(!is_told || got + failed >= all, "messages are missing")?;
            held(number(1 - side, "damaged") == 0, "messages are damaged")?;
            held(counted(side, tshark::FORWARD_TSN) > 0, "there was no FORWARD-TSN")?;
            graceful()
        }
        Expect::Rate(least) => {
            let rate = seen.rate(scenario);
            held(rate >= f64::from(least), &format!("only {rate:.1} Mbit/s"))?;
            graceful().and(arrived(OURS))
        }
        Expect::Reset(side, added) => {
            held(number(side, "resets") > 0, "not performed")?;
            held(!added || number(side, "added") > 0, "no streams were added")?;
            held(number(side, "refused") == 0, "something was refused")?;
            held(counted(side, tshark::RE_CONFIG) > 0, "there was no RE-CONFIG")?;
            graceful().and(arrived(OURS)).and(arrived(THEIRS))
        }
        Expect::Aborted(side) => {
            held(number(1 - side, "aborted") == 1, "it was not told of an ABORT")?;
            held(counted(side, tshark::ABORT) > 0, "there was no ABORT")?;
            arrived(1 - side)
        }
        Expect::Restarted => {
            let client = if initiator == Initiator::Ours { OURS } else { THEIRS };
            held(number(1 - client, "restarts") == 1, "it was not told of a restart")?;
            let sums = [seen.before.as_deref(), seen.ends[client]["sent_digest"].as_str()];
            let both = sums[0].zip(sums[1]).and_then(|(first, second)| xor(first, second));
            let received = seen.ends[1 - client]["received_digest"].as_str();
            held(both.as_deref() == received, "what was received is not what both sent")?;
            graceful()
        }
    }
}

/// Two digests in hexadecimal, XORed.
fn xor(first: &str, second: &str) -> Option<String> {
    let digits = first.chars().zip(second.chars());
    let digit = |(a, b): (char, char)| char::from_digit(a.to_digit(16)? ^ b.to_digit(16)?, 16);
    digits.map(digit).collect()
}
