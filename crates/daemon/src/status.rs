//! What the parts of a stack are called, and count, where people see it.

use crate::base::Base;
use crate::log;
use manypath_control::path as control;
use manypath_engine::{self as engine, IdleReason, PathState};
use std::collections::BTreeMap;

/// Ours, the engine's, the sockets' and the flows', each with its own prefix.
pub(crate) fn all_counters(base: &Base) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    all.extend(base.core.counters.events().iter().map(|(name, n)| (format!("stack_{name}"), *n)));
    // Of the process: the first loop has them.
    let lost =
        Some(log::lost_lines()).filter(|lost| *lost > 0 && base.core.config.loop_index() == 0);
    all.extend(lost.map(|lost| (format!("stack_{}", "log_lines_lost"), lost)));
    let engine = base.core.driver.endpoint().counters().entries();
    all.extend(engine.into_iter().map(|(name, n)| (format!("sctp_{name}"), n)));
    let net = base.core.driver.counters().entries();
    all.extend(net.into_iter().map(|(name, n)| (format!("udp_{name}"), n)));
    let past = base.core.counters.past_flows().iter().map(|(name, n)| (*name, *n));
    let flows = base.values().flat_map(|one| one.mux.counters().entries());
    for (name, n) in past.chain(flows) {
        *all.entry(format!("flow_{name}")).or_default() += n;
    }
    for (name, n) in datagram_counters(base) {
        *all.entry(format!("datagram_{name}")).or_default() += n;
    }
    all
}

/// Counts of all datagrams, of associations that are gone too.
fn datagram_counters(base: &Base) -> BTreeMap<&'static str, u64> {
    let mut all = base.core.counters.past_datagrams().clone();
    let carrying = base.values().filter_map(|one| one.mux.datagrams());
    for (name, count) in carrying.flat_map(|datagrams| datagrams.counters().entries()) {
        *all.entry(name).or_default() += count;
    }
    all
}

pub(crate) const fn path_state_name(state: PathState) -> &'static str {
    match state {
        PathState::Unconfirmed => "unconfirmed",
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially-failed",
        PathState::Inactive => "inactive",
    }
}

/// What one end wants of a path, as it is told.
pub(crate) fn policy(policy: engine::PathPolicy) -> control::PathPolicy {
    control::PathPolicy {
        role: policy.role.name().to_owned(),
        cost: policy.cost,
        metered_bytes_per_s: policy.metered,
        primary: policy.primary,
    }
}

pub(crate) const fn idle_reason(reason: IdleReason) -> control::IdleReason {
    match reason {
        IdleReason::NoData => control::IdleReason::NoData,
        IdleReason::CongestionWindow => control::IdleReason::CongestionWindow,
        IdleReason::SharedBottleneck => control::IdleReason::SharedBottleneck,
        IdleReason::Burst => control::IdleReason::Burst,
        IdleReason::BufferShare => control::IdleReason::BufferShare,
        IdleReason::ReceiveWindow => control::IdleReason::ReceiveWindow,
        IdleReason::Unconfirmed => control::IdleReason::Unconfirmed,
        IdleReason::Suspended => control::IdleReason::Suspended,
        IdleReason::Failed => control::IdleReason::Inactive,
        IdleReason::OtherStreams => control::IdleReason::OtherStreams,
        IdleReason::Standby => control::IdleReason::Standby,
        IdleReason::FasterPath => control::IdleReason::FasterPath,
        IdleReason::Backup => control::IdleReason::Backup,
        IdleReason::Cost => control::IdleReason::Cost,
        IdleReason::Metered => control::IdleReason::Metered,
        IdleReason::Disabled => control::IdleReason::Disabled,
        IdleReason::NoLink => control::IdleReason::NoLink,
    }
}
