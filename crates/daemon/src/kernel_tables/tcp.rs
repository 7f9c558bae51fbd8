//! The kernel's own table of listening sockets: the word of a launcher is not enough, because a
//! socket may be closed and its port taken by another program at any time.

use manypath_engine::{Duration, Instant};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// State of a listening socket in the table.
const LISTENING: &str = "0A";

/// A listening socket of this network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    addr: SocketAddr,
    /// Whether it is of the IPv6 family.
    v6: bool,
    inode: u64,
}

/// How long the table is not read again for flows of peers, who can ask more often than reading it is cheap.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// The table as it was read last. What a flow is answered by was read in the same turn: who asks outside of a turn in
/// which it was read waits for the end of a pause ([`KernelTable::next_reading`]).
#[derive(Debug, Default)]
pub(crate) struct KernelTable {
    read_at: Option<Instant>,
    /// None when it could not be read.
    rows: Option<Vec<Row>>,
}

impl KernelTable {
    /// The inodes of the sockets that may get a connection to `service`: those bound to exactly this
    /// address, or else those bound to every address. None when the table cannot be read.
    pub(crate) fn matching_listeners(
        &mut self,
        now: Instant,
        service: SocketAddr,
    ) -> Option<Vec<u64>> {
        Some(matching_in(self.rows(now)?, service))
    }

    /// The inodes of all listening sockets. None when the table cannot be read.
    pub(crate) fn inodes(&mut self, now: Instant) -> Option<BTreeSet<u64>> {
        Some(self.rows(now)?.iter().map(|row| row.inode).collect())
    }

    /// When the table may be read for a flow, if not now.
    pub(crate) fn next_reading(&self, now: Instant) -> Option<Instant> {
        let read_at = self.read_at.filter(|read_at| *read_at != now)?;
        Some(read_at + PAUSE).filter(|at| *at > now)
    }

    fn rows(&mut self, now: Instant) -> Option<&[Row]> {
        if self.read_at != Some(now) {
            (self.read_at, self.rows) = (Some(now), rows().ok());
        }
        self.rows.as_deref()
    }
}

/// The inodes of all listening sockets.
///
/// # Errors
/// When the table cannot be read.
pub(crate) fn inodes() -> io::Result<BTreeSet<u64>> {
    Ok(rows()?.into_iter().map(|row| row.inode).collect())
}

fn matching_in(rows: &[Row], service: SocketAddr) -> Vec<u64> {
    let here = || rows.iter().filter(|row| row.addr.port() == service.port());
    let exact = here().filter(|row| row.addr.ip() == service.ip());
    let exact: Vec<u64> = exact.map(|row| row.inode).collect();
    if !exact.is_empty() {
        return exact;
    }
    // The table does not say which IPv6 sockets refuse IPv4: all of them count.
    let every = here().filter(|row| row.addr.ip().is_unspecified());
    every.filter(|row| row.v6 || service.is_ipv4()).map(|row| row.inode).collect()
}

fn rows() -> io::Result<Vec<Row>> {
    let mut rows = read(false)?;
    match read(true) {
        Ok(more) => rows.extend(more),
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(rows)
}

/// Listening sockets come first, whatever else there is.
fn read(v6: bool) -> io::Result<Vec<Row>> {
    let name = if v6 { "tcp6" } else { "tcp" };
    let file = File::open(format!("/proc/thread-self/net/{name}"))?;
    let lines = BufReader::new(file).lines().skip(1);
    let rows = lines.map(|line| line.map(|line| parse(&line, v6)));
    rows.map_while(io::Result::transpose).collect()
}

/// `None` when the socket does not listen.
fn parse(line: &str, v6: bool) -> Option<Row> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != LISTENING {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    let (ip, port) = local.split_once(':')?;
    let ip = if v6 { parse_v6(ip)? } else { IpAddr::from(word(ip)?) };
    Some(Row { addr: SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), v6, inode })
}

pub(crate) fn parse_v6(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    for (i, part) in bytes.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(text.get(8 * i..8 * i + 8)?)?);
    }
    Some(IpAddr::from(bytes).to_canonical())
}

/// Four bytes of an address, which the kernel writes as one number of the machine's byte order.
pub(crate) fn word(text: &str) -> Option<[u8; 4]> {
    u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn row(addr: &str, v6: bool, inode: u64) -> Row {
        Row { addr: addr.parse().unwrap(), v6, inode }
    }

    fn matching(rows: &[Row], service: &str) -> Vec<u64> {
        matching_in(rows, service.parse().unwrap())
    }

    #[test]
    fn the_exact_address_goes_before_every_address() {
        let rows = [
            row("0.0.0.0:80", false, 1),
            row("10.0.0.1:80", false, 2),
            row("10.0.0.1:80", true, 3),
            row("[::]:80", true, 4),
            row("10.0.0.1:81", false, 5),
        ];
        assert_eq!(matching(&rows, "10.0.0.1:80"), [2, 3]);
        assert_eq!(matching(&rows, "10.0.0.2:80"), [1, 4]);
        assert_eq!(matching(&rows, "[2001:db8::1]:80"), [4]);
        assert_eq!(matching(&rows, "10.0.0.1:82"), [0_u64; 0]);
    }

    #[test]
    fn lines_of_the_table_are_read_until_the_first_that_does_not_listen() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     \
                    0        0 1060 1 000000008264a1f2 100 0 0 10 0";
        assert_eq!(parse(line, false), Some(row("127.0.0.1:8080", false, 1060)));
        assert_eq!(parse(&line.replace(" 0A ", " 01 "), false), None);
        let six = line.replace("0100007F", "B80D0120000000000000000001000000");
        assert_eq!(parse(&six, true), Some(row("[2001:db8::1]:8080", true, 1060)));
    }

    #[test]
    fn a_socket_that_listens_is_found_until_it_is_closed() {
        use std::os::unix::fs::MetadataExt;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let service = listener.local_addr().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(listener));
        let inode = file.metadata().unwrap().ino();
        let (now, mut table) = (Instant::ZERO, KernelTable::default());
        assert_eq!(table.matching_listeners(now, service).unwrap(), [inode]);
        drop(file);
        let later = now + PAUSE;
        assert_eq!(table.matching_listeners(later, service).unwrap(), [0_u64; 0]);
    }

    /// A peer may ask a thousand times a second.
    #[test]
    fn the_table_is_read_once_a_turn_and_not_again_for_flows_before_a_pause_is_over() {
        let (now, mut table) = (Instant::ZERO, KernelTable::default());
        assert_eq!(table.next_reading(now), None);
        assert!(table.inodes(now).is_some());
        assert_eq!(table.next_reading(now), None, "it is at hand");
        let soon = now + PAUSE / 2;
        assert_eq!(table.next_reading(soon), Some(now + PAUSE));
        assert_eq!(table.next_reading(now + PAUSE), None);
    }
}
