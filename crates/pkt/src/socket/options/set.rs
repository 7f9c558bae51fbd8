//! `setsockopt(fd, level, option, value, length)`.

use super::{authentication, kept, paths, protection, reconfiguration};
use crate::api::arguments::{Arguments, field, fields, int};
use crate::api::constants::constant;
use crate::api::descriptor::Socket;
use crate::api::errno::{Called, Outcome};
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::socket::lifecycle::ensure_stack;
use crate::socket::receive;
use crate::world::World;
use manypath_engine::{AssociationId, Config, Duration, EcnUse, NrSack, PathMtu};

/// Sets an option of a socket, and so of its associations.
pub(crate) fn set(world: &mut World, args: &Arguments<'_>) -> Called {
    let (fd, option, value) = (args.int(0)?, args.name(2)?, args.value(3)?);
    let needed = SIZES.iter().find(|(known, _)| *known == option).map_or(0, |(_, size)| *size);
    if matches!(args.value(4), Ok(Value::Int(len)) if *len < needed) {
        return Ok(Outcome::Fails("EINVAL"));
    }
    if let Some(outcome) = reconfiguration::request(world, fd, option, value)? {
        return Ok(outcome);
    }
    let of_security = match authentication::set(world, fd, option, value)? {
        None => protection::set(world, fd, option, value)?,
        outcome => outcome,
    };
    if let Some(outcome) = of_security {
        let stack = world.sockets.get(fd)?.stack;
        stack.map(|_| ensure_stack(world, fd)).transpose()?;
        return Ok(outcome);
    }
    if let Some(outcome) = paths::request(world, fd, option, value)? {
        return Ok(outcome);
    }
    let socket = world.sockets.get(fd)?;
    let outcome = apply(socket, option, value)?;
    if outcome == Outcome::OK {
        follow(world, fd, option, value)?;
    }
    if option == "SCTP_REMOTE_UDP_ENCAPS_PORT" {
        let port = number_in(value, "sue_port")?.unwrap_or(0);
        let port = u16::try_from(port).map_err(|_| Why::syntax("bad UDP port"))?;
        world.network.udp.1 = port.swap_bytes();
    }
    if option == "SCTP_EVENT" || option == "SCTP_EVENTS" {
        receive::note_dry(world, fd)?;
    }
    if world.sockets.get(fd)?.stack.is_some() {
        ensure_stack(world, fd)?;
    }
    Ok(outcome)
}

/// The association that exists follows what was set for its socket.
fn follow(world: &mut World, fd: i64, option: &str, value: &Value) -> Result<(), Why> {
    if option == "SCTP_PEER_ADDR_PARAMS" {
        return paths::apply(world, fd, fields(value)?);
    }
    let now = world.now;
    let socket = world.sockets.get(fd)?;
    let config = socket.config.clone();
    let Some(link) = socket.link else { return Ok(()) };
    let endpoint = &mut world.stacks[link.stack].endpoint;
    match option {
        "SCTP_RTOINFO" => {
            let bounds = (config.rto_min, config.rto_max);
            endpoint.set_rto(now, link.association, config.rto_initial, bounds);
        }
        "SCTP_MAXSEG" => endpoint.set_fragment_limit(now, link.association, config.fragment_limit),
        "SCTP_NODELAY" => endpoint.set_nagle(now, link.association, config.nagle),
        _ => {}
    }
    Ok(())
}

/// The stack of a socket, which gets one if it has none, and its association if there is one.
pub(super) fn ids(world: &mut World, fd: i64) -> Result<(usize, Option<AssociationId>), Why> {
    let stack = ensure_stack(world, fd)?;
    let link = world.sockets.get(fd)?.link;
    Ok((stack, link.map(|link| link.association)))
}

