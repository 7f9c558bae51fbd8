//! The connection protocol, spoken to a master: channels and their events.

use crate::channel::{Asked, Channel, Phase, Pull, Windows};
use crate::codec::{Malformed, Put, Reader, framed};
use crate::framer::{Framer, TooLong};
use crate::message::{self, Message};
use crate::mux::{self, MuxError};
use core::time::Duration;
use manypath_window::{Budget, RoundTrip};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// The longest packet that a master sends: that of the transport, RFC 4253 section 6.1 and OpenSSH's own limit.
const LONGEST_PACKET: u32 = 256 * 1024 + 64;
/// What one message may carry to us: as OpenSSH.
const MAX_PACKET: u32 = 32 * 1024;
/// The most data in one message from us: it fits into one read of the master.
const MAX_DATA: usize = 32 * 1024 - 64;
/// Round trips are measured no more often than this.
const LEAST_PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// The only kind of extended data: RFC 4254 section 5.2.
const EXTENDED_DATA_STDERR: u32 = 1;

/// A channel of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(u32);

/// Which of the two streams of a session data belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output, or the only stream of a forwarded connection.
    Output,
    /// Standard error.
    Error,
}

/// What a session channel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start<'a> {
    /// A command, by the user's shell.
    Exec(&'a [u8]),
    /// The user's shell.
    Shell,
    /// A subsystem of the server: `sftp`.
    Subsystem(&'a str),
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The master passes messages on. Channels can be opened before.
    Ready,
    /// The channel is open.
    Opened(ChannelId),
    /// The server does not open the channel; why. It is gone.
    OpenFailed(ChannelId, String),
    /// The program of the channel was started.
    Started(ChannelId),
    /// The program of the channel was not started.
    StartRefused(ChannelId),
    /// Data: call [`Connection::consumed`] when it has been taken.
    Data(ChannelId, Stream, Vec<u8>),
    /// The peer takes more data than before.
    Writable(ChannelId),
    /// No more data will come.
    End(ChannelId),
    /// The program ended with this status.
    ExitStatus(ChannelId, u32),
    /// The program was ended by this signal (its name without SIG).
    ExitSignal(ChannelId, String),
    /// The channel is closed by both sides and gone.
    Closed(ChannelId),
}

/// The connection cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionError {
    /// The master does not let us in.
    Mux(MuxError),
    /// A packet is too long.
    TooLong(TooLong),
    /// A message cannot be read.
    Malformed(Malformed),
    /// The peer sent more than its window.
    WindowExceeded,
    /// The peer gave more credit than RFC 4254 section 5.2 allows.
    CreditOverflow,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mux(error) => error.fmt(f),
            Self::TooLong(error) => write!(f, "the server sends {error}"),
            Self::Malformed(error) => write!(f, "the server sends a {error}"),
            Self::WindowExceeded => write!(f, "the server sends more than its window allows"),
            Self::CreditOverflow => write!(f, "the server grants a window beyond 4 GiB"),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl From<Malformed> for ConnectionError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// The client's side of one SSH connection above its transport.
///
/// Bytes from the master go into [`handle_input`](Self::handle_input); then
/// [`poll_event`](Self::poll_event) until there is none. Whatever was called, [`output`](Self::output)
/// are bytes for the master. Times are durations since any one origin.
///
/// A connection that is given up must close its channels and go on until they are
/// [`Closed`](Event::Closed): OpenSSH 9.2 ends the whole master when data arrives for a channel of
/// a client that is gone.
#[derive(Debug)]
pub struct Connection {
    windows: Windows,
    budget: Budget,
    framer: Framer,
    granted: bool,
    channels: BTreeMap<u32, Channel>,
    next: u32,
    out: Vec<u8>,
    /// Bytes of `out` that the master has.
    written: usize,
    events: VecDeque<Event>,
    largest: u64,
    round_trip: RoundTrip,
    /// When the last probe was sent, and the channel that it was sent on if there is no answer yet.
    probed: Option<Duration>,
    probing: Option<u32>,
}

impl Connection {
    /// A connection to a master, with windows out of `budget`.
    pub fn new(windows: Windows, budget: Budget) -> Self {
        let mut out = Vec::new();
        mux::begin(&mut out);
        Self {
            windows,
            budget,
            framer: Framer::new(LONGEST_PACKET),
            granted: false,
            channels: BTreeMap::new(),
            next: 0,
            out,
            written: 0,
            events: VecDeque::new(),
            largest: 0,
            round_trip: RoundTrip::default(),
            probed: None,
            probing: None,
        }
    }

    /// Opens a session (RFC 4254 section 6.1); `None` if there is no memory for its window.
    pub fn open_session(&mut self, now: Duration, pull: Pull) -> Option<ChannelId> {
        self.open(now, "session", pull, &[])
    }

    /// Opens a connection from the server to `host` and `port` (RFC 4254 section 7.2, `direct-tcpip`);
    /// `origin` is where the connection comes from that it is for.
    pub fn open_forward(
        &mut self,
        now: Duration,
        (host, port): (&str, u16),
        origin: (&str, u16),
    ) -> Option<ChannelId> {
        let mut extra = Vec::new();
        for (name, port) in [(host, port), origin] {
            extra.put_string(name.as_bytes());
            extra.put_u32(u32::from(port));
        }
        self.open(now, "direct-tcpip", Pull::Window, &extra)
    }

    /// Starts the program of a session that was [`Opened`](Event::Opened).
    pub fn start(&mut self, channel: ChannelId, start: Start<'_>) {
        let mut extra = Vec::new();
        let kind = match start {
            Start::Exec(command) => {
                extra.put_string(command);
                "exec"
            }
            Start::Shell => "shell",
            Start::Subsystem(name) => {
                extra.put_string(name.as_bytes());
                "subsystem"
            }
        };
        self.request(channel.0, kind, &extra, Asked::Start);
    }

    /// Sets a variable in the environment of a session before its program is started; servers ignore
    /// those that they do not allow.
    pub fn set_variable(&mut self, channel: ChannelId, name: &str, value: &[u8]) {
        let mut extra = Vec::new();
        extra.put_string(name.as_bytes());
        extra.put_string(value);
        if let Some(remote) = self.open_channel(channel.0).map(|c| c.remote) {
            framed(&mut self.out, |out| {
                out.push(0);
                message::request(out, remote, "env", false, &extra);
            });
        }
    }

    /// Bytes that [`send`](Self::send) takes on the channel now.
    pub fn sendable(&self, channel: ChannelId) -> u64 {
        let channel = self.channels.get(&channel.0).filter(|c| c.is_writable());
        channel.map_or(0, |c| c.credit)
    }

    /// Sends data as far as the peer's window allows; how many bytes of it.
    pub fn send(&mut self, channel: ChannelId, data: &[u8]) -> usize {
        let allowed = usize::try_from(self.sendable(channel)).unwrap_or(usize::MAX);
        let Some(channel) = self.channels.get_mut(&channel.0) else { return 0 };
        let data = &data[..data.len().min(allowed)];
        for piece in data.chunks(MAX_DATA.min(channel.max_packet as usize).max(1)) {
            framed(&mut self.out, |out| {
                out.push(0);
                message::data(out, channel.remote, piece);
            });
        }
        channel.credit -= data.len() as u64;
        data.len()
    }

    /// The reader has taken `bytes` of the channel's data.
    pub fn consumed(&mut self, now: Duration, id: ChannelId, bytes: usize) {
        let Some(channel) = self.channels.get_mut(&id.0) else { return };
        let grant = channel.on_consumed(now, bytes as u64);
        self.largest = self.largest.max(channel.window_size());
        let remote = channel.remote;
        if let Some(grant) = grant {
            self.put(|out| message::window_adjust(out, remote, grant));
        }
        self.maybe_probe(now, id.0);
    }

    /// Ends the data to the peer.
    pub fn end(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id.0).filter(|c| c.is_writable()) else {
            return;
        };
        channel.eof_sent = true;
        let remote = channel.remote;
        self.put(|out| message::eof(out, remote));
    }

    /// Closes the channel. Data that still comes is not reported; [`Event::Closed`] follows.
    pub fn close(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id.0) else { return };
        let first = !std::mem::replace(&mut channel.close_sent, true);
        let remote = channel.remote;
        if first && channel.phase == Phase::Open {
            self.put(|out| message::close(out, remote));
        }
    }

    /// Closes all channels.
    pub fn close_all(&mut self) {
        let numbers: Vec<u32> = self.channels.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close(ChannelId(number)));
    }

    /// Bytes for the master.
    pub fn output(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// The first `bytes` of [`output`](Self::output) have been given to the master.
    pub fn on_output(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written >= self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Bytes came from the master.
    pub fn handle_input(&mut self, now: Duration, bytes: &[u8]) -> Result<(), ConnectionError> {
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0));
        framer.put(bytes);
        let result = self.handle_packets(now, &mut framer);
        self.framer = framer;
        result
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The largest window that any channel has had.
    pub fn largest_window(&self) -> u64 {
        self.largest
    }

    /// The least round trip between us and the server's SSH, of those measured in the last seconds.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.min()
    }

    /// The size of the receive window of a channel.
    pub fn window_size(&self, channel: ChannelId) -> u64 {
        self.channels.get(&channel.0).map_or(0, Channel::window_size)
    }

    /// Channels that are not closed.
    pub fn open_channels(&self) -> usize {
        self.channels.len()
    }

    fn open(&mut self, now: Duration, kind: &str, pull: Pull, extra: &[u8]) -> Option<ChannelId> {
        let channel = Channel::new(now, self.windows, pull, &self.budget)?;
        let (number, window) = (self.next, channel.first_window());
        self.next += 1;
        self.channels.insert(number, channel);
        self.put(|out| message::open(out, kind, number, window, MAX_PACKET, extra));
        Some(ChannelId(number))
    }

    fn open_channel(&mut self, number: u32) -> Option<&mut Channel> {
        self.channels.get_mut(&number).filter(|c| c.phase == Phase::Open && !c.close_sent)
    }

    fn request(&mut self, number: u32, kind: &str, extra: &[u8], asked: Asked) {
        let Some(channel) = self.open_channel(number) else { return };
        channel.asked.push_back(asked);
        let remote = channel.remote;
        self.put(|out| message::request(out, remote, kind, true, extra));
    }

    /// Asks something that every server answers, to see how long that takes.
    fn maybe_probe(&mut self, now: Duration, number: u32) {
        let interval = self.round_trip.min().unwrap_or_default().max(LEAST_PROBE_INTERVAL);
        let recent = self.probed.is_some_and(|then| now.saturating_sub(then) < interval);
        if self.probing.is_none() && !recent && self.open_channel(number).is_some() {
            (self.probed, self.probing) = (Some(now), Some(number));
            self.request(number, "keepalive@openssh.com", &[], Asked::Probe(now));
        }
    }

    /// Writes one packet: no padding, then the message.
    fn put(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        framed(&mut self.out, |out| {
            out.push(0);
            body(out);
        });
    }

    fn handle_packets(
        &mut self,
        now: Duration,
        framer: &mut Framer,
    ) -> Result<(), ConnectionError> {
        while let Some(packet) = framer.next().map_err(ConnectionError::TooLong)? {
            if self.granted {
                let payload = packet.get(1..).unwrap_or_default();
                self.handle_message(now, Message::parse(payload)?)?;
            } else if mux::is_granted(packet).map_err(ConnectionError::Mux)? {
                self.granted = true;
                self.events.push_back(Event::Ready);
            }
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: Message<'_>,
    ) -> Result<(), ConnectionError> {
        match message {
            Message::OpenConfirmation { channel, sender, window, max_packet } => {
                self.handle_opened(now, channel, sender, window, max_packet);
            }
            Message::OpenFailure { channel, reason, description } => {
                self.handle_open_failure(channel, reason, description);
            }
            Message::WindowAdjust { channel, bytes } => self.handle_adjust(channel, bytes)?,
            Message::Data { channel, data } => {
                self.handle_data(now, channel, Some(Stream::Output), data)?;
            }
            Message::ExtendedData { channel, code, data } => {
                let stream = (code == EXTENDED_DATA_STDERR).then_some(Stream::Error);
                self.handle_data(now, channel, stream, data)?;
            }
            Message::Eof { channel } => self.handle_eof(channel),
            Message::Close { channel } => self.handle_close(channel),
            Message::Request { channel, kind, want_reply, rest } => {
                self.handle_request(channel, kind, want_reply, rest)?;
            }
            Message::Success { channel } => self.handle_reply(now, channel, true),
            Message::Failure { channel } => self.handle_reply(now, channel, false),
            Message::Other(_) => {}
        }
        Ok(())
    }

    fn handle_opened(&mut self, now: Duration, number: u32, remote: u32, window: u32, packet: u32) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        let Phase::Opening(since) = channel.phase else { return };
        channel.phase = Phase::Open;
        (channel.remote, channel.credit, channel.max_packet) = (remote, u64::from(window), packet);
        self.on_round_trip(now, now.saturating_sub(since));
        if self.channels.get(&number).is_some_and(|c| c.close_sent) {
            self.put(|out| message::close(out, remote));
        } else {
            self.events.push_back(Event::Opened(ChannelId(number)));
        }
    }

    fn handle_open_failure(&mut self, number: u32, reason: u32, description: &[u8]) {
        if self.channels.remove(&number).is_some() {
            let reason = message::open_failure_reason(reason);
            let text = format!("{reason}: {}", String::from_utf8_lossy(description));
            self.events.push_back(Event::OpenFailed(ChannelId(number), text));
        }
    }

    fn handle_adjust(&mut self, number: u32, bytes: u32) -> Result<(), ConnectionError> {
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        let credit = channel.credit + u64::from(bytes);
        if credit > u64::from(u32::MAX) {
            return Err(ConnectionError::CreditOverflow);
        }
        channel.credit = credit;
        self.events.push_back(Event::Writable(ChannelId(number)));
        Ok(())
    }

    fn handle_data(
        &mut self,
        now: Duration,
        number: u32,
        stream: Option<Stream>,
        data: &[u8],
    ) -> Result<(), ConnectionError> {
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        if !channel.on_received(data.len()) {
            return Err(ConnectionError::WindowExceeded);
        }
        match stream.filter(|_| !channel.close_sent) {
            Some(stream) => {
                self.events.push_back(Event::Data(ChannelId(number), stream, data.to_vec()));
            }
            None => self.consumed(now, ChannelId(number), data.len()),
        }
        Ok(())
    }

    fn handle_eof(&mut self, number: u32) {
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.on_end();
            self.events.push_back(Event::End(ChannelId(number)));
        }
    }

    fn handle_close(&mut self, number: u32) {
        self.close(ChannelId(number));
        if self.channels.remove(&number).is_some() {
            if self.probing == Some(number) {
                self.probing = None;
            }
            self.events.push_back(Event::Closed(ChannelId(number)));
        }
    }

    fn handle_request(
        &mut self,
        number: u32,
        kind: &[u8],
        want_reply: bool,
        rest: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut r = Reader::new(rest, "request");
        let id = ChannelId(number);
        match kind {
            b"exit-status" => self.events.push_back(Event::ExitStatus(id, r.u32()?)),
            b"exit-signal" => {
                let name = String::from_utf8_lossy(r.string()?).into_owned();
                self.events.push_back(Event::ExitSignal(id, name));
            }
            _ => {}
        }
        if let Some(remote) = self.open_channel(number).filter(|_| want_reply).map(|c| c.remote) {
            self.put(|out| message::failure(out, remote));
        }
        Ok(())
    }

    fn handle_reply(&mut self, now: Duration, number: u32, success: bool) {
        let asked = self.channels.get_mut(&number).and_then(|c| c.asked.pop_front());
        match asked {
            Some(Asked::Start) if success => {
                self.events.push_back(Event::Started(ChannelId(number)))
            }
            Some(Asked::Start) => self.events.push_back(Event::StartRefused(ChannelId(number))),
            Some(Asked::Probe(since)) => {
                self.probing = None;
                self.on_round_trip(now, now.saturating_sub(since));
            }
            None => {}
        }
    }

    fn on_round_trip(&mut self, now: Duration, sample: Duration) {
        self.round_trip.sample(now, sample);
        for channel in self.channels.values_mut() {
            channel.on_round_trip(now, sample);
        }
    }
}

#[cfg(test)]
mod tests;
