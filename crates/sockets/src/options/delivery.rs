//! Options of messages and notifications (RFC 6458 sections 6.2, 8.1.5 to 8.1.8, 8.1.13 to 8.1.15, 8.1.19
//! to 8.1.30, 8.1.31 and 8.1.32).

use super::{Asked, Request, answer_flag, answer_value, association_value, decode, int, is_on};
use crate::association::SendDefaults;
use crate::constants::*;
use crate::control::reliability;
use crate::errno::Errno;
use crate::layout::Structure;
use crate::notification::Subscriptions;
use crate::socket::{Settings, Socket};
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::Duration;

pub(super) fn set(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Asked<()> {
    let Request { id, name, value } = request;
    match name {
        SCTP_NODELAY => return Some(set_nagle(sockets, host, id, value)),
        SCTP_AUTOCLOSE => return Some(set_autoclose(sockets, host, id, value)),
        SCTP_EVENT | SCTP_EVENTS => return Some(subscribe(sockets, host, request)),
        SCTP_DEFAULT_SNDINFO | SCTP_DEFAULT_SEND_PARAM | SCTP_DEFAULT_PRINFO => {
            return Some(set_defaults(sockets.sockets.get_mut(&id)?, name, value));
        }
        _ => {}
    }
    let settings = &mut sockets.sockets.get_mut(&id)?.settings;
    Some(match name {
        SCTP_DISABLE_FRAGMENTS => is_on(value).map(|on| settings.disable_fragments = on),
        SCTP_I_WANT_MAPPED_V4_ADDR => {
            is_on(value).map(|on| settings.mapped = on && settings.family.ipv6)
        }
        SCTP_EXPLICIT_EOR => is_on(value).map(|on| settings.explicit_end = on),
        SCTP_RECVRCVINFO => is_on(value).map(|on| settings.receive_info = on),
        SCTP_RECVNXTINFO => is_on(value).map(|on| settings.next_info = on),
        SCTP_CONTEXT => association_value(value).map(|context| settings.context = context),
        SCTP_FRAGMENT_INTERLEAVE => set_interleave(settings, value),
        SCTP_PARTIAL_DELIVERY_POINT => set_partial_delivery(settings, value),
        SCTP_DELAYED_SACK => set_delayed_sack(settings, value),
        SCTP_MAX_BURST => association_value(value).map(|burst| {
            settings.config.max_burst = if burst == 0 { u32::MAX } else { burst };
        }),
        _ => return None,
    })
}

pub(super) fn get(sockets: &Sockets, request: Request<'_>) -> Asked<Vec<u8>> {
    let Request { id, name, value: asked } = request;
    let settings = &sockets.sockets.get(&id)?.settings;
    let config = &settings.config;
    Some(match name {
        SCTP_NODELAY => Ok(answer_flag(!config.nagle)),
        SCTP_DISABLE_FRAGMENTS => Ok(answer_flag(settings.disable_fragments)),
        SCTP_I_WANT_MAPPED_V4_ADDR => Ok(answer_flag(settings.mapped)),
        SCTP_EXPLICIT_EOR => Ok(answer_flag(settings.explicit_end)),
        SCTP_RECVRCVINFO => Ok(answer_flag(settings.receive_info)),
        SCTP_RECVNXTINFO => Ok(answer_flag(settings.next_info)),
        SCTP_CONTEXT => Ok(answer_value(asked, settings.context)),
        SCTP_FRAGMENT_INTERLEAVE => Ok(settings.fragment_interleave.to_ne_bytes().to_vec()),
        SCTP_PARTIAL_DELIVERY_POINT => {
            let point = config.partial_delivery_point.min(config.receive_buffer);
            Ok(point.to_ne_bytes().to_vec())
        }
        SCTP_DELAYED_SACK => delayed_sack(settings, asked),
        SCTP_MAX_BURST => {
            let burst = if config.max_burst == u32::MAX { 0 } else { config.max_burst };
            Ok(answer_value(asked, burst))
        }
        SCTP_DEFAULT_SNDINFO | SCTP_DEFAULT_SEND_PARAM | SCTP_DEFAULT_PRINFO => {
            defaults(sockets.sockets.get(&id)?, name, asked)
        }
        SCTP_AUTOCLOSE if sockets.is_one_to_one(id) => Err(Errno::NOT_SUPPORTED),
        SCTP_AUTOCLOSE => {
            let seconds = settings.autoclose.map_or(0, |time| time.as_secs());
            Ok(u32::try_from(seconds).unwrap_or(u32::MAX).to_ne_bytes().to_vec())
        }
        SCTP_EVENTS => Ok(events(settings.events)),
        SCTP_EVENT => decode::<sctp_event>(asked).map(|asked| {
            let on = settings.events.has(asked.se_type.into());
            sctp_event { se_on: on.into(), ..asked }.encode()
        }),
        _ => return None,
    })
}

fn set_nagle(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let nagle = !is_on(value)?;
    let socket = sockets.socket(id)?;
    socket.settings.config.nagle = nagle;
    for association in socket.associations.values() {
        host.endpoint.set_nagle(host.now, association.engine, nagle);
    }
    Ok(())
}

/// `SCTP_EVENTS` has a flag for each type, in the order of the types; `SCTP_EVENT` names one.
fn subscribe(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    request: Request<'_>,
) -> Result<(), Errno> {
    let Request { id, name, value } = request;
    let socket = sockets.socket(id)?;
    let before = socket.settings.events;
    let events = &mut socket.settings.events;
    if name == SCTP_EVENT {
        let asked: sctp_event = decode(value)?;
        if !events.set(asked.se_type.into(), asked.se_on != 0) {
            return Err(Errno::INVALID);
        }
    } else {
        if value.is_empty() || value.len() > sctp_event_subscribe::DESCRIPTION.size {
            return Err(Errno::INVALID);
        }
        for (kind, on) in (SCTP_DATA_IO_EVENT..).zip(value) {
            events.set(kind, *on != 0);
        }
    }
    // Who asks when nothing is under way is told at once (RFC 6458 section 6.1.9).
    if events.has(SCTP_SENDER_DRY_EVENT) && !before.has(SCTP_SENDER_DRY_EVENT) {
        for association in socket.associations.values() {
            host.endpoint.tell_when_dry(host.now, association.engine);
        }
    }
    Ok(())
}

fn events(events: Subscriptions) -> Vec<u8> {
    (SCTP_DATA_IO_EVENT..=SCTP_SEND_FAILED_EVENT).map(|kind| events.has(kind).into()).collect()
}

/// Seconds; 0: never. With the one-to-one style there is no such thing.
fn set_autoclose(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    if sockets.is_one_to_one(id) {
        return Err(Errno::NOT_SUPPORTED);
    }
    let seconds = u64::try_from(int(value)?).map_err(|_| Errno::INVALID)?;
    let time = (seconds > 0).then(|| Duration::from_secs(seconds));
    sockets.set_autoclose(host.now, id, time);
    Ok(())
}

fn set_interleave(settings: &mut Settings, value: &[u8]) -> Result<(), Errno> {
    let level = u32::try_from(int(value)?).ok().filter(|level| *level <= 2);
    settings.fragment_interleave = level.ok_or(Errno::INVALID)?;
    Ok(())
}

fn set_partial_delivery(settings: &mut Settings, value: &[u8]) -> Result<(), Errno> {
    let point = u32::try_from(int(value)?).ok();
    let point = point.filter(|point| *point <= settings.config.receive_buffer);
    settings.config.partial_delivery_point = point.ok_or(Errno::INVALID)?;
    Ok(())
}

/// A sctp_sack_info, or as of old a sctp_assoc_value with the delay. A frequency of 1 means no delay.
fn set_delayed_sack(settings: &mut Settings, value: &[u8]) -> Result<(), Errno> {
    let config = &mut settings.config;
    let (delay, frequency) = match sctp_sack_info::decode(value) {
        Some(info) => (info.sack_delay, info.sack_freq),
        None => (decode::<sctp_assoc_value>(value)?.assoc_value, 0),
    };
    if delay > 500 {
        return Err(Errno::INVALID);
    }
    if delay > 0 {
        config.sack_delay = Duration::from_millis(delay.into());
    }
    if frequency > 0 {
        config.sack_frequency = frequency;
    }
    Ok(())
}

fn delayed_sack(settings: &Settings, asked: &[u8]) -> Result<Vec<u8>, Errno> {
    let delay = super::associations::millis(settings.config.sack_delay);
    if let Some(asked) = sctp_sack_info::decode(asked) {
        let sack_freq = settings.config.sack_frequency;
        return Ok(sctp_sack_info { sack_delay: delay, sack_freq, ..asked }.encode());
    }
    let asked: sctp_assoc_value = decode(asked)?;
    Ok(sctp_assoc_value { assoc_value: delay, ..asked }.encode())
}

/// How messages are sent, if nothing is said: those to an association, or those that begin one.
fn set_defaults(socket: &mut Socket, name: i32, value: &[u8]) -> Result<(), Errno> {
    let (named, info, terms) = match name {
        SCTP_DEFAULT_SNDINFO => {
            let info: sctp_sndinfo = decode(value)?;
            (info.snd_assoc_id, Some(sctp_sndinfo { snd_assoc_id: 0, ..info }), None)
        }
        SCTP_DEFAULT_SEND_PARAM => {
            let old: sctp_sndrcvinfo = decode(value)?;
            (old.sinfo_assoc_id, Some(new_info(&old)), Some(old_terms(&old)))
        }
        _ => {
            let sctp_default_prinfo { pr_assoc_id, pr_value, pr_policy } = decode(value)?;
            reliability(pr_policy.into(), pr_value).ok_or(Errno::INVALID)?;
            (pr_assoc_id, None, Some(sctp_prinfo { pr_policy, pr_value }))
        }
    };
    for defaults in socket.defaults_mut(named)? {
        defaults.info = info.unwrap_or(defaults.info);
        defaults.reliability = terms.unwrap_or(defaults.reliability);
    }
    Ok(())
}

fn defaults(socket: &Socket, name: i32, asked: &[u8]) -> Result<Vec<u8>, Errno> {
    Ok(match name {
        SCTP_DEFAULT_SNDINFO => {
            let snd_assoc_id = decode::<sctp_sndinfo>(asked)?.snd_assoc_id;
            sctp_sndinfo { snd_assoc_id, ..socket.defaults(snd_assoc_id)?.info }.encode()
        }
        SCTP_DEFAULT_SEND_PARAM => {
            let sinfo_assoc_id = decode::<sctp_sndrcvinfo>(asked)?.sinfo_assoc_id;
            let old = old_defaults(socket.defaults(sinfo_assoc_id)?);
            sctp_sndrcvinfo { sinfo_assoc_id, ..old }.encode()
        }
        _ => {
            let pr_assoc_id = decode::<sctp_default_prinfo>(asked)?.pr_assoc_id;
            let sctp_prinfo { pr_policy, pr_value } = socket.defaults(pr_assoc_id)?.reliability;
            sctp_default_prinfo { pr_assoc_id, pr_value, pr_policy }.encode()
        }
    })
}

fn new_info(old: &sctp_sndrcvinfo) -> sctp_sndinfo {
    sctp_sndinfo {
        snd_sid: old.sinfo_stream,
        snd_flags: old.sinfo_flags,
        snd_ppid: old.sinfo_ppid,
        snd_context: old.sinfo_context,
        snd_assoc_id: 0,
    }
}

fn old_terms(old: &sctp_sndrcvinfo) -> sctp_prinfo {
    let lives = old.sinfo_timetolive > 0;
    let pr_policy = if lives { crate::notification::number(SCTP_PR_SCTP_TTL) } else { 0 };
    sctp_prinfo { pr_policy, pr_value: old.sinfo_timetolive }
}

fn old_defaults(defaults: &SendDefaults) -> sctp_sndrcvinfo {
    let SendDefaults { info, reliability: terms, .. } = defaults;
    let lives = i32::from(terms.pr_policy) == SCTP_PR_SCTP_TTL;
    sctp_sndrcvinfo {
        sinfo_stream: info.snd_sid,
        sinfo_flags: info.snd_flags,
        sinfo_ppid: info.snd_ppid,
        sinfo_context: info.snd_context,
        sinfo_timetolive: if lives { terms.pr_value } else { 0 },
        ..Default::default()
    }
}
