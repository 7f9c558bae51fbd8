//! What carries SCTP packets beside the usual UDP port: other UDP ports, and TCP or TLS where UDP does not get through.

mod behind;
mod hello;
#[cfg(test)]
mod hello_properties;
mod proxy;
mod stream;
mod streams;
mod watch;
mod ways;
mod wrap;

pub use behind::{Behind, proxy_header};
pub use proxy::Proxy;
pub(crate) use stream::{Over, Packed};
pub(crate) use streams::{Link, Streams, StreamsConfig};
pub(crate) use ways::{Ways, is_init};
pub use wrap::{Wrap, Wrapper};

use std::fmt;
use std::str::FromStr;

/// The local port of paths over TCP at the end that accepts. No socket of a server has it, so that a path over UDP
/// never has the same two addresses.
pub const STREAM_PORT: u16 = u16::MAX;
/// Most carriers that can be named.
const MAX_CARRIERS: usize = 3;
const OFF: &str = "off";

/// How packets get to a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Carrier {
    /// In UDP datagrams to this port (RFC 6951).
    Udp(u16),
    /// In a TCP connection to this port, each packet behind its length.
    Tcp(u16),
    /// In a TCP connection to this port that an HTTP proxy makes (CONNECT, RFC 9110 section 9.3.6). Inside of TLS where
    /// the port is one of TLS.
    Proxy(u16),
    /// In a TCP connection to this port, inside of TLS.
    Tls(u16),
}

impl Carrier {
    /// Its port.
    pub const fn port(self) -> u16 {
        match self {
            Self::Udp(port) | Self::Tcp(port) | Self::Proxy(port) | Self::Tls(port) => port,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(port) => write!(f, "udp:{port}"),
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Proxy(port) => write!(f, "proxy:{port}"),
            Self::Tls(port) => write!(f, "tls:{port}"),
        }
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: none of udp:PORT, tcp:PORT, tls:PORT and proxy:PORT");
        let (kind, port) = text.split_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        match (kind, port) {
            (_, 0 | STREAM_PORT) => Err(format!("{text}: the port must be from 1 to 65534")),
            ("udp", _) => Ok(Self::Udp(port)),
            ("tcp", _) => Ok(Self::Tcp(port)),
            ("proxy", _) => Ok(Self::Proxy(port)),
            ("tls", _) => Ok(Self::Tls(port)),
            _ => Err(wrong()),
        }
    }
}

/// Carriers beside the usual UDP port, in the order in which a client prefers them; as text `udp:443,tcp:443` or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Carriers([Option<Carrier>; MAX_CARRIERS]);

/// Bits of a carrier in a number: those of the port, and above them its kind.
const BITS: u32 = 18;
const TCP: u64 = 1 << 16;
const PROXY: u64 = 2 << 16;
const TLS: u64 = TCP | PROXY;

impl Carriers {
    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Carrier> {
        self.0.into_iter().flatten()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0[0].is_none()
    }

    /// Whether one of them needs a proxy.
    pub fn names_proxy(self) -> bool {
        self.iter().any(|one| matches!(one, Carrier::Proxy(_)))
    }

    /// Those that need none.
    #[must_use]
    pub fn without_proxy(self) -> Self {
        let mut others = self.iter().filter(|one| !matches!(one, Carrier::Proxy(_)));
        Self(std::array::from_fn(|_| others.next()))
    }

    /// Those that speak no TLS.
    #[must_use]
    pub(crate) fn without_tls(self) -> Self {
        let mut others = self.iter().filter(|one| !self.wraps(*one));
        Self(std::array::from_fn(|_| others.next()))
    }

    /// The UDP ports among them.
    pub fn udp_ports(self) -> impl Iterator<Item = u16> {
        self.iter().filter(|one| matches!(one, Carrier::Udp(_))).map(Carrier::port)
    }

    /// The TCP ports among them.
    pub fn tcp_ports(self) -> impl Iterator<Item = u16> {
        self.iter().filter(|one| matches!(one, Carrier::Tcp(_))).map(Carrier::port)
    }

