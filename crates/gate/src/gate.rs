//! The SYN gate: holds a program's socket in SYN_SENT until the destination has answered.
//!
//! A gate is a loopback listener whose accept queue (of one) is filled by a connection of its own,
//! so that the kernel drops every further SYN without an answer. A program's socket connected to
//! it is truly connecting: no events, `EINPROGRESS`, `EALREADY`, time-outs are the kernel's own.
//! Nothing of this needs a privilege.
//!
//! *Opening*: a socket of ours, bound to the gate's port, connects to the waiting socket. Their
//! SYNs meet (simultaneous open, RFC 9293 section 3.5) and both are established.
//!
//! *Resetting* must not show the program a connection that then breaks. A first far end ignores
//! all answers (it demands a hop limit that no answer has), so its SYN moves the waiting socket to
//! SYN_RECEIVED, which no program can tell from SYN_SENT. Then it vanishes. A second far end's SYN
//! is out of place there and is answered by a challenge ACK (RFC 5961 section 4.2), which the
//! second, not knowing what it acknowledges, resets. The program sees one event: failure.

use crate::socket;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// Sockets held or open at one gate before another gate is made: the kernel has about 28,000
/// ports to tell them apart, and finding a free one gets slow when most are taken.
const FULL: usize = 8192;

/// Gates per family. Beyond `16 * FULL` connections the gates are used evenly until the kernel
/// has no port left.
const MAX_GATES: usize = 16;

/// Receive and send buffers of the stack's ends, in bytes. The program must not believe that
/// megabytes are delivered which sit in this host.
const FAR_BUFFER: usize = 256 * 1024;

/// How long a gate may take to be closed.
const FILL_TIME: Duration = Duration::from_secs(1);

const IPV6_MINHOPCOUNT: i32 = 73;

/// The gates of one launcher.
#[derive(Debug, Default)]
pub struct Gates {
    v4: Vec<Gate>,
    v6: Vec<Gate>,
}

/// Names a gate of [`Gates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateId {
    v6: bool,
    index: usize,
}

#[derive(Debug)]
struct Gate {
    address: SocketAddr,
    users: usize,
    _listener: Socket,
    /// Fills the accept queue as long as the gate exists.
    _filler: Socket,
    /// A far end for the next socket whose destination accepts.
    spare: Option<Socket>,
}

impl Gates {
    /// Lets `connect` take a socket to the least used gate of the family, or to one made for the
    /// purpose.
    ///
    /// # Errors
    /// What `connect` says; or when the host has no loopback address of the family, or there are
    /// too many gates, or no descriptors are left.
    pub fn enter(
        &mut self,
        v6: bool,
        fresh: bool,
        connect: impl FnOnce(SocketAddr) -> io::Result<()>,
    ) -> io::Result<GateId> {
        let least = self.family(v6).iter().map(|gate| gate.users).min();
        if fresh || least.is_none_or(|users| users >= FULL) {
            self.add(v6, fresh || least.is_none())?;
        }
        let gates = self.family(v6).iter_mut().enumerate();
        let (index, gate) = gates.min_by_key(|(_, gate)| gate.users).ok_or_else(no_address)?;
        connect(gate.address)?;
        gate.users += 1;
        Ok(GateId { v6, index })
    }

    /// The gate of the family to which the next sockets shall be led that somebody else connects; made if
    /// need be.
    ///
    /// # Errors
    /// As [`Gates::enter`].
    pub fn next(&mut self, v6: bool) -> io::Result<SocketAddr> {
        let least = self.family(v6).iter().map(|gate| gate.users).min();
        if least.is_none_or(|users| users >= FULL) {
            self.add(v6, least.is_none())?;
        }
        let gate = self.family(v6).iter().min_by_key(|gate| gate.users);
        gate.map(|gate| gate.address).ok_or_else(no_address)
    }

    /// Makes a gate and a far end for the next socket, if need be: while its destination is asked there is time
    /// for what would hold the program up after the answer.
    ///
    /// # Errors
    /// As [`Gates::enter`].
    pub fn prepare(&mut self, v6: bool) -> io::Result<()> {
        let address = self.next(v6)?;
        let mut gates = self.family(v6).iter_mut();
        if let Some(gate) = gates.find(|gate| gate.address == address && gate.spare.is_none()) {
            gate.spare = Some(far_end(address)?);
        }
        Ok(())
    }

