//! `getsockopt(fd, level, option, value, [length])`: the value is what the script expects.

use super::set::EVENTS;
use super::{authentication, kept, paths, protection, reconfiguration};
use crate::api::arguments::Arguments;
use crate::api::constants::constant;
use crate::api::descriptor::LinkId;
use crate::api::descriptor::Socket;
use crate::api::errno::{Called, Outcome};
use crate::api::filled::{Filled, fits};
use crate::api::notification::ASSOCIATION;
use crate::language::Why;
use crate::language::ast::Value;
use crate::socket::lifecycle::take_error;
use crate::world::World;
use manypath_engine::{AssociationState, Duration, EcnUse, NrSack, PathState};
use std::net::SocketAddr;

/// Reads an option and compares it.
pub(crate) fn get(world: &mut World, args: &Arguments<'_>) -> Called {
    let (fd, option, expected) = (args.int(0)?, args.name(2)?, args.value(3)?);
    let found = match option {
        "SO_ERROR" => {
            let error = take_error(world, fd)?;
            Filled::Int(error.and_then(constant).unwrap_or(0))
        }
        "SCTP_GET_ASSOC_NUMBER" | "SCTP_GET_ASSOC_ID_LIST" if !world.sockets.get(fd)?.many => {
            return Ok(Outcome::Fails("EINVAL"));
        }
        "SCTP_PEER_ADDR_PARAMS" => peer_parameters(world, fd)?,
        "SCTP_STATUS" | "SCTP_GET_PEER_ADDR_INFO" => {
            let Some(link) = world.sockets.get(fd)?.link else {
                return Ok(Outcome::Fails("EINVAL"));
            };
            of_association(world, option, link)?
        }
        "SCTP_PRIMARY_ADDR" => match paths::primary(world, fd)? {
            Some(found) => found,
            None => return Ok(Outcome::Fails("EINVAL")),
        },
        "SCTP_ASSOCINFO" => association_info(world, fd)?,
        "SCTP_MAXSEG" => fragment_limit(world, fd)?,
        "SCTP_EVENT" => event(world.sockets.get(fd)?, expected)?,
        _ => match authentication::get_option(world, fd, option)?
            .or(protection::get_option(world, fd, option)?)
        {
            Some(found) => found,
            None => of_socket(world.sockets.get(fd)?, option)?,
        },
    };
    fits(option, expected, &found)?;
    Ok(Outcome::OK)
}

fn of_socket(socket: &Socket, option: &str) -> Result<Filled, Why> {
    if option == "SCTP_PARTIAL_DELIVERY_POINT" && !socket.kept.contains_key(option) {
        // FreeBSD's default.
        return Ok(Filled::Int(i64::from(socket.config.receive_buffer / 2)));
    }
    if let Some(parts) = kept::parts(option) {
        let value =
            |part: &str| socket.kept.get(part).copied().unwrap_or_else(|| kept::default(part));
        return Ok(match parts.as_slice() {
            [one] => Filled::Int(value(one)),
            parts => Filled::Struct(parts.iter().map(|p| (*p, Filled::Int(value(p)))).collect()),
        });
    }
    if kept::is_value(option) {
        return Ok(association_value(socket.kept.get(option).copied().unwrap_or(0)));
    }
    let config = &socket.config;
    let subscriptions = &socket.subscriptions;
    Ok(match option {
        "SO_RCVBUF" => Filled::Int(config.receive_buffer.into()),
        "SO_SNDBUF" => Filled::Int(config.send_buffer.into()),
        "SCTP_RTOINFO" => Filled::numbers([
            ("srto_assoc_id", 0),
            ("srto_initial", millis(config.rto_initial)),
            ("srto_max", millis(config.rto_max)),
            ("srto_min", millis(config.rto_min)),
        ]),
        "SCTP_INITMSG" => Filled::numbers([
            ("sinit_num_ostreams", config.streams.into()),
            ("sinit_max_instreams", config.inbound_streams.unwrap_or(config.streams).into()),
            ("sinit_max_attempts", config.max_init_retransmits.into()),
            ("sinit_max_init_timeo", millis(config.rto_max_init.unwrap_or(config.rto_max))),
        ]),
        "SCTP_DELAYED_SACK" => Filled::numbers([
            ("sack_assoc_id", 0),
            ("sack_delay", millis(config.sack_delay)),
            ("sack_freq", config.sack_frequency.into()),
        ]),
        "SCTP_ADAPTATION_LAYER" => {
            Filled::numbers([("ssb_adaptation_ind", config.adaptation.unwrap_or(0).into())])
        }
        "SCTP_MAX_BURST" => {
            let burst = if config.max_burst == u32::MAX { 0 } else { config.max_burst };
            association_value(burst.into())
        }
        "SCTP_ECN_SUPPORTED" => association_value((config.ecn != EcnUse::Off).into()),
        "SCTP_AUTH_SUPPORTED" => association_value(config.authentication.into()),
        "SCTP_ASCONF_SUPPORTED" => association_value(config.address_reconfiguration.into()),
        "SCTP_USE_EXT_RCVINFO" => Filled::Int(subscriptions.extended_info.into()),
        "SCTP_INTERLEAVING_SUPPORTED" => association_value(config.interleaving.into()),
        "SCTP_PR_SUPPORTED" => association_value(config.partial_reliability.into()),
        "SCTP_RECONFIG_SUPPORTED" => association_value(config.reconfiguration.into()),
        "SCTP_NRSACK_SUPPORTED" => association_value((config.nr_sack != NrSack::Off).into()),
        "SCTP_ENABLE_STREAM_RESET" => association_value(reconfiguration::enabled(socket)),
        // FreeBSD gives the flag of the option back for its being on.
        "SO_LINGER" => Filled::numbers([
            ("onoff", if socket.linger.is_some() { 0x80 } else { 0 }),
            ("linger", socket.linger.unwrap_or(0)),
        ]),
        "SCTP_RECVRCVINFO" => Filled::Int(subscriptions.receive_info.into()),
        "SCTP_RECVNXTINFO" => Filled::Int(subscriptions.next_info.into()),
        "SCTP_EVENTS" => {
            let on = |event: &str| Filled::Int(subscriptions.events.contains(event).into());
            let mut fields: Vec<_> = EVENTS.iter().map(|(key, event)| (*key, on(event))).collect();
            fields.push(("sctp_data_io_event", Filled::Int(subscriptions.data_io.into())));
            Filled::Struct(fields)
        }
        other => return Err(Why::gap(format!("getsockopt {other} is not known"))),
    })
}

