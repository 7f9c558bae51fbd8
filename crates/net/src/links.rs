//! The network interfaces of this host, those without an address too.

use crate::interfaces::{AddressList, index_of};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Whether it is switched on (`ip link set NAME up`).
    pub switched_on: bool,
    /// Whether it has a carrier, as far as the kernel says; never while it is switched off.
    pub has_carrier: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether there is one other host on it.
    pub point_to_point: bool,
}

/// The interfaces of the caller's network namespace, in the order of their names.
///
/// # Errors
/// Those of the system calls.
pub fn links() -> io::Result<Vec<Link>> {
    let list = AddressList::read()?;
    // Each interface is there once for its hardware address and once for each other address.
    let links: BTreeMap<String, Link> =
        list.iter().filter_map(link).map(|link| (link.name.clone(), link)).collect();
    Ok(links.into_values().collect())
}

fn link(entry: &libc::ifaddrs) -> Option<Link> {
    // SAFETY: getifaddrs gives every entry a NUL-terminated name that lives as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    let flags = entry.ifa_flags as libc::c_int;
    let has = |flag| flags & flag == flag;
    Some(Link {
        name: name.to_str().ok()?.to_owned(),
        index: index_of(name)?,
        switched_on: has(libc::IFF_UP),
        has_carrier: has(libc::IFF_UP | libc::IFF_RUNNING),
        loopback: has(libc::IFF_LOOPBACK),
        point_to_point: has(libc::IFF_POINTOPOINT),
    })
}

#[cfg(test)]
mod tests {
    use super::links;
    use crate::namespace::{in_namespace, ip};

    #[test]
    fn interfaces_without_an_address_are_seen_as_they_are() {
        in_namespace(|| {
            ip("link add one type veth peer name two");
            let states = || {
                let all = links().unwrap().into_iter();
                let words = all.map(|it| (it.name, it.switched_on, it.has_carrier, it.loopback));
                words.collect::<Vec<_>>()
            };
            let state = |name: &str, on, carrier| (name.to_owned(), on, carrier, false);
            let lo = ("lo".to_owned(), true, true, true);
            let others = states().into_iter().filter(|it| it.0.len() == 3 || it.3);
            let others: Vec<_> = others.collect();
            assert_eq!(others, [lo, state("one", false, false), state("two", false, false)]);
            ip("link set one up");
            assert!(states().contains(&state("one", true, false)), "{:?}", states());
            ip("link set two up");
            // The kernel takes a moment to notice.
            let begun = std::time::Instant::now();
            while !states().contains(&state("one", true, true)) {
                assert!(begun.elapsed().as_secs() < 10, "{:?}", states());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
    }
}
