//! A program that was started: its lines, its log, its end.

use crate::side::Outcome;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to answer or to be ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Running {
    /// Starts a program; what it writes to standard error goes to the file `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Outcome<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |e: std::io::Error| format!("cannot start {name}: {e}");
        let file = fs::File::create(&log).map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        // Ctrl-C at the terminal is for us: we end the others in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let out = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            // Ends with the program's output, or when nobody listens any more.
            let _ = out.map_while(Result::ok).try_for_each(|line| sender.send(line));
        });
        Ok(Self { name, child, stdin, lines, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to the program.
    pub(crate) fn tell(&mut self, line: &str) -> Outcome<()> {
        let written = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        match written {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(self.why_it_ended()),
        }
    }

    /// The next line of the program.
    pub(crate) fn line(&mut self) -> Outcome<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_it_ended()),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("{} does not answer: {}", self.name, self.log()))
            }
        }
    }

    /// Everything that it writes until its end.
    pub(crate) fn output(&mut self, patience: Duration) -> Outcome<String> {
        self.stdin = None;
        let status = self.wait(patience);
        let text = self.lines.iter().collect::<Vec<_>>().join("\n");
        match status {
            Some(status) if status.success() => Ok(text),
            // iperf3 tells what is wrong on its standard output.
            Some(status) => Err(format!("{}: {status}: {} {text}", self.name, self.log())),
            None => Err(format!("{} did not finish in time", self.name)),
        }
    }

    /// Lets it end: what has a standard input to read ends with that.
    pub(crate) fn end(&mut self, patience: Duration) {
        self.stdin = None;
        if self.wait(patience).is_none() {
            // It may have ended just now, which is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if begun.elapsed() >= patience {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn why_it_ended(&mut self) -> String {
        let status = self.wait(Duration::from_secs(1));
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        format!("{} has ended{status}: {}", self.name, self.log())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}
