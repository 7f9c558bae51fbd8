//! The engine's parameters by name: everything of [`Config`] that a scenario can set.

use super::document::Node;
use super::error::{ScenarioError, list, nearest};
use super::setting::{Setting, one_of};
use manypath_engine::{Config, Profile};

/// One parameter of the engine.
struct EngineOption {
    name: &'static str,
    set: fn(&mut Config, &Node) -> Result<(), String>,
    show: fn(&Config) -> String,
}

macro_rules! options {
    ($($field:ident $(of $group:ident)?),* $(,)?) => { &[$(EngineOption {
        name: stringify!($field),
        set: |config, node| { config$(.$group)?.$field = Setting::read(node)?; Ok(()) },
        show: |config| config$(.$group)?.$field.show(),
    }),*] };
}

const OPTIONS: &[EngineOption] = options![
    receive_buffer,
    receive_buffer_max,
    send_buffer,
    send_buffer_max,
    rto_initial,
    rto_min,
    rto_max,
    association_max_retransmits,
    data_patience,
    idle_patience,
    path_max_retransmits,
    potentially_failed_retransmits,
    path_suspicion,
    heartbeat_interval,
    failed_path_probe_interval,
    path_mtu,
    plpmtu_order,
    plpmtu_reports,
    plpmtu_min,
    plpmtu_base,
    plpmtu_max_probes,
    plpmtu_probe_timer,
    plpmtu_raise_timer,
    report_undelivered,
    sack_delay,
    sack_frequency,
    sack_frequency_max,
    max_burst,
    burst_limit,
    pacing,
    queue_bound,
    shared_bottleneck,
    hystart,
    ecn,
    loss_recovery,
    handshake_race,
    multipath,
    congestion,
    stream_scheduling,
    stream_mapping,
    path_scheduling of experiment,
    nr_sack,
    buffer_split of experiment,
    interleaving,
    partial_reliability,
    split_fast_retransmit of experiment,
    missing_reports of experiment,
    cwnd_update of experiment,
    fast_recovery of experiment,
    delayed_ack_cmt of experiment,
    smart_t3 of experiment,
    sack_path of experiment,
    immediate_sacks,
    initial_window of experiment,
    slow_start_limit of experiment,
    fast_retransmission_policy of experiment,
    timeout_retransmission_policy of experiment,
    rescheduling_percent of experiment,
];

/// Sets both buffers: the sigma of the papers.
const BUFFER: &str = "buffer";

/// The set of parameters that the others are changes of.
const PROFILE: &str = "profile";

/// The configuration that the table `engine` describes.
pub(super) fn read(node: Option<&Node>) -> Result<Config, ScenarioError> {
    let entries = node.map_or(&[][..], Node::entries);
    let mut config = match entries.iter().find(|(key, _)| key == PROFILE) {
        Some((_, value)) => profile(value)?,
        None => Config::production(),
    };
    for (key, value) in entries.iter().filter(|(key, _)| key != PROFILE) {
        set(&mut config, key, value)
            .map_err(|message| ScenarioError::new(value.at, format!("engine.{key}"), message))?;
    }
    Ok(config)
}

/// Its parameters as columns of a result, whose names begin with `prefix`.
pub(super) fn parameters(config: &Config, prefix: &str, out: &mut Vec<(String, String)>) {
    let Config { send_buffer, receive_buffer, .. } = config;
    let buffer = if send_buffer == receive_buffer { send_buffer.show() } else { String::new() };
    out.push((format!("{prefix}engine.{BUFFER}"), buffer));
    let option = |o: &EngineOption| (format!("{prefix}engine.{}", o.name), (o.show)(config));
    out.extend(OPTIONS.iter().map(option));
}

fn profile(value: &Node) -> Result<Config, ScenarioError> {
    let profiles = Profile::ALL.iter().map(|profile| (profile.name(), *profile));
    let chosen = one_of(value, &profiles.collect::<Vec<_>>());
    let wrong = |message| ScenarioError::new(value.at, format!("engine.{PROFILE}"), message);
    chosen.map(Profile::config).map_err(wrong)
}

fn set(config: &mut Config, key: &str, value: &Node) -> Result<(), String> {
    if key == BUFFER {
        config.send_buffer = u32::read(value)?;
        config.receive_buffer = config.send_buffer;
        return Ok(());
    }
    match OPTIONS.iter().find(|option| option.name == key) {
        Some(option) => (option.set)(config, value),
        None => Err(unknown(key)),
    }
}

fn unknown(key: &str) -> String {
    let mut names: Vec<_> = OPTIONS.iter().map(|option| option.name).collect();
    names.extend([BUFFER, PROFILE]);
    let meant = nearest(key, &names)
        .map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"));
    format!("the engine has no such option{meant}; allowed are {}", list(&names))
}
