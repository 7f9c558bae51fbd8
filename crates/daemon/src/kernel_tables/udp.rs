//! The kernel's own table of UDP sockets: nobody else tells when a program has closed one, or when
//! datagrams were dropped.

use super::tcp::{parse_v6, word};
use manypath_engine::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What it says. Nothing when it could not be read.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    inodes: BTreeSet<u64>,
    dropped: BTreeMap<SocketAddr, u64>,
    readable: bool,
}

impl Rows {
    /// Whether the socket exists, as far as can be told.
    pub(crate) fn has(&self, inode: u64) -> bool {
        !self.readable || self.inodes.contains(&inode)
    }

    /// Datagrams that had no room in the socket at this address.
    pub(crate) fn dropped_at(&self, addr: SocketAddr) -> Option<u64> {
        self.dropped.get(&addr).copied()
    }

    fn have_receiver(&self, service: SocketAddr) -> bool {
        let every = |any: IpAddr| self.dropped.contains_key(&SocketAddr::new(any, service.port()));
        // The table does not say which IPv6 sockets refuse IPv4.
        self.dropped.contains_key(&service)
            || every(Ipv6Addr::UNSPECIFIED.into())
            || service.is_ipv4() && every(Ipv4Addr::UNSPECIFIED.into())
    }

    fn add(&mut self, line: &str, v6: bool) -> Option<()> {
        let mut fields = line.split_whitespace();
        let (ip, port) = fields.nth(1)?.split_once(':')?;
        let inode = fields.nth(7)?.parse().ok()?;
        let dropped = fields.nth(2)?.parse().ok()?;
        let ip = if v6 { parse_v6(ip)? } else { IpAddr::from(word(ip)?) };
        self.inodes.insert(inode);
        self.dropped.insert(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), dropped);
        Some(())
    }
}

/// How long what was read answers for flows of peers, who can ask more often than reading it is cheap.
const LIFETIME: Duration = Duration::from_millis(20);

/// The table as it was read last for flows of peers.
#[derive(Debug, Default)]
pub(crate) struct KernelTable {
    read_at: Option<Instant>,
    rows: Rows,
}

impl KernelTable {
    /// Whether there is a socket that could get a datagram to `service`, or was a moment ago.
    pub(crate) fn has_receiver(&mut self, now: Instant, service: SocketAddr) -> bool {
        if self.read_at.is_none_or(|read_at| now.since(read_at) >= LIFETIME) {
            (self.read_at, self.rows) = (Some(now), rows());
        }
        self.rows.have_receiver(service)
    }
}

/// All UDP sockets of this network namespace.
pub(crate) fn rows() -> Rows {
    let mut rows = Rows::default();
    for (name, v6) in [("udp", false), ("udp6", true)] {
        let Ok(file) = File::open(format!("/proc/thread-self/net/{name}")) else { continue };
        let lines = BufReader::new(file).lines().skip(1).map_while(Result::ok);
        for line in lines {
            // A line that is not understood is of no socket that matters.
            let _ = rows.add(&line, v6);
        }
        rows.readable = true;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{KernelTable, LIFETIME, rows};
    use manypath_engine::Instant;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn sockets_are_found_until_they_are_closed() {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(addr).unwrap();
            let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
            let text = link.to_str().unwrap();
            let inode = text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            assert!(rows().has(inode));
            let own = socket.local_addr().unwrap();
            assert_eq!(rows().dropped_at(own), Some(0));
            let (now, mut table) = (Instant::ZERO, KernelTable::default());
            assert!(table.has_receiver(now, own));
            drop(socket);
            // A test beside this one may be starting a process, which has the socket until it executes its program.
            let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while rows().has(inode) {
                assert!(std::time::Instant::now() < limit, "it is still there");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(table.has_receiver(now + LIFETIME / 2, own), "it was not read again");
            assert!(!table.has_receiver(now + LIFETIME, own));
        }
    }
}
