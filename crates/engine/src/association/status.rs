//! The snapshot of an association.

use super::authentication::Security;
use super::state::State;
use super::tcb::Peer;
use crate::config::NrSack;
use crate::path::{Path, PathState, Paths};
use crate::send::Sender;
use crate::status::{AssociationStatus, IdleReason, PathStatus, RttSpread};
use crate::time::Instant;

/// An association as it stands. None once it is closed.
pub(crate) fn status(
    now: Instant,
    (state, security): (&State, &Security),
    peer: Option<&Peer>,
    (paths, sender): (&Paths, &Sender),
) -> Option<AssociationStatus> {
    let receiver = peer.map(|peer| &peer.receiver);
    Some(AssociationStatus {
        state: state.name()?,
        unsent: sender.queue().bytes(),
        outstanding: sender.unacked(),
        peer_rwnd: saturated(sender.outstanding().window().rwnd()),
        partial_reliability: sender.abandonment().is_agreed(),
        authentication: security.is_authenticating(),
        congestion: paths.iter().next().and_then(|path| path.congestion().name()),
        nr_sack: receiver.is_some_and(|receiver| receiver.nr_sack() != NrSack::Off),
        receive_queued: receiver.map_or(0, crate::recv::Receiver::queued),
        cum_tsn: receiver.map(crate::recv::Receiver::cum_tsn),
        peer_extensions: peer
            .map_or_else(Default::default, |it| it.announcement.extensions.clone()),
        paths: paths.iter().map(|path| path_status(now, path, (paths, sender))).collect(),
    })
}

fn path_status(now: Instant, path: &Path, (paths, sender): (&Paths, &Sender)) -> PathStatus {
    let stats = path.stats();
    PathStatus {
        id: path.id(),
        addr: path.addr(),
        state: path.health().state(),
        primary: path.id() == paths.primary(),
        gives_way_to: path.gives_way_to(),
        srtt: path.rtt().smoothed(),
        rtt_spread: RttSpread {
            rttvar: path.rtt().smoothed().map(|_| path.rtt().variation()),
            min_rtt: path.rtt().least(),
            hold_up: path.rtt().hold_up(),
        },
        rto: path.rtt().rto(),
        cwnd: saturated(path.congestion().window()),
        ssthresh: saturated(path.congestion().ssthresh()),
        in_flight: path.in_flight(),
        mtu: path.search().mtu(),
        packets_sent: stats.packets_sent,
        bytes_sent: stats.bytes_sent,
        packets_received: stats.packets_received,
        bytes_received: stats.bytes_received,
        data_bytes: stats.data_bytes,
        fast_retransmits: stats.fast_retransmits,
        rescheduled: stats.rescheduled,
        probes: stats.probes,
        spurious_probes: stats.spurious_probes,
        suspicions: stats.suspicions,
        spurious_suspicions: stats.spurious_suspicions,
        tail_probes: stats.tail_probes,
        spurious_retransmits: stats.spurious_retransmits,
        bytes_retransmitted: stats.bytes_retransmitted,
        copies: stats.copies,
        ecn: path.ecn().state(),
        ce_received: stats.ce_received,
        ecne_received: stats.ecne_received,
        ecn_reductions: stats.ecn_reductions,
        timeouts: stats.timeouts,
        error_count: path.health().errors(),
        policy: path.regime().own_policy(),
        peer_policy: path.regime().peer_policy(),
        since_data_sent: path.flight().last_data().map(|at| now.since(at)),
        since_data_received: path.arrivals().last_data().map(|at| now.since(at)),
        idle: idle(now, path, (paths, sender)),
    }
}

fn idle(now: Instant, path: &Path, (paths, sender): (&Paths, &Sender)) -> Option<IdleReason> {
    match path.health().state() {
        _ if path.health().is_suspended() => Some(IdleReason::NoLink),
        PathState::Unconfirmed => Some(IdleReason::Unconfirmed),
        PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => {
            sender.idle_reason(now, path.id(), paths)
        }
    }
}

fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
