//! One transfer: start the program, watch the file grow, cut and restore a path, check the file.

use super::args::{Program, TransportChoice};
use super::measure::{Growth, Run, Series};
use super::ports::{HTTP_MPTCP_PORT, HTTP_PORT, Listen, SSH_MPTCP_PORT, SSH_PORT};
use super::programs::need_program;
use super::progress::Progress;
use super::services::Keys;
use super::world::World;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the size of the received file is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(5);
/// Path A is cut when this share of the file has arrived.
const CUT_AT: f64 = 0.35;
/// How long path A stays cut.
const CUT_FOR: Duration = Duration::from_secs(3);
/// A transfer that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// What all transfers of a demo have in common.
pub(crate) struct Setting<'a> {
    pub(crate) world: &'a World,
    pub(crate) keys: Option<Keys>,
    /// Folder that the web server serves, with the file in it.
    pub(crate) source: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
    pub(crate) interrupted: Arc<AtomicBool>,
}

/// One program over one transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) program: Program,
    pub(crate) transport: TransportChoice,
}

/// A finished transfer with its time series.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) run: Run,
    pub(crate) series: Series,
    /// When path A was cut and restored, since the start.
    pub(crate) cut: Option<(Duration, Duration)>,
}

impl Case {
    pub(crate) fn program_name(self) -> &'static str {
        match self.program {
            Program::Curl => "curl",
            Program::Scp => "scp",
        }
    }

    pub(crate) fn transport_name(self) -> &'static str {
        match self.transport {
            TransportChoice::Tcp => "tcp",
            TransportChoice::Mptcp => "mptcp",
            TransportChoice::MptcpCut => "mptcp-cut",
            TransportChoice::Manypath => "manypath",
            TransportChoice::ManypathCut => "manypath-cut",
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{}-{}", self.program_name(), self.transport_name())
    }

    fn socket(self) -> Listen {
        match self.transport {
            TransportChoice::Mptcp | TransportChoice::MptcpCut => Listen::Mptcp,
            TransportChoice::Tcp | TransportChoice::Manypath | TransportChoice::ManypathCut => {
                Listen::Tcp
            }
        }
    }

    /// Whether path A is cut for a while.
    fn is_cut(self) -> bool {
        matches!(self.transport, TransportChoice::MptcpCut | TransportChoice::ManypathCut)
    }

    fn through_manypath(self) -> bool {
        matches!(self.transport, TransportChoice::Manypath | TransportChoice::ManypathCut)
    }
}

/// Runs the case; an error says why there is no result.
pub(crate) fn transfer(
    setting: &Setting<'_>,
    case: Case,
    progress: &mut Progress,
) -> Result<Outcome, String> {
    let received = setting.world.work_dir().join(format!("received-{}", case.name()));
    let mut command = client(setting, case, &received)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begin = setting.world.elapsed();
    let started = Instant::now();
    let child = command.spawn().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    let mut watch =
        Watch { setting, case, started, begin, growth: Growth::default(), cut: Cut::Pending };
    let finished = watch.until_done(child, &received, progress);
    if matches!(watch.cut, Cut::Down(_)) {
        setting.world.set_path_a(true)?;
    }
    let time = finished?;
    let outcome = watch.outcome(time, &received);
    // The next run needs the space more than anybody needs the copy.
    let _ = std::fs::remove_file(&received);
    outcome
}

/// The client's command line.
fn client(setting: &Setting<'_>, case: Case, received: &Path) -> Result<Command, String> {
    let (program, args) = match case.program {
        Program::Curl => curl(setting, case, received)?,
        Program::Scp => scp(setting, case, received)?,
    };
    if !case.through_manypath() {
        let mut command = setting.world.client_command(&program, case.socket())?;
        command.args(args);
        return Ok(command);
    }
    let exe = manypath_cli::programs::find("manypath").map_err(|e| e.to_string())?;
    let mut command = setting.world.client_command(&exe, Listen::Tcp)?;
    command
        .arg("run")
        .args(setting.world.run_options())
        .args(["--json", "--"])
        .arg(program)
        .args(args);
    Ok(command)
}

type CommandLine = (PathBuf, Vec<String>);

