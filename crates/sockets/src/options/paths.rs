//! Options of paths (RFC 6458 sections 8.1.9, 8.1.12, 8.1.16, 8.2.2 and 8.3.1; RFC 7829; RFC 6951).

use super::associations::millis;
use super::{Asked, Request, answer_flag, answer_value, association_value, decode, is_on};
use crate::address::{at_port, storage};
use crate::constants::*;
use crate::control::given_address;
use crate::errno::Errno;
use crate::layout::{AlignedStorage, Structure};
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{
    AssociationId, Config, Duration, PathMtu, PathState, PathStatus, Supervision, SupervisionChange,
};
use std::net::{IpAddr, SocketAddr};

pub(super) fn set(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Asked<()> {
    let Request { id, name, value } = request;
    Some(match name {
        SCTP_PEER_ADDR_PARAMS => set_parameters(sockets, host, id, value),
        SCTP_PEER_ADDR_THLDS => set_thresholds(sockets, host, id, value),
        SCTP_PRIMARY_ADDR => set_primary(sockets, host, id, value),
        SCTP_SET_PEER_PRIMARY_ADDR => set_peer_primary(sockets, host, id, value),
        SCTP_MAXSEG => set_fragment_limit(sockets, host, id, value),
        SCTP_AUTO_ASCONF => set_following(sockets, id, value),
        SCTP_REMOTE_UDP_ENCAPS_PORT => set_encapsulation(sockets, id, value),
        _ => return None,
    })
}

pub(super) fn get(sockets: &mut Sockets, host: &Host<'_>, request: Request<'_>) -> Asked<Vec<u8>> {
    let Request { id, name, value: asked } = request;
    Some(match name {
        SCTP_PEER_ADDR_PARAMS => parameters(sockets, host, id, asked),
        SCTP_PEER_ADDR_THLDS => thresholds(sockets, host, id, asked),
        SCTP_PRIMARY_ADDR => primary(sockets, host, id, asked),
        SCTP_GET_PEER_ADDR_INFO => address_info(sockets, host, id, asked),
        SCTP_MAXSEG => fragment_limit(sockets, host, id, asked),
        SCTP_AUTO_ASCONF => {
            sockets.socket(id).map(|socket| answer_flag(socket.settings.follows_addresses))
        }
        SCTP_REMOTE_UDP_ENCAPS_PORT => encapsulation(sockets, id, asked),
        _ => return None,
    })
}

/// The old structure ends before the flow label.
const OLD_PARAMETERS: usize = 152;

fn set_parameters(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    if value.len() < OLD_PARAMETERS {
        return Err(Errno::INVALID);
    }
    let asked = sctp_paddrparams::decode_short(value);
    let flags = asked.spp_flags.get();
    let has = |flag: i32| flags & flag.unsigned_abs() != 0;
    let both = |one: i32, other: i32| has(one) && has(other);
    if both(SPP_HB_ENABLE, SPP_HB_DISABLE) || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE) {
        return Err(Errno::INVALID);
    }
    let engine = sockets.engine_of(id, asked.spp_assoc_id)?;
    let to = given_address(&asked.spp_address).map(|address| address.ip());
    if engine.is_none() && (to.is_some() || has(SPP_HB_DEMAND)) {
        return Err(Errno::INVALID);
    }
    let config = &mut sockets.socket(id)?.settings.config;
    if has(SPP_SACKDELAY_ENABLE) && asked.spp_sackdelay.get() > 0 {
        config.sack_delay = Duration::from_millis(asked.spp_sackdelay.get().into());
    }
    let Some(engine) = engine else {
        Supervision::of(config).with(change(&asked)).keep_in(config);
        keep_path_mtu(config, flags);
        return Ok(());
    };
    supervise(host, engine, to, change(&asked))?;
    if has(SPP_HB_DEMAND) && !host.endpoint.request_heartbeat(host.now, engine, to) {
        return Err(Errno::INVALID);
    }
    if has(SPP_PMTUD_DISABLE) {
        let fixed = u16::try_from(asked.spp_pathmtu.get()).ok().filter(|mtu| *mtu > 0);
        host.endpoint.set_path_mtu(host.now, engine, to, PathMtu::Interface, fixed);
    } else if has(SPP_PMTUD_ENABLE) {
        host.endpoint.set_path_mtu(host.now, engine, to, PathMtu::Search, None);
    }
    Ok(())
}

