//! The figures and their names.

use super::ledger::{Labels, Ledger, Owner};
use manypath_control::status::{PathStatus, StackStatus};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A figure of a path that only grows: its name, what it is, how to read it.
type PathCounter = (&'static str, &'static str, fn(&PathStatus) -> u64);
/// One that goes up and down, with its unit, and what stands for several associations between the same addresses.
type PathGauge = (&'static str, &'static str, Unit, fn(&PathStatus) -> f64, fn(f64, f64) -> f64);
type Sums = BTreeMap<Labels, f64>;

/// Microseconds as seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn add(a: f64, b: f64) -> f64 {
    a + b
}

const OTHER_COUNTERS: [(&str, &str); 3] = [
    ("fallbacks", "Connections by plain TCP, by reason"),
    ("events", "Everything else that is counted, by name"),
    ("listener_accepted", "Connections that programs have accepted"),
];
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
        (
            "path_srtt",
            "Smoothed round-trip time, the longest",
            Unit::Seconds,
            |p| p.round_trip.srtt_us.map_or(f64::NAN, seconds),
            f64::max,
        ),
        (
            "path_rto",
            "Retransmission timeout, the longest",
            Unit::Seconds,
            |p| seconds(p.round_trip.rto_us),
            f64::max,
        ),
        ("path_cwnd", "Congestion windows", Unit::Bytes, |p| p.cwnd_bytes as f64, add),
        ("path_in_flight", "Bytes in flight", Unit::Bytes, |p| p.in_flight_bytes as f64, add),
        ("path_mtu", "Largest IP packet", Unit::Bytes, |p| f64::from(p.mtu), f64::min),
        (
            "path_errors",
            "Losses in a row, the most",
            other("losses"),
            |p| f64::from(p.error_count),
            f64::max,
        ),
    ]
}

