//! One control connection: JSON messages in packets, with at most one file descriptor each.

use crate::error::ControlError;
use crate::user::user;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_type};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::{cmsg_space, net};
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::slice;
use std::time::Duration;

/// Largest packet, in bytes. Long replies travel in parts.
pub const MAX_PACKET: usize = 64 * 1024;

thread_local! {
    /// Where packets are received: as much memory is not cleared for each of them.
    static PACKET: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_PACKET]);
}

/// A connected `SOCK_SEQPACKET` socket.
#[derive(Debug)]
pub struct ControlSocket {
    fd: OwnedFd,
}

/// Flags of every call that sends a packet. Each packet ends a record anyway: that is said so that a filter
/// of system calls can tell these from those of programs.
pub const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_EOR;

/// What came in.
#[derive(Debug)]
pub enum Incoming<T> {
    /// A message and the file descriptor that came with it: none also where this process had no room for it.
    Message(T, Option<OwnedFd>),
    /// The other side has closed its end.
    Closed,
}

/// Who is at the other end, as the kernel recorded when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl ControlSocket {
    /// Two connected sockets, both closed on exec.
    ///
    /// # Errors
    /// When the process or the system is out of file descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (left, right) = net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self { fd: left }, Self { fd: right }))
    }

    /// Connects to the stack that listens at `path`.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` when no stack listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let fd = new_socket()?;
        net::connect(&fd, &unix_address(path)?)?;
        Self::adopt(fd)
    }

    /// Takes over a descriptor that is a connected `SOCK_SEQPACKET` socket, such as one inherited
    /// from a launcher.
    ///
    /// # Errors
    /// When the descriptor is not open or is not such a socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        if socket_type(&fd)? != SocketType::SEQPACKET {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a control socket"));
        }
        Ok(Self { fd })
    }

    /// Makes calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Never for a valid descriptor.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, on)?)
    }

    /// Limits how long a blocking [`ControlSocket::receive`] waits; `None` for ever.
    ///
    /// # Errors
    /// Never for a valid descriptor.
    pub fn set_receive_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(|limit| limit.max(Duration::from_millis(1)));
        Ok(set_socket_timeout(self, Timeout::Recv, limit)?)
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// Never for a connected socket.
    pub fn peer_credentials(&self) -> io::Result<Credentials> {
        let raw = peer_of(self.as_fd())?;
        Ok(Credentials { pid: raw.pid.cast_unsigned(), uid: raw.uid, gid: raw.gid })
    }

    /// Whether the other end belongs to the user of this process or to root. Whoever else got to the socket's
    /// file must neither ask nor order anything.
    pub fn is_of_owner_or_root(&self) -> bool {
        self.peer_credentials().is_ok_and(|peer| [0, user()].contains(&peer.uid))
    }

    /// Sends one message, with a file descriptor if there is one. The descriptor stays the
    /// caller's.
    ///
    /// # Errors
    /// [`ControlError::TooLong`]; [`ControlError::Closed`] when the other side is gone; `WouldBlock`
    /// when the socket is non-blocking and full: nothing was sent then.
    pub fn send<T: Serialize>(
        &self,
        message: &T,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(), ControlError> {
        let text =
            serde_json::to_vec(message).map_err(|e| ControlError::Malformed(e.to_string()))?;
        if text.len() > MAX_PACKET {
            return Err(ControlError::TooLong(text.len()));
        }
        Ok(self.send_bytes(&text, fd)?)
    }

    /// Receives one message.
    ///
    /// # Errors
    /// `WouldBlock` when there is none (non-blocking, or the timeout has passed);
    /// [`ControlError::Malformed`] when the packet is no such message: the connection should be
    /// dropped then.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Incoming<T>, ControlError> {
        PACKET.with_borrow_mut(|buffer| {
            let (length, fd) = match receive_packet(self.as_fd(), buffer) {
                Err(e) if e.raw_os_error() == Some(libc::ECONNRESET) => {
                    return Ok(Incoming::Closed);
                }
                other => other?,
            };
            if length == 0 {
                return Ok(Incoming::Closed);
            }
            let text = buffer.get(..length).unwrap_or_default();
            let message =
                serde_json::from_slice(text).map_err(|e| ControlError::Malformed(e.to_string()))?;
            Ok(Incoming::Message(message, fd.unwrap_or(None)))
        })
    }

    /// Sends one packet of bytes that are no message, with a descriptor if there is one. It
    /// neither allocates nor locks, so that it may be called between fork and exec.
    ///
    /// # Errors
    /// As the kernel says; an empty packet would look like the end and is refused.
    pub fn send_bytes(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        send_packet(self.as_fd(), bytes, fd)
    }

    /// Receives one packet of bytes; 0 bytes mean that the other side has closed.
    ///
    /// # Errors
    /// As the kernel says; `InvalidData` when the packet does not fit; `EMFILE` when this process has no room for the
    /// packet's descriptor.
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let (length, fd) = receive_packet(self.as_fd(), buffer)?;
        Ok((length, fd?))
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for ControlSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl From<ControlSocket> for OwnedFd {
    fn from(socket: ControlSocket) -> Self {
        socket.fd
    }
}

pub(crate) fn send_packet(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(fd) = &fd {
        let _has_room = control.push(SendAncillaryMessage::ScmRights(slice::from_ref(fd)));
    }
    let flags = SendFlags::from_bits_retain(SEND_FLAGS.cast_unsigned());
    retry_on_intr(|| net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags))?;
    Ok(())
}

/// A control socket without another end.
pub(crate) fn new_socket() -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// The address that `path` is.
pub(crate) fn unix_address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let text = format!("control socket path too long or invalid: {}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// A descriptor that came with a packet, or `EMFILE` if it was lost because this process has no room for it.
type Descriptor = io::Result<Option<OwnedFd>>;

/// The space is for one descriptor; should padding let the kernel deliver more, the others are closed.
fn receive_packet(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Descriptor)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = retry_on_intr(|| {
        let parts = &mut [IoSliceMut::new(buffer)];
        net::recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fd = control.drain().find_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message { fds.next() } else { None }
    });
    let is_cut = |flag| got.flags.contains(flag);
    // Without room for a single descriptor the kernel gives none.
    if is_cut(ReturnFlags::TRUNC) || is_cut(ReturnFlags::CTRUNC) && fd.is_some() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "control packet too long"));
    }
    let lost = is_cut(ReturnFlags::CTRUNC).then(|| io::Error::from_raw_os_error(libc::EMFILE));
    Ok((got.bytes, lost.map_or(Ok(fd), Err)))
}

/// Not by rustix: whose process id has no 0, which the kernel gives for a process outside our namespace.
fn peer_of(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = mem::size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `peer`, whose fields may have any value.
    check(unsafe {
        let (number, at) = (socket.as_raw_fd(), (&raw mut peer).cast());
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut length)
    })?;
    Ok(peer)
}

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
