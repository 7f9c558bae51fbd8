//! Whether the egress policy of this host lets a program send to a destination: the kernel is asked.
//!
//! A stack sends as another user and from another cgroup than the programs that it serves, so rules by user
//! (nftables `meta skuid`), by cgroup (`socket cgroupv2`) and the packet filters of a cgroup (systemd's
//! `IPAddressDeny=`) do not see the programs behind its packets. Before a connect is taken to a stack, a packet
//! like the program's first one is sent to the destination, from a raw socket with the program's cgroup, user and
//! group: when netfilter's output hooks or the cgroup's filter drop it, `sendto` fails, with EPERM.
//!
//! The packet is a SYN, because to connection tracking all else out of the blue is invalid, and a rule for
//! new connections must see one. It has a time to live of 1 and a wrong checksum: no router forwards it, and no
//! host answers it.

mod identity;

use crate::packet::{TCP, UDP, checksum, ip_packet, pseudo_header};
use crate::socket;
pub use identity::Identity;
use socket2::{SockAddr, SockRef};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most sockets that are kept: one for each identity and family.
const MAX_SOCKETS: usize = 64;
/// How long a socket is kept that nobody uses: it keeps a cgroup that was removed in memory.
const IDLE: Duration = Duration::from_secs(60);
/// How long an identity that could not be taken on is not tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long nobody of a user is taken on after one that took too long, so that others do not wait again.
const PAUSE: Duration = Duration::from_secs(1);
/// With so many such users, nobody at all is.
const MAX_PAUSED: usize = 4;

/// Stands for a port that the kernel has not chosen yet, or that connection tracking knows the program's own SYN by:
/// a second SYN would mislead it.
pub const ANY_PORT: u16 = 61_000;

/// What a program is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A connection.
    Tcp,
    /// A flow of datagrams.
    Udp,
}

/// The first packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    protocol: Protocol,
    source: SocketAddr,
    destination: SocketAddr,
}

impl Flow {
    /// `source` may be unspecified, as far as the kernel is to choose it.
    #[must_use]
    pub const fn new(protocol: Protocol, source: SocketAddr, destination: SocketAddr) -> Self {
        Self { protocol, source, destination }
    }

    /// A packet that the rules take for the first one, and nobody else for any.
    fn packet(&self) -> Vec<u8> {
        const WRONG: u8 = 0x55;
        let (from, to) = (self.source, self.destination);
        let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        let (protocol, mut segment, sum) = match self.protocol {
            // Without data: sequence number 0, flag SYN, and a maximum segment size.
            Protocol::Tcp => {
                let rest =
                    [0, 0, 0, 0, 0, 0, 0, 0, 6 << 4, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4];
                (TCP, [&ports[..], &rest].concat(), 16)
            }
            Protocol::Udp => (UDP, [&ports[..], &[0, 8, 0, 0]].concat(), 6),
        };
        let pseudo = pseudo_header(from.ip(), to.ip(), segment.len() as u32, protocol);
        checksum(&mut segment, sum, pseudo);
        if let Some(byte) = segment.get_mut(sum) {
            *byte ^= WRONG;
        }
        let mut packet = ip_packet(from.ip(), to.ip(), protocol, &segment);
        if let Some(time_to_live) = packet.get_mut(if from.is_ipv6() { 7 } else { 8 }) {
            *time_to_live = 1;
        }
        packet
    }
}

type Key = (Identity, bool);

struct Kept {
    /// Or when to try again.
    socket: Result<OwnedFd, Instant>,
    used: Instant,
}

/// The raw sockets of the identities that were met last.
#[derive(Default)]
pub struct Egress {
    kept: BTreeMap<Key, Kept>,
    /// Users of whom nobody is taken on before.
    paused: BTreeMap<u32, Instant>,
    is_routed: bool,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

impl Egress {
    /// `None` without CAP_NET_RAW: only what belongs to this very user can be served then.
    #[must_use]
    pub fn new() -> Option<Self> {
        let own = Identity::own();
        let socket = own.socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW).ok()?;
        // Most programs are like the launcher: the first connect finds its socket made.
        let kept = Kept { socket: Ok(socket), used: Instant::now() };
        Some(Self { kept: BTreeMap::from([((own, false), kept)]), ..Self::default() })
    }