/// What is said of the supervision of paths. "If the value is 0, [it] is not changed" (section 8.1.12), but for
/// SPP_HB_TIME_IS_ZERO.
fn change(asked: &sctp_paddrparams) -> SupervisionChange {
    let has = |flag: i32| asked.spp_flags.get() & flag.unsigned_abs() != 0;
    let enables = has(SPP_HB_ENABLE);
    let named = Some(asked.spp_hbinterval).filter(|millis| *millis > 0);
    let interval = if has(SPP_HB_TIME_IS_ZERO) { Some(0) } else { named };
    SupervisionChange {
        heartbeats: (enables || has(SPP_HB_DISABLE)).then_some(enables),
        heartbeat_interval: interval
            .filter(|_| enables)
            .map(|millis| Duration::from_millis(millis.into())),
        max_retransmits: Some(asked.spp_pathmaxrxt.into()).filter(|limit| *limit > 0),
        potentially_failed_retransmits: None,
    }
}

fn supervise(
    host: &mut Host<'_>,
    engine: AssociationId,
    to: Option<IpAddr>,
    change: SupervisionChange,
) -> Result<(), Errno> {
    let known = host.endpoint.set_supervision(host.now, engine, to, change);
    // An association that has ended while its socket is open has no paths any more.
    if known || to.is_none() { Ok(()) } else { Err(Errno::INVALID) }
}

/// Holds for associations to come.
fn keep_path_mtu(config: &mut Config, flags: u32) {
    let has = |flag: i32| flags & flag.unsigned_abs() != 0;
    if has(SPP_PMTUD_DISABLE) {
        config.path_mtu = PathMtu::Interface;
    } else if has(SPP_PMTUD_ENABLE) {
        config.path_mtu = PathMtu::Search;
    }
}

/// How the paths to an address are supervised, or those of associations to come.
fn supervised(
    host: &Host<'_>,
    engine: Option<AssociationId>,
    to: Option<IpAddr>,
    config: &Config,
) -> Supervision {
    let found = engine.and_then(|engine| host.endpoint.supervision(engine, to));
    found.unwrap_or_else(|| Supervision::of(config))
}

fn short(limit: u32) -> u16 {
    u16::try_from(limit).unwrap_or(u16::MAX)
}

fn parameters(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    if asked.len() < OLD_PARAMETERS {
        return Err(Errno::INVALID);
    }
    let len = asked.len();
    let asked = sctp_paddrparams::decode_short(asked);
    let engine = sockets.engine_of(id, asked.spp_assoc_id)?;
    let to = given_address(&asked.spp_address);
    let config = &sockets.socket(id)?.settings.config;
    let status = engine.and_then(|engine| host.status(engine));
    let path = status.as_ref().and_then(|status| find(&status.paths, to.map(|to| to.ip())));
    if to.is_some() && path.is_none() {
        return Err(Errno::INVALID);
    }
    let found = supervised(host, engine, to.map(|to| to.ip()), config);
    let heartbeats = if found.heartbeats { SPP_HB_ENABLE } else { SPP_HB_DISABLE };
    let searches = config.path_mtu == PathMtu::Search;
    let discovery = if searches { SPP_PMTUD_ENABLE } else { SPP_PMTUD_DISABLE };
    let flags = (heartbeats | discovery | SPP_SACKDELAY_ENABLE).unsigned_abs();
    let found = sctp_paddrparams {
        spp_hbinterval: millis(found.heartbeat_interval),
        spp_pathmaxrxt: short(found.max_retransmits),
        spp_pathmtu: path.map_or(0, |path| u32::from(path.mtu)).into(),
        spp_sackdelay: millis(config.sack_delay).into(),
        spp_flags: flags.into(),
        ..asked
    };
    let mut bytes = found.encode();
    bytes.truncate(len);
    Ok(bytes)
}

fn set_thresholds(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_paddrthlds = decode(value)?;
    let limits = SupervisionChange {
        max_retransmits: Some(asked.spt_pathmaxrxt.into()).filter(|limit| *limit > 0),
        potentially_failed_retransmits: Some(asked.spt_pathpfthld.into()),
        ..SupervisionChange::default()
    };
    let to = threshold_address(&asked);
    match sockets.engine_of(id, asked.spt_assoc_id)? {
        Some(engine) => supervise(host, engine, to, limits),
        None if to.is_some() => Err(Errno::INVALID),
        None => {
            let config = &mut sockets.socket(id)?.settings.config;
            Supervision::of(config).with(limits).keep_in(config);
            Ok(())
        }
    }
}

fn thresholds(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_paddrthlds = decode(asked)?;
    let engine = sockets.engine_of(id, asked.spt_assoc_id)?;
    let to = threshold_address(&asked);
    let supervision = supervised(host, engine, to, &sockets.socket(id)?.settings.config);
    let found = sctp_paddrthlds {
        spt_pathmaxrxt: short(supervision.max_retransmits),
        spt_pathpfthld: short(supervision.potentially_failed_retransmits),
        ..asked
    };
    Ok(found.encode())
}

fn set_primary(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_setprim = decode(value)?;
    let engine = sockets.existing(id, asked.ssp_assoc_id)?;
    let to = given_address(&asked.ssp_addr).ok_or(Errno::INVALID)?;
    let done = host.endpoint.set_primary(host.now, engine, to.ip());
    if done { Ok(()) } else { Err(Errno::INVALID) }
}

