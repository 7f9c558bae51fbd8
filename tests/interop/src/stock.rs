//! Programs made for the kernel's SCTP, unchanged, over `manypath run --sctp`: with themselves, with a program over usrsctp,
//! and with themselves over the kernel's SCTP. `tests/peers/programs/run.sh` is one end of each.

use crate::cell::{Outcome, Tools, capture};
use crate::matrix::{self, Matrix};
use crate::peer::kernel::Kernel;
use crate::peer::usrsctp::Usrsctp;
use crate::peer::{Carrier, Peer};
use crate::program::Program;
use crate::scenario::Initiator;
use manypath_lab::{Host, Lab, LabSpec};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A guest boots before its program starts, and on a busy machine that takes a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// A program, and what it says when it listens.
pub(crate) struct Stock {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    executable: &'static str,
    listening: &'static str,
    /// Why there is nothing for it to talk with over usrsctp.
    alone: Option<&'static str>,
}

/// The rows.
pub(crate) const PROGRAMS: [Stock; 5] = [
    Stock {
        id: "sctp_test",
        title: "`sctp_test` (lksctp-tools): 30 messages of 1 to 32768 bytes",
        executable: "sctp_test",
        listening: "Server: Receiving",
        alone: None,
    },
    Stock {
        id: "sctp_darn",
        title: "`sctp_darn` (lksctp-tools): two lines",
        executable: "sctp_darn",
        listening: "sctp_darn listening",
        alone: None,
    },
    Stock {
        id: "ncat",
        title: "`ncat --sctp`: 3 MB, SHA-256",
        executable: "ncat",
        listening: "Ncat: Listening",
        alone: None,
    },
    Stock {
        id: "iperf3",
        title: "`iperf3 --sctp --bidir`: 20 MB",
        executable: "iperf3",
        listening: "Server listening",
        alone: Some(
            "iperf3 agrees on its test over a TCP connection of its own: there must be an iperf3 at the far end, and none is over usrsctp",
        ),
    },
    Stock {
        id: "erlang",
        title: "`gen_sctp` of Erlang/OTP: 100 messages of 1000 bytes",
        executable: "escript",
        listening: "listening",
        alone: None,
    },
];

/// What is at the far end.
pub(crate) enum Far {
    /// The same program over `manypath run --sctp`.
    Itself,
    /// `tests/peers/sockets/peer.c`.
    Usrsctp(Usrsctp),
    /// The same program over the kernel's SCTP.
    Kernel(Kernel),
}

/// The columns.
pub(crate) fn fars() -> Vec<Far> {
    vec![
        Far::Itself,
        Far::Usrsctp(Usrsctp::new(Carrier::Udp)),
        Far::Kernel(Kernel::new(Carrier::Ip)),
    ]
}

impl Far {
    fn peer(&self) -> Option<&dyn Peer> {
        match self {
            Self::Itself => None,
            Self::Usrsctp(peer) => Some(peer),
            Self::Kernel(peer) => Some(peer),
        }
    }

    pub(crate) fn id(&self) -> &str {
        self.peer().map_or("itself", Peer::id)
    }

    pub(crate) fn name(&self) -> &str {
        self.peer().map_or("itself, IP", Peer::name)
    }

    fn prepare(&mut self, tools: &Tools) -> Result<(), String> {
        match self {
            Self::Itself => Ok(()),
            Self::Usrsctp(peer) => peer.prepare(tools),
            Self::Kernel(peer) => peer.prepare(tools),
        }
    }

    fn encapsulation(&self) -> &'static str {
        match self.peer().map_or(Carrier::Ip, Peer::carrier) {
            Carrier::Udp => "udp",
            Carrier::Ip => "native",
        }
    }

    fn join(&self, lab: &Lab) -> Result<String, String> {
        let Some(peer) = self.peer() else { return Ok(lab.address(Host::Right, 0).to_string()) };
        peer.join(lab, 1)?;
        Ok(peer.addresses(lab, 1).concat())
    }

    fn cannot(&self, program: &Stock) -> Option<&'static str> {
        program.alone.filter(|_| matches!(self, Self::Usrsctp(_)))
    }

    /// The far end, and what it says when it listens.
    fn command(
        &self,
        tools: &Tools,
        lab: &Lab,
        program: &Stock,
        args: &[&str],
    ) -> Result<(Command, &'static str), String> {
        let script = tools.source("programs/run.sh");
        let mut command = lab.command(Host::Right, &script);
        match self {
            Self::Itself => return Ok((preloaded(command, args, "native")?, program.listening)),
            Self::Usrsctp(_) => command.args(args).arg("peer").arg(tools.program("usrsctp")),
            Self::Kernel(kernel) => {
                let line = format!("{script} {} kernel", args.join(" "));
                return Ok((kernel.guest(tools, lab, &line)?, program.listening));
            }
        };
        Ok((command, "ready"))
    }
}

