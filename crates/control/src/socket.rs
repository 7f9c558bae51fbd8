//! One control connection: JSON messages in packets, with at most one file descriptor each.

use crate::error::ControlError;
use crate::listener;
use crate::runtime;
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
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
    /// A message and the file descriptor that came with it.
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
        let mut fds: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `fds` has room for the two descriptors the kernel writes.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
        // SAFETY: the kernel has just made both descriptors; nobody else owns them.
        let own = fds.map(|fd| Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } });
        let [left, right] = own;
        Ok((left, right))
    }

    /// Connects to the stack that listens at `path`.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` when no stack listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        listener::connect(path)
    }

    /// Takes over a descriptor that is a connected `SOCK_SEQPACKET` socket, such as one inherited
    /// from a launcher.
    ///
    /// # Errors
    /// When the descriptor is not open or is not such a socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let kind: libc::c_int = option(fd.as_fd(), libc::SO_TYPE)?;
        if kind != libc::SOCK_SEQPACKET {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a control socket"));
        }
        Ok(Self { fd })
    }

    /// Makes calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Never for a valid descriptor.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        let mut flag = libc::c_int::from(on);
        // SAFETY: FIONBIO reads one int, which outlives the call.
        check(unsafe { libc::ioctl(self.as_raw_fd(), libc::FIONBIO, &raw mut flag) })?;
        Ok(())
    }

    /// Limits how long a blocking [`ControlSocket::receive`] waits; `None` for ever.
    ///
    /// # Errors
    /// Never for a valid descriptor.
    pub fn set_receive_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map_or(Duration::ZERO, |d| d.max(Duration::from_millis(1)));
        let value =
            libc::timeval { tv_sec: limit.as_secs() as _, tv_usec: limit.subsec_micros() as _ };
        let length = mem::size_of_val(&value) as libc::socklen_t;
        // SAFETY: the option reads one timeval, which outlives the call.
        check(unsafe {
            let value = (&raw const value).cast();
            libc::setsockopt(self.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, length)
        })?;
        Ok(())
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// Never for a connected socket.
    pub fn peer_credentials(&self) -> io::Result<Credentials> {
        let raw: libc::ucred = option(self.as_fd(), libc::SO_PEERCRED)?;
        Ok(Credentials { pid: raw.pid.cast_unsigned(), uid: raw.uid, gid: raw.gid })
    }

    /// Whether the other end belongs to the user of this process or to root. Whoever else got to the socket's
    /// file must neither ask nor order anything.
    pub fn is_of_owner_or_root(&self) -> bool {
        self.peer_credentials().is_ok_and(|peer| [0, runtime::user()].contains(&peer.uid))
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
            let (length, fd) = match self.receive_bytes(buffer) {
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
            Ok(Incoming::Message(message, fd))
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
        send_packet(self.as_raw_fd(), bytes, fd.map(|fd| fd.as_raw_fd()))
    }

    /// Receives one packet of bytes; 0 bytes mean that the other side has closed.
    ///
    /// # Errors
    /// As the kernel says; `InvalidData` when the packet does not fit.
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        receive_packet(self.as_raw_fd(), buffer)
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

/// Room for one descriptor's control message; a union only for its alignment.
#[repr(C)]
union FdSpace {
    bytes: [u8; 64],
    _align: libc::cmsghdr,
}

/// Bytes of a control message that carries one descriptor.
const fn fd_space() -> usize {
    // SAFETY: pure arithmetic.
    unsafe { libc::CMSG_SPACE(mem::size_of::<RawFd>() as u32) as usize }
}

pub(crate) fn send_packet(socket: RawFd, text: &[u8], fd: Option<RawFd>) -> io::Result<()> {
    let mut slice = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let mut space = FdSpace { bytes: [0; 64] };
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut slice;
    header.msg_iovlen = 1;
    if let Some(fd) = fd {
        header.msg_control = (&raw mut space).cast();
        header.msg_controllen = fd_space() as _;
        // SAFETY: the control buffer is aligned and holds `fd_space()` bytes, so the first header
        // and its one descriptor lie inside it.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(fd);
        }
    }
    loop {
        // SAFETY: the header points to live buffers of the stated lengths.
        let sent = unsafe { libc::sendmsg(socket, &raw const header, SEND_FLAGS) };
        match interrupted(sent)? {
            Some(_) => return Ok(()),
            None => continue,
        }
    }
}

fn receive_packet(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut space = FdSpace { bytes: [0; 64] };
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut slice;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut space).cast();
    header.msg_controllen = fd_space() as _;
    let length = loop {
        // SAFETY: the header points to live buffers of the stated lengths.
        let got = unsafe { libc::recvmsg(socket, &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if let Some(length) = interrupted(got)? {
            break length;
        }
    };
    let fd = received_fd(&header);
    if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "control packet too long"));
    }
    Ok((length, fd))
}

/// The descriptor in a received header. The space is sized for one; should alignment padding ever
/// let the kernel deliver two, the second is closed, not leaked.
fn received_fd(header: &libc::msghdr) -> Option<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer the header points to and set its length;
    // the CMSG macros stay inside it. Each descriptor is new and ours.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*at).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(at).cast::<RawFd>();
                for i in 0..bytes / mem::size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    fds.into_iter().next()
}

fn interrupted(result: isize) -> io::Result<Option<usize>> {
    match usize::try_from(result) {
        Ok(length) => Ok(Some(length)),
        Err(_) => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(None),
            e => Err(e),
        },
    }
}

pub(crate) fn option<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut value = mem::MaybeUninit::<T>::zeroed();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`; both types used here (int and
    // ucred) are valid for every bit pattern, so a short answer is still initialised.
    unsafe {
        let at = value.as_mut_ptr().cast();
        check(libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, at, &raw mut length))?;
        Ok(value.assume_init())
    }
}

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
