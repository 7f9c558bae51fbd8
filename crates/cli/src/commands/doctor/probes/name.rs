//! The peer's name, and its addresses.

use crate::commands::stacks;
use crate::commands::status::search;
use crate::failure::Failure;
use manypath_trust::is_key_address;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A peer, perhaps with a service.
#[derive(Debug)]
pub(in crate::commands::doctor) struct Named {
    pub(in crate::commands::doctor) host: String,
    pub(in crate::commands::doctor) port: Option<u16>,
    pub(in crate::commands::doctor) addresses: Vec<IpAddr>,
}

/// Looks the peer up.
pub(in crate::commands::doctor) fn resolve(text: &str) -> Result<Named, Failure> {
    let (host, port) = split(text)?;
    let found = (host.as_str(), port.unwrap_or(0)).to_socket_addrs().map_err(|error| {
        Failure::new(format!("cannot resolve \"{host}\": {error}")).hint(format!(
            "`getent ahosts {host}` makes the same query; you can also give an address"
        ))
    })?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for ip in found.map(|address| address.ip().to_canonical()) {
        if !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    if let Some(ip) = addresses.iter().find(|ip| ip.is_multicast() || ip.is_unspecified()) {
        return Err(Failure::usage(format!("{ip} is not the address of a single host")));
    }
    if let Some(key) = addresses.iter().find(|addr| is_key_address(**addr)) {
        return Err(of_key(*key));
    }
    if addresses.iter().any(IpAddr::is_loopback) {
        return Err(Failure::usage(format!("{host} is this host: there are no paths to it")));
    }
    let own = manypath_net::interfaces()?.into_iter().map(|one| one.addr);
    if let Some(own) = own.into_iter().find(|own| addresses.contains(own)) {
        return Err(Failure::usage(format!("{own} is an address of this host: give another one")));
    }
    Ok(Named { host, port, addresses })
}

/// Why nothing is found out about the host with a key, and what relays have said of it.
fn of_key(key: IpAddr) -> Failure {
    let stacks = stacks::query(false).unwrap_or_default();
    let mut searches = stacks.iter().flat_map(|stack| &stack.relaying.searches);
    let text = match searches.find(|search| search.host == key) {
        Some(found) => format!("no network leads to the address of a key; {}", search(found)),
        None => format!("{key} stands for a key, and no network leads there"),
    };
    Failure::usage(text).hint(
        "diagnose the way to the relay: `manypath doctor RELAY`; `manypath path` shows the paths to the host",
    )
}

/// HOST, HOST:PORT, [IPv6]:PORT or IPv6.
fn split(text: &str) -> Result<(String, Option<u16>), Failure> {
    if let Ok(address) = text.parse::<SocketAddr>()
        && address.port() != 0
    {
        return Ok((address.ip().to_string(), Some(address.port())));
    }
    if text.parse::<IpAddr>().is_ok() {
        return Ok((text.to_owned(), None));
    }
    match text.split_once(':') {
        None => Ok((text.to_owned(), None)),
        Some((host, port)) => match port.parse() {
            Ok(port) if port != 0 && !host.is_empty() => Ok((host.to_owned(), Some(port))),
            _ => Err(Failure::usage(format!("\"{text}\" is not HOST, HOST:PORT or [IPv6]:PORT"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{resolve, split};

    #[test]
    fn a_peer_is_a_host_and_perhaps_a_port() {
        let said = |text| split(text).ok();
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(said("a.example"), is("a.example", None));
        assert_eq!(said("a.example:22"), is("a.example", Some(22)));
        assert_eq!(said("192.0.2.1:22"), is("192.0.2.1", Some(22)));
        assert_eq!(said("[2001:db8::1]:22"), is("2001:db8::1", Some(22)));
        assert_eq!(said("2001:db8::1"), is("2001:db8::1", None));
        assert_eq!(said("a.example:http"), None);
        assert_eq!(said(":22"), None);
        assert_eq!((said("192.0.2.1:0"), said("[2001:db8::1]:0")), (None, None));
    }

    #[test]
    fn addresses_of_keys_are_in_no_network() {
        let why = resolve("[2001:2f::1]:22").map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("stands for a key"), "{why}");
    }

    #[test]
    fn groups_and_nobody_are_no_peers() {
        for address in ["224.0.0.1", "[ff02::1]:22", "0.0.0.0", "::"] {
            let why = resolve(address).map(|_| ()).unwrap_err().to_string();
            assert!(why.contains("is not the address of a single host"), "{address}: {why}");
        }
    }
}
