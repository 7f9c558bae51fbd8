//! The snapshot that `manypath status` shows.

use crate::association::{Association, FlowUse};
use crate::base::Base;
use crate::base::protection::{profile_lacks, why_withheld};
use crate::core::Core;
use crate::log;
use crate::path_policies::is_kept_off;
use crate::scopes::LocalScope;
use crate::services::Dial;
use crate::stack::Stack;
use manypath_control::status::{
    AssociationStatus, EngineLoops, FlowStatus, LocalStatus, MemoryStatus, PathStatus,
    RelayingStatus, RoundTripStatus, StackStatus,
};
use manypath_control::{path as control, runtime};
use manypath_engine::{self as engine, AssociationId, AssociationState, Duration, IdleReason};
use manypath_engine::{Instant, PathState};
use manypath_flow::{self as flow, FlowState};
use manypath_rules::{Class, Form};
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Stack {
    /// The stack as it stands.
    pub fn status(&self) -> StackStatus {
        StackStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            loop_index: u32::try_from(self.base.core.config.loop_index()).unwrap_or(u32::MAX),
            engine_loops: EngineLoops {
                loops: u32::try_from(self.base.core.config.loops()).unwrap_or(u32::MAX),
                loops_reason: self.base.core.config.process.loops_reason.clone(),
            },
            network_namespace: runtime::network_namespace().unwrap_or_default(),
            uptime_ms: self.base.core.age(Instant::ZERO),
            accepting: self.base.core.config.accept,
            draining: !self.base.core.phase.takes_work(),
            udp_port: self.base.core.locals.udp_port(),
            privileged_port: self.base.core.locals.second_port,
            allow: self.served(),
            listeners: self
                .services
                .listeners
                .status(|listener| self.base.core.rules.may_offer(listener.addr)),
            locals: local_statuses(&self.base.core),
            budgets: self.base.core.budgets.status(),
            quotas: match self.base.core.config.loop_index() {
                0 => self.base.core.quotas.status(|quota| {
                    let relay = self.base.core.config.relay.as_ref();
                    let of_relay = relay.is_some_and(|relay| relay.quota == Some(quota));
                    of_relay || self.base.core.rules.gives(quota)
                }),
                // The first one tells what all have counted.
                _ => Vec::new(),
            },
            associations: self.association_statuses(),
            receive_memory: MemoryStatus {
                limit_bytes: self.base.memory().limit(),
                promised_bytes: self.base.memory().promised(),
            },
            identity: self.base.keys.identity_status(self.base.core.now),
            sandbox: self.sandbox_status(),
            relaying: RelayingStatus {
                relayed_peers: self.services.onward.statuses(&self.relays, &self.datagrams),
                searches: self.datagrams.rendezvous.searches(),
            },
            door_hosts: self.door_hosts(),
            peers: self.attempts.peers.status(self.base.core.now),
            fallbacks: self.base.core.counters.fallbacks().clone(),
            counters: all_counters(&self.base),
        }
    }

    fn association_statuses(&self) -> Vec<AssociationStatus> {
        let all = self.base.iter();
        all.filter_map(|(id, association)| self.association_status(*id, association)).collect()
    }

    fn association_status(
        &self,
        id: AssociationId,
        association: &Association,
    ) -> Option<AssociationStatus> {
        let status = self.base.core.status_of(id)?;
        Some(AssociationStatus {
            id: id.0,
            initiated: association.is_ours(),
            form: if association.mux.is_direct() { Form::Direct } else { Form::Mux }
                .name()
                .to_owned(),
            profile: profile_name(association),
            profile_lacks: profile_lacks(&self.base, id).map(str::to_owned),
            congestion: status.congestion.map(|it| it.name().to_owned()).unwrap_or_default(),
            path_limits: self
                .base
                .core
                .path_policies
                .limits_of(id)
                .map(|limits| limits.to_string()),
            state: state_name(status.state).to_owned(),
            age_ms: self.base.core.age(association.begun),
            unsent_bytes: status.unsent as u64,
            outstanding_bytes: status.outstanding as u64,
            peer_rwnd_bytes: status.peer_rwnd.into(),
            receive_queued_bytes: status.receive_queued as u64,
            encryption: self.base.keys.status(self.base.core.driver.endpoint(), id),
            withheld_addresses: why_withheld(&self.base, id),
            paths: status.paths.iter().map(|path| path_status(&self.base.core, id, path)).collect(),
            flows: self.flow_statuses(association),
            datagrams: self.datagrams.statuses(association),
        })
    }

    fn flow_statuses(&self, association: &Association) -> Vec<FlowStatus> {
        let flows = association.flows.iter();
        flows
            .filter_map(|(id, used)| {
                let status = association.mux.status(*id)?;
                let client = self.client_told(*used);
                let redundant = self.is_redundant(*used);
                let flow = flow_status(&status, self.pending_of(*used));
                let beyond = association.mux.beyond(*id).map(|it| it.destination.to_string());
                Some(FlowStatus { client, redundant, beyond, ..flow })
            })
            .collect()
    }

    fn client_told(&self, used: FlowUse) -> Option<SocketAddr> {
        match used {
            FlowUse::Relay(id) => self.relays.client_of(id),
            FlowUse::Dial(id) => self.services.dial_of(&id).map(Dial::client),
            FlowUse::Attempt(_) | FlowUse::Caller(_) | FlowUse::Closing => None,
        }
    }

    fn is_redundant(&self, used: FlowUse) -> bool {
        let options = match used {
            FlowUse::Relay(id) => self.relays.get(&id).map(|relay| relay.options),
            FlowUse::Attempt(id) => self.attempts.get(&id).map(|attempt| attempt.options),
            FlowUse::Dial(id) => self.services.dial_of(&id).map(|dial| dial.options),
            FlowUse::Caller(_) | FlowUse::Closing => None,
        };
        options.is_some_and(|options| options.redundant == Some(true))
    }

    fn pending_of(&self, used: FlowUse) -> u64 {
        match used {
            FlowUse::Relay(id) => self.relays.get(&id).map_or(0, |relay| relay.pending() as u64),
            FlowUse::Attempt(_) | FlowUse::Caller(_) | FlowUse::Dial(_) | FlowUse::Closing => 0,
        }
    }
}

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
    for (name, n) in crate::datagrams::datagram_counters(base) {
        *all.entry(format!("datagram_{name}")).or_default() += n;
    }
    all
}

