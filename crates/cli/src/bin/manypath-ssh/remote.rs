//! The files of a server: SFTP sessions over a link.

use super::args::LoginArgs;
use super::connections::{MOST, Trust, worth};
use super::link::{Link, interrupted};
use crate::FAILED;
use crate::failure::Failure;
use manypath_ssh::sftp::{Answer, Attributes, Pool, Reply, Request, Status};
use manypath_ssh::{ChannelId, Event, Pull, Start, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::time::Duration;

/// A signal is noticed, and progress shown, within this.
const LOOK: Duration = Duration::from_millis(100);
/// Sessions that a stock server allows on one connection (MaxSessions).
const MOST_SESSIONS: usize = 10;

/// Fewer bytes are not worth another connection.
const LARGE: u64 = 64 << 20;

/// Files that are open at the same time: each session of a stock server allows about a thousand.
pub(crate) const MOST_OPEN: usize = 512;

/// The handles of an open file: session and handle, empty until the server has given it.
pub(crate) type Handles = Vec<(usize, Vec<u8>)>;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// A single question, whose answer is waited for.
    Question,
    /// The answer does not matter.
    Ignored,
    /// Look whether an interrupted transfer left something of this file.
    Left(usize),
    Open(usize),
    /// File, offset, length.
    Read(usize, u64, u32),
    Write(usize, u64, u32),
    /// Attributes at the end.
    Check(usize),
    SetAttributes(usize),
    Close(usize),
    Rename(usize),
    /// The server's part of a file was cut off.
    Removed(usize),
    /// What the first connection has, to be compared with what the one of this session has.
    Witness(usize),
    /// What a new connection says of a file, or of the witness for this session.
    Same(usize),
    /// What a new connection says of the volume of a file.
    Volume,
    OpenFolder(usize),
    ReadFolder(usize),
}

/// A wire of the link, and a channel of it.
type Place = (usize, ChannelId);

/// A server's files.
pub(crate) struct Remote {
    link: Link,
    pub(crate) pool: Pool<Tag>,
    /// Channels of sessions, in the order of the pool, each on a wire of its own.
    channels: Vec<Place>,
    /// Channels whose session is not ready.
    opening: BTreeSet<Place>,
    /// Why the server opens no more sessions, by connection.
    refused: BTreeMap<usize, String>,
    /// Whether connections lead to the same server.
    trust: Vec<Trust>,
    /// Connections that the user wants.
    asked: Option<usize>,
}

impl Remote {
    /// Logs in, with so many connections if the user wants that, and begins one session.
    pub(crate) fn open(
        login: &LoginArgs,
        host: &OsStr,
        connections: Option<u8>,
    ) -> Result<Self, Failure> {
        let asked = connections.map(usize::from);
        let link = Link::open_all(login, host, asked.unwrap_or(1))?;
        let pool = Pool::new().ok_or_else(|| Failure::new("out of memory"))?;
        let (channels, opening) = (Vec::new(), BTreeSet::new());
        let (refused, trust) = (BTreeMap::new(), vec![Trust::Same]);
        let mut remote = Self { link, pool, channels, opening, refused, trust, asked };
        remote.open_session(0);
        while remote.channels.is_empty() {
            if let Some(reason) = remote.refused.get(&0) {
                let text = format!("the server does not begin SFTP: {reason}");
                return Err(Failure::new(text).with_status(FAILED));
            }
            remote.turn()?;
        }
        Ok(remote)
    }

    /// What carries it.
    pub(crate) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The time, as the pool has it.
    pub(crate) fn now(&self) -> Duration {
        self.link.now()
    }

    /// Sees to it that there will be so many sessions, as far as the server allows, evenly over all connections.
    pub(crate) fn grow_to(&mut self, sessions: usize) -> Result<(), Failure> {
        let each = sessions.div_ceil(self.link.planned()).min(MOST_SESSIONS);
        for master in 0..self.link.masters() {
            let of_it = |(wire, _): &&Place| self.link.master_of(*wire) == master;
            let there = self.channels.iter().filter(of_it).count();
            let opening = self.opening.iter().filter(of_it).count();
            if !self.refused.contains_key(&master) {
                for _ in there + opening..each {
                    let wire = self.link.add_wire(master)?;
                    self.open_session(wire);
                }
            }
        }
        Ok(())
    }

