//! Where one side of a gateway is.

use crate::failure::Failure;
use std::net::{IpAddr, ToSocketAddrs};

/// Where one side is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// At a port of this host.
    Here(u16),
    /// At a port of a host with these names or addresses.
    There(Vec<String>, u16),
}

impl Place {
    /// `PORT` or `HOST[,HOST...]:PORT`; IPv6 addresses stand in brackets.
    pub(super) fn parse(option: &str, text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::usage(format!("{option} {text}: {why}")).hint(
                "PORT, HOST:PORT or HOST,HOST:PORT; for example 3868, sctp.example:3868, [2001:db8::1]:3868",
            )
        };
        let (hosts, port) = match text.rsplit_once(':') {
            Some((hosts, port)) => (Some(hosts), port),
            None => (None, text),
        };
        let port = match port.parse::<u16>() {
            Ok(0) | Err(_) => return Err(wrong(&format!("'{port}' is not a port"))),
            Ok(port) => port,
        };
        let Some(hosts) = hosts else { return Ok(Self::Here(port)) };
        let hosts: Option<Vec<String>> = hosts.split(',').map(host).collect();
        hosts
            .map(|hosts| Self::There(hosts, port))
            .ok_or_else(|| wrong("a host is missing, or an IPv6 address has no brackets"))
    }
}

fn host(text: &str) -> Option<String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = inner.unwrap_or(text);
    let plain = inner.is_some() || !text.contains([':', '[', ']']);
    (plain && !host.is_empty()).then(|| host.to_owned())
}

/// The addresses of hosts, each once, in the order of the hosts.
pub(super) fn addresses(option: &str, hosts: &[String]) -> Result<Vec<IpAddr>, Failure> {
    let mut all: Vec<IpAddr> = Vec::new();
    for host in hosts {
        let found = (host.as_str(), 0)
            .to_socket_addrs()
            .map_err(|error| Failure::new(format!("{option}: {host}: {error}")))?;
        for address in found {
            if !all.contains(&address.ip()) {
                all.push(address.ip());
            }
        }
    }
    if all.iter().any(IpAddr::is_unspecified) {
        return Err(Failure::usage(format!("{option}: 0.0.0.0 and :: are not valid here")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(hosts: &[&str], port: u16) -> Place {
        Place::There(hosts.iter().map(|host| (*host).to_owned()).collect(), port)
    }

    #[test]
    fn places_are_a_port_here_or_hosts_and_a_port() {
        let cases = [
            ("3868", Place::Here(3868)),
            ("a.example:3868", there(&["a.example"], 3868)),
            ("192.0.2.1,198.51.100.1:2905", there(&["192.0.2.1", "198.51.100.1"], 2905)),
            ("[2001:db8::1],[2001:db8::2]:80", there(&["2001:db8::1", "2001:db8::2"], 80)),
        ];
        for (text, expected) in cases {
            assert_eq!(Place::parse("--sctp", text).ok(), Some(expected), "{text}");
        }
        for text in ["", "0", "x", "host", "host:", ":80", "a,:80", "2001:db8::1:80", "host:70000"]
        {
            assert!(Place::parse("--sctp", text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_hosts_are_taken_once_each() {
        let hosts = ["192.0.2.1", "2001:db8::1", "192.0.2.1"].map(str::to_owned);
        let found = addresses("--sctp", &hosts).ok();
        let expected = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().ok());
        assert_eq!(found, expected.into_iter().collect());
        assert!(addresses("--sctp", &["0.0.0.0".to_owned()]).is_err());
    }
}
