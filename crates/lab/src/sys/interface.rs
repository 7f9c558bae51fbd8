//! Network interfaces, by ioctl where that does: TUN devices, addresses, MTU, up.

use super::{check, check_fd, open};
use manypath_netlink::{Netlink, ROUTE, Request};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Link type of a device for IP packets without a header (linux/if_arp.h).
const RAW_IP: libc::c_int = 519;

/// The request that gives a device its link type (linux/if_tun.h), three after the one that makes it.
const TUNSETLINK: libc::Ioctl = libc::TUNSETIFF + 3;

/// Bytes of `struct ifinfomsg`.
const LINK: usize = 16;

/// Interface name, padded with zeros.
pub(crate) type Name = [u8; libc::IFNAMSIZ];

/// `text` as an interface name; longer ones are cut.
pub(crate) fn name(text: &str) -> Name {
    let mut name = [0; libc::IFNAMSIZ];
    let len = text.len().min(libc::IFNAMSIZ - 1);
    name[..len].copy_from_slice(&text.as_bytes()[..len]);
    name
}

/// The loopback interface.
pub(crate) fn name_of_loopback() -> Name {
    name("lo")
}

/// Opens the TUN driver. The device made with it belongs to the network namespace of now.
pub(crate) fn open_tun() -> io::Result<OwnedFd> {
    open(c"/dev/net/tun", libc::O_RDWR | libc::O_NONBLOCK)
}

/// Makes the TUN device `name`; every read and write on `tun` is one IP packet without a header. It gets the link
/// type of a modem, which tells it from the tunnel of a VPN: stacks use tunnels for what is routed into them alone.
pub(crate) fn create_tun(tun: &OwnedFd, name: &Name) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    ioctl(tun, libc::TUNSETIFF as libc::c_ulong, &mut request)?;
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETLINK, RAW_IP) }).map(drop)
}

/// Changes interfaces of the network namespace in which it was made.
pub(crate) struct Configurator {
    v4: OwnedFd,
    /// None when the kernel has no IPv6.
    v6: Option<OwnedFd>,
}

impl Configurator {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { v4: socket(libc::AF_INET)?, v6: socket(libc::AF_INET6).ok() })
    }

    /// Largest IP packet in bytes.
    pub(crate) fn set_mtu(&self, name: &Name, mtu: u16) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_mtu = mtu.into();
        ioctl(&self.v4, libc::SIOCSIFMTU, &mut request)
    }

    /// Packets that the kernel may hold until they are read from the device. By netlink, because
    /// the ioctl for it is not for user namespaces.
    pub(crate) fn set_tx_queue(&self, name: &Name, packets: u16) -> io::Result<()> {
        let mut link = [0; LINK];
        link[4..8].copy_from_slice(&self.index(name)?.to_ne_bytes());
        let mut request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &link);
        request.attribute(libc::IFLA_TXQLEN, &u32::from(packets).to_ne_bytes());
        Netlink::open(ROUTE, 0)?.ask(request, |_| ())
    }

    pub(crate) fn set_address(&self, name: &Name, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_addr = sockaddr(address);
        ioctl(&self.v4, libc::SIOCSIFADDR, &mut request)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        request.ifr_ifru.ifru_netmask = sockaddr(Ipv4Addr::from_bits(mask));
        ioctl(&self.v4, libc::SIOCSIFNETMASK, &mut request)
    }

    /// Does nothing where the kernel has no IPv6.
    pub(crate) fn add_address_v6(
        &self,
        name: &Name,
        address: Ipv6Addr,
        prefix: u8,
    ) -> io::Result<()> {
        let Some(socket) = &self.v6 else { return Ok(()) };
        let ifindex = self.index(name)?;
        let addr = libc::in6_addr { s6_addr: address.octets() };
        ioctl(socket, libc::SIOCSIFADDR, &mut In6Request { addr, prefix: prefix.into(), ifindex })
    }

    fn index(&self, name: &Name) -> io::Result<libc::c_int> {
        let mut request = request(name);
        ioctl(&self.v4, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled in this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    pub(crate) fn set_up(&self, name: &Name) -> io::Result<()> {
        let mut request = request(name);
        ioctl(&self.v4, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled in this member.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ioctl(&self.v4, libc::SIOCSIFFLAGS, &mut request)
    }
}

/// struct in6_ifreq of linux/ipv6.h.
#[repr(C)]
struct In6Request {
    addr: libc::in6_addr,
    prefix: u32,
    ifindex: libc::c_int,
}

fn request(name: &Name) -> libc::ifreq {
    // SAFETY: ifreq is plain data, for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn socket(family: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket() touches no memory of ours.
    check_fd(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// C libraries differ in the type of the number.
fn ioctl<T>(fd: &OwnedFd, number: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: every caller passes the structure that `number` is defined for.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, std::ptr::from_mut(argument)) })
        .map(drop)
}
