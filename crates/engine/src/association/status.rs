//! The snapshot of an association.

use super::tcb::Association;
use crate::config::NrSack;
use crate::path::{Path, PathState};
use crate::status::{AssociationStatus, IdleReason, PathStatus};
use crate::time::Instant;

impl Association {
    /// The association as it stands. None once it is closed.
    pub(crate) fn status(&self, now: Instant) -> Option<AssociationStatus> {
        let receiver = self.peer.as_ref().map(|peer| &peer.receiver);
        Some(AssociationStatus {
            state: self.state.name()?,
            unsent: self.sender.unsent(),
            outstanding: self.sender.outstanding(),
            peer_rwnd: saturated(self.sender.peer_rwnd()),
            partial_reliability: self.sender.may_abandon(),
            authentication: self.security.is_authenticating(),
            congestion: self.paths.iter().next().and_then(|path| path.congestion().name()),
            nr_sack: receiver.is_some_and(|receiver| receiver.nr_sack() != NrSack::Off),
            receive_queued: receiver.map_or(0, crate::recv::Receiver::queued),
            cum_tsn: receiver.map(crate::recv::Receiver::cum_tsn),
            peer_extensions: self
                .peer
                .as_ref()
                .map_or_else(Default::default, |peer| peer.announcement.extensions.clone()),
            paths: self.paths.iter().map(|path| self.path_status(now, path)).collect(),
        })
    }

    fn path_status(&self, now: Instant, path: &Path) -> PathStatus {
        let stats = path.stats();
        PathStatus {
            id: path.id(),
            addr: path.addr(),
            state: path.state(),
            primary: path.id() == self.paths.primary(),
            gives_way_to: path.gives_way_to(),
            srtt: path.rtt().smoothed(),
            rtt_variation: path.rtt().smoothed().map(|_| path.rtt().variation()),
            least_rtt: path.rtt().least(),
            rto: path.rtt().rto(),
            cwnd: saturated(path.congestion().window()),
            ssthresh: saturated(path.congestion().ssthresh()),
            in_flight: path.in_flight(),
            mtu: path.mtu(),
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
            error_count: path.errors(),
            policy: path.regime().own_policy(),
            peer_policy: path.regime().peer_policy(),
            since_data_sent: path.flight().last_data().map(|at| now.since(at)),
            since_data_received: path.last_data_received().map(|at| now.since(at)),
            idle: self.idle(now, path),
        }
    }

    fn idle(&self, now: Instant, path: &Path) -> Option<IdleReason> {
        match path.state() {
            _ if path.is_suspended() => Some(IdleReason::NoLink),
            PathState::Unconfirmed => Some(IdleReason::Unconfirmed),
            PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => {
                self.sender.idle_reason(now, path.id(), &self.paths)
            }
        }
    }
}

fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