fn apply(socket: &mut Socket, option: &str, value: &Value) -> Called {
    if READ_ONLY.contains(&option) {
        return Ok(Outcome::Fails("ENOPROTOOPT"));
    }
    if option == "SCTP_AUTOCLOSE" && !socket.many {
        return Ok(Outcome::Fails("EOPNOTSUPP"));
    }
    if let Some(parts) = kept::parts(option) {
        let send_param = option == "SCTP_DEFAULT_SEND_PARAM";
        let old =
            [("snd_sid", "sinfo_stream"), ("snd_flags", "sinfo_flags"), ("snd_ppid", "sinfo_ppid")];
        for (part, old) in old.into_iter().filter(|_| send_param) {
            socket.kept.insert(part.into(), number_in(value, old)?.unwrap_or(0));
        }
        for part in parts {
            let number = number_in(value, part)?.unwrap_or(0);
            socket.config.nagle &= option != "SCTP_NODELAY" || number == 0;
            socket.config.nagle |= option == "SCTP_NODELAY" && number == 0;
            if option == "SCTP_PARTIAL_DELIVERY_POINT" {
                let point = u32::try_from(number).ok();
                let Some(point) = point.filter(|it| *it <= socket.config.receive_buffer) else {
                    return Ok(Outcome::Fails("EINVAL"));
                };
                socket.config.partial_delivery_point = point;
            }
            socket.kept.insert(part.into(), number);
        }
        return Ok(Outcome::OK);
    }
    if kept::is_value(option) {
        let number = number_in(value, "assoc_value")?.unwrap_or(0);
        socket.kept.insert(option.into(), number);
        return Ok(Outcome::OK);
    }
    let config = &mut socket.config;
    match option {
        "SO_RCVBUF" => config.receive_buffer = positive(value, option)?,
        "SO_SNDBUF" => config.send_buffer = positive(value, option)?,
        "SO_LINGER" => {
            let fields = fields(value)?;
            let (on, time) = (field(fields, "onoff")?, field(fields, "linger")?);
            let on = on.unwrap_or(0) != 0;
            socket.linger = on.then(|| time.unwrap_or(0));
        }
        "SCTP_RTOINFO" => return rto_info(config, fields(value)?),
        "SCTP_INITMSG" => init_message(config, fields(value)?)?,
        "SCTP_ASSOCINFO" => association_info(config, fields(value)?)?,
        "SCTP_PEER_ADDR_PARAMS" => peer_parameters(socket, fields(value)?)?,
        "SCTP_DELAYED_SACK" => delayed_sack(config, fields(value)?)?,
        "SCTP_ADAPTATION_LAYER" => {
            let indication = number_in(value, "ssb_adaptation_ind")?.unwrap_or(0);
            config.adaptation = u32::try_from(indication).ok();
        }
        "SCTP_MAXSEG" => {
            let most = number_in(value, "assoc_value")?.unwrap_or(0);
            config.fragment_limit = u16::try_from(most).ok().filter(|most| *most > 0);
        }
        "SCTP_ECN_SUPPORTED" => {
            config.ecn = if is_on(value)? { EcnUse::On } else { EcnUse::Off };
        }
        "SCTP_AUTH_SUPPORTED" => config.authentication = is_on(value)?,
        "SCTP_ASCONF_SUPPORTED" => config.address_reconfiguration = is_on(value)?,
        "SCTP_MAX_BURST" => {
            let burst = u32::try_from(number_in(value, "assoc_value")?.unwrap_or(0)).unwrap_or(0);
            config.max_burst = if burst == 0 { u32::MAX } else { burst };
        }
        "SCTP_ENABLE_STREAM_RESET" => {
            reconfiguration::enable(socket, number_in(value, "assoc_value")?.unwrap_or(0));
        }
        "SCTP_INTERLEAVING_SUPPORTED" => config.interleaving = is_on(value)?,
        "SCTP_PR_SUPPORTED" => config.partial_reliability = is_on(value)?,
        "SCTP_RECONFIG_SUPPORTED" => config.reconfiguration = is_on(value)?,
        "SCTP_NRSACK_SUPPORTED" => {
            config.nr_sack = if is_on(value)? { NrSack::Case2 } else { NrSack::Off };
        }
        "SCTP_RECVRCVINFO" => socket.subscriptions.receive_info = int(value)? != 0,
        "SCTP_RECVNXTINFO" => socket.subscriptions.next_info = int(value)? != 0,
        "SCTP_USE_EXT_RCVINFO" => socket.subscriptions.extended_info = int(value)? != 0,
        "SCTP_EVENTS" => events(socket, fields(value)?)?,
        "SCTP_EVENT" => event(socket, fields(value)?)?,
        "SCTP_REMOTE_UDP_ENCAPS_PORT" => {}
        other => return Err(Why::gap(format!("setsockopt {other} is not known"))),
    }
    Ok(Outcome::OK)
}

