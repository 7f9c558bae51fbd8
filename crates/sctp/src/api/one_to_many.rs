//! Sockets of the one-to-many style (RFC 6458 section 3).

use super::common::{Descriptor, addresses, common, failure, timeouts};
use super::one_to_one::{abort, receive, send};
use super::{Association, Options, Outgoing, Received, Stream, To};
use crate::calls;
use manypath_sockets::SendInfo;
use manypath_sockets::constants::SCTP_EOF;
use manypath_sockets::structures::sctp_status;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Many associations: those that peers begin, and those that are begun by connecting or by sending.
///
/// ```no_run
/// use manypath_sctp::{Outgoing, Received, Socket, To};
///
/// # fn main() -> std::io::Result<()> {
/// let socket = Socket::bind("0.0.0.0:2905")?;
/// // An echo: each message goes back to where it came from.
/// loop {
///     if let Received::Message(message) = socket.recv()? {
///         let answer = Outgoing { stream: message.stream, ..Outgoing::new(message.data) };
///         socket.send(To::Association(message.association), &answer)?;
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Socket(pub(super) Descriptor);

common! { Socket }
timeouts! { Socket }

impl Socket {
    /// A socket at these addresses of the host, which have one port; [`Options::socket`] with nothing said.
    ///
    /// # Errors
    /// Those of [`Options::socket`].
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<Self> {
        Options::new().socket(at)
    }

    /// Begins an association with the peer that has these addresses, and waits until it is established
    /// (`sctp_connectx`, RFC 6458 section 9.9). Without waiting, [`Notification::Association`](super::Notification)
    /// tells.
    ///
    /// # Errors
    /// Nobody listens there ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), nobody answers
    /// ([`TimedOut`](io::ErrorKind::TimedOut)), or there is an association with it (`EISCONN`).
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<Association> {
        let mut number = 0;
        calls::connect(self.0.0, &addresses(to)?, &mut number).map_err(failure)?;
        Ok(Association(number))
    }

    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// The association is over ([`BrokenPipe`](io::ErrorKind::BrokenPipe)), there is no such stream or nothing to
    /// send (`EINVAL`), or it is larger than the send buffer (`EMSGSIZE`).
    pub fn send(&self, to: To, message: &Outgoing) -> io::Result<()> {
        match to {
            To::Association(one) => send(&self.0, Vec::new(), message, &message.info(Some(one))),
            To::Address(address) => send(&self.0, vec![address], message, &message.info(None)),
        }
    }

    /// The next message or notification of any association. Those that have some take turns.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none and the socket does not wait.
    pub fn recv(&self) -> io::Result<Received> {
        receive(&self.0)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Ends an association when everything has been delivered (`SCTP_EOF`, RFC 6458 section 5.3.4).
    ///
    /// # Errors
    /// It is over already.
    pub fn shutdown(&self, one: Association) -> io::Result<()> {
        let mut info = SendInfo::default();
        info.info.snd_flags = u16::try_from(SCTP_EOF).unwrap_or(0);
        info.info.snd_assoc_id = one.0;
        send(&self.0, Vec::new(), &Outgoing::default(), &info)
    }

    /// Ends an association at once. The peer is told why (`SCTP_ABORT`, RFC 6458 section 5.3.4).
    ///
    /// # Errors
    /// It is over already.
    pub fn abort(&self, one: Association, reason: &str) -> io::Result<()> {
        abort(&self.0, &Outgoing::new(reason.to_owned()), one.0)
    }

    /// Makes an association a socket of its own (`sctp_peeloff`, RFC 6458 section 9.2).
    ///
    /// # Errors
    /// There is no such association (`EINVAL`).
    pub fn peel_off(&self, one: Association) -> io::Result<Stream> {
        let fd = calls::peel_off(self.0.0, one.0, libc::SOCK_CLOEXEC).map_err(failure)?;
        Ok(Stream(Descriptor(fd)))
    }

    /// The associations that there are (`SCTP_GET_ASSOC_ID_LIST`, RFC 6458 section 8.2.6).
    ///
    /// # Errors
    /// None that a program could bring about.
    pub fn associations(&self) -> io::Result<Vec<Association>> {
        self.0
            .with(|sockets, _, id| sockets.associations(id))
            .map(|all| all.into_iter().map(Association).collect())
    }

    /// The addresses of this host that an association uses, or all of the socket (`sctp_getladdrs`, RFC 6458
    /// section 9.5).
    ///
    /// # Errors
    /// There is no such association (`EINVAL`).
    pub fn local_addresses(&self, of: Option<Association>) -> io::Result<Vec<SocketAddr>> {
        let number = of.map_or(0, |of| of.0);
        self.0.with(|sockets, host, id| sockets.local_addresses(host, id, number))
    }

    /// The addresses of a peer, the primary one first (`sctp_getpaddrs`, RFC 6458 section 9.3).
    ///
    /// # Errors
    /// There is no such association (`EINVAL`).
    pub fn peer_addresses(&self, of: Association) -> io::Result<Vec<SocketAddr>> {
        self.0.with(|sockets, host, id| sockets.peer_addresses(host, id, of.0))
    }

    /// How an association stands (`SCTP_STATUS`, RFC 6458 section 8.2.1).
    ///
    /// # Errors
    /// There is no such association (`EINVAL`).
    pub fn status(&self, of: Association) -> io::Result<sctp_status> {
        self.0.status(of.0)
    }
}