    /// Takes in a socket that somebody else has connected to the gate at this port.
    pub fn take_in(&mut self, v6: bool, port: u16) -> Option<GateId> {
        let index = self.family(v6).iter().position(|gate| gate.address.port() == port)?;
        self.family(v6).get_mut(index)?.users += 1;
        Some(GateId { v6, index })
    }

    /// Takes one user off a gate.
    pub fn leave(&mut self, id: GateId) {
        if let Some(gate) = self.family(id.v6).get_mut(id.index) {
            gate.users = gate.users.saturating_sub(1);
        }
    }

    /// Begins to connect to a socket that waits at the gate. Ready for writing means done or
    /// failed.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` while an earlier connection of the same ports is being forgotten;
    /// `ECONNREFUSED` when the program has closed its socket.
    pub fn open(&mut self, id: GateId, waiting: SocketAddr) -> io::Result<Socket> {
        let gate = self.family(id.v6).get_mut(id.index).ok_or_else(no_address)?;
        let far = gate.spare.take().map_or_else(|| far_end(gate.address), Ok)?;
        begin(&far, waiting)?;
        Ok(far)
    }

    /// Makes the socket that waits at the gate fail with `ECONNRESET`.
    ///
    /// # Errors
    /// As [`Gates::open`].
    pub fn reset(&self, id: GateId, waiting: SocketAddr) -> io::Result<()> {
        let deaf = self.bound(id)?;
        if id.v6 {
            socket::set_int(deaf.as_fd(), libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT, 255)?;
        } else {
            socket::set_int(deaf.as_fd(), libc::IPPROTO_IP, libc::IP_MINTTL, 255)?;
        }
        begin(&deaf, waiting)?;
        drop(deaf);
        begin(&self.bound(id)?, waiting)
    }

    fn family(&mut self, v6: bool) -> &mut Vec<Gate> {
        if v6 { &mut self.v6 } else { &mut self.v4 }
    }

    /// Adds a gate; if there are too many already, or none can be made, that matters only when it
    /// is `needed`.
    fn add(&mut self, v6: bool, needed: bool) -> io::Result<()> {
        let gates = self.family(v6);
        let made = if gates.len() < MAX_GATES { Gate::new(v6) } else { Err(no_address()) };
        match made {
            Ok(gate) => gates.push(gate),
            Err(e) if needed => return Err(e),
            Err(_) => {}
        }
        Ok(())
    }

    /// A socket of ours at the gate's own port.
    fn bound(&self, id: GateId) -> io::Result<Socket> {
        let gates = if id.v6 { &self.v6 } else { &self.v4 };
        bound(gates.get(id.index).ok_or_else(no_address)?.address)
    }
}

impl Gate {
    fn new(v6: bool) -> io::Result<Self> {
        let ip = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let at = SocketAddr::new(ip, 0);
        let listener = bound(at)?;
        listener.listen(0)?;
        let address = listener.local_addr()?;
        let filler = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
        filler.connect_timeout(&address, FILL_TIME)?;
        await_filler(&listener)?;
        let address = address.as_socket().unwrap_or(at);
        Ok(Self { address, users: 0, _listener: listener, _filler: filler, spare: None })
    }
}

/// The filler believes in its connection before the listener does. A socket that came in between
/// would be let in.
fn await_filler(listener: &Socket) -> io::Result<()> {
    let limit = Instant::now() + FILL_TIME;
    while socket::ready(listener.as_fd(), libc::POLLIN) == 0 {
        if Instant::now() > limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// A socket that shares its port with the gate's listener and with all other far ends.
fn bound(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket at the gate's own port, with what the stack's end of a connection needs from the beginning. The stack sets
/// what it needs for reading and writing.
fn far_end(address: SocketAddr) -> io::Result<Socket> {
    let far = bound(address)?;
    far.set_recv_buffer_size(FAR_BUFFER)?;
    far.set_send_buffer_size(FAR_BUFFER)?;
    // Until the stack closes it in order, its end is an accident that the program must notice.
    far.set_linger(Some(Duration::ZERO))?;
    Ok(far)
}

fn no_address() -> io::Error {
    io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)
}

fn begin(far: &Socket, waiting: SocketAddr) -> io::Result<()> {
    match far.connect(&waiting.into()) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
