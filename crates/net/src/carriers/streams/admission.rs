//! Which connections are accepted, and which of those to TLS ports are passed on to the web server behind.

use super::{Link, Streams};
use crate::carriers::hello::Client;
use crate::carriers::stream::{Over, Stream};
use crate::carriers::{Carrier, STREAM_PORT};
use manypath_engine::{Duration, Instant, PathAddr};
use mio::Token;
use socket2::{SockAddr, Socket};
use std::collections::BTreeMap;
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
/// TLS handshakes of strangers begun in one second, in all and of one host; each costs a signature.
const HANDSHAKES_PER_SECOND: u32 = 200;
const HANDSHAKES_PER_SECOND_OF_HOST: u32 = 20;

/// The TLS handshakes of strangers in the second that began last.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    since: Instant,
    all: u32,
    of_hosts: BTreeMap<IpAddr, u32>,
}

impl Handshakes {
    /// Whether one more may begin, which counts then.
    fn may_begin(&mut self, now: Instant, host: IpAddr) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, ..Self::default() };
        }
        let of_host = self.of_hosts.get(&host).copied().unwrap_or(0);
        let may = self.all < HANDSHAKES_PER_SECOND && of_host < HANDSHAKES_PER_SECOND_OF_HOST;
        if may {
            self.all += 1;
            self.of_hosts.insert(host, of_host + 1);
        }
        may
    }
}

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
            false => self.may_admit(ends, locals, None),
        };
        let Some(ends) = ends.filter(may) else {
            self.counters.carrier_streams_refused += 1;
            return;
        };
        self.make_room(now, is_unknown);
        let (by, at, has_ended) = (None, Some(at), false);
        let link = Stream::accepted(socket, now);
        let link = link.map(|stream| Link { stream, ends, by, at, is_unknown, has_ended });
        let kept = link.and_then(|link| self.keep(now, link));
        match kept {
            Ok(_) => self.counters.carrier_streams_accepted += u64::from(!is_unknown),
            Err(_) => self.counters.carrier_streams_refused += 1,
        }
    }

    /// Whether a connection may wait for its ClientHello.
    fn may_ask(&self, ends: &PathAddr) -> bool {
        let host = host_of(ends.remote.ip());
        let is_of_host = |link: &&Link| host_of(link.ends.remote.ip()) == host;
        let of_host = self.all.values().filter(|link| link.is_unknown).filter(is_of_host);
        of_host.count() < MAX_UNKNOWN_OF_HOST
            && self.all.len() < MAX_STREAMS
            && self.between(ends).is_none()
    }

    /// Whether a connection may carry, which may be `this` one of those here.
    pub(super) fn may_admit(
        &self,
        ends: &PathAddr,
        locals: &[IpAddr],
        this: Option<Token>,
    ) -> bool {
        let unproven = |link: &&Link| link.stream.proven.is_none();
        let accepted = self.all.values().filter(|link| link.by.is_none() && !link.is_unknown);
        let host = |link: &&Link| host_of(link.ends.remote.ip()) == host_of(ends.remote.ip());
        let of_host = accepted.clone().filter(host);
        let open = accepted.clone().count() < MAX_ACCEPTED
            && self.all.len() < MAX_STREAMS
            && of_host.clone().count() < MAX_OF_HOST
            && of_host.filter(unproven).count() < MAX_UNPROVEN_OF_HOST;
        let is_other = self.between(ends).is_some_and(|id| Some(id) != this);
        open && locals.contains(&ends.local.ip()) && !is_other
    }

    /// Ends the oldest of the connections of strangers if there are too many: of those that wait for their ClientHello, or
    /// of those that are no path of an association.
    pub(super) fn make_room(&mut self, now: Instant, is_unknown: bool) {
        let most = if is_unknown { MAX_UNKNOWN } else { MAX_UNPROVEN };
        let is_stranger = |link: &Link| {
            link.by.is_none() && link.is_unknown == is_unknown && link.stream.proven.is_none()
        };
        let strangers = self.all.iter().filter(|(_, link)| is_stranger(link)).map(|(id, _)| *id);
        if strangers.clone().count() >= most {
            let oldest = strangers.min();
            self.counters.carrier_streams_expired += 1;
            oldest.into_iter().for_each(|id| self.end(now, id, Over::Closed));
        }
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
        let (ends, has_ended) = (link.ends, link.has_ended);
        if !link.is_unknown {
            return Ok(true);
        }
        let Some(wrapper) = self.config.wrapper.clone() else { return Err(Over::Closed) };
        match link.stream.judge(wrapper.protocol())? {
            Client::Unknown if !has_ended => Ok(false),
            // A ClientHello that nothing more is to come of is not ours.
            Client::Unknown | Client::Other => {
                self.pass_through(now, id);
                Ok(false)
            }
            Client::Ours => {
                let host = host_of(ends.remote.ip());
                // What is refused anyway takes no handshake from others.
                let may = self.may_admit(&ends, locals, Some(id));
                if !may || !self.handshakes.may_begin(now, host) {
                    self.counters.carrier_streams_refused += 1;
                    return Err(Over::Closed);
                }
                self.make_room(now, false);
                let wrap = wrapper.accept().map_err(|_| Over::Closed)?;
                let Some(link) = self.all.get_mut(&id) else { return Ok(false) };
                link.stream.wrap_in(wrap);
                link.is_unknown = false;
                self.counters.carrier_streams_accepted += 1;
                Ok(true)
            }
        }
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
    fn handshakes_are_few_in_a_second_and_no_host_takes_those_of_all() {
        let mut handshakes = Handshakes::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut begun = |millis, host: u32, wanted: u32| {
            let one = |_: &u32| handshakes.may_begin(at(millis), IpAddr::V4(host.into()));
            (0..wanted).filter(one).count()
        };
        assert_eq!(begun(5000, 1, 1000), 20);
        assert_eq!((2..30).map(|host| begun(5100, host, 20)).sum::<usize>(), 180);
        assert_eq!((begun(5999, 31, 1), begun(6000, 1, 1000)), (0, 20));
    }

    #[test]
    fn addresses_of_one_network_are_one_host() {
        let host = |addr: &str| host_of(addr.parse().unwrap());
        assert_eq!(host("2001:db8::1"), host("2001:db8:0:0:ffff::2"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
    }
}
