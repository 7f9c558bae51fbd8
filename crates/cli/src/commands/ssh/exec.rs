//! `manypath ssh exec`: a command with its standard streams.

use super::args::ExecArgs;
use super::link::{Link, interrupted};
use super::pipes::{Piece, Sink, Source};
use super::{FAILED, environment};
use crate::failure::Failure;
use manypath_ssh::{ChannelId, Event, Start, Stream};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command; the exit status is the command's.
pub(crate) fn exec(args: &ExecArgs) -> Result<u8, Failure> {
    let mut session = Session::open(args)?;
    while !session.closed {
        session.turn()?;
    }
    session.output.finish();
    session.error.finish();
    Ok(session.status.unwrap_or(FAILED))
}

struct Session<'a> {
    args: &'a ExecArgs,
    link: Link,
    channel: ChannelId,
    /// `None` when it has ended, or there is none.
    input: Option<Source>,
    /// Input that the server has not taken yet.
    waiting: Vec<u8>,
    output: Sink,
    error: Sink,
    started: bool,
    status: Option<u8>,
    closed: bool,
}

impl<'a> Session<'a> {
    fn open(args: &'a ExecArgs) -> Result<Self, Failure> {
        let mut link = Link::open(&args.login, &args.host)?;
        let now = link.now();
        let channel = link.connection.open_session(now);
        let channel = channel.ok_or_else(|| Failure::new("no memory is left for a window"))?;
        let output = Sink::new(std::io::stdout(), link.waker())?;
        let error = Sink::new(std::io::stderr(), link.waker())?;
        let (input, waiting) = (None, Vec::new());
        let (started, status, closed) = (false, None, false);
        Ok(Self { args, link, channel, input, waiting, output, error, started, status, closed })
    }

    fn turn(&mut self) -> Result<(), Failure> {
        self.link.turn(Some(LOOK))?;
        if self.link.is_interrupted() {
            return Err(interrupted());
        }
        while let Some(event) = self.link.connection.poll_event() {
            self.handle(event)?;
        }
        let now = self.link.now();
        let taken = self.output.taken() + self.error.taken();
        if taken > 0 {
            self.link.connection.consumed(now, self.channel, taken);
        }
        self.send();
        if self.output.is_broken() {
            self.link.connection.close(self.channel);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Ready | Event::Writable(_) | Event::End(_) => {}
            Event::Opened(_) => self.start(),
            Event::OpenFailed(_, reason) => {
                let text = format!("the server does not open a session: {reason}");
                return Err(Failure::new(text).with_status(FAILED));
            }
            Event::Started(_) => {
                self.started = true;
                if !self.args.no_input {
                    self.input = Some(Source::new(std::io::stdin(), self.link.waker())?);
                } else {
                    self.link.connection.end(self.channel);
                }
            }
            Event::StartRefused(_) => {
                let text = "the server does not start the command";
                return Err(Failure::new(text).with_status(FAILED));
            }
            Event::Data(_, Stream::Output, bytes) => self.output.put(bytes),
            Event::Data(_, Stream::Error, bytes) => self.error.put(bytes),
            Event::ExitStatus(_, status) => self.status = Some(status.min(255) as u8),
            Event::ExitSignal(_, signal) => {
                eprintln!("manypath: the command was ended by signal {signal}");
            }
            Event::Closed(_) => self.closed = true,
        }
        Ok(())
    }

    fn start(&mut self) {
        for (name, value) in environment::sent(&self.args.login) {
            self.link.connection.set_variable(self.channel, &name, value.as_bytes());
        }
        let command = self.args.command.join(" ".as_ref());
        let start = match command.is_empty() {
            true => Start::Shell,
            false => Start::Exec(command.as_bytes()),
        };
        self.link.connection.start(self.channel, start);
    }

    /// Sends input as far as the server takes it.
    fn send(&mut self) {
        while self.link.has_room() {
            if self.waiting.is_empty() {
                match self.input.as_mut().map(Source::next) {
                    Some(Piece::Bytes(bytes)) => self.waiting = bytes,
                    Some(Piece::End) => {
                        self.input = None;
                        self.link.connection.end(self.channel);
                    }
                    Some(Piece::Later) | None => return,
                }
            }
            let sent = self.link.connection.send(self.channel, &self.waiting);
            self.waiting.drain(..sent);
            if sent == 0 {
                return;
            }
        }
    }
}
