//! To whom the kernel says that a socket belongs.

use manypath_gate::egress::unspecified;
use manypath_netlink::{Netlink, Request, SOCK_DIAG, attributes, u32_at as word};
use std::io;
use std::net::{IpAddr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const CGROUP: u16 = 21;

/// The user and the cgroup in which a socket was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) cgroup: u64,
}

/// Asks for sockets of this network.
#[derive(Debug)]
pub(crate) struct Owners(Netlink);

impl Owners {
    /// # Errors
    /// As `socket` says.
    pub(crate) fn new() -> io::Result<Self> {
        Netlink::open(SOCK_DIAG, 0).map(Self)
    }

    /// Of the TCP socket at `own` that is connected, or on its way, to `peer`.
    ///
    /// # Errors
    /// `ENOENT` when there is none.
    pub(crate) fn of(&self, own: SocketAddr, peer: SocketAddr) -> io::Result<Owner> {
        let mut answer = Vec::new();
        let request = Request::new(SOCK_DIAG_BY_FAMILY, 0, &request(own, peer));
        self.0.ask(request, |body| answer = body.to_vec())?;
        let cgroup = attributes(answer.get(72..).unwrap_or_default())
            .find_map(|(name, value)| (name == CGROUP).then(|| value.try_into().ok())?);
        let user = word(&answer, 64);
        let (Some(user), Some(cgroup)) = (user, cgroup.map(u64::from_ne_bytes)) else {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        };
        Ok(Owner { user, cgroup })
    }
}

/// `struct inet_diag_req_v2`.
fn request(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    const ANY_COOKIE: [u8; 8] = [0xff; 8];
    let family = if own.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(own.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    request.extend(octets(own.ip()));
    request.extend(octets(peer.ip()));
    request.extend([0; 4]);
    request.extend(ANY_COOKIE);
    request
}

fn octets(ip: IpAddr) -> [u8; 16] {
    debug_assert_ne!(ip, unspecified(ip));
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_tells_whose_a_socket_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let owners = Owners::new().unwrap();
            // SAFETY: takes nothing.
            assert_eq!(owners.of(own, peer).unwrap().user, unsafe { libc::geteuid() });
            drop(stream);
            let nobody = SocketAddr::new(own.ip(), 1);
            assert_eq!(owners.of(nobody, peer).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        }
    }
}