/// The least length of options that scripts try with others.
const SIZES: &[(&str, i64)] = &[
    ("SCTP_RTOINFO", 16),
    ("SCTP_INITMSG", 8),
    ("SCTP_NODELAY", 4),
    ("SCTP_MAXSEG", 8),
    ("SCTP_DELAYED_SACK", 12),
    ("SCTP_MAX_BURST", 8),
];

/// Options that only tell.
const READ_ONLY: &[&str] = &[
    "SCTP_STATUS",
    "SCTP_GET_PEER_ADDR_INFO",
    "SCTP_GET_ASSOC_NUMBER",
    "SCTP_GET_ASSOC_ID_LIST",
    "SCTP_PEER_AUTH_CHUNKS",
    "SCTP_LOCAL_AUTH_CHUNKS",
];

fn is_on(value: &Value) -> Result<bool, Why> {
    Ok(number_in(value, "assoc_value")?.unwrap_or(0) != 0)
}

fn positive(value: &Value, option: &str) -> Result<u32, Why> {
    u32::try_from(int(value)?).map_err(|_| Why::syntax(format!("bad value of {option}")))
}

/// A number that stands alone, or in a structure under `key`.
fn number_in(value: &Value, key: &str) -> Result<Option<i64>, Why> {
    match value {
        Value::Struct(args) => field(args, key),
        other => int(other).map(Some),
    }
}

/// The field as milliseconds, unless it leaves the value as it is.
fn millis(args: &[Arg], key: &str) -> Result<Option<Duration>, Why> {
    let number = field(args, key)?.filter(|number| *number > 0);
    let number = number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(number.map(|number| Duration::from_millis(number.into())))
}

/// The field as a count, unless it leaves the value as it is.
pub(super) fn count<T: TryFrom<i64>>(args: &[Arg], key: &str) -> Result<Option<T>, Why> {
    let number = field(args, key)?.filter(|number| *number > 0);
    Ok(number.and_then(|number| T::try_from(number).ok()))
}

fn rto_info(config: &mut Config, args: &[Arg]) -> Called {
    let new = |key, old| Ok(millis(args, key)?.unwrap_or(old));
    let initial = new("srto_initial", config.rto_initial)?;
    let (min, max) = (new("srto_min", config.rto_min)?, new("srto_max", config.rto_max)?);
    if min > max || initial < min || max < initial {
        return Ok(Outcome::Fails("EINVAL"));
    }
    (config.rto_initial, config.rto_min, config.rto_max) = (initial, min, max);
    Ok(Outcome::OK)
}

pub(in crate::socket) fn init_message(config: &mut Config, args: &[Arg]) -> Result<(), Why> {
    if let Some(streams) = count(args, "sinit_num_ostreams")? {
        config.streams = streams;
    }
    if let Some(streams) = count(args, "sinit_max_instreams")? {
        config.inbound_streams = Some(streams);
    }
    if let Some(attempts) = count(args, "sinit_max_attempts")? {
        config.max_init_retransmits = attempts;
    }
    if let Some(timeout) = millis(args, "sinit_max_init_timeo")? {
        config.rto_max_init = Some(timeout);
    }
    Ok(())
}

fn association_info(config: &mut Config, args: &[Arg]) -> Result<(), Why> {
    if let Some(retransmissions) = count(args, "sasoc_asocmaxrxt")? {
        config.association_max_retransmits = retransmissions;
    }
    if let Some(life) = millis(args, "sasoc_cookie_life")? {
        config.cookie_life = life;
    }
    Ok(())
}