fn primary(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_setprim = decode(asked)?;
    let first = sockets.peer_addresses(host, id, asked.ssp_assoc_id)?.first().copied();
    let first = first.ok_or(Errno::INVALID)?;
    Ok(sctp_setprim { ssp_addr: storage(first, sockets.maps_addresses(id)), ..asked }.encode())
}

fn set_peer_primary(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_setpeerprim = decode(value)?;
    let engine = sockets.existing(id, asked.sspp_assoc_id)?;
    let own = given_address(&asked.sspp_addr).ok_or(Errno::INVALID)?;
    Ok(host.endpoint.request_peer_primary(host.now, engine, own.ip())?)
}

fn address_info(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_paddrinfo = decode(asked)?;
    let mapped = sockets.maps_addresses(id);
    let association = sockets.association(id, asked.spinfo_assoc_id)?;
    let is_of_peer = |to: &SocketAddr| [0, association.peer.port()].contains(&to.port());
    let to = given_address(&asked.spinfo_address).filter(is_of_peer).ok_or(Errno::INVALID)?;
    let status = host.status(association.engine).ok_or(Errno::INVALID)?;
    let path = find(&status.paths, Some(to.ip())).ok_or(Errno::INVALID)?;
    Ok(info(path, association.id, association.peer.port(), mapped).encode())
}

/// The path to an address, or the primary one.
fn find(paths: &[PathStatus], to: Option<IpAddr>) -> Option<&PathStatus> {
    let primary = || paths.iter().find(|path| path.primary).or(paths.first());
    to.map_or_else(primary, |to| paths.iter().find(|path| path.addr.remote.ip() == to))
}

/// A sctp_paddrinfo.
pub(super) fn info(path: &PathStatus, id: sctp_assoc_t, port: u16, mapped: bool) -> sctp_paddrinfo {
    let state = match path.state {
        PathState::Unconfirmed => SCTP_UNCONFIRMED,
        PathState::Active => SCTP_ACTIVE,
        PathState::PotentiallyFailed => SCTP_PF,
        PathState::Inactive => SCTP_INACTIVE,
    };
    sctp_paddrinfo {
        spinfo_assoc_id: id,
        spinfo_address: storage(at_port(path.addr.remote, port), mapped),
        spinfo_state: state,
        spinfo_cwnd: path.cwnd,
        spinfo_srtt: millis(path.srtt.unwrap_or_default()),
        spinfo_rto: millis(path.rto),
        spinfo_mtu: path.mtu.into(),
    }
}

/// Only a socket that has all addresses can follow them. Associations to come agree on it with their peers.
fn set_following(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let on = is_on(value)?;
    let socket = sockets.socket(id)?;
    if on && socket.bound.as_ref().is_some_and(|bound| !bound.addresses.is_empty()) {
        return Err(Errno::INVALID);
    }
    socket.settings.follows_addresses = on;
    socket.settings.config.address_reconfiguration |= on;
    Ok(())
}

fn set_fragment_limit(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let named = sctp_assoc_value::decode(value).map_or(0, |value| value.assoc_id);
    let limit = association_value(value)?;
    let limit = u16::try_from(limit).map_err(|_| Errno::INVALID)?;
    let limit = Some(limit).filter(|limit| *limit > 0);
    match sockets.engine_of(id, named)? {
        Some(engine) => host.endpoint.set_fragment_limit(host.now, engine, limit),
        None => sockets.socket(id)?.settings.config.fragment_limit = limit,
    }
    Ok(())
}

fn fragment_limit(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let named = sctp_assoc_value::decode(asked).map_or(0, |value| value.assoc_id);
    let found = sockets.engine_of(id, named)?.map(|engine| host.endpoint.fragment_size(engine));
    let found = found.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
    let limit = sockets.socket(id)?.settings.config.fragment_limit;
    Ok(answer_value(asked, found.unwrap_or_else(|| limit.map_or(0, u32::from))))
}

/// None for all paths.
fn threshold_address(asked: &sctp_paddrthlds) -> Option<IpAddr> {
    let AlignedStorage(address) = asked.spt_address;
    given_address(&address).map(|address| address.ip())
}

/// The port is in the order of the network.
fn set_encapsulation(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let asked: sctp_udpencaps = decode(value)?;
    sockets.socket(id)?.settings.encapsulation = u16::from_be(asked.sue_port);
    Ok(())
}

fn encapsulation(sockets: &mut Sockets, id: SocketId, asked: &[u8]) -> Result<Vec<u8>, Errno> {
    let asked: sctp_udpencaps = decode(asked)?;
    let port = sockets.socket(id)?.settings.encapsulation.to_be();
    let AlignedStorage(_) = asked.sue_address;
    Ok(sctp_udpencaps { sue_port: port, ..asked }.encode())
}
