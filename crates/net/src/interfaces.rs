//! The addresses of this host.

use crate::sockaddr;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// One address of one network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// Its number; also the scope of link-local IPv6 addresses.
    pub index: u32,
    /// The address.
    pub addr: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix_len: u8,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Whether the interface is switched on and has a link.
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
}

impl Interface {
    /// The address with a UDP port, and with its scope if it is a link-local one.
    pub fn socket_addr(&self, port: u16) -> SocketAddr {
        match self.addr {
            IpAddr::V6(addr) if addr.is_unicast_link_local() => {
                SocketAddrV6::new(addr, port, 0, self.index).into()
            }
            IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(self.addr, port),
        }
    }
}

/// Every IPv4 and IPv6 address of every interface in the caller's network namespace, in the order
/// of the kernel. IPv6 addresses that cannot be bound, because the kernel is still looking for a
/// duplicate or has found one (RFC 4862 section 5.4), are left out. Errors are those of the system
/// calls.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let control = control_socket()?;
    let list = AddressList::read()?;
    let unready = unready_addresses();
    let all = list.iter().filter_map(|entry| interface(entry, &control));
    Ok(all.filter(|one| !unready.contains(&(one.addr, one.index))).collect())
}

/// IPv6 addresses, with the number of their interface, that cannot be bound. getifaddrs does not
/// tell the flags of addresses; without /proc none is left out.
fn unready_addresses() -> Vec<(IpAddr, u32)> {
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    table.lines().filter_map(unready_address).collect()
}

/// Fields: address, interface number, prefix length, scope, flags, name; hexadecimal.
fn unready_address(line: &str) -> Option<(IpAddr, u32)> {
    let mut fields = line.split_whitespace();
    let addr = u128::from_str_radix(fields.next()?, 16).ok()?;
    let index = u32::from_str_radix(fields.next()?, 16).ok()?;
    let flags = u32::from_str_radix(fields.nth(2)?, 16).ok()?;
    let unready = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0;
    unready.then(|| (Ipv6Addr::from_bits(addr).into(), index))
}

/// `None` for entries without an IP address and for interfaces that vanish while we look.
fn interface(entry: &libc::ifaddrs, control: &OwnedFd) -> Option<Interface> {
    let addr = ip_at(entry.ifa_addr)?;
    // SAFETY: getifaddrs gives every entry a NUL-terminated name that lives as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    let flags = entry.ifa_flags as libc::c_int;
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    Some(Interface {
        name: name.to_str().ok()?.to_owned(),
        index: index_of(name)?,
        addr,
        prefix_len: ip_at(entry.ifa_netmask).map_or_else(|| host_prefix(addr), prefix_len),
        mtu: mtu(control, name)?,
        up: flags & running == running,
        loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}

/// Asked by a socket that a confined stack may open: the C library's own question needs a Unix socket with musl.
pub(crate) fn index_of(name: &CStr) -> Option<u32> {
    let request = ask(&control_socket().ok()?, name, libc::SIOCGIFINDEX as _)?;
    // SAFETY: the index is the member of the union that SIOCGIFINDEX writes.
    u32::try_from(unsafe { request.ifr_ifru.ifru_ifindex }).ok()
}

/// Number of the interface `name`, 0 if there is none of that name.
pub(crate) fn number_of(name: &str) -> u32 {
    CString::new(name).ok().and_then(|name| index_of(&name)).unwrap_or(0)
}

fn ip_at(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: a non-null address of getifaddrs is a whole sockaddr of the family that it names, so
    // at least the family, and the length of that family's sockaddr, can be read.
    let bytes = unsafe {
        let length = sockaddr::length((*address).sa_family);
        std::slice::from_raw_parts(address.cast::<u8>(), length)
    };
    Some(sockaddr::parse(bytes)?.ip())
}

fn prefix_len(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    u8::try_from(ones).unwrap_or(u8::MAX)
}

/// Without a mask the address stands for itself alone.
fn host_prefix(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// Asked of the kernel by ioctl, because /sys may show another network namespace.
fn mtu(control: &OwnedFd, name: &CStr) -> Option<u32> {
    let request = ask(control, name, libc::SIOCGIFMTU as _)?;
    // SAFETY: the MTU is the member of the union that SIOCGIFMTU writes.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

/// Asks the kernel about an interface.
fn ask(control: &OwnedFd, name: &CStr, what: libc::Ioctl) -> Option<libc::ifreq> {
    // SAFETY: ifreq is plain data, for which all zeroes is a legal value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request is an ifreq with a terminated name, as these requests want; the kernel writes only into it.
    let failed = unsafe { libc::ioctl(control.as_raw_fd(), what, &raw mut request) != 0 };
    (!failed).then_some(request)
}

fn control_socket() -> io::Result<OwnedFd> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)
        .or_else(|_| Socket::new(Domain::IPV6, Type::DGRAM, None))?;
    Ok(socket.into())
}

/// The list that getifaddrs allocates.
pub(crate) struct AddressList(*mut libc::ifaddrs);

impl AddressList {
    pub(crate) fn read() -> io::Result<Self> {
        let mut head = std::ptr::null_mut();
        // SAFETY: getifaddrs writes one pointer to where it is told.
        match unsafe { libc::getifaddrs(&mut head) } {
            0 => Ok(Self(head)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &libc::ifaddrs> {
        // SAFETY: every pointer of the list is null or leads to an entry that lives until it is freed.
        let entry = |pointer: *mut libc::ifaddrs| unsafe { pointer.as_ref() };
        std::iter::successors(entry(self.0), move |previous| entry(previous.ifa_next))
    }
}

impl Drop for AddressList {
    fn drop(&mut self) {
        // SAFETY: the list came from getifaddrs and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn finds_loopback() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.addr == Ipv4Addr::LOCALHOST).expect("127.0.0.1");
        assert!(lo.loopback && lo.up && lo.index > 0);
        assert_eq!(lo.prefix_len, 8);
        assert!(lo.mtu >= 1280);
        assert_eq!(lo.socket_addr(9), "127.0.0.1:9".parse().unwrap());
    }

    #[test]
    fn link_local_addresses_carry_their_scope() {
        let interface = Interface {
            name: "x".into(),
            index: 7,
            addr: "fe80::1".parse().unwrap(),
            prefix_len: 64,
            mtu: 1500,
            up: true,
            loopback: false,
        };
        assert_eq!(interface.socket_addr(5), "[fe80::1%7]:5".parse().unwrap());
    }

    #[test]
    fn knows_addresses_that_are_not_ready() {
        let line = |flags| format!("fe800000000000000000000000000001 0a 40 20 {flags} eth0");
        let addr: IpAddr = "fe80::1".parse().unwrap();
        assert_eq!(unready_address(&line("c0")), Some((addr, 10)));
        assert_eq!(unready_address(&line("88")), Some((addr, 10)));
        assert_eq!(unready_address(&line("80")), None);
        assert_eq!(unready_address("garbage"), None);
        assert_eq!(unready_address(""), None);
    }

    #[test]
    fn counts_the_bits_of_a_mask() {
        assert_eq!(prefix_len(IpAddr::from(Ipv4Addr::new(255, 255, 240, 0))), 20);
        assert_eq!(prefix_len(IpAddr::from(Ipv6Addr::from_bits(!0 << 64))), 64);
        assert_eq!(host_prefix(IpAddr::from(Ipv6Addr::LOCALHOST)), 128);
    }
}