    /// Begins more connections if they are worth it for `left` bytes, where the server takes `takes` bytes of a session per
    /// round trip, and takes those in that have logged in.
    pub(crate) fn connect_more(&mut self, left: u64, takes: u64) -> Result<(), Failure> {
        let product = self.pool.product();
        if self.asked.is_none() && left > LARGE {
            let takes = takes.saturating_mul(MOST_SESSIONS as u64);
            let wanted = worth(product, left, takes, self.link.rekey());
            self.link.begin_logins(wanted, false)?;
        }
        if self.link.end_logins()? > 0 && self.asked.is_some() {
            eprintln!(
                "manypath: {} connections: no more can log in without questions",
                self.link.masters()
            );
        }
        self.trust.resize(self.link.masters().min(MOST), Trust::Unknown);
        Ok(())
    }

    /// A session of a connection that has not yet been asked to prove that it leads to the same server.
    pub(crate) fn stranger(&mut self) -> Option<usize> {
        let masters = self.channels.iter().map(|(wire, _)| self.link.master_of(*wire));
        let (session, master) =
            masters.enumerate().find(|(_, master)| self.trust[*master] == Trust::Unknown)?;
        self.trust[master] = Trust::Asked;
        Some(session)
    }

    /// Whether there is such a session.
    pub(crate) fn has_stranger(&self) -> bool {
        let mut masters = self.channels.iter().map(|(wire, _)| self.link.master_of(*wire));
        masters.any(|master| self.trust[master] == Trust::Unknown)
    }

    /// Whether the connection of a session leads to the same server. If not, it carries nothing, for ever.
    pub(crate) fn judge(&mut self, session: usize, same: bool) {
        let master = self.master_of(session);
        if self.trust[master] == Trust::Asked {
            self.trust[master] = if same { Trust::Same } else { Trust::Other };
        }
    }

    /// How busy a session is: by its connection first.
    pub(crate) fn load(&self, session: usize) -> (u64, u64) {
        let master = self.master_of(session);
        let same = (0..self.channels.len()).filter(|other| self.master_of(*other) == master);
        let all = same.map(|other| self.pool.under_way_of(other)).sum();
        (all, self.pool.under_way_of(session))
    }

    fn master_of(&self, session: usize) -> usize {
        self.link.master_of(self.channels[session].0)
    }

    /// Asks a session for something that brings no bytes under way.
    pub(crate) fn ask(&mut self, session: usize, request: &Request<'_>, tag: Tag) {
        self.pool.ask(self.link.now(), session, request, 0, tag);
    }

    /// Asks for something and waits for the answer. Nothing else may be going on.
    pub(crate) fn question(&mut self, request: &Request<'_>) -> Result<Reply, Failure> {
        self.ask(0, request, Tag::Question);
        loop {
            self.turn()?;
            while let Some(answer) = self.next() {
                if answer.tag == Tag::Question {
                    return Ok(answer.reply);
                }
            }
        }
    }

    /// The sessions in which a file is to be opened that has `handles`: the least busy one, or, if it is to be
    /// in all of them, those that do not have it.
    pub(crate) fn sessions_for(&self, handles: &Handles, in_all: bool) -> Vec<usize> {
        let trusted = |session: &usize| self.trust[self.master_of(*session)] == Trust::Same;
        let sessions = (0..self.pool.sessions()).filter(trusted);
        if in_all {
            let has = |session: &usize| handles.iter().any(|(one, _)| one == session);
            return sessions.filter(|session| !has(session)).collect();
        }
        sessions.min_by_key(|session| self.pool.requests_of(*session)).into_iter().collect()
    }

    /// What is at a path, if there is anything.
    pub(crate) fn look(&mut self, path: &[u8]) -> Result<Option<Attributes>, Failure> {
        let reply = self.question(&Request::Stat { path })?;
        let is_missing = reply.status().is_some_and(Status::is_missing);
        let attributes = reply.attributes();
        if is_missing || attributes.is_some() { Ok(attributes) } else { Err(failed(path, &reply)) }
    }

    /// The next answer.
    pub(crate) fn next(&mut self) -> Option<Answer<Tag>> {
        self.pool.poll_answer()
    }

