//! What an anchor has to do, worked out before the fork so that it need not allocate after it.

use super::{Host, MTU};
use crate::sys::interface::{self, Name};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How hosts are kept apart from the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// As root where that is permitted, else in a user namespace.
    #[default]
    Auto,
    /// As root. Programs on the hosts run as root.
    Root,
    /// In a user namespace, for which no privilege is needed. Programs keep the caller's user id,
    /// and have the capabilities NET_ADMIN, NET_RAW and NET_BIND_SERVICE on their host.
    UserNamespace,
}

/// One TUN device.
pub(crate) struct Device {
    pub name: Name,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl Device {
    pub(crate) const MTU: u16 = MTU;
    /// Enough for what a busy machine cannot read from the device for some milliseconds.
    pub(crate) const TX_QUEUE: u16 = 5000;
    pub(crate) const PREFIX_V4: u8 = 24;
    pub(crate) const PREFIX_V6: u8 = 64;
}

/// A file that must go when the lab goes, recognised by device and inode number.
#[derive(Clone)]
pub(crate) struct Leftover {
    pub path: CString,
    pub device: u64,
    pub inode: u64,
}

/// One host, ready to be made.
pub(crate) struct Plan {
    pub host: Host,
    pub user_namespace: bool,
    /// Contents of uid_map and gid_map: everybody stays who they are.
    pub uid_map: Vec<u8>,
    pub gid_map: Vec<u8>,
    /// A hosts(5) file to show at /etc/hosts.
    pub hosts_file: CString,
    pub devices: Vec<Device>,
    /// The control socket, removed by the anchor in case that its holder cannot.
    pub leftover: Option<Leftover>,
}

impl Plan {
    pub(crate) fn new(
        host: Host,
        user_namespace: bool,
        devices: usize,
        hosts_file: CString,
        leftover: Option<Leftover>,
    ) -> Self {
        // SAFETY: both only return a number.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self {
            host,
            user_namespace,
            uid_map: format!("{uid} {uid} 1").into_bytes(),
            gid_map: format!("{gid} {gid} 1").into_bytes(),
            hosts_file,
            devices: (0..devices).map(|index| device(host, index)).collect(),
            leftover,
        }
    }
}

fn device(host: Host, index: usize) -> Device {
    Device {
        name: interface::name(&format!("path{}", super::path_name(index))),
        v4: host.address(index),
        v6: host.address_v6(index),
    }
}

/// Settings of a host's network. Every one may be missing in a kernel; none is essential.
pub(crate) const SYSCTLS: [(&CStr, &[u8]); 9] = [
    (c"/proc/sys/net/ipv6/conf/all/disable_ipv6", b"0"),
    (c"/proc/sys/net/ipv6/conf/default/disable_ipv6", b"0"),
    // Only the addresses that we give: no link-local ones, no router solicitations on the paths.
    (c"/proc/sys/net/ipv6/conf/default/addr_gen_mode", b"1"),
    (c"/proc/sys/net/ipv6/conf/default/router_solicitations", b"0"),
    (c"/proc/sys/net/ipv6/conf/default/accept_ra", b"0"),
    (c"/proc/sys/net/ipv6/conf/all/accept_dad", b"0"),
    (c"/proc/sys/net/ipv6/conf/default/accept_dad", b"0"),
    // Whatever the paths carry is accepted, as on a multihomed host that knows its networks.
    (c"/proc/sys/net/ipv4/conf/all/rp_filter", b"0"),
    (c"/proc/sys/net/ipv4/conf/default/rp_filter", b"0"),
];

/// As [`SYSCTLS`], where programs do not run as root: they may still listen on port 80.
pub(crate) const UNPRIVILEGED_PORTS: (&CStr, &[u8]) =
    (c"/proc/sys/net/ipv4/ip_unprivileged_port_start", b"0");

/// The hosts(5) file of `host`: itself, and both hosts by name with all their addresses.
pub(crate) fn hosts_text(paths: usize) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for host in Host::ALL {
        for index in 0..paths {
            text += &format!("{} {host}\n", host.address(index));
        }
        for index in 0..paths {
            text += &format!("{} {host}\n", host.address_v6(index));
        }
    }
    text
}
