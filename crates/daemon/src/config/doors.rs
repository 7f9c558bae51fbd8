//! Where connections come in of programs and hosts that no launcher intercepts.

use super::Users;
use manypath_net::{TransparentUdp, Tun};
use manypath_rules::Network;
use std::fmt;
use std::net::SocketAddr;

/// What a stack takes in at its doors, and from whom.
#[derive(Debug)]
pub struct Doors {
    /// Sockets that listen for SOCKS5 and HTTP CONNECT.
    pub proxies: Vec<std::net::TcpListener>,
    /// Transparent sockets to which the kernel leads connections of a network to other hosts, by interface, in words for
    /// people.
    pub lans: Vec<(String, std::net::TcpListener)>,
    /// Sockets to which the kernel leads their datagrams.
    pub lan_datagrams: Vec<TransparentUdp>,
    /// The device to which the kernel leads their other packets.
    pub tun: Option<Tun>,
    /// Where questions of networks' hosts go that are put to port 53 of this host's own addresses and led to these doors.
    pub dns: Option<SocketAddr>,
    /// The networks whose hosts may use the proxies, besides this host; all of them when empty.
    pub clients: Vec<Network>,
    /// Who may use the proxies; everybody when absent.
    pub users: Option<Users>,
    /// Most clients at a time.
    pub max_clients: usize,
}

impl fmt::Display for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.proxies.iter().filter_map(|one| one.local_addr().ok());
        let proxies = at.map(|at| format!("SOCKS5 and HTTP CONNECT clients at {at}"));
        let lans = self.lans.iter().map(|(interface, _)| format!("the network at {interface}"));
        let mut all: Vec<String> = proxies.chain(lans).collect();
        all.dedup();
        f.write_str(&all.join(", "))
    }
}
