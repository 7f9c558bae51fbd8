//! What `manypath-lab` does, without the parsing of its arguments. Every text that is returned is
//! ready to be printed.

use crate::error::LabError;
use crate::host::Host;
use crate::lab::Lab;
use crate::spec::{Change, LabSpec};
use crate::sys::process::{self, EndSignals, Fork};
use crate::units;
use manypath_sim::trace_models::{MODELS, Model};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Starts a lab in the background; it stays until [`down`]. Must be called while this process has no
/// other thread. The spec needs a name.
pub fn up(spec: LabSpec) -> Result<String, LabError> {
    let name = name_of(&spec)?;
    let (mut ours, mut theirs) = UnixStream::pair().map_err(LabError::io("socketpair"))?;
    // SAFETY: the caller promises that there is no other thread.
    match unsafe { process::fork() }.map_err(LabError::io("fork"))? {
        Fork::Child => {
            drop(ours);
            process::new_session();
            let told = |theirs: &mut UnixStream, error: &LabError| {
                let _ = theirs.write_all(error.to_string().as_bytes());
            };
            match Lab::start(spec) {
                Ok(lab) => hold(lab, theirs),
                Err(error) => told(&mut theirs, &error),
            }
            process::exit_now(0)
        }
        Fork::Parent(_) => {
            drop(theirs);
            let mut answer = String::new();
            ours.read_to_string(&mut answer).map_err(LabError::io("waiting for the lab"))?;
            if answer != READY {
                return Err(LabError::Refused(answer));
            }
            started(&name)
        }
    }
}

/// Holds a lab in the foreground until Ctrl-C, SIGTERM or [`down`]. Prints its state when it is up.
/// Must be called while this process has no other thread.
pub fn run(spec: LabSpec) -> Result<(), LabError> {
    let name = name_of(&spec)?;
    let signals = EndSignals::block();
    let lab = Lab::start(spec)?;
    let _ = writeln!(std::io::stdout(), "{}Ctrl-C ends it.", started(&name)?);
    end_on_signal(&lab, signals)?;
    lab.wait_for_down();
    Ok(())
}

/// Replaces this process by `command`, run on `host`. Returns only if that fails.
pub fn exec(name: &str, host: Host, command: &[OsString]) -> LabError {
    let Some((program, arguments)) = command.split_first() else {
        return LabError::Invalid("which command? manypath-lab exec HOST -- CMD ..".into());
    };
    match Lab::attach(name) {
        Err(error) => error,
        Ok(lab) => {
            let source = lab.command(host, program).args(arguments).exec();
            LabError::Io { what: format!("cannot run {} on {host}", program.display()), source }
        }
    }
}

/// Changes a path of a running lab: both directions, or the one towards a host.
pub fn path(
    name: &str,
    path: &str,
    towards: Option<Host>,
    changes: &[String],
) -> Result<String, LabError> {
    let changes = Change::parse_all(changes)?;
    let lab = Lab::attach(name)?;
    let handle = lab.path(path)?;
    match towards {
        None => handle.set(&changes)?,
        Some(host) => handle.set_towards(host, &changes)?,
    }
    let status = lab.status()?;
    let changed = status.paths.iter().find(|status| status.name.eq_ignore_ascii_case(path));
    Ok(changed.map(ToString::to_string).unwrap_or_default())
}

/// The state of a running lab, as a table or as one JSON object.
pub fn status(name: &str, json: bool) -> Result<String, LabError> {
    let status = Lab::attach(name)?.status()?;
    if !json {
        return Ok(status.to_string());
    }
    serde_json::to_string_pretty(&status)
        .map(|text| text + "\n")
        .map_err(|error| LabError::io("writing JSON")(error.into()))
}

/// Starts a capture of all packets to `file`, or ends it without one.
pub fn capture(name: &str, file: Option<&Path>) -> Result<String, LabError> {
    let lab = Lab::attach(name)?;
    if let Some(file) = file {
        lab.capture(file)?;
        return Ok(format!("capturing to {}\n", file.display()));
    }
    let summary = lab.stop_capture()?;
    let missed = match summary.missed {
        0 => String::new(),
        missed => format!("; {missed} packets are missing because the disk was too slow"),
    };
    let packets = if summary.packets == 1 { "packet" } else { "packets" };
    let (count, bytes) = (summary.packets, summary.bytes);
    Ok(format!("{count} {packets}, {bytes} bytes captured{missed}\n"))
}

/// Ends a running lab and all that runs on its hosts.
pub fn down(name: &str) -> Result<String, LabError> {
    Lab::attach(name)?.down()?;
    Ok(format!("lab {name} is down\n"))
}

/// A trace by a model, as the text of a file: its seed, its length in seconds, and its mean rate (that
/// of the model if there is none).
pub fn trace(model: &str, seed: u64, seconds: u64, rate: Option<&str>) -> Result<String, LabError> {
    let known = || MODELS.map(|model| model.name).join(", ");
    let unknown = || format!("there is no model '{model}'; there are {}", known());
    let model = Model::named(model).ok_or_else(|| LabError::Invalid(unknown()))?;
    let rate = rate.map_or(Ok(Some(model.rate_bps)), units::rate)?;
    let rate = rate.ok_or_else(|| LabError::Invalid("a trace has a rate, like 20mbit".into()))?;
    let trace = model.generate(seed, seconds, rate).map_err(LabError::Invalid)?;
    Ok(trace.to_text())
}

/// The models of traces: a line for each, or one JSON array.
pub fn trace_models(json: bool) -> Result<String, LabError> {
    if !json {
        let line = |model: &Model| {
            let rate = units::show_rate(model.rate_bps as f64);
            format!("{:<10} {rate:>10}  {}\n", model.name, model.summary)
        };
        return Ok(MODELS.iter().map(line).collect());
    }
    let models = MODELS.map(|model| {
        let Model { name, summary, rate_bps, .. } = model;
        serde_json::json!({ "name": name, "summary": summary, "rate_bps": rate_bps })
    });
    serde_json::to_string_pretty(&models)
        .map(|text| text + "\n")
        .map_err(|error| LabError::io("writing JSON")(error.into()))
}

/// What the background process says when the lab is up.
const READY: &str = "ready";

fn name_of(spec: &LabSpec) -> Result<String, LabError> {
    spec.name.clone().ok_or_else(|| LabError::Invalid("the lab needs a name".into()))
}

/// The background process's life: tells the waiting command that the lab is up, and keeps it.
fn hold(lab: Lab, mut ready: UnixStream) {
    let _ = process::leave_streams();
    let _ = ready.write_all(READY.as_bytes());
    drop(ready);
    lab.wait_for_down();
}

fn end_on_signal(lab: &Lab, signals: EndSignals) -> Result<(), LabError> {
    let Some(ender) = lab.ender() else { return Ok(()) };
    std::thread::Builder::new()
        .name("lab-signals".into())
        .spawn(move || {
            signals.wait();
            ender.end();
        })
        .map(drop)
        .map_err(LabError::io("starting a thread"))
}

fn started(name: &str) -> Result<String, LabError> {
    let option =
        if name == crate::DEFAULT_NAME { String::new() } else { format!(" --name {name}") };
    let status = Lab::attach(name)?.status()?;
    Ok(format!(
        "{status}Run programs with `manypath-lab exec{option} left -- CMD` (client) and \
         `... right -- CMD` (server).\n"
    ))
}
