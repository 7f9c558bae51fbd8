//! One TCP connection that carries SCTP packets, each behind its length in two bytes (network byte order). The end that
//! has connected begins with [`GREETING`]. All that may be wrapped (`wrap.rs`).

use super::hello::{self, Client, MAX_HELLO};
use super::wrap::Wrap;
use crate::counters::Counters;
use crate::socket_option;
use manypath_engine::Instant;
use socket2::Socket;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// The first bytes of the end that has connected: no beginning of TLS, SSH or HTTP.
pub(crate) const GREETING: &[u8; 8] = b"mpath/1\n";
/// The end of a proxy's answer, and its largest size.
const HEAD_END: &[u8] = b"\r\n\r\n";
const MAX_ANSWER: usize = 8 << 10;
/// Bytes of a length.
const PREFIX: usize = 2;
/// Largest packet: that of a jumbo frame.
pub(crate) const MAX_PACKET: usize = 9216;
/// Bytes that wait for the kernel at most. It is a queue as that of an interface: packets beyond it are dropped.
const MAX_WAITING: usize = 128 << 10;
/// As many while a connection that was accepted is no path of an association.
const MAX_WAITING_UNPROVEN: usize = 8 << 10;
/// Bytes that the kernel takes without having sent them. What waits there cannot be dropped any more.
const UNSENT: libc::c_int = 64 << 10;
/// Bytes read at a time, and after which the other connections have their turn.
const READ_SIZE: usize = 64 << 10;
/// Wrapped bytes read in one turn: there may be little inside of them.
const WIRE_SIZE: usize = 2 * READ_SIZE;
/// How long the other host may leave bytes unacknowledged, in milliseconds.
const USER_TIMEOUT: libc::c_int = 20_000;

/// A connection, its queue, and the packet of which a part has come.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    wrap: Option<Box<dyn Wrap>>,
    /// Whether the connection is there.
    pub(crate) open: bool,
    /// What a proxy has answered, until that is complete. What is behind `sent_first` bytes of `waiting` waits for it.
    answer: Option<Vec<u8>>,
    sent_first: usize,
    /// Bytes of the greeting that are still to come.
    greeting: usize,
    waiting: Vec<u8>,
    /// Bytes that may wait.
    room: usize,
    /// Bytes at the front of `waiting` that the kernel has.
    sent: usize,
    partial: Vec<u8>,
    pub(crate) begun: Instant,
    /// When a packet of an association last came, over a path of that.
    pub(crate) proven: Option<Instant>,
    /// Packets before the first one of an association.
    pub(crate) unproven_packets: u32,
}

/// The connection is over: why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// Closed by the other end, or broken.
    Closed,
    /// The other end does not speak this protocol.
    Foreign,
}

impl Stream {
    /// A connection that is being made here; to a proxy, if there is a `request` for it. What follows is wrapped in `wrap`.
    pub(crate) fn dialled(
        socket: Socket,
        now: Instant,
        request: Option<String>,
        wrap: Option<Box<dyn Wrap>>,
    ) -> io::Result<Self> {
        let stream = Self::new(socket, now)?;
        let answer = request.as_ref().map(|_| Vec::new());
        let mut waiting = request.unwrap_or_default().into_bytes();
        let sent_first = waiting.len();
        waiting.extend(GREETING);
        let (room, open, greeting) = (MAX_WAITING, false, 0);
        Ok(Self { wrap, waiting, room, answer, sent_first, open, greeting, ..stream })
    }

    /// A connection that another host has made.
    pub(crate) fn accepted(socket: Socket, now: Instant) -> io::Result<Self> {
        Self::new(socket, now)
    }

