//! Sockets of the one-to-one style (RFC 6458 section 4).

use super::common::{Descriptor, common, failure, timeouts};
use super::message::NOWHERE;
use super::{Options, Outgoing, Received};
use crate::calls;
use crate::request::How;
use manypath_sockets::structures::sctp_status;
use manypath_sockets::{SendInfo, address};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// A socket that accepts associations.
#[derive(Debug)]
pub struct Listener(pub(super) Descriptor);

/// One association.
#[derive(Debug)]
pub struct Stream(pub(super) Descriptor);

common! { Listener Stream }
timeouts! { Stream }

impl Listener {
    /// Accepts associations at these addresses of the host, which have one port; [`Options::listen`] with nothing
    /// said.
    ///
    /// # Errors
    /// Those of [`Options::listen`].
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<Self> {
        Options::new().listen(at)
    }

    /// The next association, and an address of its peer. The stream has the options of the listener.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none and the listener does not wait.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (fd, peer) = calls::accept(self.0.0, libc::SOCK_CLOEXEC).map_err(failure)?;
        Ok((Stream(Descriptor(fd)), address::decode(&peer).unwrap_or(NOWHERE)))
    }

    /// The addresses at which it listens (`sctp_getladdrs`, RFC 6458 section 9.5).
    ///
    /// # Errors
    /// None that a program could bring about.
    pub fn local_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.0.with(|sockets, host, id| sockets.local_addresses(host, id, 0))
    }
}

impl Stream {
    /// Begins an association with the peer that has these addresses; [`Options::connect`] with nothing said.
    ///
    /// # Errors
    /// Those of [`Options::connect`].
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        Options::new().connect(to)
    }

    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// The association is over ([`BrokenPipe`](io::ErrorKind::BrokenPipe), or once what has ended it); there is no
    /// such stream or nothing to send (`EINVAL`); it is larger than the send buffer (`EMSGSIZE`).
    pub fn send(&self, message: &Outgoing) -> io::Result<()> {
        let info = message.info(None);
        send(&self.0, Vec::new(), message, &info)
    }

    /// The next message or notification; none at the end of the association.
    ///
    /// # Errors
    /// What has ended the association if it did not end as it should, once: the peer has aborted it
    /// ([`ConnectionReset`](io::ErrorKind::ConnectionReset)) or is not reached any more
    /// ([`TimedOut`](io::ErrorKind::TimedOut)).
    pub fn recv(&self) -> io::Result<Option<Received>> {
        receive(&self.0)
    }

    /// Nothing more is sent; what was sent is delivered, and the association ends (RFC 6458 section 4.1.7).
    ///
    /// # Errors
    /// It is not connected.
    pub fn shutdown(&self) -> io::Result<()> {
        self.0.with(|sockets, host, id| sockets.shut_down(host, id, (false, true)))
    }

    /// Ends the association at once. The peer is told why (`SCTP_ABORT`, RFC 6458 section 5.3.4).
    ///
    /// # Errors
    /// It is over already.
    pub fn abort(&self, reason: &str) -> io::Result<()> {
        abort(&self.0, &Outgoing::new(reason.to_owned()), 0)
    }

    /// The addresses of this host that it uses, with its port (`sctp_getladdrs`, RFC 6458 section 9.5).
    ///
    /// # Errors
    /// None that a program could bring about.
    pub fn local_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.0.with(|sockets, host, id| sockets.local_addresses(host, id, 0))
    }

    /// The addresses of the peer, the primary one first (`sctp_getpaddrs`, RFC 6458 section 9.3).
    ///
    /// # Errors
    /// The association is over.
    pub fn peer_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.0.with(|sockets, host, id| sockets.peer_addresses(host, id, 0))
    }

    /// How it stands (`SCTP_STATUS`, RFC 6458 section 8.2.1).
    ///
    /// # Errors
    /// The association is over.
    pub fn status(&self) -> io::Result<sctp_status> {
        self.0.status(0)
    }
}

pub(super) fn send(
    descriptor: &Descriptor,
    to: Vec<SocketAddr>,
    message: &Outgoing,
    info: &SendInfo,
) -> io::Result<()> {
    let how = How::Info(info.info, info.reliability);
    let sent = calls::send(descriptor.0, to, message.data.clone(), libc::MSG_NOSIGNAL, how);
    sent.map(drop).map_err(failure)
}

pub(super) fn receive(descriptor: &Descriptor) -> io::Result<Option<Received>> {
    let (received, _) = calls::receive(descriptor.0, usize::MAX, 0).map_err(failure)?;
    Ok(Received::of(received))
}

pub(super) fn abort(descriptor: &Descriptor, reason: &Outgoing, number: i32) -> io::Result<()> {
    let mut info = SendInfo::default();
    info.info.snd_flags = u16::try_from(manypath_sockets::constants::SCTP_ABORT).unwrap_or(0);
    info.info.snd_assoc_id = number;
    send(descriptor, Vec::new(), reason, &info)
}
