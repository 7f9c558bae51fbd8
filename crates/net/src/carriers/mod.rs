//! What carries SCTP packets beside the usual UDP port: other UDP ports, and TCP where UDP does not get through.

mod carriage;
mod stream;
mod streams;
mod ways;

pub(crate) use carriage::Carriage;
pub(crate) use ways::Ways;

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
    /// In such a connection that an HTTP proxy makes (CONNECT, RFC 9110 section 9.3.6).
    Proxy(u16),
}

impl Carrier {
    /// Its port.
    pub const fn port(self) -> u16 {
        match self {
            Self::Udp(port) | Self::Tcp(port) | Self::Proxy(port) => port,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(port) => write!(f, "udp:{port}"),
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Proxy(port) => write!(f, "proxy:{port}"),
        }
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: none of udp:PORT, tcp:PORT and proxy:PORT");
        let (kind, port) = text.split_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        match (kind, port) {
            (_, 0 | STREAM_PORT) => Err(format!("{text}: the port must be from 1 to 65534")),
            ("udp", _) => Ok(Self::Udp(port)),
            ("tcp", _) => Ok(Self::Tcp(port)),
            ("proxy", _) => Ok(Self::Proxy(port)),
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

    /// The UDP ports among them.
    pub fn udp_ports(self) -> impl Iterator<Item = u16> {
        self.iter().filter(|one| matches!(one, Carrier::Udp(_))).map(Carrier::port)
    }

    /// The TCP ports among them.
    pub fn tcp_ports(self) -> impl Iterator<Item = u16> {
        self.iter().filter(|one| matches!(one, Carrier::Tcp(_))).map(Carrier::port)
    }

    /// All of them as a number, for settings, which are numbers: 0 if there are none.
    #[must_use]
    pub fn number(self) -> u64 {
        let bits = |one| match one {
            Carrier::Udp(port) => u64::from(port),
            Carrier::Tcp(port) => u64::from(port) | TCP,
            Carrier::Proxy(port) => u64::from(port) | PROXY,
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
            let carrier = match bits & (TCP | PROXY) {
                PROXY => Carrier::Proxy(port),
                TCP => Carrier::Tcp(port),
                _ => Carrier::Udp(port),
            };
            Some(carrier).filter(|_| port != 0)
        };
        Self(std::array::from_fn(one))
    }
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
        for text in ["off", "udp:443", "tcp:65534,udp:1", "udp:443,tcp:443,proxy:53"] {
            let carriers: Carriers = text.parse().unwrap();
            assert_eq!(carriers.to_string(), text);
            assert_eq!(Carriers::of_number(carriers.number()), carriers);
        }
        assert_eq!(Carriers::default().number(), 0);
        for wrong in ["", "443", "udp:0", "tcp:65535", "sctp:1", "udp:1,udp:1", "udp:443,"] {
            assert!(wrong.parse::<Carriers>().is_err(), "{wrong}");
        }
        let direct = "proxy:443,tcp:443".parse::<Carriers>().unwrap().without_proxy();
        assert_eq!(direct.to_string(), "tcp:443");
        assert!("udp:1,udp:2,udp:3,udp:4".parse::<Carriers>().is_err());
    }
}
