//! The snapshot that `manypath status` shows.

use super::{Stack, confinement};
use crate::base::protection::{profile_lacks, why_withheld};
use crate::base::{Association, FlowUse};
use crate::carriers;
use crate::core::Core;
use crate::scopes::LocalScope;
use crate::services::Dial;
use crate::status::{all_counters, idle_reason, path_state_name, policy};
use manypath_control::status::{
    AssociationStatus, EngineLoops, FlowStatus, LocalStatus, MemoryStatus, PathStatus,
    RelayingStatus, RoundTripStatus, StackStatus,
};
use manypath_control::{path as control, runtime};
use manypath_engine::{
    self as engine, AssociationId, AssociationState, Duration, IdleReason, Instant,
};
use manypath_flow::{self as flow, FlowState};
use manypath_rules::{Class, Form, Options};
use std::net::SocketAddr;

impl Stack {
    /// The stack as it stands.
    pub fn status(&self) -> StackStatus {
        let core = &self.base.core;
        let associations = self.base.iter().filter_map(|(id, it)| self.association_status(*id, it));
        let moved: Vec<_> = self.datagrams.moved_onward().collect();
        StackStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            loop_index: u32::try_from(core.config.loop_index()).unwrap_or(u32::MAX),
            engine_loops: EngineLoops {
                loops: u32::try_from(core.config.loops()).unwrap_or(u32::MAX),
                loops_reason: core.config.process.loops_reason.clone(),
            },
            network_namespace: runtime::network_namespace().unwrap_or_default(),
            uptime_ms: core.age(Instant::ZERO),
            accepting: core.config.accept,
            draining: !core.phase.takes_work(),
            udp_port: core.locals.udp_port(),
            privileged_port: core.locals.second_port,
            allow: match self.clients.doors.label() {
                Some(label) => vec![label.to_owned()],
                None => core.open_services(),
            },
            listeners: self.services.listeners.status(|one| core.rules.may_offer(one.addr)),
            locals: local_statuses(core),
            budgets: core.budgets.status(),
            quotas: match core.config.loop_index() {
                0 => core.quotas.status(|quota| {
                    let relay = core.config.relay.as_ref();
                    let of_relay = relay.is_some_and(|relay| relay.quota == Some(quota));
                    of_relay || core.rules.gives(quota)
                }),
                // The first one tells what all have counted.
                _ => Vec::new(),
            },
            associations: associations.collect(),
            receive_memory: MemoryStatus {
                limit_bytes: self.base.memory().limit(),
                promised_bytes: self.base.memory().promised(),
            },
            identity: self.base.keys.identity_status(core.now),
            sandbox: confinement::status(self.confinement.as_ref()),
            relaying: RelayingStatus {
                relayed_peers: self.services.onward.statuses(&self.relays, &moved),
                searches: self.datagrams.rendezvous.searches(),
            },
            door_hosts: self.clients.doors.host_statuses(core, &self.relays),
            peers: self.attempts.peers.status(core.now),
            fallbacks: core.counters.fallbacks().clone(),
            counters: all_counters(&self.base),
        }
    }

    fn association_status(
        &self,
        id: AssociationId,
        association: &Association,
    ) -> Option<AssociationStatus> {
        let core = &self.base.core;
        let status = core.status_of(id)?;
        Some(AssociationStatus {
            id: id.0,
            initiated: association.is_ours(),
            form: if association.mux.is_direct() { Form::Direct } else { Form::Mux }
                .name()
                .to_owned(),
            profile: profile_name(association),
            profile_lacks: profile_lacks(&self.base, id).map(str::to_owned),
            congestion: status.congestion.map(|it| it.name().to_owned()).unwrap_or_default(),
            path_limits: core.path_policies.limits_of(id).map(|limits| limits.to_string()),
            state: state_name(status.state).to_owned(),
            age_ms: core.age(association.begun),
            unsent_bytes: status.unsent as u64,
            outstanding_bytes: status.outstanding as u64,
            peer_rwnd_bytes: status.peer_rwnd.into(),
            receive_queued_bytes: status.receive_queued as u64,
            encryption: self.base.keys.status(core.driver.endpoint(), id),
            withheld_addresses: why_withheld(&self.base, id),
            paths: status.paths.iter().map(|path| path_status(core, id, path)).collect(),
            flows: self.flow_statuses(association),
            datagrams: self.datagrams.statuses(association),
        })
    }

    fn flow_statuses(&self, association: &Association) -> Vec<FlowStatus> {
        let flows = association.flows.iter();
        flows
            .filter_map(|(id, used)| {
                let status = association.mux.status(*id)?;
                let (client, options, pending) = self.user_of(*used);
                let redundant = options.is_some_and(|options| options.redundant == Some(true));
                let flow = flow_status(&status, pending);
                let beyond = association.mux.beyond(*id).map(|it| it.destination.to_string());
                Some(FlowStatus { client, redundant, beyond, ..flow })
            })
            .collect()
    }

    /// Whom a flow stands for, its options, and how many bytes wait for its socket.
    fn user_of(&self, used: FlowUse) -> (Option<SocketAddr>, Option<Options>, u64) {
        match used {
            FlowUse::Relay(id) => {
                let relay = self.relays.get(&id);
                let pending = relay.map_or(0, |relay| relay.pending() as u64);
                (self.relays.client_of(id), relay.map(|relay| relay.options), pending)
            }
            FlowUse::Dial(id) => {
                let dial = self.services.dial_of(&id);
                (dial.map(Dial::client), dial.map(|dial| dial.options), 0)
            }
            FlowUse::Attempt(id) => (None, self.attempts.get(&id).map(|one| one.options), 0),
            FlowUse::Caller(_) | FlowUse::Closing => (None, None, 0),
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
            () if kept && core.path_policies.keep_off(&core.locals, id, path) => {
                control::IdleReason::Excluded
            }
            () if used_up && restrained => control::IdleReason::Budget,
            () => idle_reason(reason),
        }
    });
    PathStatus {
        id: path.id.0,
        local: path.addr.local,
        remote: path.addr.remote,
        interface: interface.to_owned(),
        carrier: carriers::of_path(core, &path.addr).map(|carrier| carrier.to_string()),
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
