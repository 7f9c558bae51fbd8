//! A running end: what it says, line by line, until it has ended.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Program {
    /// Starts `command`, whose standard output and error are taken for one: a guest has but a console.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        // A guest is several processes.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            read(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            read(stderr, sender);
        }
        Ok(Self { child, lines, said: Vec::new() })
    }

    /// What comes after `word` on the next line that begins with it.
    pub(crate) fn wait_for(&mut self, word: &str, limit: Duration) -> Result<String, String> {
        let until = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.complaint(word, "in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.complaint(word, "at all")),
            }
        }
    }

    /// The line of JSON that it prints at its end.
    pub(crate) fn result(&mut self, limit: Duration) -> Result<Value, String> {
        let rest = self.wait_for("{", limit)?;
        let value = serde_json::from_str(&format!("{{{rest}"));
        value.map_err(|error| format!("{error}: {}", self.said.join(" | ")))
    }

    /// Lets it end by itself, within reason.
    pub(crate) fn finish(mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn complaint(&self, word: &str, when: &str) -> String {
        let word = if word == "{" { "the result" } else { word };
        let last = &self.said[self.said.len().saturating_sub(4)..];
        format!("it did not say '{word}' {when}; it said last: {}", last.join(" | "))
    }
}

fn read(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if to.send(line.trim().to_owned()).is_err() {
                return;
            }
        }
    });
}

impl Drop for Program {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let signal = |signal: &str| {
            let mut kill = Command::new("kill");
            kill.args([signal, "--", &group]).stderr(Stdio::null()).status()
        };
        let _ended = signal("-KILL");
        let _ended = self.child.wait();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && signal("-0").is_ok_and(|status| status.success()) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