/// The program that transfers the file, or what to install.
pub(crate) fn need_client(program: Program) -> Result<PathBuf, String> {
    match program {
        Program::Curl => need_program("curl", "curl"),
        Program::Scp => need_program("scp", "openssh-client"),
    }
}

/// A download.
fn curl(setting: &Setting<'_>, case: Case, received: &Path) -> Result<CommandLine, String> {
    let curl = need_client(case.program)?;
    let port = if case.socket() == Listen::Mptcp { HTTP_MPTCP_PORT } else { HTTP_PORT };
    let url = format!("http://{}:{port}/file", setting.world.server_address());
    let args = ["-sS", "-f", "-o", &received.to_string_lossy(), &url].map(str::to_owned);
    Ok((curl, args.to_vec()))
}

/// An upload.
fn scp(setting: &Setting<'_>, case: Case, received: &Path) -> Result<CommandLine, String> {
    let scp = need_client(case.program)?;
    let keys = setting.keys.as_ref().ok_or("no SSH server")?;
    let port = if case.socket() == Listen::Mptcp { SSH_MPTCP_PORT } else { SSH_PORT };
    let user = current_user()?;
    let target = format!("{user}@{}:{}", setting.world.server_address(), received.display());
    let mut args = ["-q", "-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o"]
        .map(str::to_owned)
        .to_vec();
    args.extend(
        ["UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"]
            .map(str::to_owned),
    );
    args.extend([
        "-i".to_owned(),
        keys.client.display().to_string(),
        "-P".to_owned(),
        port.to_string(),
    ]);
    args.extend([setting.source.join("file").display().to_string(), target]);
    Ok((scp, args))
}

