//! A path's socket in the user's poll.

use crate::bind::Opened;
use crate::path_io::Io;
use crate::socket::{PathSocket, SocketStatus};
use crate::socket_option;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::SockRef;
use std::io;
use std::os::fd::AsRawFd;

/// A socket in the user's poll.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) token: Token,
    registry: Registry,
    pub(crate) path: PathSocket<Io>,
    device: Option<String>,
    device_error: Option<String>,
    /// Whether the poll reports that the socket has become writable.
    pub(crate) awaits_writable: bool,
    /// Whether a turn has left datagrams in the kernel that no new event will report.
    pub(crate) unread: bool,
}

impl Bound {
    pub(crate) fn register(registry: &Registry, token: Token, opened: Opened) -> io::Result<Self> {
        let Opened { io, address, device, device_error } = opened;
        let registry = registry.try_clone()?;
        let fd = io.socket().as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        let path = PathSocket::new(io, address.addr);
        Ok(Self {
            token,
            registry,
            path,
            device,
            device_error,
            awaits_writable: false,
            unread: false,
        })
    }

    /// Takes the socket out of the poll, before it is closed.
    pub(crate) fn deregister(self) {
        // Closing does the same, as long as nobody has a copy of the descriptor.
        let _ = self.registry.deregister(&mut SourceFd(&self.path.io.socket().as_raw_fd()));
    }

    /// Writability is asked for only while packets wait: else every packet that leaves the
    /// interface would wake the loop. Tells whether that has changed, and to what.
    pub(crate) fn await_writable_if_blocked(&mut self) -> Option<bool> {
        let blocked = self.path.is_blocked();
        if blocked == self.awaits_writable {
            return None;
        }
        let readable = Interest::READABLE;
        let interest = if blocked { readable | Interest::WRITABLE } else { readable };
        let fd = self.path.io.socket().as_raw_fd();
        self.registry.reregister(&mut SourceFd(&fd), self.token, interest).ok()?;
        self.awaits_writable = blocked;
        Some(blocked)
    }

    pub(crate) fn status(&self) -> SocketStatus {
        let socket = self.path.io.socket();
        SocketStatus {
            local: self.path.local,
            device: self.device.clone(),
            device_error: self.device_error.clone(),
            receive_buffer: SockRef::from(socket).recv_buffer_size().unwrap_or(0),
            send_buffer: SockRef::from(socket).send_buffer_size().unwrap_or(0),
            receive_overflows: socket_option::receive_overflows(socket),
            offload: self.path.offload.is_trusted(),
            fragments: self.path.fragments,
            waiting: self.path.waiting.bytes(),
            counters: self.path.counters.clone(),
        }
    }
}
