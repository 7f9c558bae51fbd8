//! The local addresses that could carry paths, and interfaces that have none.

use super::super::findings::LinkState;
use crate::failure::Failure;
use manypath_net::{Interface, Link, interfaces, links};
use std::fs;
use std::net::IpAddr;

/// A local address.
#[derive(Clone, Debug)]
pub(in crate::commands::doctor) struct Uplink {
    pub(in crate::commands::doctor) interface: Interface,
    pub(in crate::commands::doctor) link: LinkState,
}

/// All that a stack would use, if its interface works or not.
pub(in crate::commands::doctor) fn uplinks() -> Result<Vec<Uplink>, Failure> {
    let links = links()?;
    let leads_outside = |one: &Interface| !one.loopback && is_global(one.addr);
    let all = interfaces()?.into_iter().filter(leads_outside);
    let uplink = |interface: Interface| {
        let link = links.iter().find(|link| link.index == interface.index);
        Uplink { link: link.map_or(LinkState::Up, state), interface }
    };
    Ok(all.map(uplink).collect())
}

/// Whether programs can be joined to a stack, which goes over loopback.
pub(super) fn loopback_works() -> Result<bool, Failure> {
    Ok(links()?.iter().any(|link| link.loopback && link.has_carrier))
}

/// Interfaces with a carrier, no address and no part in something larger.
pub(super) fn without_address() -> Result<Vec<String>, Failure> {
    let all = interfaces()?;
    let bare = |link: &Link| {
        let has = |one: &Interface| one.index == link.index && is_global(one.addr);
        link.has_carrier && !link.loopback && !all.iter().any(has) && !is_part(&link.name)
    };
    Ok(links()?.into_iter().filter(bare).map(|link| link.name).collect())
}

/// Whether an interface belongs to a bridge, a bond or another network, as far as /sys is that of this network.
fn is_part(name: &str) -> bool {
    fs::exists(format!("/sys/class/net/{name}/master")).unwrap_or(false)
}

fn state(link: &Link) -> LinkState {
    match (link.switched_on, link.has_carrier) {
        (false, _) => LinkState::Off,
        (true, false) => LinkState::NoCarrier,
        (true, true) => LinkState::Up,
    }
}

fn is_global(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}
