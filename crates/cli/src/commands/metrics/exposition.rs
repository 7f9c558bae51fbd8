//! The figures and their names.

use manypath_control::status::{PathStatus, StackStatus};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A figure of a path that only grows: its name, what it is, how to read it.
type PathCounter = (&'static str, &'static str, fn(&PathStatus) -> u64);
/// One that goes up and down, with its unit.
type PathGauge = (&'static str, &'static str, Unit, fn(&PathStatus) -> f64);

/// Microseconds as seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

const PATH_COUNTERS: [PathCounter; 10] = [
    ("path_sent_bytes", "SCTP bytes sent", |p| p.bytes_sent),
    ("path_received_bytes", "SCTP bytes received", |p| p.bytes_received),
    ("path_sent_packets", "SCTP packets sent", |p| p.packets_sent),
    ("path_received_packets", "SCTP packets received", |p| p.packets_received),
    ("path_fast_retransmits", "DATA chunks sent again after a fast retransmit", |p| {
        p.fast_retransmits
    }),
    ("path_timeouts", "Expiries of the retransmission timer", |p| p.timeouts),
    ("path_spurious_retransmits", "DATA chunks sent again although they had arrived", |p| {
        p.spurious_retransmits
    }),
    ("path_suspicions", "Times that the path was taken for failed because of its silence", |p| {
        p.suspicions
    }),
    ("path_ce_received", "Packets with new data that arrived with a congestion mark", |p| {
        p.ce_received
    }),
    ("path_ecn_reductions", "Times that marks have made the congestion window smaller", |p| {
        p.ecn_reductions
    }),
];

fn path_gauges() -> [PathGauge; 6] {
    let other = |unit: &str| Unit::Other(unit.to_owned());
    [
        // A path that was never measured has no round trip: NaN, as Prometheus writes it.
        ("path_srtt", "Smoothed round-trip time", Unit::Seconds, |p| {
            p.srtt_us.map_or(f64::NAN, seconds)
        }),
        ("path_rto", "Retransmission timeout", Unit::Seconds, |p| seconds(p.rto_us)),
        ("path_cwnd", "Congestion window", Unit::Bytes, |p| p.cwnd_bytes as f64),
        ("path_in_flight", "Bytes in flight", Unit::Bytes, |p| p.in_flight_bytes as f64),
        ("path_mtu", "Largest IP packet", Unit::Bytes, |p| f64::from(p.mtu)),
        ("path_errors", "Losses in a row", other("losses"), |p| f64::from(p.error_count)),
    ]
}

/// Every figure of `stacks`, in the text format of OpenMetrics.
///
/// # Errors
/// Never for text that goes to memory.
pub(super) fn encode(stacks: &[StackStatus]) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("manypath");
    stack_figures(&mut registry, stacks);
    association_figures(&mut registry, stacks);
    path_figures(&mut registry, stacks);
    counted(&mut registry, stacks);
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn of_stack(stack: &StackStatus) -> Labels {
    vec![("stack", stack.pid.to_string())]
}

fn with(mut labels: Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    labels.extend(more);
    labels
}

fn counters(registry: &mut Registry, name: &str, help: &str) -> Counters {
    let family = Counters::default();
    registry.register(name, help, family.clone());
    family
}

