//! What UDP could do at best: runs of equal datagrams that the kernel segments (GSO) and puts together
//! again (GRO), nothing acknowledged, nothing repeated.

use crate::options::Options;
use crate::{Report, Span, await_line, say};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::SockRef;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// What fits into an IPv4 packet of an Ethernet.
const DATAGRAM: usize = 1472;
const RUN: usize = 44;
const BUFFERS: usize = 16;
const BUFFER: usize = 1 << 16;
/// Silence that ends a transfer.
const SILENCE: Duration = Duration::from_millis(300);

pub(crate) fn receive(options: &Options) -> io::Result<Report> {
    let (socket, state, mut readiness) = open(options.address)?;
    say(&format!("ready {}", socket.local_addr()?));
    let mut memory = vec![0; BUFFERS * BUFFER];
    let mut parts: Vec<_> = memory.chunks_exact_mut(BUFFER).map(IoSliceMut::new).collect();
    let mut meta = [RecvMeta::default(); BUFFERS];
    let (mut bytes, mut packets, mut calls) = (0, 0, 0);
    let mut span = Span::default();
    while readiness.wait(Interest::READABLE)? || span.first.is_none() {
        while let Some(count) = unless_blocked(state.recv((&socket).into(), &mut parts, &mut meta))?
        {
            span.touch();
            calls += 1;
            for one in &meta[..count] {
                bytes += one.len as u64;
                packets += one.len.div_ceil(one.stride.max(1)) as u64;
            }
        }
    }
    Ok(Report { bytes, seconds: span.seconds(), packets, calls, more: String::new() })
}

pub(crate) fn send(options: &Options) -> io::Result<Report> {
    let unspecified = if options.address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let (socket, state, mut readiness) = open(unspecified.parse().map_err(io::Error::other)?)?;
    say(&format!("ready {}", socket.local_addr()?));
    await_line();
    let contents = vec![0x55; RUN * DATAGRAM];
    let transmit = Transmit {
        destination: options.address,
        ecn: None,
        contents: &contents,
        segment_size: Some(DATAGRAM),
        src_ip: None,
    };
    let (began, mut calls) = (Instant::now(), 0);
    while began.elapsed() < options.time {
        match unless_blocked(state.try_send((&socket).into(), &transmit))? {
            Some(()) => calls += 1,
            None => drop(readiness.wait(Interest::WRITABLE)?),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let (bytes, packets) = (calls * contents.len() as u64, calls * RUN as u64);
    Ok(Report { bytes, seconds, packets, calls, more: String::new() })
}

fn open(addr: SocketAddr) -> io::Result<(UdpSocket, UdpSocketState, Readiness)> {
    let socket = UdpSocket::bind(addr)?;
    let state = UdpSocketState::new((&socket).into())?;
    let options = SockRef::from(&socket);
    options.set_recv_buffer_size(8 << 20)?;
    options.set_send_buffer_size(2 << 20)?;
    let readiness = Readiness::new(&socket)?;
    Ok((socket, state, readiness))
}

fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

struct Readiness {
    poll: Poll,
    events: Events,
    fd: RawFd,
}

impl Readiness {
    fn new(socket: &UdpSocket) -> io::Result<Self> {
        let (poll, fd) = (Poll::new()?, socket.as_raw_fd());
        poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE)?;
        Ok(Self { poll, events: Events::with_capacity(1), fd })
    }

    /// Whether that came before the silence was too long.
    fn wait(&mut self, interest: Interest) -> io::Result<bool> {
        self.poll.registry().reregister(&mut SourceFd(&self.fd), Token(0), interest)?;
        self.poll.poll(&mut self.events, Some(SILENCE))?;
        Ok(!self.events.is_empty())
    }
}
