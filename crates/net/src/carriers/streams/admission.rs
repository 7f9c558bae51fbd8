//! Which connections are accepted, and what becomes of those to TLS ports, which may be for the server behind the port.

use super::{Link, Streams};
use crate::carriers::hello::Client;
use crate::carriers::stream::{Over, Stream};
use crate::carriers::{Carrier, STREAM_PORT};
use manypath_engine::{Duration, Instant, PathAddr};
use mio::Token;
use socket2::{SockAddr, Socket};
use std::net::{IpAddr, SocketAddr};

/// Most connections, how many of them may be accepted ones, and how many those of one host.
pub(super) const MAX_STREAMS: usize = 4096;
const MAX_ACCEPTED: usize = 3072;
const MAX_OF_HOST: usize = 256;
/// Most accepted connections that are no path of an association, in all and of one host.
const MAX_UNPROVEN: usize = 256;
const MAX_UNPROVEN_OF_HOST: usize = 16;
/// Connections to TLS ports that may wait for their ClientHello, in all and of one host. Browsers and proxies come with many at
/// once.
const MAX_UNKNOWN: usize = 512;
const MAX_UNKNOWN_OF_HOST: usize = 128;
/// TLS handshakes of strangers begun in one second; each costs a signature.
const HANDSHAKES_PER_SECOND: u32 = 200;

impl Streams {
    pub(super) fn admit(
        &mut self,
        now: Instant,
        socket: Socket,
        (peer, at): (&SockAddr, Carrier),
        locals: &[IpAddr],
    ) {
        let local = socket.local_addr().ok().and_then(|addr| addr.as_socket());
        let ends = local.zip(peer.as_socket()).map(|(local, remote)| PathAddr {
            local: SocketAddr::new(local.ip(), STREAM_PORT),
            remote,
        });
        let is_unknown = matches!(at, Carrier::Tls(_));
        let may = |ends: &PathAddr| match is_unknown {
            true => self.may_ask(ends),
            false => self.may_admit(now, ends, locals),
        };
        let Some(ends) = ends.filter(may) else {
            self.counters.carrier_streams_refused += 1;
            return;
        };
        let link = Stream::accepted(socket, now);
        let link = link.map(|stream| Link { stream, ends, by: None, at: Some(at), is_unknown });
        let kept = link.and_then(|link| self.keep(now, link));
        match kept {
            Ok(_) => self.counters.carrier_streams_accepted += u64::from(!is_unknown),
            Err(_) => self.counters.carrier_streams_refused += 1,
        }
    }

    /// Whether a connection may wait for its ClientHello.
    fn may_ask(&self, ends: &PathAddr) -> bool {
        let waiting = self.all.values().filter(|link| link.is_unknown);
        let host = host_of(ends.remote.ip());
        let of_host = waiting.clone().filter(|link| host_of(link.ends.remote.ip()) == host);
        waiting.count() < MAX_UNKNOWN
            && of_host.count() < MAX_UNKNOWN_OF_HOST
            && self.all.len() < MAX_STREAMS
            && self.between(ends).is_none()
    }

    fn may_admit(&mut self, now: Instant, ends: &PathAddr, locals: &[IpAddr]) -> bool {
        let unproven = |link: &&Link| link.stream.proven.is_none();
        let accepted = self.all.values().filter(|link| link.by.is_none() && !link.is_unknown);
        let host = |link: &&Link| host_of(link.ends.remote.ip()) == host_of(ends.remote.ip());
        let of_host = accepted.clone().filter(host);
        let open = accepted.clone().count() < MAX_ACCEPTED
            && self.all.len() < MAX_STREAMS
            && of_host.clone().count() < MAX_OF_HOST
            && of_host.filter(unproven).count() < MAX_UNPROVEN_OF_HOST;
        let is_known = self.between(ends).is_some_and(|id| !self.is_unknown(id));
        if !open || !locals.contains(&ends.local.ip()) || is_known {
            return false;
        }
        if accepted.filter(unproven).count() >= MAX_UNPROVEN {
            let is_stranger =
                |link: &Link| link.by.is_none() && !link.is_unknown && link.stream.proven.is_none();
            let oldest = self.all.iter().find(|(_, link)| is_stranger(link)).map(|(id, _)| *id);
            self.counters.carrier_streams_expired += 1;
            oldest.into_iter().for_each(|id| self.end(now, id, Over::Closed));
        }
        true
    }

    /// Whether a connection may be for the server behind the port.
    pub(crate) fn is_unknown(&self, id: Token) -> bool {
        self.all.get(&id).is_some_and(|link| link.is_unknown)
    }

    /// Finds out whom a connection to a TLS port is for. Whether it is one that carries.
    pub(super) fn tell_apart(
        &mut self,
        now: Instant,
        id: Token,
        locals: &[IpAddr],
    ) -> Result<bool, Over> {
        let Some(link) = self.all.get(&id) else { return Ok(false) };
        let ends = link.ends;
        if !link.is_unknown {
            return Ok(true);
        }
        let Some(wrapper) = self.config.wrapper.clone() else { return Err(Over::Closed) };
        match link.stream.judge(wrapper.protocol())? {
            Client::Unknown => Ok(false),
            Client::Other => {
                self.pass_through(now, id);
                Ok(false)
            }
            Client::Ours => {
                if !self.may_handshake(now) || !self.may_admit(now, &ends, locals) {
                    self.counters.carrier_streams_refused += 1;
                    return Err(Over::Closed);
                }
                let wrap = wrapper.accept().map_err(|_| Over::Closed)?;
                let Some(link) = self.all.get_mut(&id) else { return Ok(false) };
                link.stream.wrap_in(wrap);
                link.is_unknown = false;
                self.counters.carrier_streams_accepted += 1;
                Ok(true)
            }
        }
    }

    fn may_handshake(&mut self, now: Instant) -> bool {
        let (since, count) = self.handshakes;
        let is_over = now.since(since) >= Duration::from_secs(1);
        self.handshakes = if is_over { (now, 1) } else { (since, count + 1) };
        self.handshakes.1 <= HANDSHAKES_PER_SECOND
    }

    fn pass_through(&mut self, now: Instant, id: Token) {
        let Some(link) = self.forget(id) else { return };
        let socket = link.stream.into_socket();
        let local = socket.local_addr().ok().and_then(|addr| addr.as_socket());
        let ends = (socket, local.unwrap_or(link.ends.local), link.ends.remote);
        self.passed.begin(now, &mut self.watch, ends, &mut self.counters);
    }
}

/// What stands for a host: its address, with IPv6 the first 64 bits of it.
pub(in crate::carriers) fn host_of(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => addr,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_host() {
        let host = |addr: &str| host_of(addr.parse().unwrap());
        assert_eq!(host("2001:db8::1"), host("2001:db8:0:0:ffff::2"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
    }
}
