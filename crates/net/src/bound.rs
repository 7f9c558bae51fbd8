//! A path's socket in the user's poll.

use crate::any_io::Io;
use crate::bind::Opened;
use crate::error_queue::{ErrorKind, Quote};
use crate::lent::{LentIo, Line};
use crate::path_io::{PathIo, UdpIo};
use crate::receive::Datagram;
use crate::socket::{PathSocket, SocketStatus};
use crate::socket_option;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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
    /// To the server before this one, which gets what concerns nobody here.
    predecessor: Option<Line>,
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
            predecessor: None,
        })
    }

    /// Takes the socket out of the poll, before it is closed.
    pub(crate) fn deregister(self) {
        // Closing does the same, as long as nobody has a copy of the descriptor.
        self.forget(self.path.io.socket().as_raw_fd());
        if let Io::Lent(lent) = &self.path.io {
            self.forget(lent.line().as_raw_fd());
        }
    }

    fn forget(&self, fd: RawFd) {
        // It may not be there.
        let _ = self.registry.deregister(&mut SourceFd(&fd));
    }

    /// Reads `line` in place of the socket from now on: its other end reads that.
    pub(crate) fn lend(&mut self, line: OwnedFd) -> io::Result<()> {
        let socket = self.path.io.socket();
        let lent = LentIo::new(UdpIo::new(socket.try_clone()?)?, line)?;
        let fd = lent.line().as_raw_fd();
        self.registry.register(&mut SourceFd(&fd), self.token, Interest::READABLE)?;
        self.forget(socket.as_raw_fd());
        self.path.io = Io::Lent(lent);
        self.renew()
    }

    /// Reads the socket itself again, if nobody else does any more.
    pub(crate) fn take_back(&mut self) -> io::Result<()> {
        let Io::Lent(lent) = &self.path.io else { return Ok(()) };
        if !lent.is_closed() {
            return Ok(());
        }
        let own = UdpIo::new(lent.udp().socket().try_clone()?)?;
        self.forget(lent.line().as_raw_fd());
        self.forget(lent.udp().socket().as_raw_fd());
        let fd = own.socket().as_raw_fd();
        self.registry.register(&mut SourceFd(&fd), self.token, Interest::READABLE)?;
        self.path.io = Io::Udp(own);
        self.unread = true;
        self.renew()
    }

    /// The socket has a new descriptor.
    fn renew(&mut self) -> io::Result<()> {
        self.awaits_writable = false;
        self.await_writable_if_blocked();
        if self.path.fragments {
            self.path.io.allow_fragmentation()?;
        }
        Ok(())
    }

    /// The interface that it is bound to.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    pub(crate) const fn is_lent(&self) -> bool {
        matches!(self.path.io, Io::Lent(_))
    }

    /// What has come over the line beside datagrams.
    pub(crate) fn has_reports(&self) -> bool {
        matches!(&self.path.io, Io::Lent(lent) if lent.has_reports())
    }

    /// From now on strays are passed on; the other end of the line is for who gets them.
    pub(crate) fn pass_strays_on(&mut self) -> io::Result<OwnedFd> {
        let (line, theirs) = Line::new()?;
        self.predecessor = Some(line);
        Ok(theirs)
    }

    pub(crate) const fn passes_strays_on(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Passes on `bytes` of a datagram of which nothing was taken here.
    pub(crate) fn pass_on(&mut self, datagram: &Datagram<&[u8]>) {
        self.pass(|line| line.pass_on(datagram));
    }

    /// Passes on a report that concerns nobody here.
    pub(crate) fn pass_report_on(
        &mut self,
        (kind, remote): (ErrorKind, SocketAddr),
        mtu: u16,
        quote: &Quote,
    ) {
        self.pass(|line| line.report(kind, remote, mtu, quote));
    }

    fn pass(&mut self, send: impl FnOnce(&Line) -> io::Result<()>) {
        let Some(line) = &self.predecessor else { return };
        self.path.counters.passed_on += 1;
        match send(line) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.path.counters.pass_on_dropped += 1;
            }
            // It has ended.
            Err(_) => self.predecessor = None,
        }
    }

    /// Writability is asked for only while packets wait: else every packet that leaves the
    /// interface would wake the loop. Tells whether that has changed, and to what.
    pub(crate) fn await_writable_if_blocked(&mut self) -> Option<bool> {
        let blocked = self.path.is_blocked();
        if blocked == self.awaits_writable {
            return None;
        }
        let readable = Interest::READABLE;
        let fd = self.path.io.socket().as_raw_fd();
        let mut source = SourceFd(&fd);
        match (self.is_lent(), blocked) {
            (false, true) => {
                self.registry.reregister(&mut source, self.token, readable | Interest::WRITABLE)
            }
            (false, false) => self.registry.reregister(&mut source, self.token, readable),
            (true, true) => self.registry.register(&mut source, self.token, Interest::WRITABLE),
            (true, false) => self.registry.deregister(&mut source),
        }
        .ok()?;
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