fn peer_parameters(socket: &mut Socket, args: &[Arg]) -> Result<(), Why> {
    let flags = field(args, "spp_flags")?.unwrap_or(0);
    let has = |name: &str| constant(name).is_some_and(|flag| flags & flag != 0);
    if let Some(errors) = count(args, "spp_pathmaxrxt")? {
        socket.config.path_max_retransmits = errors;
    }
    let value = |key: &str| field(args, key).map(Option::unwrap_or_default);
    if has("SPP_DSCP") {
        socket.kept.insert("spp_dscp".into(), value("spp_dscp")?);
    }
    if has("SPP_IPV6_FLOWLABEL") {
        socket.kept.insert("spp_ipv6_flowlabel".into(), value("spp_ipv6_flowlabel")?);
    }
    if has("SPP_PMTUD_ENABLE") || has("SPP_PMTUD_DISABLE") {
        socket.kept.insert("pmtud".into(), has("SPP_PMTUD_ENABLE").into());
    }
    let config = &mut socket.config;
    if has("SPP_HB_DISABLE") {
        config.heartbeats = false;
    } else if has("SPP_HB_ENABLE") {
        config.heartbeats = true;
        let interval = millis(args, "spp_hbinterval")?;
        config.heartbeat_interval = interval.unwrap_or(config.heartbeat_interval);
    }
    if has("SPP_PMTUD_ENABLE") {
        config.path_mtu = PathMtu::Search;
    } else if has("SPP_PMTUD_DISABLE") {
        config.path_mtu = PathMtu::Interface;
    }
    Ok(())
}

fn delayed_sack(config: &mut Config, args: &[Arg]) -> Result<(), Why> {
    if let Some(delay) = millis(args, "sack_delay")? {
        config.sack_delay = delay;
    }
    if let Some(frequency) = count(args, "sack_freq")? {
        config.sack_frequency = frequency;
    }
    Ok(())
}

/// The old way to subscribe: a flag for each type.
fn events(socket: &mut Socket, args: &[Arg]) -> Result<(), Why> {
    for (key, event) in EVENTS {
        let on = field(args, key)?.unwrap_or(0) != 0;
        subscribe(socket, event, on);
    }
    socket.subscriptions.data_io = field(args, "sctp_data_io_event")?.unwrap_or(0) != 0;
    Ok(())
}

/// One type of notification.
fn event(socket: &mut Socket, args: &[Arg]) -> Result<(), Why> {
    let Some(Value::Word(name)) = get(args, "se_type") else {
        return Err(Why::syntax("se_type must be a name"));
    };
    let known = EVENTS.iter().map(|(_, event)| event).chain(NEW_EVENTS);
    let Some(event) = known.into_iter().find(|event| *event == name) else {
        return Err(Why::gap(format!("the notification {name} is not known")));
    };
    subscribe(socket, event, field(args, "se_on")?.unwrap_or(0) != 0);
    Ok(())
}

fn subscribe(socket: &mut Socket, event: &'static str, on: bool) {
    if on {
        socket.subscriptions.events.insert(event);
    } else {
        socket.subscriptions.events.remove(event);
    }
}

/// Fields of sctp_event_subscribe and the types that they stand for.
pub(super) const EVENTS: &[(&str, &str)] = &[
    ("sctp_association_event", "SCTP_ASSOC_CHANGE"),
    ("sctp_address_event", "SCTP_PEER_ADDR_CHANGE"),
    ("sctp_send_failure_event", "SCTP_SEND_FAILED"),
    ("sctp_peer_error_event", "SCTP_REMOTE_ERROR"),
    ("sctp_shutdown_event", "SCTP_SHUTDOWN_EVENT"),
    ("sctp_partial_delivery_event", "SCTP_PARTIAL_DELIVERY_EVENT"),
    ("sctp_adaptation_layer_event", "SCTP_ADAPTATION_INDICATION"),
    ("sctp_authentication_event", "SCTP_AUTHENTICATION_EVENT"),
    ("sctp_sender_dry_event", "SCTP_SENDER_DRY_EVENT"),
    ("sctp_stream_reset_event", "SCTP_STREAM_RESET_EVENT"),
];

/// Types that only SCTP_EVENT knows.
const NEW_EVENTS: &[&str] = &[
    "SCTP_ASSOC_RESET_EVENT",
    "SCTP_STREAM_CHANGE_EVENT",
    "SCTP_SEND_FAILED_EVENT",
    "SCTP_NOTIFICATIONS_STOPPED_EVENT",
];