/// Every figure of `stacks`, in the text format of OpenMetrics. Series are named by what lasts (interfaces, addresses, reasons):
/// with the numbers of processes and associations in them each run of a program would be more series for ever.
///
/// # Errors
/// Never for text that goes to memory.
pub(super) fn encode(
    ledger: &mut Ledger,
    stacks: &[StackStatus],
) -> Result<String, std::fmt::Error> {
    record(ledger, stacks);
    let mut registry = Registry::with_prefix("manypath");
    stack_figures(&mut registry, stacks);
    association_figures(&mut registry, stacks);
    path_figures(&mut registry, stacks);
    let paths = PATH_COUNTERS.map(|(name, help, _)| (name, help));
    for (name, help) in paths.into_iter().chain(OTHER_COUNTERS) {
        let family = Counters::default();
        registry.register(name, help, family.clone());
        for (labels, value) in ledger.family(name) {
            family.get_or_create(labels).inc_by(value);
        }
    }
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn with(mut labels: Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    labels.extend(more);
    labels
}

fn gauges(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Gauges {
    let family = Gauges::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

fn of_stack(stack: &StackStatus) -> Labels {
    let role = if stack.accepting { "server" } else { "client" };
    vec![("role", role.to_owned())]
}

fn stack_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let (mut running, mut oldest, mut memory) = (Sums::new(), Sums::new(), Sums::new());
    for stack in stacks {
        let of = of_stack(stack);
        let version = with(of.clone(), [("version", stack.version.clone())]);
        *running.entry(version).or_default() += f64::from(u8::from(stack.loop_index == 0));
        let uptime = oldest.entry(of.clone()).or_default();
        *uptime = stack.uptime_ms.max((*uptime * 1e3) as u64) as f64 / 1e3;
        let kinds = [
            ("limit", stack.receive_memory.limit_bytes),
            ("promised", stack.receive_memory.promised_bytes),
        ];
        for (kind, bytes) in kinds {
            let labels = with(of.clone(), [("kind", kind.to_owned())]);
            *memory.entry(labels).or_default() += bytes as f64;
        }
    }
    let text = "Memory for what programs have not taken";
    set(&gauges(registry, "stacks", "Stacks that run", None), running);
    let since = "Since the oldest of the stacks has begun";
    set(&gauges(registry, "stack_uptime", since, Some(Unit::Seconds)), oldest);
    set(&gauges(registry, "receive_memory", text, Some(Unit::Bytes)), memory);
}

fn association_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let (mut associations, mut flows, mut waiting) = (Sums::new(), Sums::new(), Sums::new());
    for stack in stacks {
        for association in &stack.associations {
            let kind = [("state", association.state.clone()), ("form", association.form.clone())];
            *associations.entry(with(of_stack(stack), kind)).or_default() += 1.0;
            *waiting.entry(of_stack(stack)).or_default() += association.unsent_bytes as f64;
            for flow in &association.flows {
                let kind = [("state", flow.state.clone()), ("class", flow.class.clone())];
                *flows.entry(with(of_stack(stack), kind)).or_default() += 1.0;
            }
        }
    }
    let help = "Associations, by state and form";
    set(&gauges(registry, "associations", help, None), associations);
    set(&gauges(registry, "connections", "Connections that are carried, by state", None), flows);
    set(&gauges(registry, "unsent", "Bytes that wait to be sent", Some(Unit::Bytes)), waiting);
}

fn set(family: &Gauges, values: Sums) {
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
}

fn path_figures(registry: &mut Registry, stacks: &[StackStatus]) {
    let mut states = Sums::new();
    for (_, labels, path) in each_path(stacks) {
        let more = [("state", path.state.clone()), ("idle", idle(path))];
        *states.entry(with(labels, more)).or_default() += 1.0;
    }
    set(&gauges(registry, "paths", "Paths, by state and by why they are idle", None), states);
    for (name, help, unit, value, together) in path_gauges() {
        let mut values = Sums::new();
        for (_, labels, path) in each_path(stacks) {
            let value = value(path);
            let so_far = values.entry(labels).or_insert(f64::NAN);
            *so_far = if so_far.is_nan() { value } else { together(*so_far, value) };
        }
        set(&gauges(registry, name, help, Some(unit)), values);
    }
}

/// The name of the reason, as in the JSON of the status: texts for people have numbers in them, and each
/// would be another series.
fn idle(path: &PathStatus) -> String {
    let name = path.idle_reason.and_then(|reason| serde_json::to_value(reason).ok());
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn each_path(stacks: &[StackStatus]) -> impl Iterator<Item = (Owner, Labels, &PathStatus)> {
    let associations = stacks
        .iter()
        .flat_map(|stack| stack.associations.iter().map(move |association| (stack, association)));
    associations.flat_map(|(stack, association)| {
        association.paths.iter().map(move |path| {
            let names = vec![
                ("interface", path.interface.clone()),
                ("local", path.local.ip().to_string()),
                ("remote", path.remote.ip().to_string()),
            ];
            ((stack.pid, association.id, u64::from(path.id) + 1), names, path)
        })
    })
}

/// Everything that was counted: on paths, with a reason, by listeners.
fn record(ledger: &mut Ledger, stacks: &[StackStatus]) {
    for (owner, labels, path) in each_path(stacks) {
        for (name, _, value) in PATH_COUNTERS {
            ledger.record(owner, name, labels.clone(), value(path));
        }
    }
    for stack in stacks {
        let owner = (stack.pid, 0, u64::from(stack.loop_index));
        for (reason, count) in &stack.fallbacks {
            let labels = vec![("reason", reason.name().to_owned())];
            ledger.record(owner, "fallbacks", labels, *count);
        }
        for (name, count) in &stack.counters {
            ledger.record(owner, "events", vec![("name", name.clone())], *count);
        }
        for listener in &stack.listeners {
            for (transport, count) in [("sctp", listener.sctp), ("tcp", listener.plain)] {
                let labels = vec![
                    ("listener", listener.addr.to_string()),
                    ("program", listener.program.clone()),
                    ("transport", transport.to_owned()),
                ];
                ledger.record(owner, "listener_accepted", labels, count);
            }
        }
    }
    ledger.close();
}