    /// The ports among them at which TLS is spoken.
    pub fn tls_ports(self) -> impl Iterator<Item = u16> {
        self.iter().filter(|one| matches!(one, Carrier::Tls(_))).map(Carrier::port)
    }

    /// Whether a connection by `carrier` speaks TLS.
    pub(crate) fn wraps(self, carrier: Carrier) -> bool {
        match carrier {
            Carrier::Udp(_) | Carrier::Tcp(_) => false,
            Carrier::Tls(_) => true,
            Carrier::Proxy(port) => self.tls_ports().any(|other| other == port),
        }
    }

    /// All of them as a number, for settings, which are numbers: 0 if there are none.
    #[must_use]
    pub fn number(self) -> u64 {
        let bits = |one| match one {
            Carrier::Udp(port) => u64::from(port),
            Carrier::Tcp(port) => u64::from(port) | TCP,
            Carrier::Proxy(port) => u64::from(port) | PROXY,
            Carrier::Tls(port) => u64::from(port) | TLS,
        };
        let all = self.0.iter().rev();
        all.fold(0, |number, one| number << BITS | one.map_or(0, bits))
    }

    /// Those with that number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        let one = |at: usize| {
            let bits = number >> (at as u32 * BITS);
            let port = bits as u16;
            let carrier = match bits & TLS {
                TLS => Carrier::Tls(port),
                PROXY => Carrier::Proxy(port),
                TCP => Carrier::Tcp(port),
                _ => Carrier::Udp(port),
            };
            Some(carrier).filter(|_| port != 0)
        };
        Self(std::array::from_fn(one))
    }
}

fn is_tls_and_tcp(one: Carrier, other: Carrier) -> bool {
    let are = |one, other| matches!((one, other), (Carrier::Tls(a), Carrier::Tcp(b)) if a == b);
    are(one, other) || are(other, one)
}

impl FromStr for Carriers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        if text == OFF {
            return Ok(all);
        }
        for (at, one) in text.split(',').enumerate() {
            let carrier = one.trim().parse()?;
            if all.iter().any(|other| other == carrier) {
                return Err(format!("{text}: {carrier} is there twice"));
            }
            if all.iter().any(|other| is_tls_and_tcp(other, carrier)) {
                let port = carrier.port();
                return Err(format!("{text}: a port speaks TLS or plain TCP, not both: {port}"));
            }
            let place = all.0.get_mut(at);
            *place.ok_or_else(|| format!("{text}: more than {MAX_CARRIERS} carriers"))? =
                Some(carrier);
        }
        Ok(all)
    }
}

impl fmt::Display for Carriers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(OFF);
        }
        for (at, carrier) in self.iter().enumerate() {
            write!(f, "{}{carrier}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_texts_and_numbers() {
        for text in ["off", "udp:443", "tcp:65534,udp:1", "udp:443,tls:443,proxy:53"] {
            let carriers: Carriers = text.parse().unwrap();
            assert_eq!(carriers.to_string(), text);
            assert_eq!(Carriers::of_number(carriers.number()), carriers);
        }
        assert_eq!(Carriers::default().number(), 0);
        for wrong in [
            "",
            "443",
            "udp:0",
            "tcp:65535",
            "sctp:1",
            "udp:1,udp:1",
            "udp:443,",
            "tcp:1,tls:1",
            "tls:1,tcp:1",
        ] {
            assert!(wrong.parse::<Carriers>().is_err(), "{wrong}");
        }
        let direct = "proxy:443,tcp:443".parse::<Carriers>().unwrap().without_proxy();
        assert_eq!(direct.to_string(), "tcp:443");
        let wrapped = "tls:443,proxy:443,proxy:444".parse::<Carriers>().unwrap();
        let by = [Carrier::Tls(443), Carrier::Proxy(443), Carrier::Proxy(444), Carrier::Udp(443)];
        assert_eq!(by.map(|one| wrapped.wraps(one)), [true, true, false, false]);
        assert!("udp:1,udp:2,udp:3,udp:4".parse::<Carriers>().is_err());
    }
}
