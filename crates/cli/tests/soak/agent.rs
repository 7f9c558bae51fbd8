//! A program that is there all the time, and connects when it is asked to: how a death looks to a program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The agent's process: ends with this.
pub(crate) struct Agent {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// How long `connect` took.
    pub(crate) connect: Duration,
    /// The client's address as the server saw it.
    pub(crate) seen: String,
}

impl Probe {
    /// Whether the stack of the server has made the connection: it is seen to come from its own host.
    pub(crate) fn is_carried(&self, server: &str) -> bool {
        self.seen == server
    }
}

impl Agent {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("an agent");
        let (asks, answers) = (child.stdin.take(), child.stdout.take().expect("its output"));
        Self { child, asks, answers: BufReader::new(answers) }
    }

    /// The process that was started: the launcher, where there is one.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it connect once; the error says what it saw.
    pub(crate) fn probe(&mut self) -> Result<Probe, String> {
        let asked = self.asks.as_mut().map(|asks| asks.write_all(b"connect\n"));
        asked.expect("it listens").map_err(|error| format!("the agent has gone: {error}"))?;
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|error| format!("the agent has gone: {error}"))?;
        let said: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
        let connect = said["connect"].as_f64().map(Duration::from_secs_f64);
        let seen = said["seen"].as_str().map(str::to_owned);
        match (connect, seen, &said["error"]) {
            (Some(connect), Some(seen), serde_json::Value::Null) => Ok(Probe { connect, seen }),
            _ => Err(line.trim().to_owned()),
        }
    }

    /// Ends it by the end of its input; says so if it goes on.
    pub(crate) fn end(mut self) -> Option<String> {
        drop(self.asks.take());
        let mut ended = || matches!(self.child.try_wait(), Ok(Some(_)));
        let well = crate::soak::vitals::within(Duration::from_secs(10), &mut ended);
        (!well).then(|| format!("an agent ({}) goes on after its end", self.child.id()))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