/// A sctp_paddrparams. The path MTU is FreeBSD's: what is left of a packet for chunks.
fn peer_parameters(world: &mut World, fd: i64) -> Result<Filled, Why> {
    let (headers, mtu) = (i64::from(paths::headers(world)), world.network.mtu);
    let socket = world.sockets.get(fd)?;
    let (config, link, kept) = (socket.config.clone(), socket.link, socket.kept.clone());
    // FreeBSD calls it discovery, too, where it only listens to routers, which it does unless told not to.
    let discovery = match (kept.get("pmtud"), world.pmtud) {
        (Some(on), _) => *on != 0,
        (None, Some(on)) => on,
        (None, None) => true,
    };
    let status =
        link.and_then(|id| world.stacks[id.stack].endpoint.status(world.now, id.association));
    let found = status.and_then(|status| status.paths.first().map(|path| path.mtu));
    let flag = |on: bool, yes: &str, no: &str| constant(if on { yes } else { no }).unwrap_or(0);
    let flags = flag(config.heartbeats, "SPP_HB_ENABLE", "SPP_HB_DISABLE")
        | flag(discovery, "SPP_PMTUD_ENABLE", "SPP_PMTUD_DISABLE")
        | flag(kept.contains_key("spp_dscp"), "SPP_DSCP", "NULL")
        | flag(kept.contains_key("spp_ipv6_flowlabel"), "SPP_IPV6_FLOWLABEL", "NULL");
    let kept = |key: &str| Filled::Int(kept.get(key).copied().unwrap_or(0));
    Ok(Filled::Struct(vec![
        ("spp_assoc_id", Filled::Asked),
        ("spp_address", Filled::Asked),
        ("spp_hbinterval", Filled::Int(millis(config.heartbeat_interval))),
        ("spp_pathmaxrxt", Filled::Int(config.path_max_retransmits.into())),
        ("spp_pathmtu", Filled::Int(i64::from(found.unwrap_or(mtu)) - headers)),
        ("spp_flags", Filled::Int(flags)),
        ("spp_ipv6_flowlabel", kept("spp_ipv6_flowlabel")),
        ("spp_dscp", kept("spp_dscp")),
    ]))
}

/// A sctp_assocparams.
fn association_info(world: &mut World, fd: i64) -> Result<Filled, Why> {
    let socket = world.sockets.get(fd)?;
    let (config, link) = (socket.config.clone(), socket.link);
    let status =
        link.and_then(|id| world.stacks[id.stack].endpoint.status(world.now, id.association));
    let (mut peers, rwnd) = status.map_or((Vec::new(), 0), |status| {
        (status.paths.iter().map(|path| path.addr.remote.ip()).collect(), status.peer_rwnd)
    });
    peers.sort_unstable();
    peers.dedup();
    Ok(Filled::Struct(vec![
        ("sasoc_assoc_id", Filled::Asked),
        ("sasoc_asocmaxrxt", Filled::Int(config.association_max_retransmits.into())),
        ("sasoc_number_peer_destinations", Filled::Int(i64::try_from(peers.len()).unwrap_or(0))),
        ("sasoc_peer_rwnd", Filled::Int(rwnd.into())),
        ("sasoc_local_rwnd", Filled::Int(config.receive_buffer.into())),
        ("sasoc_cookie_life", Filled::Int(millis(config.cookie_life))),
    ]))
}