fn gauges(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Gauges {
    let family = Gauges::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

fn stack_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let info = gauges(registry, "stack", "A stack that runs, and what it is", None);
    let uptime = gauges(registry, "stack_uptime", "Since the stack has begun", Some(Unit::Seconds));
    let memory = gauges(
        registry,
        "receive_memory",
        "Memory for what programs have not taken",
        Some(Unit::Bytes),
    );
    for stack in stacks {
        let role = if stack.accepting { "server" } else { "client" };
        let details = [("version", stack.version.clone()), ("role", role.into())];
        info.get_or_create(&with(of_stack(stack), details)).set(1.0);
        uptime.get_or_create(&of_stack(stack)).set(stack.uptime_ms as f64 / 1e3);
        let kinds = [
            ("limit", stack.receive_memory.limit_bytes),
            ("promised", stack.receive_memory.promised_bytes),
        ];
        for (kind, bytes) in kinds {
            let labels = with(of_stack(stack), [("kind", kind.to_owned())]);
            memory.get_or_create(&labels).set(bytes as f64);
        }
    }
}

fn association_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let associations = gauges(registry, "associations", "Associations, by state and form", None);
    let flows = gauges(registry, "connections", "Connections that are carried, by state", None);
    let waiting = gauges(registry, "unsent", "Bytes that wait to be sent", Some(Unit::Bytes));
    for stack in stacks {
        let mut states: BTreeMap<Labels, u64> = BTreeMap::new();
        for association in &stack.associations {
            let kind = [("state", association.state.clone()), ("form", association.form.clone())];
            *states.entry(with(of_stack(stack), kind)).or_default() += 1;
        }
        set(&associations, states);
        let mut states: BTreeMap<Labels, u64> = BTreeMap::new();
        for flow in stack.associations.iter().flat_map(|association| &association.flows) {
            let kind = [("state", flow.state.clone()), ("class", flow.class.clone())];
            *states.entry(with(of_stack(stack), kind)).or_default() += 1;
        }
        set(&flows, states);
        let unsent: u64 = stack.associations.iter().map(|a| a.unsent_bytes).sum();
        waiting.get_or_create(&of_stack(stack)).set(unsent as f64);
    }
}

fn set(family: &Gauges, values: BTreeMap<Labels, u64>) {
    for (labels, value) in values {
        family.get_or_create(&labels).set(value as f64);
    }
}

fn path_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let state = gauges(registry, "path_state", "1 for the state that the path is in", None);
    each_path(stacks, |labels, path| {
        let more = [("state", path.state.clone()), ("idle", idle(path))];
        state.get_or_create(&with(labels, more)).set(1.0);
    });
    for (name, help, value) in PATH_COUNTERS {
        let family = counters(registry, name, help);
        each_path(stacks, |labels, path| {
            family.get_or_create(&labels).inc_by(value(path));
        });
    }
    for (name, help, unit, value) in path_gauges() {
        let family = gauges(registry, name, help, Some(unit));
        each_path(stacks, |labels, path| {
            family.get_or_create(&labels).set(value(path));
        });
    }
}

/// The name of the reason, as in the JSON of the status: texts for people have numbers in them, and each
/// would be another series.
fn idle(path: &PathStatus) -> String {
    let name = path.idle_reason.and_then(|reason| serde_json::to_value(reason).ok());
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn each_path(stacks: &[StackStatus], mut visit: impl FnMut(Labels, &PathStatus)) {
    for stack in stacks {
        for association in &stack.associations {
            for path in &association.paths {
                let names = [
                    ("association", association.id.to_string()),
                    ("path", path.id.to_string()),
                    ("interface", path.interface.clone()),
                    ("local", path.local.to_string()),
                    ("remote", path.remote.to_string()),
                ];
                visit(with(of_stack(stack), names), path);
            }
        }
    }
}

/// What was counted with a reason, and what listeners have taken.
fn counted(registry: &mut Registry, stacks: &[StackStatus]) {
    let fallbacks = counters(registry, "fallbacks", "Connections by plain TCP, by reason");
    let events = counters(registry, "events", "Everything else that is counted, by name");
    let accepted =
        counters(registry, "listener_accepted", "Connections that programs have accepted");
    for stack in stacks {
        for (reason, count) in &stack.fallbacks {
            let labels = with(of_stack(stack), [("reason", reason.name().to_owned())]);
            fallbacks.get_or_create(&labels).inc_by(*count);
        }
        for (name, count) in &stack.counters {
            let labels = with(of_stack(stack), [("name", name.clone())]);
            events.get_or_create(&labels).inc_by(*count);
        }
        for listener in &stack.listeners {
            for (transport, count) in [("sctp", listener.sctp), ("tcp", listener.plain)] {
                let names = [
                    ("listener", listener.addr.to_string()),
                    ("program", listener.program.clone()),
                    ("transport", transport.to_owned()),
                ];
                accepted.get_or_create(&with(of_stack(stack), names)).inc_by(count);
            }
        }
    }
}