    fn new(socket: Socket, now: Instant) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let tcp = |name, value| socket_option::set(&socket, libc::IPPROTO_TCP, name, value);
        tcp(libc::TCP_NOTSENT_LOWAT, UNSENT)?;
        tcp(libc::TCP_USER_TIMEOUT, USER_TIMEOUT)?;
        let (waiting, partial) = Default::default();
        Ok(Self {
            socket,
            wrap: None,
            open: true,
            answer: None,
            sent_first: 0,
            greeting: GREETING.len(),
            waiting,
            room: MAX_WAITING_UNPROVEN,
            sent: 0,
            partial,
            begun: now,
            proven: None,
            unproven_packets: 0,
        })
    }

    /// Whom a connection that was accepted is for, as far as what has come says. That stays in the kernel.
    pub(crate) fn judge(&self, protocol: &[u8]) -> Result<Client, Over> {
        let mut bytes = Vec::with_capacity(MAX_HELLO);
        match self.socket.peek(bytes.spare_capacity_mut()) {
            Ok(0) => Err(Over::Closed),
            Ok(count) => {
                // SAFETY: the kernel has written so many bytes at the front.
                unsafe { bytes.set_len(count) };
                Ok(hello::judge(&bytes, protocol))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Client::Unknown),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Client::Unknown),
            Err(_) => Err(Over::Closed),
        }
    }

    /// From now on the connection is wrapped. Nothing has been read from it.
    pub(crate) fn wrap_in(&mut self, wrap: Box<dyn Wrap>) {
        self.wrap = Some(wrap);
    }

    /// The connection itself.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Learns what came of connecting, once the socket is writable.
    pub(crate) fn finish_connecting(&mut self) -> io::Result<()> {
        if !self.open {
            self.socket.take_error()?.map_or(Ok(()), Err)?;
            self.socket.peer_addr()?;
            self.open = true;
        }
        Ok(())
    }

    /// A packet of an association has come, over a path of that.
    pub(crate) const fn prove(&mut self, now: Instant) {
        (self.proven, self.room) = (Some(now), MAX_WAITING);
    }

    /// Queues packets of `size` bytes each, of which the last may be shorter, and gives the kernel what it takes.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        size: usize,
        counters: &mut Counters,
    ) -> Result<(), Over> {
        for packet in bytes.chunks(size.max(1)) {
            let full = self.waiting.len() - self.sent + packet.len() > self.room;
            match (packet.len() > MAX_PACKET, full) {
                (true, _) => counters.dropped_too_big += 1,
                (false, true) => counters.carrier_queue_full += 1,
                (false, false) => {
                    self.waiting.extend((packet.len() as u16).to_be_bytes());
                    self.waiting.extend(packet);
                    counters.packets_sent += 1;
                    counters.bytes_sent += packet.len() as u64;
                }
            }
        }
        self.flush(counters)
    }

    /// Gives the kernel what it takes of what waits.
    pub(crate) fn flush(&mut self, counters: &mut Counters) -> Result<(), Over> {
        self.flush_wrap()?;
        let end = if self.answer.is_some() { self.sent_first } else { self.waiting.len() };
        while self.open && self.sent < end {
            counters.send_calls += 1;
            match self.write(end) {
                Ok(0) => return Err(Over::Closed),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    counters.send_blocked += 1;
                    break;
                }
                Err(_) => return Err(Over::Closed),
            }
        }
        if self.sent == self.waiting.len() {
            self.waiting.clear();
            self.sent = 0;
        } else if self.sent > MAX_WAITING / 2 {
            self.waiting.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn write(&mut self, end: usize) -> io::Result<usize> {
        let bytes = &self.waiting[self.sent..end];
        let Some(wrap) = self.wrap.as_mut().filter(|_| self.answer.is_none()) else {
            return (&self.socket).write(bytes);
        };
        // What the kernel has not taken keeps its place before more is wrapped.
        if !wrap.write_wire(&mut &self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = wrap.write(bytes)?;
        wrap.write_wire(&mut &self.socket)?;
        Ok(taken)
    }

    /// Gives the kernel what the wrapping wants to say by itself.
    fn flush_wrap(&mut self) -> Result<(), Over> {
        match self.wrap.as_mut().filter(|_| self.open && self.answer.is_none()) {
            Some(wrap) => wrap.write_wire(&mut &self.socket).map_or(Err(Over::Closed), |_| Ok(())),
            None => Ok(()),
        }
    }

    /// Reads what has come; nothing once `wire` bytes of a wrapped connection were read.
    fn read(&mut self, into: &mut [u8], wire: &mut usize) -> io::Result<Option<usize>> {
        let Some(wrap) = self.wrap.as_mut().filter(|_| self.answer.is_none()) else {
            return (&self.socket).read(into).map(Some);
        };
        loop {
            match wrap.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            if *wire == 0 {
                return Ok(None);
            }
            let count = wrap.read_wire(&mut &self.socket)?;
            if count == 0 {
                return Ok(Some(0));
            }
            *wire = wire.saturating_sub(count);
        }
    }

    /// Reads what has come, up to a bound, and appends whole packets to `inbox`, each behind its length. What is there
    /// is good also where the connection is over. Whether bytes are left in the kernel that no new event will report.
    pub(crate) fn receive(&mut self, inbox: &mut Inbox) -> Result<bool, Over> {
        inbox.scratch.resize(READ_SIZE, 0);
        let (mut read, mut wire) = (0, WIRE_SIZE);
        while read < READ_SIZE {
            let count = match self.read(&mut inbox.scratch, &mut wire) {
                Ok(Some(0)) => return Err(Over::Closed),
                Ok(Some(count)) => count,
                Ok(None) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Over::Foreign);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(Over::Closed),
            };
            read += count;
            let Inbox { scratch, packets } = inbox;
            self.take(&scratch[..count], packets)?;
        }
        Ok(true)
    }

    fn take(&mut self, mut bytes: &[u8], packets: &mut Packed) -> Result<(), Over> {
        if let Some(answer) = &mut self.answer {
            let before = answer.len();
            answer.extend(bytes);
            let Some(end) = answer.windows(HEAD_END.len()).position(|four| four == HEAD_END) else {
                return if answer.len() > MAX_ANSWER { Err(Over::Foreign) } else { Ok(()) };
            };
            if !answer.starts_with(b"HTTP/1.") || answer.get(8..12) != Some(b" 200") {
                return Err(Over::Foreign);
            }
            bytes = &bytes[end + HEAD_END.len() - before..];
            self.answer = None;
            // Nobody speaks first inside of TLS but its client.
            if self.wrap.is_some() && !bytes.is_empty() {
                return Err(Over::Foreign);
            }
        }
        if self.greeting > 0 {
            let (now, rest) = bytes.split_at(self.greeting.min(bytes.len()));
            let begin = GREETING.len() - self.greeting;
            if now != &GREETING[begin..begin + now.len()] {
                return Err(Over::Foreign);
            }
            self.greeting -= now.len();
            bytes = rest;
        }
        while !bytes.is_empty() {
            let wanted = match self.partial[..] {
                [high, low, ..] => PREFIX + usize::from(u16::from_be_bytes([high, low])),
                _ => PREFIX,
            };
            let (now, rest) = bytes.split_at((wanted - self.partial.len()).min(bytes.len()));
            self.partial.extend(now);
            bytes = rest;
            if self.partial.len() < wanted || wanted == PREFIX && self.is_announced()? {
                continue;
            }
            packets.push(&self.partial[PREFIX..]);
            self.partial.clear();
        }
        Ok(())
    }

    /// A length is complete, and no byte of its packet is there.
    fn is_announced(&self) -> Result<bool, Over> {
        let length = usize::from(u16::from_be_bytes([self.partial[0], self.partial[1]]));
        if length == 0 || length > MAX_PACKET { Err(Over::Foreign) } else { Ok(true) }
    }
}

