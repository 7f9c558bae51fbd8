//! Options of streams (RFC 6525 section 6.3, RFC 7496 section 4.3, RFC 8260 section 4.3).

use super::{Asked, Request, answer_value, association_value, decode};
use crate::constants::*;
use crate::errno::Errno;
use crate::layout::Structure;
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{
    ReliabilityPolicy, StreamDirection, StreamId, StreamOptions, StreamScheduling,
};

pub(super) fn set(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Asked<()> {
    let Request { id, name, value } = request;
    Some(match name {
        SCTP_ENABLE_STREAM_RESET => enable(sockets, id, value),
        SCTP_RESET_STREAMS => reset_streams(sockets, host, id, value),
        SCTP_RESET_ASSOC => reset_association(sockets, host, id, value),
        SCTP_ADD_STREAMS => add_streams(sockets, host, id, value),
        SCTP_STREAM_SCHEDULER => set_scheduler(sockets, id, value),
        SCTP_STREAM_SCHEDULER_VALUE => set_priority(sockets, host, id, value),
        _ => return None,
    })
}

pub(super) fn get(sockets: &mut Sockets, host: &Host<'_>, request: Request<'_>) -> Asked<Vec<u8>> {
    let Request { id, name, value: asked } = request;
    let settings = &sockets.sockets.get(&id)?.settings;
    Some(match name {
        SCTP_ENABLE_STREAM_RESET => Ok(answer_value(asked, settings.stream_resets)),
        SCTP_STREAM_SCHEDULER => {
            let scheduler = match settings.config.stream_scheduling {
                StreamScheduling::RoundRobin => SCTP_SS_RR,
                StreamScheduling::Priority => SCTP_SS_PRIO,
                StreamScheduling::Fcfs
                | StreamScheduling::SparseFirst
                | StreamScheduling::RoundRobinPacket
                | StreamScheduling::FairCapacity
                | StreamScheduling::WeightedFair => SCTP_SS_FCFS,
            };
            Ok(answer_value(asked, scheduler.unsigned_abs()))
        }
        SCTP_PR_ASSOC_STATUS | SCTP_PR_STREAM_STATUS => abandoned(sockets, host, request),
        _ => return None,
    })
}

fn enable(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let allowed = association_value(value)?;
    let has = |flag: i32| allowed & flag.unsigned_abs() != 0;
    let settings = &mut sockets.socket(id)?.settings;
    if allowed > 7 {
        return Err(Errno::INVALID);
    }
    settings.stream_resets = allowed;
    settings.config.accept_stream_resets = has(SCTP_ENABLE_RESET_STREAM_REQ);
    settings.config.accept_association_resets = has(SCTP_ENABLE_RESET_ASSOC_REQ);
    settings.config.accept_added_streams = has(SCTP_ENABLE_CHANGE_ASSOC_REQ);
    settings.config.reconfiguration |= allowed != 0;
    Ok(())
}

fn reset_streams(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_reset_streams = decode(value)?;
    let engine = sockets.existing(id, asked.srs_assoc_id)?;
    let list = value.get(sctp_reset_streams::DESCRIPTION.size..).unwrap_or_default();
    let list = list.get(..2 * usize::from(asked.srs_number_streams)).ok_or(Errno::INVALID)?;
    let stream = |bytes: &[u8]| StreamId(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let streams: Vec<_> = list.chunks_exact(2).map(stream).collect();
    let flags = i32::from(asked.srs_flags);
    let outgoing = (flags & SCTP_STREAM_RESET_OUTGOING != 0).then_some(StreamDirection::Outgoing);
    let incoming = (flags & SCTP_STREAM_RESET_INCOMING != 0).then_some(StreamDirection::Incoming);
    let directions: Vec<_> = outgoing.into_iter().chain(incoming).collect();
    Ok(host.endpoint.reset_streams(host.now, engine, &directions, &streams)?)
}

fn reset_association(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let named = i32::from_ne_bytes(
        value.get(..4).and_then(|bytes| bytes.try_into().ok()).ok_or(Errno::INVALID)?,
    );
    let engine = sockets.existing(id, named)?;
    Ok(host.endpoint.reset_association(host.now, engine)?)
}

fn add_streams(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_add_streams = decode(value)?;
    let engine = sockets.existing(id, asked.sas_assoc_id)?;
    let (outgoing, incoming) = (asked.sas_outstrms, asked.sas_instrms);
    Ok(host.endpoint.add_streams(host.now, engine, outgoing, incoming)?)
}

fn set_scheduler(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let number = i32::try_from(association_value(value)?).map_err(|_| Errno::INVALID)?;
    let scheduling = match number {
        SCTP_SS_FCFS => StreamScheduling::Fcfs,
        SCTP_SS_PRIO => StreamScheduling::Priority,
        SCTP_SS_RR => StreamScheduling::RoundRobin,
        _ => return Err(Errno::INVALID),
    };
    sockets.socket(id)?.settings.config.stream_scheduling = scheduling;
    Ok(())
}

fn set_priority(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_stream_value = decode(value)?;
    let engine = sockets.existing(id, asked.assoc_id)?;
    let options = StreamOptions { priority: asked.stream_value, ..StreamOptions::default() };
    let stream = StreamId(asked.stream_id);
    let known = host.endpoint.set_stream_options(host.now, engine, stream, options);
    if known { Ok(()) } else { Err(Errno::INVALID) }
}

fn abandoned(
    sockets: &mut Sockets,
    host: &Host<'_>,
    request: Request<'_>,
) -> Result<Vec<u8>, Errno> {
    let asked: sctp_prstatus = decode(request.value)?;
    let engine = sockets.existing(request.id, asked.sprstat_assoc_id)?;
    let policy = match i32::from(asked.sprstat_policy) {
        SCTP_PR_SCTP_TTL => Some(ReliabilityPolicy::Lifetime),
        SCTP_PR_SCTP_RTX => Some(ReliabilityPolicy::Retransmissions),
        SCTP_PR_SCTP_PRIO => Some(ReliabilityPolicy::Priority),
        SCTP_PR_SCTP_ALL => None,
        _ => return Err(Errno::INVALID),
    };
    let of_stream = request.name == SCTP_PR_STREAM_STATUS;
    let stream = of_stream.then_some(StreamId(asked.sprstat_sid));
    let counts = host.endpoint.abandoned(engine, stream, policy);
    let found = sctp_prstatus {
        sprstat_abandoned_unsent: counts.unsent,
        sprstat_abandoned_sent: counts.sent,
        ..asked
    };
    Ok(found.encode())
}
