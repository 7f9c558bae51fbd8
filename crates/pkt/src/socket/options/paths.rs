//! Options that act on the paths of an association (RFC 6458 sections 8.1.9 and 8.1.12).

use super::set::count;
use crate::api::arguments::{field, fields};
use crate::api::constants::constant;
use crate::api::errno::Outcome;
use crate::api::filled::{Filled, address_of};
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::world::World;
use manypath_engine::{AddressError, PathMtu};
use std::net::{IpAddr, SocketAddr};

/// What a sctp_paddrparams asks of an association that exists.
pub(super) fn apply(world: &mut World, fd: i64, args: &[Arg]) -> Result<(), Why> {
    let flags = field(args, "spp_flags")?.unwrap_or(0);
    let has = |name: &str| constant(name).is_some_and(|flag| flags & flag != 0);
    let headers = headers(world);
    let fixed = count::<u16>(args, "spp_pathmtu")?.map(|mtu| mtu.saturating_add(headers));
    let to = address(args, "spp_address")?;
    let now = world.now;
    let socket = world.sockets.get(fd)?;
    if has("SPP_PMTUD_DISABLE") {
        socket.path_mtu = fixed;
    } else if has("SPP_PMTUD_ENABLE") {
        socket.path_mtu = None;
    }
    let Some(link) = socket.link else { return Ok(()) };
    let endpoint = &mut world.stacks[link.stack].endpoint;
    if has("SPP_HB_DEMAND") {
        // Nothing can be asked of a path that is not there.
        let _none = endpoint.request_heartbeat(now, link.association, to);
    }
    if has("SPP_PMTUD_DISABLE") {
        endpoint.set_path_mtu(now, link.association, to, PathMtu::Interface, fixed);
    } else if has("SPP_PMTUD_ENABLE") {
        endpoint.set_path_mtu(now, link.association, to, PathMtu::Search, None);
    }
    Ok(())
}

/// `SCTP_PRIMARY_ADDR` and `SCTP_SET_PEER_PRIMARY_ADDR`; none if `option` is another one.
pub(super) fn request(
    world: &mut World,
    fd: i64,
    option: &str,
    value: &Value,
) -> Result<Option<Outcome>, Why> {
    let key = match option {
        "SCTP_PRIMARY_ADDR" => "ssp_addr",
        "SCTP_SET_PEER_PRIMARY_ADDR" => "sspp_addr",
        _ => return Ok(None),
    };
    let to = address(fields(value)?, key)?;
    let now = world.now;
    let link = world.sockets.get(fd)?.link;
    let (Some(link), Some(to)) = (link, to) else { return Ok(Some(Outcome::Fails("EINVAL"))) };
    let endpoint = &mut world.stacks[link.stack].endpoint;
    let done = if option == "SCTP_PRIMARY_ADDR" {
        endpoint.set_primary(now, link.association, to).then_some(()).ok_or("EINVAL")
    } else {
        let asked = endpoint.request_peer_primary(now, link.association, to);
        asked.map_err(|error| match error {
            AddressError::NotSupported => "EOPNOTSUPP",
            AddressError::NotEstablished => "ENOENT",
            AddressError::UnknownAddress => "EADDRNOTAVAIL",
            AddressError::AlreadyThere | AddressError::LastAddress => "EINVAL",
            AddressError::Withheld => "EPERM",
            AddressError::TooMany => "ENOBUFS",
        })
    };
    Ok(Some(done.map_or_else(Outcome::Fails, |()| Outcome::OK)))
}

/// The path that is used first.
pub(super) fn primary(world: &mut World, fd: i64) -> Result<Option<Filled>, Why> {
    let Some(link) = world.sockets.get(fd)?.link else { return Ok(None) };
    let status = world.stacks[link.stack].endpoint.status(world.now, link.association);
    let paths = status.map(|status| status.paths).unwrap_or_default();
    let Some(path) = paths.iter().find(|path| path.primary) else { return Ok(None) };
    let remote = SocketAddr::new(path.addr.remote.ip(), crate::world::PORT);
    let fields = vec![("ssp_assoc_id", Filled::Asked), ("ssp_addr", Filled::Address(remote))];
    Ok(Some(Filled::Struct(fields)))
}

/// A new association gets the size of packets that its socket was given before.
pub(in crate::socket) fn fix_mtu(world: &mut World, fd: i64) -> Result<(), Why> {
    let now = world.now;
    let socket = world.sockets.get(fd)?;
    if let (Some(link), Some(mtu)) = (socket.link, socket.path_mtu) {
        let endpoint = &mut world.stacks[link.stack].endpoint;
        endpoint.set_path_mtu(now, link.association, None, PathMtu::Interface, Some(mtu));
    }
    Ok(())
}

/// What FreeBSD takes off the path MTU before it tells it: the headers of IP and SCTP.
pub(super) fn headers(world: &World) -> u16 {
    if world.network.remote.is_ipv6() { 52 } else { 32 }
}

/// The address in the field `key`, unless it is left open.
pub(super) fn address(args: &[Arg], key: &str) -> Result<Option<IpAddr>, Why> {
    match get(args, key) {
        Some(Value::Struct(address)) => {
            let found = address_of(address, crate::world::PORT)?.map(|address| address.ip());
            Ok(found.filter(|ip| !ip.is_unspecified()))
        }
        _ => Ok(None),
    }
}