fn current_user() -> Result<String, String> {
    let output = Command::new("id").arg("-un").output().map_err(|e| format!("id: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What happens to path A during the run.
enum Cut {
    Pending,
    Down(Duration),
    Restored(Duration, Duration),
}

struct Watch<'a> {
    setting: &'a Setting<'a>,
    case: Case,
    started: Instant,
    begin: Duration,
    growth: Growth,
    cut: Cut,
}

impl Watch<'_> {
    /// Waits for the program's end; its run time, or why it failed.
    fn until_done(
        &mut self,
        mut child: Child,
        received: &Path,
        progress: &mut Progress,
    ) -> Result<Duration, String> {
        loop {
            let ended = child.try_wait().map_err(|e| e.to_string())?;
            let time = self.started.elapsed();
            let size = std::fs::metadata(received).map_or(0, |m| m.len());
            self.growth.note(time, size);
            if let Some(status) = ended {
                let mut errors = String::new();
                child.stderr.take().map(|mut e| e.read_to_string(&mut errors));
                if status.success() && self.case.through_manypath() {
                    check_carried(&errors)?;
                }
                let failed =
                    || format!("{} failed: {status}: {}", self.case.program_name(), errors.trim());
                return status.success().then_some(time).ok_or_else(failed);
            }
            if let Some(reason) = self.must_stop(time) {
                // The child may have ended in the meantime.
                let _ = child.kill();
                let _ = child.wait();
                return Err(reason);
            }
            self.cut_or_restore(time)?;
            progress.update(self.setting.world, self.begin, time, self.growth.bytes());
            std::thread::sleep(WATCH_INTERVAL);
        }
    }

    fn must_stop(&self, time: Duration) -> Option<String> {
        if self.setting.interrupted.load(Ordering::Relaxed) {
            return Some("interrupted".to_owned());
        }
        (time > LIMIT).then(|| format!("not finished after {} s", LIMIT.as_secs()))
    }

    fn cut_or_restore(&mut self, time: Duration) -> Result<(), String> {
        if !self.case.is_cut() {
            return Ok(());
        }
        match self.cut {
            Cut::Pending if self.growth.bytes() as f64 >= CUT_AT * self.setting.bytes as f64 => {
                self.setting.world.set_path_a(false)?;
                self.cut = Cut::Down(time);
            }
            Cut::Down(at) if time >= at + CUT_FOR => {
                self.setting.world.set_path_a(true)?;
                self.cut = Cut::Restored(at, time);
            }
            Cut::Pending | Cut::Down(_) | Cut::Restored(..) => {}
        }
        Ok(())
    }

    fn outcome(&self, time: Duration, received: &Path) -> Result<Outcome, String> {
        let setting = self.setting;
        let series = setting.world.series(self.begin);
        let cut = match self.cut {
            Cut::Pending | Cut::Down(_) => None,
            Cut::Restored(down, up) => Some((down, up)),
        };
        let (goodput_mbps, share_of_sum) =
            Run::rate(setting.bytes, time, &setting.world.ceilings());
        let sum = |(name, v): &(String, Vec<u64>)| (name.clone(), v.iter().sum::<u64>());
        let run = Run {
            name: self.case.name(),
            program: self.case.program_name().to_owned(),
            transport: self.case.transport_name().to_owned(),
            bytes: setting.bytes,
            seconds: time.as_secs_f64(),
            goodput_mbps,
            ratio_to_best_path: None,
            share_of_sum,
            longest_stall_s: self.growth.longest_stall().as_secs_f64(),
            sha256_equal: sha256(received)? == setting.sha256,
            path_bytes: series.paths.iter().map(sum).collect::<BTreeMap<_, _>>(),
            path_return_s: cut.and_then(|(_, up)| time_to_return(&series, up)),
        };
        Ok(Outcome { run, series, cut })
    }
}

/// The report of `manypath run`, on the last line of its standard error, must tell of SCTP: a
/// fallback to plain TCP would be measured as something that it is not.
fn check_carried(errors: &str) -> Result<(), String> {
    let last = errors.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(last).unwrap_or_default();
    match report["sctp"].as_u64() {
        Some(1..) => Ok(()),
        Some(0) | None => Err(format!("the connection was plain TCP{}", why_plain(&report))),
    }
}

/// The reasons for plain TCP in a report (docs/status.md).
fn why_plain(report: &serde_json::Value) -> String {
    let relayed = report["plain_tcp"].as_array().into_iter().flatten();
    let mut reasons: Vec<_> = relayed.filter_map(|one| one["reason"].as_str()).collect();
    if reasons.is_empty() {
        let left = report["left_to_the_kernel"].as_object().into_iter().flatten();
        reasons = left.map(|(reason, _)| reason.as_str()).collect();
    }
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

/// After `up`: time until path A carried more than probes (a bucket of at least three full packets).
fn time_to_return(series: &Series, up: Duration) -> Option<f64> {
    let (_, buckets) = series.paths.iter().find(|(name, _)| name == "A")?;
    let first = (up.as_nanos() / series.bucket.as_nanos().max(1)) as usize;
    let at = buckets.iter().enumerate().skip(first).find(|(_, bytes)| **bytes >= 4500)?.0;
    let end = series.bucket * (at as u32 + 1);
    Some(end.saturating_sub(up).as_secs_f64())
}

/// SHA-256 of a file.
pub(crate) fn sha256(file: &Path) -> Result<[u8; 32], String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Sha256::digest(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_by_plain_tcp_is_not_taken_for_ours() {
        let left = r#"{"sctp":0,"left_to_the_kernel":{"refused":1}}"#;
        assert_eq!(check_carried(left).unwrap_err(), "the connection was plain TCP (refused)");
        let relayed = r#"{"sctp":0,"left_to_the_kernel":{"other-family":2},"plain_tcp":[{"reason":"silent"}]}"#;
        assert_eq!(check_carried(relayed).unwrap_err(), "the connection was plain TCP (silent)");
        assert_eq!(check_carried("").unwrap_err(), "the connection was plain TCP");
        assert_eq!(check_carried("some warning\n{\"sctp\":1}"), Ok(()));
    }

    #[test]
    fn a_returned_path_is_seen_by_its_data_not_by_probes() {
        let mut a = vec![50_000; 10];
        a.extend([0; 20]);
        a.extend([100, 100, 9_000, 50_000]);
        let series = Series { bucket: Duration::from_millis(50), paths: vec![("A".into(), a)] };
        let after = time_to_return(&series, Duration::from_millis(1500)).expect("it returned");
        assert!((after - 0.15).abs() < 1e-9, "{after}");
    }
}
