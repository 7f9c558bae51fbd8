//! One SFTP server, at the other end of one channel.

use super::reply::Reply;
use super::request::Request;
use crate::codec::{Malformed, Put, Reader, framed};
use crate::framer::{Framer, TooLong};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

const INIT: u8 = 1;
const VERSION: u8 = 2;
const OUR_VERSION: u32 = 3;
/// OpenSSH's longest message is 256 KiB.
const LONGEST: u32 = 512 << 10;
/// What every server must take (section 3 of the draft: packets of 34000 bytes).
const LEAST_LENGTH: u32 = 32 << 10;

/// The server does not speak SFTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SftpError {
    /// A message is too long. Often the output of a start-up file of the user's shell.
    TooLong(TooLong),
    /// A message cannot be read.
    Malformed(Malformed),
    /// A message that no request has asked for.
    Unexpected(u8),
}

impl fmt::Display for SftpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(error) => write!(
                f,
                "the server does not speak SFTP (it sends {error}): does a start-up file of the shell print something?"
            ),
            Self::Malformed(error) => write!(f, "the server sends a {error}"),
            Self::Unexpected(number) => {
                write!(f, "the server sends an unexpected message {number}")
            }
        }
    }
}

impl From<Malformed> for SftpError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// One server. Requests may be made at once, before it has said anything.
#[derive(Debug)]
pub struct Session {
    framer: Framer,
    out: Vec<u8>,
    next: u32,
    asked: BTreeSet<u32>,
    replies: VecDeque<(u32, Reply)>,
    extensions: Vec<String>,
    limits: Option<u32>,
    read_length: u32,
    write_length: u32,
    greeted: bool,
}

impl Default for Session {
    fn default() -> Self {
        let mut out = Vec::new();
        framed(&mut out, |out| {
            out.put_u8(INIT);
            out.put_u32(OUR_VERSION);
        });
        Self {
            framer: Framer::new(LONGEST),
            out,
            next: 0,
            asked: BTreeSet::new(),
            replies: VecDeque::new(),
            extensions: Vec::new(),
            limits: None,
            read_length: LEAST_LENGTH,
            write_length: LEAST_LENGTH,
            greeted: false,
        }
    }
}

impl Session {
    /// Asks for something; the number of the request.
    pub fn ask(&mut self, request: &Request<'_>) -> u32 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        framed(&mut self.out, |out| request.write(out, id));
        self.asked.insert(id);
        id
    }

    /// Bytes for the server.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// The first `bytes` of [`output`](Self::output) were sent.
    pub fn on_output(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    /// Bytes came from the server.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<(), SftpError> {
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0));
        framer.put(bytes);
        let result = self.handle_packets(&mut framer);
        self.framer = framer;
        result
    }

    /// The next reply, with the number of its request.
    pub fn poll_reply(&mut self) -> Option<(u32, Reply)> {
        self.replies.pop_front()
    }

    /// Whether the server has this extension.
    pub fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|name| name == extension)
    }

    /// The longest read that the server answers.
    pub fn read_length(&self) -> u32 {
        self.read_length
    }

    /// The longest write that the server takes.
    pub fn write_length(&self) -> u32 {
        self.write_length
    }

    fn handle_packets(&mut self, framer: &mut Framer) -> Result<(), SftpError> {
        while let Some(packet) = framer.next().map_err(SftpError::TooLong)? {
            self.handle_packet(packet)?;
        }
        Ok(())
    }

    fn handle_packet(&mut self, packet: &[u8]) -> Result<(), SftpError> {
        let mut r = Reader::new(packet, "message of SFTP");
        let number = r.u8()?;
        if number == VERSION && !self.greeted {
            return Ok(self.handle_version(r)?);
        }
        let id = r.u32()?;
        let reply = Reply::parse(number, r)?.filter(|_| self.asked.remove(&id));
        let reply = reply.ok_or(SftpError::Unexpected(number))?;
        if self.limits == Some(id) {
            self.handle_limits(&reply)?;
        } else {
            self.replies.push_back((id, reply));
        }
        Ok(())
    }

    fn handle_version(&mut self, mut r: Reader<'_>) -> Result<(), Malformed> {
        let _version = r.u32()?;
        while !r.is_empty() {
            let (name, _value) = (r.string()?, r.string()?);
            self.extensions.push(String::from_utf8_lossy(name).into_owned());
        }
        self.greeted = true;
        if self.has("limits@openssh.com") {
            self.limits = Some(self.ask(&Request::Limits));
        }
        Ok(())
    }

    /// Longest message, read and write; 0 is unknown.
    fn handle_limits(&mut self, reply: &Reply) -> Result<(), Malformed> {
        let Reply::Extended(bytes) = reply else { return Ok(()) };
        let mut r = Reader::new(bytes, "limits");
        let (_message, read, write) = (r.u64()?, r.u64()?, r.u64()?);
        let length = |limit: u64| (limit.min(u64::from(LONGEST / 2)) as u32).max(LEAST_LENGTH);
        self.read_length = length(read);
        self.write_length = length(write);
        Ok(())
    }
}
