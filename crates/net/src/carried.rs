//! What interfaces have carried, and when.

use manypath_netlink::{Netlink, ROUTE, Request, attributes};
use std::collections::BTreeMap;
use std::io;

/// Bytes of `struct ifinfomsg`.
const HEADER: usize = 16;
/// Where `struct rtnl_link_stats64` has the bytes that were received and those that were sent.
const RECEIVED: usize = 16;
const SENT: usize = 24;

/// The bytes that each interface of the caller's network namespace has received and sent since it was made, by name
/// (rtnetlink(7), `IFLA_STATS64`): whole frames, of all programs.
///
/// # Errors
/// Where the system permits no netlink sockets.
pub fn carried() -> io::Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; HEADER]);
    Netlink::open(ROUTE, 0)?.ask(request, |body| all.extend(interface(body)))?;
    Ok(all)
}

fn interface(body: &[u8]) -> Option<(String, u64)> {
    let (mut name, mut bytes) = (None, None);
    for (kind, value) in attributes(body.get(HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => name = std::str::from_utf8(value).ok(),
            libc::IFLA_STATS64 => {
                let sum = u64_at(value, RECEIVED).zip(u64_at(value, SENT));
                bytes = sum.map(|(received, sent)| received.saturating_add(sent));
            }
            _ => {}
        }
    }
    Some((name?.trim_end_matches('\0').to_owned(), bytes?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// A minute of the calendar where this host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// Such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// Since midnight.
    pub minute: u16,
}

/// What the wall clock says. The time zone is looked up by the first call alone: a process that gives up its files makes
/// that before.
#[must_use]
pub fn local_time() -> LocalTime {
    // SAFETY: both calls write to what they are given, which is plain data, and keep no pointer to it.
    let date = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut date: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut date);
        date
    };
    LocalTime {
        year: date.tm_year + 1900,
        month: date.tm_mon as u8 + 1,
        day: date.tm_mday.max(1) as u8,
        minute: (date.tm_hour * 60 + date.tm_min) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::in_namespace;
    use std::net::UdpSocket;

    #[test]
    fn what_goes_over_loopback_is_counted() {
        in_namespace(|| {
            let before = carried().unwrap()["lo"];
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
            let news = carried().unwrap()["lo"] - before;
            assert!((2_000..3_000).contains(&news), "{news}");
        });
    }

    #[test]
    fn answers_that_are_cut_short_name_no_interface() {
        for length in [0, HEADER, HEADER + 4] {
            assert_eq!(interface(&vec![0; length]), None);
        }
    }

    #[test]
    fn the_time_is_one_of_the_calendar() {
        let LocalTime { year, month, day, minute } = local_time();
        assert!(year > 2000 && (1..=12).contains(&month) && (1..=31).contains(&day));
        assert!(minute < 24 * 60);
    }
}
