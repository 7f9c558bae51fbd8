//! Running commands through the shim (as a process of its own) and without it.

use manypath_rules::RulesFile;
use manypath_shim::{RunOptions, StackChoice, run};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Names the table of rules of a launcher, in its environment.
const RULES: &str = "SHIM_TEST_RULES";

/// No command of these tests takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// The launcher process: `as-launcher REPORT USER STACK-ARGS -- COMMAND`.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let (report, user) = (&args[0], &args[1]);
    let mut rest = args[2..].iter();
    let stack: Vec<OsString> = rest.by_ref().take_while(|a| *a != "--").map(Into::into).collect();
    let command = rest.map(Into::into).collect();
    if user == "nobody" {
        become_nobody();
    }
    let exe = PathBuf::from("/proc/self/exe");
    let choice = if stack.is_empty() {
        StackChoice::System { socket: PathBuf::from("/nonexistent/stack") }
    } else {
        StackChoice::Embedded { exe, args: stack, tells: false }
    };
    let mut options = RunOptions::new(command, choice);
    options.rules = std::env::var_os(RULES).map(|path| RulesFile::named(path.into()));
    match run(&options) {
        Ok(outcome) => {
            fs::write(report, format!("{}\n{:?}", outcome.report, outcome.shim)).expect("report");
            ExitCode::from(outcome.status)
        }
        Err(e) => {
            eprintln!("launch: {e}");
            ExitCode::from(e.exit_status())
        }
    }
}

fn become_nobody() {
    // SAFETY: plain numbers and a null list of no groups.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(65534), 0);
        assert_eq!(libc::setuid(65534), 0);
        // The change of user has made our memory private, and with it /proc/self/exe.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}

/// How to run a command through the shim.
#[derive(Clone)]
pub(crate) struct Shim {
    pub(crate) nobody: bool,
    pub(crate) stack: Vec<String>,
    /// The table of rules, in a file.
    pub(crate) rules: Option<PathBuf>,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Exit status, or minus the signal.
    pub(crate) status: i32,
    /// The launcher's report.
    pub(crate) report: String,
    pub(crate) seconds: f32,
}

impl Done {
    /// A number of the report; 0 when it is not there.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let words = self.report.split([' ', '\n', ';']);
        let mut values = words.filter_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        values.next().map_or(0, |v| v.parse().expect("number"))
    }

    #[track_caller]
    pub(crate) fn expect_status(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }
}

impl Default for Shim {
    fn default() -> Self {
        Self { nobody: false, stack: vec!["as-stack".into()], rules: None }
    }
}

impl Shim {
    /// A shim whose stack gets more arguments.
    pub(crate) fn with(args: &[&str]) -> Self {
        let mut shim = Self::default();
        shim.stack.extend(args.iter().map(|arg| (*arg).to_owned()));
        shim
    }

    /// Starts a command through the shim; the report will be in the returned file.
    pub(crate) fn start(&self, command: &[&str]) -> (Child, PathBuf) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("manypath-shim-{}-{number}", std::process::id());
        let report = std::env::temp_dir().join(name);
        fs::write(&report, "").expect("report file");
        let user = if self.nobody { "nobody" } else { "self" };
        if self.nobody {
            fs::set_permissions(&report, std::os::unix::fs::PermissionsExt::from_mode(0o666))
                .expect("report for nobody");
        }
        let mut launcher = Command::new("/proc/self/exe");
        launcher
            .arg("as-launcher")
            .arg(&report)
            .arg(user)
            .args(&self.stack)
            .arg("--")
            .args(command);
        launcher.envs(self.rules.iter().map(|path| (RULES, path)));
        (spawn(launcher), report)
    }

    pub(crate) fn run(&self, command: &[&str]) -> Done {
        let (child, report) = self.start(command);
        finish(child, Some(report))
    }
}

/// Runs a command without the shim.
pub(crate) fn direct(command: &[&str]) -> Done {
    let mut direct = Command::new(command[0]);
    direct.args(&command[1..]);
    finish(spawn(direct), None)
}

fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that a hanging command can be ended with all that it started.
    command.process_group(0).spawn().expect("spawned")
}

/// Waits for the end, for a while.
pub(crate) fn finish(child: Child, report: Option<PathBuf>) -> Done {
    let begun = Instant::now();
    let group = child.id().cast_signed();
    let waiting = thread::spawn(move || child.wait_with_output());
    while !waiting.is_finished() {
        if begun.elapsed() > LIMIT {
            // SAFETY: plain numbers; the group is that of our own child.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = waiting.join().expect("waiter").expect("output");
    let seconds = begun.elapsed().as_secs_f32();
    done(&output, report, seconds)
}

fn done(output: &Output, report: Option<PathBuf>, seconds: f32) -> Done {
    use std::os::unix::process::ExitStatusExt;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let report = report.map_or_else(String::new, |path| {
        let text = fs::read_to_string(&path).expect("report");
        fs::remove_file(path).expect("report removed");
        text
    });
    let ended = output.status.code().or(output.status.signal().map(|s| -s));
    let status = ended.expect("ended");
    Done { stdout: text(&output.stdout), stderr: text(&output.stderr), status, report, seconds }
}
