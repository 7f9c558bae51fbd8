//! News of addresses, links and routes (rtnetlink(7)).
//!
//! What has changed is not read from the messages: they say when to look, and [`interfaces`](crate::interfaces)
//! says what there is. So a message that is lost, because the kernel found no room for it, costs nothing.

use crate::socket_option;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Receive buffer asked for, in bytes: the kernel drops news that do not fit, and says so.
const RECEIVE_BUFFER: libc::c_int = 256 << 10;
/// Datagrams read in one go. Nobody but the kernel sends any, and never so many.
const READS: usize = 4096;
/// Bytes of one datagram that are looked at: longer ones are cut, and their rest says nothing else.
const DATAGRAM: usize = 8 << 10;
/// Bytes of a message header (`struct nlmsghdr`): length, type, flags, sequence number, port.
const HEADER: usize = 16;

const GROUPS: [libc::c_uint; 5] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];

/// What may have changed since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// Addresses, or the links that carry them. IPv6 addresses count when they become usable, too.
    pub addresses: bool,
    /// Routes: a path that led nowhere may lead to the peer now.
    pub routes: bool,
}

impl News {
    /// Whether there are any.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    const ALL: Self = Self { addresses: true, routes: true };
}

/// Hears of changes in the network namespace of the thread that opened it. Readable when there are some.
#[derive(Debug)]
pub struct NetworkWatch {
    socket: Socket,
    buffer: Box<[u8]>,
}

impl NetworkWatch {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where the system permits no netlink sockets (some sandboxes): addresses have to be looked for now
    /// and then.
    pub fn open() -> io::Result<Self> {
        let kind = Type::RAW.nonblocking().cloexec();
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new_raw(Domain::from(libc::AF_NETLINK), kind, Some(protocol))?;
        // Smaller is more news lost, which is noticed.
        let _ = socket_option::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER);
        let socket = bind(socket)?;
        for group in GROUPS {
            let group = libc::c_int::try_from(group).map_err(io::Error::other)?;
            socket_option::set(&socket, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)?;
        }
        Ok(Self { socket, buffer: vec![0; DATAGRAM].into_boxed_slice() })
    }

    /// Takes all that has been said: the poll tells only of what comes later.
    pub fn take(&mut self) -> News {
        let mut news = News::default();
        for _ in 0..READS {
            match self.socket.read(&mut self.buffer) {
                Ok(len) => news.read(self.buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Above all ENOBUFS: some were lost.
                Err(_) => news = News::ALL,
            }
        }
        news
    }
}

impl AsRawFd for NetworkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Gives the socket an address, without which the kernel takes it for its own and tells it nothing.
fn bind(socket: Socket) -> io::Result<Socket> {
    let fd = OwnedFd::from(socket);
    // SAFETY: sockaddr_nl is plain data, for which all zeroes is a legal value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    let (pointer, len) = ((&raw const address).cast(), size_of_val(&address));
    // SAFETY: the address outlives the call, and its length is given.
    match unsafe { libc::bind(fd.as_raw_fd(), pointer, len as libc::socklen_t) } {
        0 => Ok(fd.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl News {
    /// Takes in the messages of a datagram.
    fn read(&mut self, mut bytes: &[u8]) {
        while let Some((length, kind)) = header(bytes) {
            match kind {
                libc::RTM_NEWADDR | libc::RTM_DELADDR | libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                    self.addresses = true;
                }
                libc::RTM_NEWROUTE | libc::RTM_DELROUTE => self.routes = true,
                _ => {}
            }
            let next = length.next_multiple_of(4).max(HEADER);
            bytes = bytes.get(next..).unwrap_or_default();
        }
    }
}

/// Length and type of the first message.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?);
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let _rest = bytes.get(..HEADER)?;
    Some((usize::try_from(length).ok()?, kind))
}

#[cfg(test)]
mod tests {
    use super::{HEADER, NetworkWatch, News};
    use crate::interfaces::interfaces;
    use crate::namespace::{in_namespace, ip};
    use std::time::{Duration, Instant};

    fn message(kind: u16, length: u32, size: usize) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(size, 0);
        bytes
    }

    fn read(bytes: &[u8]) -> (bool, bool) {
        let mut news = News::default();
        news.read(bytes);
        (news.addresses, news.routes)
    }

    #[test]
    fn messages_are_told_apart() {
        let whole = |kind| message(kind, 20, 20);
        assert_eq!(read(&whole(libc::RTM_NEWADDR)), (true, false));
        assert_eq!(read(&whole(libc::RTM_DELLINK)), (true, false));
        assert_eq!(read(&whole(libc::RTM_DELROUTE)), (false, true));
        assert_eq!(read(&whole(libc::RTM_NEWNEIGH)), (false, false));
        let both = [message(libc::RTM_NEWLINK, 18, 20), whole(libc::RTM_NEWROUTE)].concat();
        assert_eq!(read(&both), (true, true));
    }

    #[test]
    fn messages_that_lie_about_their_length_end_the_reading() {
        for length in [0, 1, 15, 17, 1000, u32::MAX] {
            let bytes = message(libc::RTM_NEWADDR, length, 40);
            assert_eq!(read(&bytes), (true, false), "{length}");
        }
        assert_eq!(read(&[]), (false, false));
        assert_eq!(read(&message(libc::RTM_NEWADDR, 16, HEADER - 1)), (false, false));
    }

    #[test]
    fn links_addresses_and_routes_are_heard_of() {
        in_namespace(|| {
            let mut watch = NetworkWatch::open().unwrap();
            watch.take();
            assert!(watch.take().is_empty());
            ip("link add one type veth peer name two");
            assert!(watch.take().addresses);
            ip("address add 10.1.2.3/24 dev one");
            assert!(watch.take().addresses);
            assert!(watch.take().is_empty());
            ip("link set one up");
            assert!(watch.take().addresses);
            watch.take();
            ip("route add default via 10.1.2.1 dev one onlink");
            assert_eq!(watch.take(), News { addresses: false, routes: true });
            ip("address del 10.1.2.3/24 dev one");
            assert!(watch.take().addresses);
            ip("link del one");
            assert!(watch.take().addresses);
        });
    }

    #[test]
    fn an_ipv6_address_is_heard_of_when_it_has_become_usable() {
        in_namespace(|| {
            ip("link add one type veth peer name two");
            ip("link set two up");
            ip("link set one up");
            ip("address add fd12::7/64 dev one");
            let usable = || {
                let all = interfaces().unwrap();
                all.iter().any(|one| one.addr.to_string() == "fd12::7")
            };
            let mut watch = NetworkWatch::open().unwrap();
            if usable() {
                // The system looks for no duplicates.
                return;
            }
            let limit = Instant::now() + Duration::from_secs(20);
            while !watch.take().addresses || !usable() {
                assert!(Instant::now() < limit, "nothing was heard");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}