/// The script with `manypath run --sctp`, which is beside this program with its library.
fn preloaded(mut script: Command, args: &[&str], encapsulation: &str) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let manypath = own.with_file_name("manypath");
    script.args(args).arg("preload").arg(manypath).arg(encapsulation);
    Ok(script)
}

/// All of `programs` with all far ends.
pub(crate) fn all(tools: &Tools, fars: Vec<Far>, programs: &[&Stock]) -> Matrix {
    let titles = programs.iter().map(|one| one.title.to_owned()).collect();
    let mut matrix = Matrix::new("programs", titles);
    for mut far in fars.into_iter().filter(|_| !programs.is_empty()) {
        let column = match far.prepare(tools) {
            Ok(()) => programs.iter().map(|one| row(tools, &far, one)).collect(),
            Err(reason) => matrix::missing(far.name(), &reason, programs.len()),
        };
        matrix.add(far.name(), column);
    }
    matrix
}

fn row(tools: &Tools, far: &Far, program: &Stock) -> Vec<Outcome> {
    let both = [Initiator::Ours, Initiator::Theirs].into_iter().map(|initiator| {
        let outcome = match (far.cannot(program), is_installed(program.executable)) {
            (Some(reason), _) => Outcome::Unsupported(reason),
            (None, false) => Outcome::Missing(format!(
                "{} is missing; run: scripts/setup test full",
                program.executable
            )),
            (None, true) => cell(tools, far, program, initiator)
                .map_or_else(Outcome::Failed, |packets| {
                    Outcome::Good("complete".to_owned(), packets)
                }),
        };
        println!("{} · {} · {initiator:?} begins: {outcome}", far.name(), program.title);
        outcome
    });
    both.collect()
}

fn is_installed(executable: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(executable).exists())
}

/// One program with one far end; how many packets there were.
fn cell(tools: &Tools, far: &Far, program: &Stock, initiator: Initiator) -> Result<u64, String> {
    let path = "rate=100mbit,delay=1ms,queue=60".parse().map_err(|error| format!("{error}"))?;
    let lab = Lab::start(LabSpec::new(vec![path])).map_err(|error| error.to_string())?;
    let (ours, theirs) = (lab.address(Host::Left, 0).to_string(), far.join(&lab)?);
    let name = format!("{}-{}-{initiator:?}", far.id(), program.id);
    let transfer = || {
        let role = |begins: bool| if begins { "connect" } else { "listen" };
        let begins = initiator == Initiator::Ours;
        let script = lab.command(Host::Left, tools.source("programs/run.sh"));
        let args = [program.id, role(begins), &ours, &theirs];
        let near = (preloaded(script, &args, far.encapsulation())?, program.listening);
        let args = [program.id, role(!begins), &theirs, &ours];
        let far = far.command(tools, &lab, program, &args)?;
        if begins { both_ends(far, near.0) } else { both_ends(near, far.0) }
    };
    let ((), captured) = capture(tools, &lab, &name, std::slice::from_ref(&ours), true, transfer)?;
    Ok(captured.packets)
}

/// Runs both; what they say at their ends must be the same.
fn both_ends(listener: (Command, &'static str), client: Command) -> Result<(), String> {
    let mut server = Program::start(listener.0)?;
    server.wait_for(listener.1, LIMIT)?;
    let mut client = Program::start(client)?;
    let results = [client.wait_for("RESULT", LIMIT)?, server.wait_for("RESULT", LIMIT)?];
    if results[0] == results[1] {
        return Ok(());
    }
    Err(format!("sent: {}; received: {}", results[0], results[1]))
}
