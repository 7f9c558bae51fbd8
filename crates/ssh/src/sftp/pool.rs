//! Several SFTP servers on one connection, and how much may be under way to all of them.

use super::reply::Reply;
use super::request::Request;
use super::session::{Session, SftpError};
use core::time::Duration;
use manypath_window::{Budget, Policy, Window, WindowConfig};
use std::collections::{BTreeMap, VecDeque};

/// Bytes that may be under way before anything is known of the path, and beyond what it carries.
const LEAST_UNDER_WAY: u64 = 2 << 20;
/// The most that may be under way.
const MOST_UNDER_WAY: u64 = 64 << 20;
/// What may be under way of what the path carries in a round trip, in percent.
const GAIN: u32 = 200;
/// The longest request.
const LONGEST: u64 = 256 << 10;

/// A reply, with what was said about its request.
#[derive(Debug)]
pub struct Answer<T> {
    /// Which session it comes from.
    pub session: usize,
    /// What the request was for.
    pub tag: T,
    /// The reply.
    pub reply: Reply,
}

#[derive(Debug)]
struct Asked<T> {
    tag: T,
    sent: Duration,
    bytes: u64,
}

#[derive(Debug)]
struct Member<T> {
    session: Session,
    asked: BTreeMap<u32, Asked<T>>,
    under_way: u64,
}

/// Sessions by number, in the order in which they were added. `T` says what a request is for.
#[derive(Debug)]
pub struct Pool<T> {
    members: Vec<Member<T>>,
    answers: VecDeque<Answer<T>>,
    /// What may be under way.
    window: Window,
    under_way: u64,
    requests: usize,
}

impl<T> Pool<T> {
    /// No sessions. `None` if there is no memory for what is under way at first.
    pub fn new() -> Option<Self> {
        let config = WindowConfig {
            policy: Policy::Path,
            first: LEAST_UNDER_WAY,
            cap: MOST_UNDER_WAY,
            gain: GAIN,
            ..WindowConfig::default()
        };
        let window = Window::open(config, &Budget::new(2 * MOST_UNDER_WAY))?;
        let (members, answers) = (Vec::new(), VecDeque::new());
        Some(Self { members, answers, window, under_way: 0, requests: 0 })
    }

    /// Adds a session; its number.
    pub fn add(&mut self) -> usize {
        let member = Member { session: Session::default(), asked: BTreeMap::new(), under_way: 0 };
        self.members.push(member);
        self.members.len() - 1
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        self.members.len()
    }

    /// A session.
    pub fn session(&self, number: usize) -> &Session {
        &self.members[number].session
    }

    /// A session, to send its output.
    pub fn session_mut(&mut self, number: usize) -> &mut Session {
        &mut self.members[number].session
    }

    /// Asks a session for something. `bytes` is what that brings under way: the length of a read or write.
    pub fn ask(
        &mut self,
        now: Duration,
        session: usize,
        request: &Request<'_>,
        bytes: u64,
        tag: T,
    ) {
        let member = &mut self.members[session];
        let id = member.session.ask(request);
        member.asked.insert(id, Asked { tag, sent: now, bytes });
        member.under_way += bytes;
        self.under_way += bytes;
        self.requests += 1;
        // No more than it has room for: see has_room.
        let _ = self.window.on_received(bytes);
    }

    /// Bytes came from the server of a session.
    pub fn handle_input(
        &mut self,
        now: Duration,
        session: usize,
        bytes: &[u8],
    ) -> Result<(), SftpError> {
        self.members[session].session.handle_input(bytes)?;
        while let Some((id, reply)) = self.members[session].session.poll_reply() {
            self.handle_reply(now, session, id, reply);
        }
        Ok(())
    }

    /// The next reply.
    pub fn poll_answer(&mut self) -> Option<Answer<T>> {
        self.answers.pop_front()
    }

    /// Whether more bytes may be brought under way.
    pub fn has_room(&self) -> bool {
        self.window.credit() >= LONGEST
    }

    /// Bytes that may be under way.
    pub fn target(&self) -> u64 {
        self.window.size()
    }

    /// Bytes that the path carries in a round trip, about.
    pub fn product(&self) -> u64 {
        self.window.size().saturating_sub(LEAST_UNDER_WAY) * 100 / u64::from(GAIN)
    }

    /// Bytes under way.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Bytes under way of one session.
    pub fn under_way_of(&self, session: usize) -> u64 {
        self.members[session].under_way
    }

    /// Requests without a reply.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Requests of one session without a reply.
    pub fn requests_of(&self, session: usize) -> usize {
        self.members[session].asked.len()
    }

    /// A round trip of the connection was measured otherwise.
    pub fn on_round_trip(&mut self, now: Duration, sample: Duration) {
        self.window.on_round_trip(now, sample);
    }

    fn handle_reply(&mut self, now: Duration, session: usize, id: u32, reply: Reply) {
        let member = &mut self.members[session];
        let Some(asked) = member.asked.remove(&id) else { return };
        member.under_way -= asked.bytes;
        self.under_way -= asked.bytes;
        self.requests -= 1;
        if asked.bytes > 0 {
            self.window.on_round_trip(now, now.saturating_sub(asked.sent));
            self.window.on_consumed(now, asked.bytes);
            self.window.take_grant();
        }
        self.answers.push_back(Answer { session, tag: asked.tag, reply });
    }
}
