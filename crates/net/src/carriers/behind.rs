//! Connections to a TLS port that are for somebody else: their bytes go to one other server as they are, and back.
//!
//! ```text
//! client ─ ClientHello without our protocol, or anything else ─▶ [this port] ── as it is ─▶ ADDR:PORT, nowhere else
//! ```
//!
//! A connection costs two descriptors and what is on its way, at most 16 KiB in each direction.

use super::watch::Watch;
use crate::counters::Counters;
use manypath_engine::{Duration, Instant};
use mio::event::Event;
use mio::{Interest, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;

/// Most connections that are passed through, and how many of them those of one host.
const MAX_PASSED: usize = 2048;
const MAX_PASSED_OF_HOST: usize = 512;
/// How long the server may take to connect, and how long a connection may rest.
const CONNECT_LIFE: Duration = Duration::from_secs(5);
const IDLE_LIFE: Duration = Duration::from_secs(600);
/// Bytes on their way in one direction, and moved in one turn before others have theirs.
const BUFFER: usize = 16 << 10;
const BYTES_PER_TURN: usize = 16 * BUFFER;

/// The server behind a TLS port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Whether it is told who its client is, by a line of the PROXY protocol.
    pub proxy_line: bool,
}

/// The PROXY protocol, version 1: a line that tells a service who its client is. After "The PROXY protocol" of HAProxy,
/// section 2.1. Addresses of two families cannot be told together.
#[must_use]
pub fn proxy_header(client: SocketAddr, service: SocketAddr) -> String {
    let family = match (client, service) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => "TCP4",
        (SocketAddr::V6(_), SocketAddr::V6(_)) => "TCP6",
        _ => return "PROXY UNKNOWN\r\n".to_owned(),
    };
    let (from, to) = (client.ip(), service.ip());
    format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), service.port())
}

/// All connections that are passed through.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) behind: Option<Behind>,
    all: BTreeMap<u64, Pass>,
    last: u64,
    /// Each connection has two names in the poll.
    tokens: BTreeMap<Token, u64>,
    /// Connections that have more to move than one turn allows.
    busy: BTreeSet<u64>,
}

#[derive(Debug)]
struct Pass {
    host: IpAddr,
    near: Socket,
    far: Socket,
    tokens: [Token; 2],
    connected: bool,
    there: Pipe,
    back: Pipe,
    /// When bytes last moved.
    moved: Instant,
}

/// Bytes on their way in one direction.
#[derive(Debug, Default)]
struct Pipe {
    bytes: Vec<u8>,
    sent: usize,
    /// Its source has nothing more to say, and its sink knows that.
    ended: bool,
    closed: bool,
}

impl Passed {
    /// Passes a connection through. Its bytes are all still in `near`.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        watch: &mut Watch,
        (near, local, client): (Socket, SocketAddr, SocketAddr),
        counters: &mut Counters,
    ) {
        let Some(behind) = self.behind else {
            counters.carrier_streams_foreign += 1;
            return;
        };
        let host = super::streams::host_of(client.ip());
        let of_host = self.all.values().filter(|pass| pass.host == host).count();
        if self.all.len() >= MAX_PASSED || of_host >= MAX_PASSED_OF_HOST {
            counters.carrier_passes_refused += 1;
            return;
        }
        let line = behind.proxy_line.then(|| proxy_header(client, local));
        let far = dial(behind.addr);
        let kept = far.and_then(|far| self.keep(now, watch, host, (near, far), line));
        match kept {
            Ok(()) => counters.carrier_passes += 1,
            Err(_) => counters.carrier_passes_failed += 1,
        }
    }

    fn keep(
        &mut self,
        now: Instant,
        watch: &mut Watch,
        host: IpAddr,
        (near, far): (Socket, Socket),
        line: Option<String>,
    ) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let first = watch.register(near.as_raw_fd(), both)?;
        let second = watch.register(far.as_raw_fd(), both)?;
        self.last += 1;
        self.tokens.extend([(first, self.last), (second, self.last)]);
        let there = Pipe { bytes: line.unwrap_or_default().into_bytes(), ..Pipe::default() };
        let (tokens, back, connected) = ([first, second], Pipe::default(), false);
        let pass = Pass { host, near, far, tokens, connected, there, back, moved: now };
        self.all.insert(self.last, pass);
        Ok(())
    }

    pub(crate) fn has(&self, token: Token) -> bool {
        self.tokens.contains_key(&token)
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.busy.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Handles an event of the poll: the connection has work in this turn.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        let token = event.token();
        if let Some(id) = self.tokens.get(&token).copied() {
            let pass = self.all.get_mut(&id).filter(|pass| pass.tokens[1] == token);
            if let Some(pass) = pass.filter(|_| event.is_writable()) {
                pass.connected |= pass.far.peer_addr().is_ok();
            }
            self.busy.insert(id);
        }
    }

    /// Moves bytes of all connections that have some, up to a bound for each.
    pub(crate) fn work(&mut self, now: Instant, watch: &Watch, counters: &mut Counters) {
        for id in std::mem::take(&mut self.busy) {
            let Some(pass) = self.all.get_mut(&id) else { continue };
            match pass.work(now) {
                Ok(Progress::Waits) => {}
                Ok(Progress::HasMore) => {
                    self.busy.insert(id);
                }
                Ok(Progress::Over) => self.end(watch, id),
                Err(_) => {
                    counters.carrier_passes_failed += u64::from(!pass.connected);
                    self.end(watch, id);
                }
            }
        }
    }

    fn end(&mut self, watch: &Watch, id: u64) {
        let Some(pass) = self.all.remove(&id) else { return };
        self.tokens.retain(|_, pass| *pass != id);
        self.busy.remove(&id);
        [&pass.near, &pass.far].into_iter().for_each(|it| watch.deregister(it.as_raw_fd()));
    }

    /// Ends connections of which nothing has come for long.
    pub(crate) fn look(&mut self, now: Instant, watch: &Watch, counters: &mut Counters) {
        let is_old = |pass: &Pass| {
            let life = if pass.connected { IDLE_LIFE } else { CONNECT_LIFE };
            now.since(pass.moved) >= life
        };
        let old = self.all.iter().filter(|(_, pass)| is_old(pass)).map(|(id, _)| *id);
        for id in old.collect::<Vec<_>>() {
            counters.carrier_passes_expired += 1;
            self.end(watch, id);
        }
    }
}

