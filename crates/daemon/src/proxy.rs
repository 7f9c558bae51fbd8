//! The PROXY protocol, version 1: a line that tells a service who its client is.
//!
//! After "The PROXY protocol" of HAProxy, section 2.1. nginx, Apache, PostgreSQL poolers, Postfix
//! and others read it; a service must be told to expect it.

use bytes::Bytes;
use std::net::SocketAddr;

/// The line for a client of a service. Addresses of two families cannot be told together.
pub(crate) fn header(client: SocketAddr, service: SocketAddr) -> Bytes {
    let family = match (client, service) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => "TCP4",
        (SocketAddr::V6(_), SocketAddr::V6(_)) => "TCP6",
        _ => return Bytes::from_static(b"PROXY UNKNOWN\r\n"),
    };
    let (from, to) = (client.ip(), service.ip());
    format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), service.port()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(client: &str, service: &str) -> String {
        let header = header(client.parse().unwrap(), service.parse().unwrap());
        String::from_utf8(header.to_vec()).unwrap()
    }

    #[test]
    fn the_line_names_client_and_service() {
        let v4 = line("192.0.2.1:40000", "192.0.2.2:80");
        assert_eq!(v4, "PROXY TCP4 192.0.2.1 192.0.2.2 40000 80\r\n");
        let v6 = line("[2001:db8::1]:40000", "[2001:db8::2]:80");
        assert_eq!(v6, "PROXY TCP6 2001:db8::1 2001:db8::2 40000 80\r\n");
        assert_eq!(line("192.0.2.1:40000", "[2001:db8::2]:80"), "PROXY UNKNOWN\r\n");
    }
}
