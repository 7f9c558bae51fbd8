//! `setsockopt(fd, level, option, value, length)`.

use super::{kept, paths, reconfiguration};
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::socket::arguments::{Arguments, field, fields, int};
use crate::socket::constants::constant;
use crate::socket::descriptor::Socket;
use crate::socket::errno::{Called, Outcome};
use crate::socket::lifecycle::ensure_stack;
use crate::socket::receive;
use crate::world::World;
use manypath_engine::{Config, Duration, NrSack, PathMtu};

/// Sets an option of a socket, and so of its associations.
pub(crate) fn set(world: &mut World, args: &Arguments<'_>) -> Called {
    let (fd, option, value) = (args.int(0)?, args.name(2)?, args.value(3)?);
    if let Some(outcome) = reconfiguration::request(world, fd, option, value)? {
        return Ok(outcome);
    }
    let socket = world.sockets.get(fd)?;
    let outcome = apply(socket, option, value)?;
    if option == "SCTP_PEER_ADDR_PARAMS" {
        paths::apply(world, fd, fields(value)?)?;
    }
    if option == "SCTP_REMOTE_UDP_ENCAPS_PORT" {
        let port = number_in(value, "sue_port")?.unwrap_or(0);
        let port = u16::try_from(port).map_err(|_| Why::syntax("bad UDP port"))?;
        world.network.udp.1 = port.swap_bytes();
    }
    if option == "SCTP_EVENT" || option == "SCTP_EVENTS" {
        receive::note_dry(world, fd)?;
    }
    let socket = world.sockets.get(fd)?;
    let nagle = socket.config.nagle;
    if let Some(link) = socket.link.filter(|_| option == "SCTP_NODELAY") {
        let now = world.now;
        world.stacks[link.stack].endpoint.set_nagle(now, link.association, nagle);
    }
    if world.sockets.get(fd)?.stack.is_some() {
        ensure_stack(world, fd)?;
    }
    Ok(outcome)
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
        "SCTP_PEER_ADDR_PARAMS" => peer_parameters(config, fields(value)?)?,
        "SCTP_DELAYED_SACK" => delayed_sack(config, fields(value)?)?,
        "SCTP_ADAPTATION_LAYER" => {
            let indication = number_in(value, "ssb_adaptation_ind")?.unwrap_or(0);
            config.adaptation = u32::try_from(indication).ok();
        }
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
        "SCTP_EVENTS" => events(socket, fields(value)?)?,
        "SCTP_EVENT" => event(socket, fields(value)?)?,
        "SCTP_REMOTE_UDP_ENCAPS_PORT" => {}
        other => return Err(Why::gap(format!("setsockopt {other} is not known"))),
    }
    Ok(Outcome::OK)
}

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

fn peer_parameters(config: &mut Config, args: &[Arg]) -> Result<(), Why> {
    let flags = field(args, "spp_flags")?.unwrap_or(0);
    let has = |name: &str| constant(name).is_some_and(|flag| flags & flag != 0);
    if let Some(errors) = count(args, "spp_pathmaxrxt")? {
        config.path_max_retransmits = errors;
    }
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
