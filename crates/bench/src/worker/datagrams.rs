//! UDP with segmentation offload and nothing else: no protocol, no checksum but the kernel's, no
//! retransmission. What a transport over UDP costs more than this is its own.
//!
//! The receiver tells now and then how much has arrived, so that the sender does not flood it.

use super::Ready;
use super::counters::Counters;
use crate::job::{Part, Task};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// UDP payload of a packet of 1500 bytes over IPv4.
const SEGMENT: usize = 1472;
/// Segments of a run: the most of one call.
const RUN: usize = 44;
/// Receive buffer asked for; the sender keeps to a quarter of what was granted.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How long a report may be missing until what is under way counts as lost.
const LOST: Duration = Duration::from_millis(20);
/// Room for what the kernel puts together, and how often that in one call.
const BUFFER: usize = 1 << 16;
const BUFFERS: usize = 8;

pub(super) fn run(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    let socket = open(part)?;
    let peer = if part.listen {
        // Who waits for this has gone, and this process goes too.
        let _ = ready.send(());
        greeted(&socket)?
    } else {
        greet(&socket, part.address)?;
        let _ = ready.send(());
        part.address
    };
    counters.add_flow();
    let end = End { state: UdpSocketState::new((&socket).into())?, socket, peer, counters };
    // The state has made the socket non-blocking; waiting is done by time-outs.
    end.socket.set_nonblocking(false)?;
    match part.task {
        Task::Send => end.send(part.limit),
        Task::Receive => end.receive(),
        Task::Both | Task::Ask | Task::Answer | Task::Connect | Task::Accept => {
            Err(io::Error::new(ErrorKind::Unsupported, "datagrams are only sent or received"))
        }
    }
}

struct End<'a> {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    counters: &'a Counters,
}

impl End<'_> {
    fn send(&self, limit: Option<u64>) -> io::Result<()> {
        self.socket.set_read_timeout(Some(LOST))?;
        let window = (self.socket_buffer()? / 4) as u64;
        let segments = self.state.max_gso_segments().min(RUN);
        let run = vec![0x55; SEGMENT * segments];
        // Both count bytes since the beginning.
        let (mut sent, mut arrived) = (0, 0);
        loop {
            while sent - arrived + run.len() as u64 > window.max(run.len() as u64) {
                let mut report = [0; 8];
                match self.socket.recv(&mut report) {
                    Ok(8) => arrived = u64::from_be_bytes(report).max(arrived),
                    // A late hello.
                    Ok(_) => {}
                    Err(error) if is_timeout(&error) => arrived = sent,
                    Err(error) => return Err(error),
                }
            }
            if limit.is_some_and(|limit| sent >= limit) {
                return Ok(());
            }
            let transmit = Transmit {
                destination: self.peer,
                ecn: None,
                contents: &run,
                segment_size: (segments > 1).then_some(SEGMENT),
                src_ip: None,
            };
            self.state.try_send((&self.socket).into(), &transmit)?;
            self.counters.add_sent(run.len());
            sent += run.len() as u64;
        }
    }

    fn receive(&self) -> io::Result<()> {
        // What the sender has not heard is told again.
        self.socket.set_read_timeout(Some(LOST / 2))?;
        let every = (self.socket_buffer()? / 16) as u64;
        let mut memory = vec![0; BUFFER * BUFFERS];
        let (mut arrived, mut told) = (0_u64, 0);
        loop {
            let mut slices: Vec<_> = memory.chunks_mut(BUFFER).map(IoSliceMut::new).collect();
            let mut meta = [RecvMeta::default(); BUFFERS];
            match self.state.recv((&self.socket).into(), &mut slices, &mut meta) {
                Ok(count) => {
                    let bytes = meta[..count].iter().map(|one| one.len).sum();
                    self.counters.add_received(bytes);
                    arrived += bytes as u64;
                }
                Err(error) if is_timeout(&error) => told = 0,
                Err(error) => return Err(error),
            }
            if arrived - told >= every {
                self.socket.send_to(&arrived.to_be_bytes(), self.peer)?;
                told = arrived;
            }
        }
    }

    fn socket_buffer(&self) -> io::Result<usize> {
        self.state.recv_buffer_size((&self.socket).into())
    }
}

fn open(part: &Part) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(part.address), Type::DGRAM, None)?;
    // The system may grant less.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    let any: SocketAddr = match part.address {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    socket.bind(&if part.listen { part.address } else { any }.into())?;
    Ok(socket.into())
}

/// Says hello until the other side answers.
fn greet(socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    for _ in 0..20 {
        socket.send_to(b"hello", to)?;
        if socket.recv(&mut [0; 8]).is_ok() {
            return Ok(());
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, format!("no answer from {to}")))
}

fn greeted(socket: &UdpSocket) -> io::Result<SocketAddr> {
    let (_, from) = socket.recv_from(&mut [0; 8])?;
    socket.send_to(&0_u64.to_be_bytes(), from)?;
    Ok(from)
}

fn is_timeout(error: &io::Error) -> bool {
    // A port that is not open yet, or no more, is told by ICMP.
    let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionRefused];
    kinds.contains(&error.kind()) || error.kind() == ErrorKind::Interrupted
}
