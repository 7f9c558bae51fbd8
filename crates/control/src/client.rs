//! The asking side of a control connection.

use crate::error::ControlError;
use crate::message::{Reply, Request, Role};
use crate::report::Assembler;
use crate::socket::{ControlSocket, Incoming};
use crate::version::{VERSION, is_spoken};
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::time::Duration;

/// A connection to a stack.
///
/// Blocking use: [`ControlClient::connect`], then [`ControlClient::status`] or
/// [`ControlClient::stop`]. Use in a loop: [`ControlClient::start`] with one end of a pair, which
/// sends `Hello` and does not wait; then `send` and `receive` by readiness, where the first reply
/// goes to [`check_welcome`](ControlClient::check_welcome).
#[derive(Debug)]
pub struct ControlClient {
    socket: ControlSocket,
    /// What is spoken here.
    version: u32,
}

impl ControlClient {
    /// Connects to the stack at `path` and waits for its welcome, each answer for at most `limit`. A stack of the
    /// previous version is asked again in its language.
    ///
    /// # Errors
    /// As the file system says; [`ControlError::Version`]; [`ControlError::TimedOut`].
    pub fn connect(path: &Path, role: Role, limit: Duration) -> Result<Self, ControlError> {
        match Self::connect_as(path, role, limit, VERSION) {
            Err(ControlError::Version { theirs }) if is_spoken(theirs) => {
                Self::connect_as(path, role, limit, theirs)
            }
            outcome => outcome,
        }
    }

    fn connect_as(
        path: &Path,
        role: Role,
        limit: Duration,
        version: u32,
    ) -> Result<Self, ControlError> {
        let client = Self::start_as(ControlSocket::connect(path)?, role, version)?;
        client.socket.set_receive_timeout(Some(limit))?;
        client.check_welcome(&client.wait()?)?;
        Ok(client)
    }

    /// Says hello on a connected socket and does not wait for the answer.
    ///
    /// # Errors
    /// [`ControlError::Closed`] when the stack is already gone.
    pub fn start(socket: ControlSocket, role: Role) -> Result<Self, ControlError> {
        Self::start_as(socket, role, VERSION)
    }

    /// The same in another version than ours, which [`is_spoken`].
    ///
    /// # Errors
    /// As [`ControlClient::start`].
    pub fn start_as(socket: ControlSocket, role: Role, version: u32) -> Result<Self, ControlError> {
        socket.send(&Request::Hello { version, role }, None)?;
        Ok(Self { socket, version })
    }

    /// The version that is spoken here: messages that came later must not be sent.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Holds the first reply against the version that we have spoken. Returns the stack's network namespace.
    ///
    /// # Errors
    /// [`ControlError::Version`], or [`ControlError::Unexpected`] when it is no welcome.
    pub fn check_welcome(&self, reply: &Reply) -> Result<u64, ControlError> {
        let Reply::Welcome { version, namespace, .. } = reply else {
            return Err(ControlError::Unexpected("no welcome"));
        };
        let theirs = *version;
        if theirs == self.version { Ok(*namespace) } else { Err(ControlError::Version { theirs }) }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// As [`ControlSocket::send`].
    pub fn send(&self, request: &Request, fd: Option<BorrowedFd<'_>>) -> Result<(), ControlError> {
        self.socket.send(request, fd)
    }

    /// Receives one reply. No reply carries a file descriptor; one that came would be closed.
    ///
    /// # Errors
    /// As [`ControlSocket::receive`], and [`ControlError::Closed`].
    pub fn receive(&self) -> Result<Reply, ControlError> {
        match self.socket.receive()? {
            Incoming::Message(reply, _) => Ok(reply),
            Incoming::Closed => Err(ControlError::Closed),
        }
    }

    /// Asks for the status and waits for all of it.
    ///
    /// # Errors
    /// [`ControlError::TimedOut`]; [`ControlError::Malformed`] when the report is not a `T`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        self.send(&Request::Status, None)?;
        let mut assembler = Assembler::default();
        loop {
            let Reply::StatusPart(part) = self.wait()? else {
                return Err(ControlError::Unexpected("not a status"));
            };
            if let Some(text) = assembler.add(part)? {
                return serde_json::from_str(&text)
                    .map_err(|e| ControlError::Malformed(e.to_string()));
            }
        }
    }

    /// Asks the stack to read rules and settings again; returns how many rules there are now.
    ///
    /// # Errors
    /// [`ControlError::Refused`] when they are wrong; [`ControlError::TimedOut`].
    pub fn reload(&self) -> Result<usize, ControlError> {
        let reply = self.ask(&Request::Reload)?;
        if let Reply::Refused { why } = reply {
            return Err(ControlError::Refused(why));
        }
        let Reply::Reloaded { rules } = reply else {
            return Err(ControlError::Unexpected("no answer to a reload"));
        };
        Ok(rules)
    }

    /// Asks the stack to tell of its paths: from now on [`Self::receive`] gives [`Reply::Path`]s, however long
    /// that takes.
    ///
    /// # Errors
    /// [`ControlError::TimedOut`].
    pub fn watch(&self) -> Result<(), ControlError> {
        let Reply::Watching = self.ask(&Request::Watch)? else {
            return Err(ControlError::Unexpected("no answer to a watch"));
        };
        Ok(self.socket.set_receive_timeout(None)?)
    }

    /// Asks the stack to forget what it knows about a peer, a service, or all; returns how much.
    ///
    /// # Errors
    /// [`ControlError::TimedOut`].
    pub fn forget_peers(
        &self,
        addr: Option<IpAddr>,
        port: Option<u16>,
    ) -> Result<usize, ControlError> {
        let Reply::Forgotten { count } = self.ask(&Request::ForgetPeers { addr, port })? else {
            return Err(ControlError::Unexpected("no answer to a flush"));
        };
        Ok(count)
    }

    fn ask(&self, request: &Request) -> Result<Reply, ControlError> {
        self.send(request, None)?;
        self.wait()
    }

    /// Asks the stack to end.
    ///
    /// # Errors
    /// As [`ControlSocket::send`].
    pub fn stop(&self) -> Result<(), ControlError> {
        self.send(&Request::Stop, None)
    }

    /// The socket, to set it non-blocking or to ask who is at the other end.
    #[must_use]
    pub fn socket(&self) -> &ControlSocket {
        &self.socket
    }

    fn wait(&self) -> Result<Reply, ControlError> {
        self.receive().map_err(|e| if e.is_would_block() { ControlError::TimedOut } else { e })
    }
}

impl AsFd for ControlClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for ControlClient {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