enum Progress {
    Waits,
    HasMore,
    Over,
}

impl Pass {
    fn work(&mut self, now: Instant) -> io::Result<Progress> {
        let mut moved = 0;
        let mut move_bytes = |pipe: &mut Pipe, from, to| match pipe.move_bytes(from, to, &mut moved)
        {
            // Whoever takes nothing more may still have said something, which the other one is to have.
            Err(_) if self.connected && pipe.closed => Ok(true),
            result => result,
        };
        let there = move_bytes(&mut self.there, &self.near, &self.far)?;
        let back = move_bytes(&mut self.back, &self.far, &self.near)?;
        if moved > 0 && self.connected {
            self.moved = now;
        }
        Ok(match (self.there.closed && self.back.closed, there || back) {
            (true, _) => Progress::Over,
            (false, true) => Progress::HasMore,
            (false, false) => Progress::Waits,
        })
    }
}

impl Pipe {
    /// Moves what there is, up to a bound. Whether that was the bound.
    fn move_bytes(&mut self, from: &Socket, to: &Socket, moved: &mut usize) -> io::Result<bool> {
        let bound = *moved + BYTES_PER_TURN;
        while *moved < bound {
            if self.sent < self.bytes.len() {
                let sent = attempt(|| (&*to).write(&self.bytes[self.sent..]));
                if sent.is_err() {
                    *self = Self { ended: true, closed: true, ..Self::default() };
                }
                let Some(sent) = sent? else { return Ok(false) };
                (self.sent, *moved) = (self.sent + sent, *moved + sent);
                continue;
            }
            // Those that rest hold no memory.
            (self.bytes, self.sent) = (Vec::new(), 0);
            if self.ended {
                if !self.closed {
                    // It fails for a connection that is broken: what is read from that is its end.
                    let _ = to.shutdown(Shutdown::Write);
                    self.closed = true;
                }
                return Ok(false);
            }
            let mut bytes = vec![0; BUFFER];
            let Some(read) = attempt(|| (&*from).read(&mut bytes))? else { return Ok(false) };
            bytes.truncate(read);
            (self.bytes, self.ended) = (bytes, read == 0);
        }
        Ok(true)
    }
}

/// What a call on a socket has moved; nothing if it would have to wait.
fn attempt(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn dial(to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&SockAddr::from(to)) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        result => result.map(|()| socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_client_and_service() {
        let line = |client: &str, service: &str| {
            proxy_header(client.parse().unwrap(), service.parse().unwrap())
        };
        let v4 = line("192.0.2.1:40000", "192.0.2.2:80");
        assert_eq!(v4, "PROXY TCP4 192.0.2.1 192.0.2.2 40000 80\r\n");
        let v6 = line("[2001:db8::1]:40000", "[2001:db8::2]:80");
        assert_eq!(v6, "PROXY TCP6 2001:db8::1 2001:db8::2 40000 80\r\n");
        assert_eq!(line("192.0.2.1:40000", "[2001:db8::2]:80"), "PROXY UNKNOWN\r\n");
    }
}