    /// Whether a session's channel takes a write of `bytes` now, and nothing waits in front of it; one that has nothing
    /// to do gets one that is longer than its window.
    pub(crate) fn takes(&self, session: usize, bytes: u64) -> bool {
        let (wire, channel) = self.channels[session];
        let credit = self.link.connection(wire).sendable(channel);
        self.pool.session(session).output().is_empty()
            && (credit > bytes || self.pool.under_way_of(session) == 0)
            && self.link.has_room(wire)
    }

    /// Sends what is to be sent, waits for something to happen and handles it.
    pub(crate) fn turn(&mut self) -> Result<(), Failure> {
        self.flush();
        self.link.turn(Some(LOOK), &mut Vec::new())?;
        if self.link.is_interrupted() {
            return Err(interrupted());
        }
        let now = self.link.now();
        for wire in 0..self.link.wires() {
            while let Some(event) = self.link.connection_mut(wire).poll_event() {
                self.handle(now, wire, event)?;
            }
            if let Some(sample) = self.link.connection(wire).round_trip() {
                self.pool.on_round_trip(now, sample);
            }
        }
        self.flush();
        Ok(())
    }

    /// Hands requests to their channels, as far as these take them.
    pub(crate) fn flush(&mut self) {
        for (number, (wire, channel)) in self.channels.iter().enumerate() {
            let session = self.pool.session_mut(number);
            let sent = self.link.connection_mut(*wire).send(*channel, session.output());
            session.on_output(sent);
        }
    }

    fn open_session(&mut self, wire: usize) {
        let now = self.link.now();
        match self.link.connection_mut(wire).open_session(now, Pull::Requests) {
            Some(channel) => {
                self.opening.insert((wire, channel));
            }
            None => self.refuse(wire, "out of memory for another window".to_owned()),
        }
    }

    fn refuse(&mut self, wire: usize, reason: String) {
        self.refused.insert(self.link.master_of(wire), reason);
    }

    fn handle(&mut self, now: Duration, wire: usize, event: Event) -> Result<(), Failure> {
        match event {
            Event::Opened(channel) => {
                self.link.connection_mut(wire).start(channel, Start::Subsystem("sftp"));
            }
            Event::Started(channel) => {
                self.opening.remove(&(wire, channel));
                self.channels.push((wire, channel));
                self.pool.add();
            }
            Event::OpenFailed(channel, reason) => {
                self.opening.remove(&(wire, channel));
                self.refuse(wire, reason);
            }
            Event::StartRefused(channel) => {
                self.opening.remove(&(wire, channel));
                self.refuse(wire, "it has no such subsystem".to_owned());
                self.link.connection_mut(wire).close(channel);
            }
            Event::Data(channel, stream, bytes) => {
                self.handle_data(now, (wire, channel), stream, &bytes)?
            }
            Event::Closed(channel) => return self.handle_closed((wire, channel)),
            Event::Ready
            | Event::Writable(_)
            | Event::End(_)
            | Event::ExitStatus(..)
            | Event::ExitSignal(..) => {}
        }
        Ok(())
    }

    fn handle_data(
        &mut self,
        now: Duration,
        place: Place,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let session = self.channels.iter().position(|one| *one == place);
        match (stream, session) {
            (Stream::Output, Some(session)) => {
                let handled = self.pool.handle_input(now, session, bytes);
                handled.map_err(|e| Failure::new(e.to_string()).with_status(FAILED))?;
            }
            // Said by the server's program.
            (Stream::Error, _) => drop(std::io::stderr().write_all(bytes)),
            (Stream::Output, None) => {}
        }
        let (wire, channel) = place;
        self.link.connection_mut(wire).consumed(now, channel, bytes.len());
        Ok(())
    }

    fn handle_closed(&mut self, place: Place) -> Result<(), Failure> {
        if self.opening.remove(&place) || !self.channels.contains(&place) {
            return Ok(());
        }
        Err(Failure::new("the server closed SFTP").with_status(FAILED))
    }
}

/// A question about a path that was not answered as it should.
pub(crate) fn failed(path: &[u8], reply: &Reply) -> Failure {
    Failure::new(format!("{}: {}", String::from_utf8_lossy(path), reason(reply)))
}

/// Why a request has failed.
pub(crate) fn reason(reply: &Reply) -> String {
    match reply.status() {
        Some(status) => status.to_string(),
        None => "the server's answer does not fit the question".to_owned(),
    }
}
