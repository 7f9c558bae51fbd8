//! `manypath ssh forward`: connections to ports here go on from the server.

use super::args::ForwardArgs;
use super::link::{Link, Ready, interrupted};
use crate::FAILED;
use crate::failure::Failure;
use manypath_ssh::{ChannelId, Event};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, ToSocketAddrs};
use std::time::Duration;

/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(200);
/// Connections to the master at most: what waits in it for one of them costs no other one.
const MOST_WIRES: usize = 8;
/// The most read from one connection before others have their turn.
const TURN: usize = 64 << 10;

/// What `-L` says: where to listen, and where connections go to from the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Forward {
    listen: (String, u16),
    to: (String, u16),
}

impl Forward {
    /// Reads `[address:]port:host:port`, with IPv6 addresses in brackets.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fields = fields(text);
        let (listen, to) = match fields.as_slice() {
            [port, host, to] => (("localhost", *port), (*host, *to)),
            [address, port, host, to] => ((*address, *port), (*host, *to)),
            _ => return None,
        };
        let address = |(host, port): (&str, &str)| Some((host.to_owned(), port.parse().ok()?));
        let any = |(host, port): (String, u16)| match host.as_str() {
            "" | "*" => ("0.0.0.0".to_owned(), port),
            _ => (host, port),
        };
        Some(Self { listen: any(address(listen)?), to: address(to)? })
    }
}

/// Reads `host:port`.
pub(crate) fn address(text: &str) -> Option<(String, u16)> {
    let fields = fields(text);
    let [host, port] = fields.as_slice() else { return None };
    Some(((*host).to_owned(), port.parse().ok()?))
}

/// Parts between colons that are not in brackets; the brackets are left out.
fn fields(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ':' && depth == 0
    });
    parts.map(|part| part.trim_matches(['[', ']'])).collect()
}

/// Forwards connections until it is interrupted.
pub(crate) fn forward(args: &ForwardArgs) -> Result<u8, Failure> {
    let parsed = args.forwards.iter().map(|text| {
        Forward::parse(text).ok_or_else(|| {
            Failure::usage(format!("{text} is not a port forward"))
                .hint("as ssh has it: [ADDRESS:]PORT:HOST:PORT")
        })
    });
    let forwards = parsed.collect::<Result<Vec<_>, _>>()?;
    let link = Link::open(&args.login, &args.host)?;
    let mut forwarder = Forwarder {
        link,
        listeners: Vec::new(),
        connections: BTreeMap::new(),
        channels: BTreeMap::new(),
        next: 0,
    };
    for forward in forwards {
        forwarder.listen(forward)?;
    }
    loop {
        forwarder.turn()?;
    }
}

struct Forwarder {
    link: Link,
    listeners: Vec<(Token, TcpListener, Forward)>,
    connections: BTreeMap<Token, Forwarded>,
    channels: BTreeMap<(usize, ChannelId), Token>,
    next: usize,
}

/// One connection.
struct Forwarded {
    stream: TcpStream,
    wire: usize,
    channel: ChannelId,
    is_open: bool,
    readable: bool,
    /// Nothing more is read from the program here.
    read_ended: bool,
    /// What the server has sent and the program has not taken.
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are written.
    written: usize,
    /// The server will send no more.
    ended: bool,
    closed: bool,
}

