//! Sockets that were opened before the process began, by a service manager, or that several loops share.

use crate::loops::Seat;
use socket2::{Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// UDP sockets that wait for their address to be used.
#[derive(Debug, Default)]
pub struct Inherited {
    pub(crate) sockets: BTreeMap<SocketAddr, Socket>,
    /// Where others come from, if several loops share the addresses.
    pub(crate) seat: Option<Seat>,
}

impl Inherited {
    /// Takes over `sockets`.
    ///
    /// # Errors
    /// When one is no UDP socket, or is not bound to one address: the packets of each path have a
    /// socket of their own.
    pub fn adopt(sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let sockets = sockets.into_iter().map(adopt).collect::<io::Result<_>>()?;
        Ok(Self { sockets, seat: None })
    }

    /// The UDP port of the sockets besides those at the ports `beside`, if there are any and all have the same.
    ///
    /// # Errors
    /// When they differ: all local addresses share one port (RFC 6951 section 5.1).
    pub fn port(&self, beside: &[u16]) -> io::Result<Option<u16>> {
        let mut ports: Vec<u16> = self.sockets.keys().map(SocketAddr::port).collect();
        ports.retain(|port| !beside.contains(port));
        ports.sort_unstable();
        ports.dedup();
        match ports[..] {
            [] => Ok(None),
            [port] => Ok(Some(port)),
            _ => Err(refuse("the sockets of the service manager have different ports")),
        }
    }

    /// The socket that is bound to `addr`, with what has arrived there.
    pub(crate) fn take(&mut self, addr: SocketAddr) -> Option<Socket> {
        self.sockets.remove(&addr)
    }
}

fn adopt(fd: OwnedFd) -> io::Result<(SocketAddr, Socket)> {
    let socket = Socket::from(fd);
    let addr = socket.local_addr()?.as_socket();
    let addr = addr.filter(|_| socket.r#type().is_ok_and(|kind| kind == Type::DGRAM));
    let addr = addr.ok_or_else(|| refuse("a socket of the service manager is no UDP socket"))?;
    if addr.ip().is_unspecified() {
        let text = "a UDP socket of the service manager is bound to no address: \
                    list each as ListenDatagram=ADDRESS:9899";
        return Err(refuse(text));
    }
    Ok((addr, socket))
}

fn refuse(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn udp(addr: &str) -> OwnedFd {
        UdpSocket::bind(addr).unwrap().into()
    }

    #[test]
    fn sockets_are_found_by_their_address_once() {
        let sockets = vec![udp("127.0.33.1:9733"), udp("127.0.33.2:9733")];
        let mut inherited = Inherited::adopt(sockets).unwrap();
        assert_eq!(inherited.port(&[]).unwrap(), Some(9733));
        let addr = "127.0.33.1:9733".parse().unwrap();
        assert!(inherited.take(addr).is_some());
        assert!(inherited.take(addr).is_none());
    }

    #[test]
    fn what_cannot_carry_a_path_is_refused() {
        let text = |sockets| Inherited::adopt(sockets).unwrap_err().to_string();
        let tcp = TcpListener::bind("127.0.33.3:0").unwrap();
        assert!(text(vec![tcp.into()]).contains("no UDP socket"));
        assert!(text(vec![udp("0.0.0.0:0")]).contains("ListenDatagram=ADDRESS"));
        let ports = Inherited::adopt(vec![udp("127.0.33.4:9734"), udp("127.0.33.5:9735")]);
        let ports = ports.unwrap();
        assert!(ports.port(&[]).is_err());
        assert_eq!(ports.port(&[9734]).unwrap(), Some(9735));
    }
}