    /// Whether the kernel has found a route for the flow that was asked about last.
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        self.is_routed
    }

    /// Whether the host's policy lets a program begin a flow.
    ///
    /// # Errors
    /// When the kernel cannot be asked: no process can be made in the program's cgroup, or the socket has no room.
    pub fn permits(&mut self, who: &Identity, flow: &Flow) -> io::Result<bool> {
        let answer = self.ask(who, *flow);
        if answer.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EADDRNOTAVAIL)) {
            // The address has left the host since the program's route was looked up. What is sent for the
            // program has another one.
            let source = SocketAddr::new(unspecified(flow.source.ip()), flow.source.port());
            return self.ask(who, Flow { source, ..*flow });
        }
        answer
    }

    fn ask(&mut self, who: &Identity, mut flow: Flow) -> io::Result<bool> {
        self.is_routed = false;
        let socket = self.socket(who, flow.destination.is_ipv6())?;
        socket::dissolve(socket.as_fd());
        let sent = if flow.source.ip().is_unspecified() {
            match route(socket, flow.destination) {
                Ok(source) => flow.source.set_ip(source),
                // That nobody has a route is no policy about the program; a rule for routes by user is one.
                Err(_) => return Ok(socket::route_source(flow.destination).is_err()),
            }
            SockRef::from(socket).send(&flow.packet()).map(drop)
        } else {
            send(socket, &flow)
        };
        self.is_routed = sent.is_ok();
        match sent {
            Ok(()) => Ok(true),
            Err(error) if is_no_policy(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The raw socket of an identity.
    fn socket(&mut self, who: &Identity, v6: bool) -> io::Result<&OwnedFd> {
        let (now, key) = (Instant::now(), (who.clone(), v6));
        let is_known = self.kept.get(&key).is_some_and(|kept| match kept.socket {
            Ok(_) => true,
            Err(until) => now < until,
        });
        if !is_known {
            self.make_room(now);
            let made = self.make(who, v6, (libc::SOCK_RAW, libc::IPPROTO_RAW), now)?;
            let socket = made.map_err(|_| now + RETRY);
            self.kept.insert(key.clone(), Kept { socket, used: now });
        }
        let kept = self.kept.get_mut(&key).ok_or_else(unknown)?;
        kept.used = now;
        kept.socket.as_ref().map_err(|_| unknown())
    }

    /// A TCP socket of an identity, with which its program's own connect can be made.
    ///
    /// # Errors
    /// As [`Self::permits`].
    pub fn tcp_socket(&mut self, who: &Identity, v6: bool) -> io::Result<OwnedFd> {
        self.make(who, v6, (libc::SOCK_STREAM, libc::IPPROTO_TCP), Instant::now())?
    }

    /// The outer error is that of a pause, which says nothing about this identity.
    fn make(
        &mut self,
        who: &Identity,
        v6: bool,
        (kind, protocol): (i32, i32),
        now: Instant,
    ) -> io::Result<io::Result<OwnedFd>> {
        self.paused.retain(|_, until| now < *until);
        if self.paused.contains_key(&who.user()) || self.paused.len() >= MAX_PAUSED {
            return Err(unknown());
        }
        let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        let made = who.socket(family, kind, protocol);
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.paused.insert(who.user(), Instant::now() + PAUSE);
        }
        Ok(made)
    }

    fn make_room(&mut self, now: Instant) {
        self.kept.retain(|_, kept| now < kept.used + IDLE);
        while self.kept.len() >= MAX_SOCKETS {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.kept.remove(&oldest);
        }
    }
}

/// Whether an error tells nothing of what the program may send: memory that is short, or an address that has left the
/// host.
fn is_no_policy(error: &io::Error) -> bool {
    let transient = [libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|errno| transient.contains(&errno))
}

fn unknown() -> io::Error {
    io::Error::other("the egress policy cannot be asked")
}

/// Connects the socket, so that the route is looked up as that of the program's own: from the address that the first
/// look gives, which is the source.
fn route(socket: &OwnedFd, destination: SocketAddr) -> io::Result<IpAddr> {
    let socket = SockRef::from(socket);
    let mut to = destination;
    to.set_port(0);
    socket.connect(&to.into())?;
    let own = socket.local_addr()?.as_socket();
    own.map(|own| own.ip()).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// The route is looked up from the source, as that of a connected socket is.
fn send(socket: &OwnedFd, flow: &Flow) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.bind(&SocketAddr::new(flow.source.ip(), 0).into())?;
    // Raw sockets take no port.
    let to = SockAddr::from(SocketAddr::new(flow.destination.ip(), 0));
    socket.send_to(&flow.packet(), &to).map(drop)
}

/// The unspecified address of a family.
#[must_use]
pub const fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_forks::forks;

    fn flow(protocol: Protocol, destination: &str) -> Flow {
        let destination: SocketAddr = destination.parse().unwrap();
        Flow::new(protocol, SocketAddr::new(unspecified(destination.ip()), 40000), destination)
    }

    #[test]
    fn the_packet_goes_no_further_than_one_hop_and_nobody_takes_it() {
        let fold = |mut sum: u32| {
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum
        };
        for (destination, header, hops) in [("10.0.0.2:80", 20, 8), ("[fd00::2]:80", 40, 7)] {
            for (protocol, number) in [(Protocol::Tcp, TCP), (Protocol::Udp, UDP)] {
                let flow = flow(protocol, destination);
                let packet = flow.packet();
                assert_eq!(packet[hops], 1);
                let (from, to) = (flow.source.ip(), flow.destination.ip());
                let segment = &packet[header..];
                let pseudo = pseudo_header(from, to, segment.len() as u32, number);
                assert_ne!(fold(crate::packet::sum(segment) + pseudo), 0xffff);
                assert_eq!(segment[2..4], [0, 80]);
            }
        }
    }

    #[test]
    fn a_user_of_this_host_is_asked_for_and_one_socket_serves_many_connects() {
        let _alone = forks();
        let Some(mut egress) = Egress::new() else {
            return eprintln!("SKIPPED: without CAP_NET_RAW nothing is asked");
        };
        let nobody = Identity::new(65534, 65534);
        for destination in ["127.0.0.1:9", "[::1]:9"] {
            for _ in 0..3 {
                let asked = egress.permits(&nobody, &flow(Protocol::Tcp, destination));
                assert!(asked.unwrap(), "{destination}");
            }
        }
        // And that of this process.
        assert_eq!(egress.kept.len(), 3);
    }

    #[test]
    fn the_source_of_one_flow_is_not_that_of_the_next() {
        let _alone = forks();
        let Some(mut egress) = Egress::new() else {
            return eprintln!("SKIPPED: without CAP_NET_RAW nothing is asked");
        };
        let own = Identity::own();
        let bound = Flow::new(
            Protocol::Tcp,
            "127.0.0.5:40000".parse().unwrap(),
            "127.0.0.1:9".parse().unwrap(),
        );
        for any in ["127.0.0.1:9", "127.0.0.2:9", "127.0.0.1:9"].map(|to| flow(Protocol::Tcp, to)) {
            assert!(egress.permits(&own, &bound).unwrap() && egress.is_routed());
            assert!(egress.permits(&own, &any).unwrap() && egress.is_routed());
            let socket = egress.socket(&own, false).unwrap();
            let local = SockRef::from(socket).local_addr().unwrap().as_socket().unwrap();
            assert_eq!(local.ip(), Ipv4Addr::LOCALHOST, "as the route to {any:?} says");
        }
        let nowhere = flow(Protocol::Tcp, "255.255.255.255:9");
        assert!(egress.permits(&own, &nowhere).unwrap() && !egress.is_routed());
    }

    #[test]
    fn an_address_that_has_left_the_host_is_replaced_by_that_of_the_route() {
        let _alone = forks();
        let Some(mut egress) = Egress::new() else {
            return eprintln!("SKIPPED: without CAP_NET_RAW nothing is asked");
        };
        for (source, destination) in
            [("192.0.2.1:40000", "127.0.0.1:9"), ("[2001:db8::1]:40000", "[::1]:9")]
        {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let flow = Flow::new(Protocol::Tcp, source, destination);
            assert!(egress.permits(&Identity::own(), &flow).unwrap(), "{source}");
        }
    }

    #[test]
    fn where_nobody_can_be_asked_there_is_no_answer() {
        let _alone = forks();
        let Some(mut egress) = Egress::new() else {
            return eprintln!("SKIPPED: without CAP_NET_RAW nothing is asked");
        };
        let gone = Identity::new(0, 0).in_group("/nowhere".into(), 1);
        let flow = flow(Protocol::Tcp, "127.0.0.1:9");
        assert!(egress.permits(&gone, &flow).is_err());
        assert!(egress.permits(&Identity::own(), &flow).unwrap());
    }

    #[test]
    fn many_identities_cost_a_bounded_number_of_sockets() {
        let _alone = forks();
        let Some(mut egress) = Egress::new() else {
            return eprintln!("SKIPPED: without CAP_NET_RAW nothing is asked");
        };
        let flow = flow(Protocol::Tcp, "127.0.0.1:9");
        for user in 1..=MAX_SOCKETS as u32 + 8 {
            let _ = egress.permits(&Identity::new(user, user), &flow);
        }
        assert_eq!(egress.kept.len(), MAX_SOCKETS);
    }
}
