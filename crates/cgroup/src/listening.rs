//! Listening sockets of the group's programs: those that were there before us, too.

use manypath_control::Listener;
use manypath_netlink::{Netlink, Request, SOCK_DIAG, attributes, u16_at as half, u32_at as word};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const LISTEN: u32 = 1 << 10;
const V6_ONLY: u16 = 11;
const CGROUP: u16 = 21;

/// Listening TCP sockets that peers could be led to, by inode. Those at loopback and those that are
/// bound to a device are none.
///
/// # Errors
/// As the kernel says.
pub(crate) fn listeners(
    groups: &BTreeSet<u64>,
    program: &str,
) -> io::Result<BTreeMap<u64, Listener>> {
    let mut found = BTreeMap::new();
    each(|body| {
        if let Some(listener) = parse(body, groups, program) {
            found.insert(listener.inode, listener);
        }
    })?;
    Ok(found)
}

/// Whether this kernel tells of TCP sockets: it may lack the module `tcp_diag`, and says then that there is no such
/// socket when it is asked for one.
///
/// # Errors
/// `ENOENT` without that module.
pub(crate) fn can_ask() -> io::Result<()> {
    each(|_| {})
}

/// Whether a connection waits for one of the programs to accept it.
///
/// # Errors
/// As the kernel says.
pub(crate) fn someone_waits(groups: &BTreeSet<u64>) -> io::Result<bool> {
    let mut any = false;
    each(|body| any |= waiting(body) > 0 && parse(body, groups, "").is_some())?;
    Ok(any)
}

/// How many connections wait to be accepted.
fn waiting(body: &[u8]) -> u32 {
    word(body, 56).unwrap_or(0)
}

/// Takes each listening TCP socket of this network, a `struct inet_diag_msg` and its attributes.
fn each(mut take: impl FnMut(&[u8])) -> io::Result<()> {
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2
        let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
        request.extend(LISTEN.to_ne_bytes());
        request.extend([0; 48]);
        let request = Request::new(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &request);
        Netlink::open(SOCK_DIAG, 0)?.ask(request, &mut take)?;
    }
    Ok(())
}

/// `struct inet_diag_msg` and its attributes.
fn parse(body: &[u8], groups: &BTreeSet<u64>, program: &str) -> Option<Listener> {
    let v6 = i32::from(*body.first()?) == libc::AF_INET6;
    let port = u16::from_be_bytes(half(body, 4)?.to_ne_bytes());
    let (source, device) = (body.get(8..24)?, word(body, 40)?);
    let ip = match v6 {
        true => IpAddr::from(<[u8; 16]>::try_from(source).ok()?).to_canonical(),
        false => IpAddr::from(<[u8; 4]>::try_from(source.get(..4)?).ok()?),
    };
    let inode = u64::from(word(body, 68)?);
    let (mut v6_only, mut group) = (false, None);
    for (name, value) in attributes(body.get(72..)?) {
        match name {
            V6_ONLY => v6_only = value.first() == Some(&1),
            CGROUP => group = value.try_into().ok().map(u64::from_ne_bytes),
            _ => {}
        }
    }
    let wanted = group.is_some_and(|group| groups.contains(&group));
    let reachable = !ip.is_loopback() && device == 0 && inode != 0;
    let addr = SocketAddr::new(ip, port);
    let program = program.to_owned();
    (wanted && reachable).then_some(Listener { addr, v6_only, inode, program })
}

#[cfg(test)]
mod tests {
    use super::{each, listeners, parse, someone_waits, waiting};
    use crate::group;
    use std::collections::BTreeSet;
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn listeners_of_other_groups_are_not_ours() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listeners(&BTreeSet::from([u64::MAX]), "x").unwrap().is_empty());
        let Ok(root) = group::mount() else { return eprintln!("SKIPPED: no cgroup2 here") };
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let Ok(meta) = std::fs::metadata(root.join(own)) else {
            return eprintln!("SKIPPED: our cgroup is out of sight");
        };
        let found = listeners(&BTreeSet::from([meta.ino()]), "x").unwrap();
        assert!(found.values().any(|one| one.addr.port() == port), "{found:?}");
        let groups = BTreeSet::from([meta.ino()]);
        let waits = || {
            let mut here = 0;
            let ours =
                |body: &[u8]| parse(body, &groups, "").is_some_and(|one| one.addr.port() == port);
            each(|body| here += if ours(body) { waiting(body) } else { 0 }).unwrap();
            here
        };
        let _client = std::net::TcpStream::connect(("127.0.0.2", port)).unwrap();
        assert!(someone_waits(&groups).unwrap());
        assert_eq!(waits(), 1);
        listener.accept().unwrap();
        assert_eq!(waits(), 0);
    }
}
