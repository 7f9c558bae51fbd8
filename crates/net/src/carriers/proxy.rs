//! The HTTP proxy that makes connections for carriers (CONNECT, RFC 9110 section 9.3.6).

use std::fmt;
use std::net::SocketAddr;

/// Where it is, and what it wants to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) addr: SocketAddr,
    credentials: Option<String>,
}

impl Proxy {
    /// The proxy at `addr`. It is shown `credentials` if there are any: what stands in `Proxy-Authorization` (RFC 9110
    /// section 11.7.2).
    #[must_use]
    pub const fn new(addr: SocketAddr, credentials: Option<String>) -> Self {
        Self { addr, credentials }
    }

    /// What asks it for a connection.
    pub(crate) fn request(&self, to: SocketAddr) -> String {
        let shown = self.credentials.as_ref();
        let shown = shown.map(|text| format!("Proxy-Authorization: {text}\r\n"));
        let shown = shown.unwrap_or_default();
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{shown}\r\n")
    }
}

/// Without the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("addr", &self.addr).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_in_the_request_and_nowhere_else() {
        let (addr, to) = ("192.0.2.9:3128".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        let proxy = Proxy::new(addr, Some("Basic QWxhZGRpbjpvcGVu".to_owned()));
        let request = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\
                       Proxy-Authorization: Basic QWxhZGRpbjpvcGVu\r\n\r\n";
        assert_eq!(proxy.request(to), request);
        assert!(!format!("{proxy:?}").contains("QWxh"), "{proxy:?}");
        let without = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n";
        assert_eq!(Proxy::new(addr, None).request(to), without);
    }
}
