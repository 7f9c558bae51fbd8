//! Options of associations as a whole (RFC 6458 sections 8.1.1 to 8.1.3, 8.2.1, 8.2.5 and 8.2.6), and the
//! private ones by which libsctp asks for addresses.

use super::{Asked, Request, answer_value, association_value, decode, paths};
use crate::address::{at_port, decode_packed, encode, storage};
use crate::constants::*;
use crate::errno::Errno;
use crate::layout::{AlignedStorage, Structure};
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{AssociationState, Config, Duration, EcnUse};

pub(super) fn set(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Asked<()> {
    let Request { id, name, value } = request;
    Some(match name {
        SCTP_INITMSG => set_init(sockets, id, value),
        SCTP_RTOINFO => set_rto(sockets, host, id, value),
        SCTP_ASSOCINFO => set_association(sockets, host, id, value),
        SCTP_ADAPTATION_LAYER => change(sockets, id, |config| {
            config.adaptation = Some(decode::<sctp_setadaptation>(value)?.ssb_adaptation_ind);
            Ok(())
        }),
        SCTP_PR_SUPPORTED => flag(sockets, id, value, |config| &mut config.partial_reliability),
        SCTP_RECONFIG_SUPPORTED => flag(sockets, id, value, |config| &mut config.reconfiguration),
        SCTP_INTERLEAVING_SUPPORTED => flag(sockets, id, value, |config| &mut config.interleaving),
        SCTP_AUTH_SUPPORTED => flag(sockets, id, value, |config| &mut config.authentication),
        SCTP_ASCONF_SUPPORTED => {
            flag(sockets, id, value, |config| &mut config.address_reconfiguration)
        }
        SCTP_ECN_SUPPORTED => change(sockets, id, |config| {
            let on = association_value(value)? != 0;
            config.ecn = if on { EcnUse::On } else { EcnUse::Off };
            Ok(())
        }),
        SCTP_SOCKOPT_BINDX_ADD => {
            decode_packed(value).and_then(|addresses| sockets.bind_more(host, id, &addresses))
        }
        SCTP_SOCKOPT_BINDX_REM => {
            decode_packed(value).and_then(|addresses| sockets.unbind(host, id, &addresses))
        }
        _ => return None,
    })
}

pub(super) fn get(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    request: Request<'_>,
) -> Asked<Vec<u8>> {
    let Request { id, name, value: asked } = request;
    let config = sockets.sockets.get(&id)?.settings.config.clone();
    Some(match name {
        SCTP_INITMSG => Ok(init(&config).encode()),
        SCTP_RTOINFO => rto(sockets, id, &config, asked),
        SCTP_ASSOCINFO => association(sockets, host, request),
        SCTP_ADAPTATION_LAYER => {
            let ssb_adaptation_ind = config.adaptation.unwrap_or(0);
            Ok(sctp_setadaptation { ssb_adaptation_ind }.encode())
        }
        SCTP_PR_SUPPORTED => Ok(answer_value(asked, config.partial_reliability.into())),
        SCTP_RECONFIG_SUPPORTED => Ok(answer_value(asked, config.reconfiguration.into())),
        SCTP_INTERLEAVING_SUPPORTED => Ok(answer_value(asked, config.interleaving.into())),
        SCTP_AUTH_SUPPORTED => Ok(answer_value(asked, config.authentication.into())),
        SCTP_ASCONF_SUPPORTED => Ok(answer_value(asked, config.address_reconfiguration.into())),
        SCTP_ECN_SUPPORTED => Ok(answer_value(asked, (config.ecn != EcnUse::Off).into())),
        SCTP_STATUS => status(sockets, host, id, asked),
        SCTP_GET_ASSOC_NUMBER => sockets.associations(id).map(|all| count(all.len()).to_vec()),
        SCTP_GET_ASSOC_ID_LIST => sockets.associations(id).map(|all| {
            let list = all.iter().flat_map(|number| number.to_ne_bytes());
            count(all.len()).into_iter().chain(list).collect()
        }),
        SCTP_GET_ASSOC_STATS => statistics(sockets, host, id, asked),
        SCTP_GET_PEER_ADDRS | SCTP_GET_LOCAL_ADDRS => addresses(sockets, host, request),
        _ => return None,
    })
}

/// Changes the parameters of associations to come.
fn change(
    sockets: &mut Sockets,
    id: SocketId,
    change: impl FnOnce(&mut Config) -> Result<(), Errno>,
) -> Result<(), Errno> {
    change(&mut sockets.socket(id)?.settings.config)
}

fn flag(
    sockets: &mut Sockets,
    id: SocketId,
    value: &[u8],
    field: impl FnOnce(&mut Config) -> &mut bool,
) -> Result<(), Errno> {
    let on = association_value(value)? != 0;
    *field(&mut sockets.socket(id)?.settings.config) = on;
    Ok(())
}

fn set_init(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let init = decode(value)?;
    change(sockets, id, |config| {
        init_message(config, &init);
        Ok(())
    })
}

/// Takes over a sctp_initmsg, in which 0 leaves a value as it is.
pub(crate) fn init_message(config: &mut Config, init: &sctp_initmsg) {
    let given = |number: u16| Some(number).filter(|number| *number > 0);
    config.streams = given(init.sinit_num_ostreams).unwrap_or(config.streams);
    config.inbound_streams = given(init.sinit_max_instreams).or(config.inbound_streams);
    if let Some(attempts) = given(init.sinit_max_attempts) {
        config.max_init_retransmits = attempts.into();
    }
    if let Some(timeout) = given(init.sinit_max_init_timeo) {
        config.rto_max_init = Some(Duration::from_millis(timeout.into()));
    }
}

fn init(config: &Config) -> sctp_initmsg {
    let timeout = config.rto_max_init.unwrap_or(config.rto_max).as_millis();
    sctp_initmsg {
        sinit_num_ostreams: config.streams,
        sinit_max_instreams: config.inbound_streams.unwrap_or(config.streams),
        sinit_max_attempts: u16::try_from(config.max_init_retransmits).unwrap_or(u16::MAX),
        sinit_max_init_timeo: u16::try_from(timeout).unwrap_or(u16::MAX),
    }
}

fn set_rto(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let info: sctp_rtoinfo = decode(value)?;
    let engine = sockets.engine_of(id, info.srto_assoc_id)?;
    let config = &mut sockets.socket(id)?.settings.config;
    let new = |millis: u32, old| {
        if millis == 0 { old } else { Duration::from_millis(millis.into()) }
    };
    let initial = new(info.srto_initial, config.rto_initial);
    let (min, max) = (new(info.srto_min, config.rto_min), new(info.srto_max, config.rto_max));
    if min > max || initial < min || initial > max {
        return Err(Errno::INVALID);
    }
    match engine {
        Some(engine) => host.endpoint.set_rto(host.now, engine, initial, (min, max)),
        None => (config.rto_initial, config.rto_min, config.rto_max) = (initial, min, max),
    }
    Ok(())
}

fn rto(
    sockets: &mut Sockets,
    id: SocketId,
    config: &Config,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_rtoinfo = decode(asked)?;
    sockets.engine_of(id, asked.srto_assoc_id)?;
    let info = sctp_rtoinfo {
        srto_assoc_id: asked.srto_assoc_id,
        srto_initial: millis(config.rto_initial),
        srto_max: millis(config.rto_max),
        srto_min: millis(config.rto_min),
    };
    Ok(info.encode())
}

/// The life of cookies holds for associations to come, as one that exists has had its own.
fn set_association(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let info: sctp_assocparams = decode(value)?;
    let limit = Some(u32::from(info.sasoc_asocmaxrxt)).filter(|limit| *limit > 0);
    let engine = sockets.engine_of(id, info.sasoc_assoc_id)?;
    if let (Some(engine), Some(limit)) = (engine, limit) {
        host.endpoint.set_max_retransmits(host.now, engine, limit);
    }
    change(sockets, id, |config| {
        if let Some(limit) = limit.filter(|_| engine.is_none()) {
            config.association_max_retransmits = limit;
        }
        if info.sasoc_cookie_life > 0 {
            config.cookie_life = Duration::from_millis(info.sasoc_cookie_life.into());
        }
        Ok(())
    })
}

fn association(
    sockets: &mut Sockets,
    host: &Host<'_>,
    request: Request<'_>,
) -> Result<Vec<u8>, Errno> {
    let id = request.id;
    let asked: sctp_assocparams = decode(request.value)?;
    let engine = sockets.engine_of(id, asked.sasoc_assoc_id)?;
    let status = engine.and_then(|engine| host.status(engine));
    let peers = sockets.peer_addresses(host, id, asked.sasoc_assoc_id).unwrap_or_default();
    let config = &sockets.socket(id)?.settings.config;
    let limit = engine.and_then(|engine| host.endpoint.max_retransmits(engine));
    let limit = limit.unwrap_or(config.association_max_retransmits);
    let info = sctp_assocparams {
        sasoc_assoc_id: asked.sasoc_assoc_id,
        sasoc_asocmaxrxt: u16::try_from(limit).unwrap_or(u16::MAX),
        sasoc_number_peer_destinations: u16::try_from(peers.len()).unwrap_or(u16::MAX),
        sasoc_peer_rwnd: status.map_or(0, |status| status.peer_rwnd),
        sasoc_local_rwnd: config.receive_buffer,
        sasoc_cookie_life: millis(config.cookie_life),
    };
    Ok(info.encode())
}

fn status(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_status = decode(asked)?;
    let mapped = sockets.maps_addresses(id);
    let association = sockets.association(id, asked.sstat_assoc_id)?;
    let (inbound, outbound) = association.streams.map_or((0, 0), |(out, inbound)| (inbound, out));
    let status = host.status(association.engine).ok_or(Errno::INVALID)?;
    let primary = status.paths.iter().find(|path| path.primary).or(status.paths.first());
    let primary = primary.ok_or(Errno::INVALID)?;
    let fragment = host.endpoint.fragment_size(association.engine);
    // The engine counts bytes: how many chunks they are follows from their size.
    let chunks = |bytes: usize| u16::try_from(bytes.div_ceil(fragment.max(1))).unwrap_or(u16::MAX);
    let info = sctp_status {
        sstat_assoc_id: association.id,
        sstat_state: state(status.state),
        sstat_rwnd: status.peer_rwnd,
        sstat_unackdata: chunks(status.outstanding),
        sstat_penddata: chunks(status.receive_queued),
        sstat_instrms: inbound,
        sstat_outstrms: outbound,
        sstat_fragmentation_point: u32::try_from(fragment).unwrap_or(u32::MAX),
        sstat_primary: paths::info(primary, association.id, association.peer.port(), mapped),
    };
    Ok(info.encode())
}

fn state(state: AssociationState) -> i32 {
    match state {
        AssociationState::CookieWait => SCTP_COOKIE_WAIT,
        AssociationState::CookieEchoed => SCTP_COOKIE_ECHOED,
        AssociationState::Established => SCTP_ESTABLISHED,
        AssociationState::ShutdownPending => SCTP_SHUTDOWN_PENDING,
        AssociationState::ShutdownSent => SCTP_SHUTDOWN_SENT,
        AssociationState::ShutdownReceived => SCTP_SHUTDOWN_RECEIVED,
        AssociationState::ShutdownAckSent => SCTP_SHUTDOWN_ACK_SENT,
    }
}

impl Sockets {
    /// The associations of a one-to-many socket that are not over (RFC 6458 section 8.2.6).
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a one-to-one socket.
    pub fn associations(&mut self, id: SocketId) -> Result<Vec<sctp_assoc_t>, Errno> {
        let socket = self.socket(id)?;
        if socket.is_one_to_one() {
            return Err(Errno::NOT_SUPPORTED);
        }
        let open = socket.associations.values().filter(|one| one.closed.is_none());
        Ok(open.map(|one| one.id).collect())
    }
}

fn count(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes()
}

/// A sctp_assoc_stats, of which a program may have an older one that is shorter. The longest RTO is of the time
/// since it was asked for last.
fn statistics(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    const ID: usize = size_of::<sctp_assoc_t>();
    let number = asked.get(..ID).and_then(|number| number.try_into().ok());
    let number = i32::from_ne_bytes(number.ok_or(Errno::INVALID)?);
    let mapped = sockets.maps_addresses(id);
    let association = sockets.association(id, number)?;
    let (assoc_id, port) = (association.id, association.peer.port());
    let found = host.endpoint.take_statistics(association.engine).ok_or(Errno::INVALID)?;
    let path = found.longest_rto.map(|(path, _)| at_port(path.remote, port));
    let mut bytes = sctp_assoc_stats {
        sas_assoc_id: assoc_id,
        sas_obs_rto_ipaddr: path
            .map_or_else(Default::default, |at| AlignedStorage(storage(at, mapped))),
        sas_maxrto: found.longest_rto.map_or(0, |(_, rto)| millis(rto).into()),
        sas_isacks: found.sacks_received,
        sas_osacks: found.sacks_sent,
        sas_opackets: found.packets_sent,
        sas_ipackets: found.packets_received,
        sas_rtxchunks: found.chunks_repeated,
        sas_outofseqtsns: found.chunks_ahead,
        sas_idupchunks: found.duplicates,
        sas_gapcnt: found.gap_blocks_received,
        sas_ouodchunks: found.unordered_sent,
        sas_iuodchunks: found.unordered_received,
        sas_oodchunks: found.ordered_sent,
        sas_iodchunks: found.ordered_received,
        sas_octrlchunks: found.control_sent,
        sas_ictrlchunks: found.control_received,
    }
    .encode();
    bytes.truncate(asked.len());
    Ok(bytes)
}

/// A sctp_getaddrs.
fn addresses(
    sockets: &mut Sockets,
    host: &Host<'_>,
    request: Request<'_>,
) -> Result<Vec<u8>, Errno> {
    let id = request.id;
    let asked: sctp_getaddrs = decode(request.value)?;
    let all = if request.name == SCTP_GET_PEER_ADDRS {
        sockets.peer_addresses(host, id, asked.assoc_id)?
    } else {
        sockets.local_addresses(host, id, asked.assoc_id)?
    };
    let mapped = sockets.maps_addresses(id);
    let addr_num = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let mut bytes = sctp_getaddrs { assoc_id: asked.assoc_id, addr_num }.encode();
    all.into_iter().for_each(|address| bytes.extend(encode(address, mapped)));
    Ok(bytes)
}

/// A time in milliseconds.
pub(super) fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