impl Forwarder {
    fn listen(&mut self, forward: Forward) -> Result<(), Failure> {
        let (host, port) = &forward.listen;
        let error = |e: std::io::Error| {
            Failure::new(format!("cannot listen on {host} port {port}: {e}")).with_status(FAILED)
        };
        let addresses: Vec<_> = (host.as_str(), *port).to_socket_addrs().map_err(error)?.collect();
        let mut bound = 0;
        for address in &addresses {
            // A name may have addresses that this host does not: one is enough.
            match TcpListener::bind(*address) {
                Ok(listener) => {
                    self.add_listener(listener, forward.clone())?;
                    bound += 1;
                }
                Err(e) if bound == 0 && Some(address) == addresses.last() => return Err(error(e)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn add_listener(&mut self, mut listener: TcpListener, forward: Forward) -> Result<(), Failure> {
        let token = self.token();
        self.link.registry().register(&mut listener, token, Interest::READABLE)?;
        self.listeners.push((token, listener, forward));
        Ok(())
    }

    fn token(&mut self) -> Token {
        self.next += 1;
        Link::token(self.next)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let busy = self.connections.values().any(|one| one.readable && self.can_send(one));
        let limit = if busy { Duration::ZERO } else { LOOK };
        let mut ready = Vec::new();
        self.link.turn(Some(limit), &mut ready)?;
        if self.link.is_interrupted() {
            return Err(interrupted());
        }
        for one in ready {
            self.handle_ready(one)?;
        }
        for wire in 0..self.link.wires() {
            while let Some(event) = self.link.connection_mut(wire).poll_event() {
                self.handle_event(wire, event);
            }
        }
        let tokens: Vec<Token> = self.connections.keys().copied().collect();
        for token in tokens {
            self.pump(token);
        }
        Ok(())
    }

    fn can_send(&self, one: &Forwarded) -> bool {
        self.link.has_room(one.wire) && self.link.connection(one.wire).sendable(one.channel) > 0
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), Failure> {
        if let Some(one) = self.connections.get_mut(&ready.token) {
            one.readable |= ready.readable;
        } else if let Some(at) = self.listeners.iter().position(|one| one.0 == ready.token) {
            self.accept(at)?;
        }
        Ok(())
    }

    fn accept(&mut self, at: usize) -> Result<(), Failure> {
        while let Ok((mut stream, from)) = self.listeners[at].1.accept() {
            let now = self.link.now();
            let (host, port) = self.listeners[at].2.to.clone();
            let origin = from.ip().to_string();
            let wire = self.idle_wire()?;
            let connection = self.link.connection_mut(wire);
            let opened = connection.open_forward(now, (&host, port), (&origin, from.port()));
            // Without memory for a window the program sees its connection closed.
            let Some(channel) = opened else { continue };
            let token = self.token();
            let both = Interest::READABLE | Interest::WRITABLE;
            self.link.registry().register(&mut stream, token, both)?;
            let _ = stream.set_nodelay(true);
            self.channels.insert((wire, channel), token);
            self.connections.insert(token, Forwarded::new(stream, wire, channel));
        }
        Ok(())
    }

    /// A wire that carries nothing, or the one with the fewest channels if there are enough.
    fn idle_wire(&mut self) -> Result<usize, Failure> {
        let channels = |wire: &usize| self.link.connection(*wire).open_channels();
        let best = (0..self.link.wires()).min_by_key(channels).unwrap_or(0);
        let is_idle = self.link.connection(best).open_channels() == 0;
        if is_idle || self.link.wires() == MOST_WIRES { Ok(best) } else { self.link.add_wire(0) }
    }

    fn handle_event(&mut self, wire: usize, event: Event) {
        let with = |this: &mut Self, channel, change: fn(&mut Forwarded)| {
            this.with((wire, channel), change);
        };
        match event {
            Event::Opened(channel) => with(self, channel, |one| one.is_open = true),
            Event::OpenFailed(channel, reason) => {
                eprintln!("manypath: the server does not connect: {reason}");
                with(self, channel, |one| one.closed = true);
            }
            Event::Data(channel, _, bytes) => {
                self.with((wire, channel), |one| one.pieces.push_back(bytes));
            }
            Event::End(channel) => with(self, channel, |one| one.ended = true),
            Event::Closed(channel) => with(self, channel, |one| one.closed = true),
            Event::Ready
            | Event::Writable(_)
            | Event::Started(_)
            | Event::StartRefused(_)
            | Event::ExitStatus(..)
            | Event::ExitSignal(..) => {}
        }
    }

    fn with(&mut self, place: (usize, ChannelId), change: impl FnOnce(&mut Forwarded)) {
        let token = self.channels.get(&place);
        if let Some(one) = token.and_then(|token| self.connections.get_mut(token)) {
            change(one);
        }
    }

    /// Moves what can be moved of one connection, both ways.
    fn pump(&mut self, token: Token) {
        let Some(one) = self.connections.get_mut(&token) else { return };
        let now = self.link.now();
        let taken = one.write();
        let wire = one.wire;
        let connection = self.link.connection_mut(wire);
        if let Ok(bytes @ 1..) = taken {
            connection.consumed(now, one.channel, bytes);
        }
        if taken.is_err() {
            connection.close(one.channel);
            one.pieces.clear();
        }
        if one.is_open && self.link.has_room(wire) {
            one.read(&mut self.link);
        }
        let one = &self.connections[&token];
        if one.closed && one.pieces.is_empty() {
            self.remove(token);
        }
    }

    fn remove(&mut self, token: Token) {
        if let Some(mut one) = self.connections.remove(&token) {
            self.channels.remove(&(one.wire, one.channel));
            let _ = self.link.registry().deregister(&mut one.stream);
        }
    }
}

impl Forwarded {
    fn new(stream: TcpStream, wire: usize, channel: ChannelId) -> Self {
        Self {
            stream,
            wire,
            channel,
            is_open: false,
            readable: true,
            read_ended: false,
            pieces: VecDeque::new(),
            written: 0,
            ended: false,
            closed: false,
        }
    }

    /// Writes what the program takes; how many bytes that is.
    fn write(&mut self) -> std::io::Result<usize> {
        let mut taken = 0;
        while let Some(piece) = self.pieces.front() {
            match self.stream.write(&piece[self.written..]) {
                Ok(bytes) => {
                    taken += bytes;
                    self.written += bytes;
                    if self.written == piece.len() {
                        self.written = 0;
                        self.pieces.pop_front();
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(taken),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if std::mem::take(&mut self.ended) {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(taken)
    }

    /// Sends what the program has, as far as the server takes it.
    fn read(&mut self, link: &mut Link) {
        let credit = link.connection(self.wire).sendable(self.channel).min(TURN as u64) as usize;
        if !self.readable || self.read_ended || credit == 0 {
            return;
        }
        let mut buffer = vec![0; credit];
        match self.stream.read(&mut buffer) {
            Ok(0) => {
                self.read_ended = true;
                link.connection_mut(self.wire).end(self.channel);
            }
            Ok(bytes) => drop(link.connection_mut(self.wire).send(self.channel, &buffer[..bytes])),
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                self.read_ended = true;
                link.connection_mut(self.wire).close(self.channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, u16, String, u16)> {
        let forward = Forward::parse(text)?;
        Some((forward.listen.0, forward.listen.1, forward.to.0, forward.to.1))
    }

    #[test]
    fn forwards_are_read_as_ssh_does() {
        let local = ("localhost".to_owned(), 8080, "web".to_owned(), 80);
        assert_eq!(parsed("8080:web:80"), Some(local));
        let six = ("::1".to_owned(), 8080, "2001:db8::1".to_owned(), 80);
        assert_eq!(parsed("[::1]:8080:[2001:db8::1]:80"), Some(six));
        let all = ("0.0.0.0".to_owned(), 1, "a".to_owned(), 2);
        assert_eq!(parsed("*:1:a:2"), Some(all));
        assert_eq!(parsed("8080:web"), None);
        assert_eq!(parsed("x:web:80"), None);
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(address("[::1]:22"), Some(("::1".to_owned(), 22)));
        assert_eq!(address("host:22"), Some(("host".to_owned(), 22)));
        assert_eq!(address("host"), None);
    }
}