impl Core {
    /// The services that are open whoever serves them, for people.
    pub(crate) fn open_services(&self) -> Vec<String> {
        match &self.config.gateway {
            Some(gateway) => vec![gateway.to_string()],
            None if self.config.process.listeners_only => Vec::new(),
            None => self.rules.services(),
        }
    }
}

/// That with which this side began it, or which a rule gives the key of its peer.
fn profile_name(association: &Association) -> Option<String> {
    let begun = association.begun_with.map(|manner| manner.profile);
    begun.or(association.profile_by_key).map(|profile| profile.name().to_owned())
}

fn local_statuses(core: &Core) -> Vec<LocalStatus> {
    let locals = core.locals.open.iter();
    let scope = |addr| core.scopes.all().iter().find(move |scope| scope.addr == addr);
    locals
        .map(|local| LocalStatus {
            addr: local.address.addr,
            interface: local.interface.clone(),
            mtu: local.address.mtu.into(),
            scope: scope(local.address.addr.ip()).map_or("open", LocalScope::name).to_owned(),
        })
        .collect()
}

fn path_status(core: &Core, id: AssociationId, path: &engine::PathStatus) -> PathStatus {
    let interface = core.locals.interface(path.addr.local.ip());
    let used_up = core.budgets.used_up(interface).is_some();
    let idle = path.idle.map(|reason| {
        let restrained = matches!(reason, IdleReason::Metered | IdleReason::Disabled);
        let kept = matches!(reason, IdleReason::Disabled | IdleReason::Backup);
        match () {
            () if kept && is_kept_off(core, id, path) => control::IdleReason::Excluded,
            () if used_up && restrained => control::IdleReason::Budget,
            () => idle_reason(reason),
        }
    });
    PathStatus {
        id: path.id.0,
        local: path.addr.local,
        remote: path.addr.remote,
        interface: interface.to_owned(),
        carrier: crate::locals::carriers::of_path(core, &path.addr)
            .map(|carrier| carrier.to_string()),
        state: path_state_name(path.state).to_owned(),
        primary: path.primary,
        round_trip: RoundTripStatus {
            srtt_us: path.srtt.map(micros),
            rto_us: micros(path.rto),
            hold_up_us: path.rtt_spread.hold_up.map(micros),
        },
        cwnd_bytes: path.cwnd.into(),
        ssthresh_bytes: path.ssthresh.into(),
        in_flight_bytes: path.in_flight as u64,
        mtu: path.mtu,
        packets_sent: path.packets_sent,
        bytes_sent: path.bytes_sent,
        packets_received: path.packets_received,
        bytes_received: path.bytes_received,
        fast_retransmits: path.fast_retransmits,
        timeouts: path.timeouts,
        probes: path.probes,
        spurious_probes: path.spurious_probes,
        suspicions: path.suspicions,
        spurious_suspicions: path.spurious_suspicions,
        tail_probes: path.tail_probes,
        spurious_retransmits: path.spurious_retransmits,
        ecn: path.ecn.name().to_owned(),
        ce_received: path.ce_received,
        ecne_received: path.ecne_received,
        ecn_reductions: path.ecn_reductions,
        error_count: path.error_count,
        policy: policy(path.policy),
        peer_policy: policy(path.peer_policy),
        since_data_sent_ms: path.since_data_sent.map(millis),
        since_data_received_ms: path.since_data_received.map(millis),
        idle: idle.map(|reason| reason.text(path.error_count)),
        idle_reason: idle,
    }
}

fn flow_status(status: &flow::FlowStatus, pending: u64) -> FlowStatus {
    FlowStatus {
        stream: status.stream,
        generation: status.generation,
        initiated: status.opened_here,
        state: flow_state_name(status.state).to_owned(),
        destination: status.destination,
        source: status.source,
        client: None,
        bytes_in: status.bytes_in,
        bytes_out: status.bytes_out,
        waiting_in_bytes: status.buffered.max(pending),
        waiting_out_bytes: status.queued as u64,
        credit_bytes: status.send_credit,
        class: if status.share.urgent { Class::Interactive } else { Class::Bulk }.name().to_owned(),
        weight: status.share.weight,
        redundant: false,
        beyond: None,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

const fn state_name(state: AssociationState) -> &'static str {
    match state {
        AssociationState::CookieWait => "cookie-wait",
        AssociationState::CookieEchoed => "cookie-echoed",
        AssociationState::Established => "established",
        AssociationState::ShutdownPending => "shutdown-pending",
        AssociationState::ShutdownSent => "shutdown-sent",
        AssociationState::ShutdownReceived => "shutdown-received",
        AssociationState::ShutdownAckSent => "shutdown-ack-sent",
    }
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

const fn flow_state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::Opening => "opening",
        FlowState::Incoming => "incoming",
        FlowState::Open => "open",
        FlowState::HalfClosedLocal => "half-closed-local",
        FlowState::HalfClosedRemote => "half-closed-remote",
        FlowState::Closing => "closing",
    }
}