/// SCTP_MAXSEG: what was asked for, or else what the path leaves.
fn fragment_limit(world: &mut World, fd: i64) -> Result<Filled, Why> {
    const DATA_HEADER: i64 = 16;
    let room = i64::from(world.network.mtu) - i64::from(paths::headers(world)) - DATA_HEADER;
    let socket = world.sockets.get(fd)?;
    let (limit, link) = (socket.config.fragment_limit, socket.link);
    let found = link.map(|id| world.stacks[id.stack].endpoint.fragment_size(id.association));
    let found = found.filter(|size| *size > 0).and_then(|size| i64::try_from(size).ok());
    Ok(association_value(limit.map_or(found.unwrap_or(room), i64::from)))
}

/// A sctp_assoc_value. It holds the id that it was asked with.
fn association_value(value: i64) -> Filled {
    Filled::Struct(vec![("assoc_id", Filled::Asked), ("assoc_value", Filled::Int(value))])
}

/// SCTP_EVENT asks for the type that is already in the structure.
fn event(socket: &Socket, expected: &Value) -> Result<Filled, Why> {
    let Value::Struct(args) = expected else { return Err(Why::syntax("expected a structure")) };
    let Some(Value::Word(name)) = crate::language::ast::get(args, "se_type") else {
        return Err(Why::syntax("se_type must be a name"));
    };
    let on = socket.subscriptions.events.contains(name.as_str());
    let kind = constant(name).unwrap_or(0);
    Ok(Filled::numbers([("se_assoc_id", 0), ("se_type", kind), ("se_on", on.into())]))
}

fn of_association(world: &mut World, option: &str, id: LinkId) -> Result<Filled, Why> {
    let streams = world.link(id)?.streams.unwrap_or_default();
    let headers = i64::from(paths::headers(world));
    let endpoint = &world.stacks[id.stack].endpoint;
    let status = endpoint.status(world.now, id.association);
    let status = status.ok_or_else(|| Why::mismatch("the association is over"))?;
    let path = status.paths.iter().find(|path| path.primary).or(status.paths.first());
    let path = path.ok_or_else(|| Why::mismatch("there is no path"))?;
    let remote = SocketAddr::new(path.addr.remote.ip(), crate::world::PORT);
    let primary = Filled::Struct(vec![
        ("spinfo_assoc_id", Filled::Int(ASSOCIATION)),
        ("spinfo_address", Filled::Address(remote)),
        ("spinfo_state", Filled::Int(path_state(path.state))),
        ("spinfo_cwnd", Filled::Int(path.cwnd.into())),
        ("spinfo_srtt", Filled::Int(millis(path.srtt.unwrap_or_default()))),
        ("spinfo_rto", Filled::Int(millis(path.rto))),
        ("spinfo_mtu", Filled::Int(i64::from(path.mtu) - headers)),
    ]);
    if option == "SCTP_GET_PEER_ADDR_INFO" {
        return Ok(primary);
    }
    let size = |bytes: usize| Filled::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
    let mut fields = vec![
        ("sstat_assoc_id", Filled::Int(ASSOCIATION)),
        ("sstat_state", Filled::Int(constant(state_name(status.state)).unwrap_or(0))),
        ("sstat_rwnd", Filled::Int(status.peer_rwnd.into())),
        ("sstat_instrms", Filled::Int(streams.1.into())),
        ("sstat_outstrms", Filled::Int(streams.0.into())),
        ("sstat_fragmentation_point", size(endpoint.fragment_size(id.association))),
        ("sstat_primary", primary),
    ];
    // These are numbers of chunks, which are not told here unless there is none.
    let none = [("sstat_unackdata", status.outstanding), ("sstat_penddata", status.receive_queued)];
    let none = none.into_iter().filter(|(_, bytes)| *bytes == 0);
    fields.extend(none.map(|(key, _)| (key, Filled::Int(0))));
    Ok(Filled::Struct(fields))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn path_state(state: PathState) -> i64 {
    let name = match state {
        PathState::Unconfirmed => "SCTP_UNCONFIRMED",
        PathState::Active | PathState::PotentiallyFailed => "SCTP_ACTIVE",
        PathState::Inactive => "SCTP_INACTIVE",
    };
    constant(name).unwrap_or(0)
}

fn state_name(state: AssociationState) -> &'static str {
    match state {
        AssociationState::CookieWait => "SCTP_COOKIE_WAIT",
        AssociationState::CookieEchoed => "SCTP_COOKIE_ECHOED",
        AssociationState::Established => "SCTP_ESTABLISHED",
        AssociationState::ShutdownPending => "SCTP_SHUTDOWN_PENDING",
        AssociationState::ShutdownSent => "SCTP_SHUTDOWN_SENT",
        AssociationState::ShutdownReceived => "SCTP_SHUTDOWN_RECEIVED",
        AssociationState::ShutdownAckSent => "SCTP_SHUTDOWN_ACK_SENT",
    }
}
