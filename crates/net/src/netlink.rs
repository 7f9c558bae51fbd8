//! News of addresses, links and routes (rtnetlink(7)).
//!
//! What has changed is not read from the messages: they say when to look, and [`interfaces`](crate::interfaces)
//! says what there is. So a message that is lost, because the kernel found no room for it, costs nothing.

use manypath_netlink::{Netlink, ROUTE};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

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
pub struct NetworkWatch(Netlink);

impl NetworkWatch {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where the system permits no netlink sockets (some sandboxes): addresses have to be looked for now
    /// and then.
    pub fn open() -> io::Result<Self> {
        let groups = GROUPS.iter().fold(0, |groups, group| groups | 1 << (group - 1));
        Netlink::open(ROUTE, groups).map(Self)
    }

    /// Takes all that has been said: the poll tells only of what comes later.
    pub fn take(&mut self) -> News {
        let mut news = News::default();
        match self.0.news(|kind| news.note(kind)) {
            Ok(()) => news,
            Err(_) => News::ALL,
        }
    }
}

impl AsRawFd for NetworkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl News {
    /// Takes in a message of a type.
    fn note(&mut self, kind: u16) {
        match kind {
            libc::RTM_NEWADDR | libc::RTM_DELADDR | libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                self.addresses = true;
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => self.routes = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NetworkWatch, News};
    use crate::interfaces::interfaces;
    use crate::namespace::{in_namespace, ip};
    use std::time::{Duration, Instant};

    #[test]
    fn messages_are_told_apart() {
        let note = |kind| {
            let mut news = News::default();
            news.note(kind);
            (news.addresses, news.routes)
        };
        assert_eq!(note(libc::RTM_NEWADDR), (true, false));
        assert_eq!(note(libc::RTM_DELLINK), (true, false));
        assert_eq!(note(libc::RTM_DELROUTE), (false, true));
        assert_eq!(note(libc::RTM_NEWNEIGH), (false, false));
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