/// Packets one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn push(&mut self, packet: &[u8]) {
        self.bytes.extend(packet);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of all of them.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Packets are opened where they are.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (mut rest, mut begin) = (&mut self.bytes[..], 0);
        self.ends.iter().map(move |end| {
            let (packet, behind) = std::mem::take(&mut rest).split_at_mut(end - begin);
            (rest, begin) = (behind, *end);
            packet
        })
    }
}

/// Memory for reading, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    scratch: Vec<u8>,
    pub(crate) packets: Packed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn accepted() -> (TcpStream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        (client, Stream::accepted(socket.into(), Instant::ZERO).unwrap())
    }

    /// What came, however the bytes are cut.
    fn take(stream: &mut Stream, bytes: &[u8], cut: usize) -> (Vec<Vec<u8>>, Result<(), Over>) {
        let mut packets = Packed::default();
        let taken = bytes.chunks(cut).try_for_each(|piece| stream.take(piece, &mut packets));
        (packets.iter_mut().map(|packet| packet.to_vec()).collect(), taken)
    }

    #[test]
    fn packets_are_found_however_the_stream_is_cut() {
        let bytes = [&GREETING[..], &[0, 1, 7, 0, 3, 1, 2, 3, 0, 2, 9, 9]].concat();
        for cut in 1..bytes.len() {
            let (_client, mut stream) = accepted();
            let (packets, taken) = take(&mut stream, &bytes, cut);
            assert_eq!((packets, taken), (vec![vec![7], vec![1, 2, 3], vec![9, 9]], Ok(())));
            assert!(stream.partial.is_empty());
        }
    }

    #[test]
    fn a_proxy_answers_before_anything_is_sent_through_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut proxy, _) = listener.accept().unwrap();
        let request = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n".to_owned();
        let asked = Some(request.clone());
        let mut stream = Stream::dialled(socket.into(), Instant::ZERO, asked, None).unwrap();
        stream.finish_connecting().unwrap();
        let mut counters = Counters::default();
        stream.send(&[7; 5], 5, &mut counters).unwrap();
        let mut read = |len: usize| {
            let mut bytes = vec![0; len];
            proxy.read_exact(&mut bytes).map(|()| bytes).unwrap()
        };
        assert_eq!(read(request.len()), request.as_bytes());
        assert_eq!(stream.sent, request.len(), "the rest waits");
        let answer = b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n\0\x01\x09";
        assert_eq!(take(&mut stream, answer, 7), (vec![vec![9]], Ok(())));
        stream.flush(&mut counters).unwrap();
        assert_eq!(read(15), [&GREETING[..], &[0, 5, 7, 7, 7, 7, 7]].concat());
    }

    #[test]
    fn a_proxy_that_refuses_ends_the_connection() {
        for answer in [&b"HTTP/1.1 403 Forbidden\r\n\r\n"[..], &[b'x'; MAX_ANSWER + 1]] {
            let (client, _) = accepted();
            let asked = Some("CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n".to_owned());
            let mut stream = Stream::dialled(client.into(), Instant::ZERO, asked, None).unwrap();
            assert_eq!(take(&mut stream, answer, answer.len()), (vec![], Err(Over::Foreign)));
        }
    }

    #[test]
    fn whatever_is_no_packet_ends_the_connection() {
        let long = u16::try_from(MAX_PACKET + 1).unwrap().to_be_bytes();
        let wrong = [
            b"GET / HTTP/1.1\r\n".to_vec(),
            vec![0x16, 3, 1, 2, 0],
            [&GREETING[..], &[0, 0]].concat(),
            [&GREETING[..], &long].concat(),
        ];
        for bytes in wrong {
            let (_client, mut stream) = accepted();
            assert_eq!(take(&mut stream, &bytes, bytes.len()), (vec![], Err(Over::Foreign)));
        }
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let (client, mut stream) = accepted();
        let mut counters = Counters::default();
        for _ in 0..20_000 {
            assert_eq!(stream.send(&[5; 1400], 1400, &mut counters), Ok(()));
        }
        assert!(counters.carrier_queue_full > 0, "{counters:?}");
        assert!(stream.waiting.len() <= 2 * MAX_WAITING, "{}", stream.waiting.len());
        drop(client);
        let mut inbox = Inbox::default();
        // A busy kernel takes its time to tell of the end.
        let mut ends = (0..10_000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            stream.receive(&mut inbox)
        });
        assert_eq!(ends.find(|end| *end != Ok(false)), Some(Err(Over::Closed)));
    }
}
