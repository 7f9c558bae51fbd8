//! What a worker process is told to do, and what it tells about it. All of it travels as lines of JSON.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The work of one process: its parts go on at the same time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// At least one.
    pub(crate) parts: Vec<Part>,
}

/// One piece of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Listen at `address`, or connect to it.
    pub(crate) listen: bool,
    /// Where.
    pub(crate) address: SocketAddr,
    /// Addresses to use as paths, for an association; none: those of all interfaces.
    pub(crate) locals: Vec<IpAddr>,
    /// What carries the bytes.
    pub(crate) carrier: Carrier,
    /// What to do with it.
    pub(crate) task: Task,
    /// Connections (streams of an association), or connections at a time.
    pub(crate) flows: u32,
    /// Bytes of each write or message.
    pub(crate) length: u32,
    /// Bytes after which a sender stops, of all flows together.
    pub(crate) limit: Option<u64>,
    /// Congestion control to choose, of the kernel's.
    pub(crate) congestion: Option<String>,
}

/// What carries the bytes of a worker, as far as the worker knows: it knows nothing of manypath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Carrier {
    /// A TCP socket.
    Tcp,
    /// An MPTCP socket.
    Mptcp,
    /// The engine over UDP sockets, in the worker itself.
    Association,
    /// The same with DTLS chunks.
    EncryptedAssociation,
    /// UDP with segmentation offload and nothing else: what any protocol over UDP must stay below.
    Datagrams,
}

/// What is done with flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// Send as much as the flow takes.
    Send,
    /// Receive and forget.
    Receive,
    /// Both at once.
    Both,
    /// Ask for an answer of the same length, again and again, and note how long it took.
    Ask,
    /// Answer each byte with one.
    Answer,
    /// Connect and wait for the other side's close, again and again, and note how long connects took.
    Connect,
    /// Accept and close.
    Accept,
}

impl Task {
    /// What the other side does.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Both => Self::Both,
            Self::Ask => Self::Answer,
            Self::Answer => Self::Ask,
            Self::Connect => Self::Accept,
            Self::Accept => Self::Connect,
        }
    }
}

/// What can be asked of a running worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// How far it is.
    Progress,
    /// The times that it has noted since the last such question.
    Times,
}

/// How far a part is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// When this was so, on a clock of the worker's host.
    pub(crate) nanos: u64,
    /// When the first flow was open; of an encrypted association, when the client began to connect.
    pub(crate) opened: u64,
    /// Payload bytes given away.
    pub(crate) sent: u64,
    /// Payload bytes received.
    pub(crate) received: u64,
    /// Answers received, or connections made.
    pub(crate) operations: u64,
    /// Flows that are open.
    pub(crate) flows: u32,
}

/// Times that a part has noted, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Half of them were not longer.
    pub p50: u64,
    /// 95 of 100 were not longer.
    pub p95: u64,
    /// 99 of 100 were not longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// What a worker answers: one entry for each part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It listens, or all of its flows are open.
    Ready,
    /// See [`Question::Progress`].
    Progress(Vec<Progress>),
    /// See [`Question::Times`].
    Times(Vec<Times>),
}
