//! `manypath ssh exec` and `pipe`: a command, or a connection from the server, with our standard streams.

use super::args::{ExecArgs, LoginArgs, PipeArgs};
use super::forward;
use super::link::{Link, interrupted};
use super::pipes::{Piece, Sink, Source};
use super::{FAILED, environment};
use crate::failure::Failure;
use manypath_ssh::{ChannelId, Event, Pull, Start, Stream};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command; the exit status is the command's.
pub(crate) fn exec(args: &ExecArgs) -> Result<u8, Failure> {
    let command = args.command.join(" ".as_ref());
    let target = Target::Command { command, reads: !args.no_input };
    let status = Session::open(&args.login, &args.host, target)?.run()?;
    Ok(status.unwrap_or(FAILED))
}

/// Connects to an address from the server.
pub(crate) fn pipe(args: &PipeArgs) -> Result<u8, Failure> {
    let address = forward::address(&args.address);
    let usage = || Failure::usage(format!("{} is not HOST:PORT", args.address));
    let (host, port) = address.ok_or_else(usage)?;
    Session::open(&args.login, &args.host, Target::Address(host, port))?.run()?;
    Ok(0)
}

/// What is at the other end.
enum Target {
    Command {
        command: OsString,
        /// Whether it has our standard input.
        reads: bool,
    },
    Address(String, u16),
}

struct Session<'a> {
    login: &'a LoginArgs,
    target: Target,
    link: Link,
    channel: ChannelId,
    /// `None` when it has ended, or there is none.
    input: Option<Source>,
    /// Input that the server has not taken yet.
    waiting: Vec<u8>,
    output: Sink,
    error: Sink,
    status: Option<u8>,
    closed: bool,
}

impl<'a> Session<'a> {
    fn open(login: &'a LoginArgs, host: &OsStr, target: Target) -> Result<Self, Failure> {
        let mut link = Link::open(login, host)?;
        let now = link.now();
        let channel = match &target {
            Target::Command { .. } => link.connection_mut(0).open_session(now, Pull::Window),
            Target::Address(host, port) => {
                link.connection_mut(0).open_forward(now, (host, *port), ("127.0.0.1", 0))
            }
        };
        let channel = channel.ok_or_else(|| Failure::new("out of memory for another window"))?;
        let output = Sink::new(std::io::stdout(), link.waker())?;
        let error = Sink::new(std::io::stderr(), link.waker())?;
        let (input, waiting) = (None, Vec::new());
        let (status, closed) = (None, false);
        Ok(Self { login, target, link, channel, input, waiting, output, error, status, closed })
    }

    /// Runs it to its end; the status if there is one.
    fn run(mut self) -> Result<Option<u8>, Failure> {
        while !self.closed {
            self.turn()?;
        }
        self.output.finish();
        self.error.finish();
        Ok(self.status)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        self.link.turn(Some(LOOK), &mut Vec::new())?;
        if self.link.is_interrupted() {
            return Err(interrupted());
        }
        while let Some(event) = self.link.connection_mut(0).poll_event() {
            self.handle(event)?;
        }
        let now = self.link.now();
        let taken = self.output.taken() + self.error.taken();
        if taken > 0 {
            self.link.connection_mut(0).consumed(now, self.channel, taken);
        }
        self.send();
        if self.output.is_broken() {
            self.link.connection_mut(0).close(self.channel);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Ready | Event::Writable(_) | Event::End(_) => {}
            Event::Opened(_) => self.start()?,
            Event::OpenFailed(_, reason) => {
                let text = format!("the server does not open a channel: {reason}");
                return Err(Failure::new(text).with_status(FAILED));
            }
            Event::Started(_) => self.begin_input()?,
            Event::StartRefused(_) => {
                let text = "the server refused to start the command";
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

    fn start(&mut self) -> Result<(), Failure> {
        let Target::Command { command, .. } = &self.target else { return self.begin_input() };
        for (name, value) in environment::sent(self.login) {
            self.link.connection_mut(0).set_variable(self.channel, &name, value.as_bytes());
        }
        let start = match command.is_empty() {
            true => Start::Shell,
            false => Start::Exec(command.as_bytes()),
        };
        self.link.connection_mut(0).start(self.channel, start);
        Ok(())
    }

    fn begin_input(&mut self) -> Result<(), Failure> {
        if matches!(self.target, Target::Command { reads: false, .. }) {
            self.link.connection_mut(0).end(self.channel);
        } else {
            self.input = Some(Source::new(std::io::stdin(), self.link.waker())?);
        }
        Ok(())
    }

    /// Sends input as far as the server takes it.
    fn send(&mut self) {
        while self.link.has_room(0) {
            if self.waiting.is_empty() {
                match self.input.as_mut().map(Source::next) {
                    Some(Piece::Bytes(bytes)) => self.waiting = bytes,
                    Some(Piece::End) => {
                        self.input = None;
                        self.link.connection_mut(0).end(self.channel);
                    }
                    Some(Piece::Later) | None => return,
                }
            }
            let sent = self.link.connection_mut(0).send(self.channel, &self.waiting);
            self.waiting.drain(..sent);
            if sent == 0 {
                return;
            }
        }
    }
}
