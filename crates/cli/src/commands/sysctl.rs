//! `manypath sysctl`: settings by name, kept in a file, in force at once.

use super::rules::{Applied, failure, print_json, reload_stacks};
use crate::failure::Failure;
use clap::Args;
use manypath_daemon::{KNOBS, Knob, SettingsError, SettingsFile, StackConfig};
use manypath_rules::{Chain, Policy, RulesFile};
use serde::Serialize;
use std::collections::BTreeMap;

/// Show and change settings.
///
/// NAME shows a setting, NAME=VALUE changes it. Changes apply immediately; associations that exist
/// keep the values they began with. default_local_enable and default_remote_enable (1 or 0) are the
/// defaults of the chains of `manypath rules`. Command line options of a stack take precedence over
/// settings. Kept in $MANYPATH_SYSCTL, ~/.config/manypath/sysctl.conf or /etc/manypath/sysctl.conf.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath sysctl\n  manypath sysctl init_rtx_max=3 log_level=info\n  manypath sysctl --reset init_rtx_max"
)]
pub(crate) struct SysctlArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Reset these settings to their defaults.
    #[arg(long)]
    reset: bool,
    /// NAME or NAME=VALUE (default: show all settings).
    #[arg(value_name = "NAME[=VALUE]")]
    settings: Vec<String>,
}

#[derive(Serialize)]
struct Setting {
    value: String,
    default: String,
    help: &'static str,
}

#[derive(Serialize)]
struct Report {
    settings: BTreeMap<&'static str, Setting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Applied>,
}

/// The two settings that are the rules table's.
const CHAINS: [(&str, Chain, &str); 2] = [
    (
        "default_local_enable",
        Chain::Local,
        "1: services of this host are open to peers unless a rule disables them",
    ),
    (
        "default_remote_enable",
        Chain::Remote,
        "1: connections are carried over SCTP unless a rule disables that",
    ),
];

/// Changes what is asked for, then shows what was named.
pub(crate) fn sysctl(args: &SysctlArgs) -> Result<u8, Failure> {
    let wanted: Vec<(&str, Option<&str>)> = args
        .settings
        .iter()
        .map(|text| text.split_once('=').map_or((text.as_str(), None), |(n, v)| (n, Some(v))))
        .map(|(name, value)| (name.trim(), value.map(str::trim)))
        .collect();
    // All are looked at before one is changed.
    wanted.iter().try_for_each(|(name, value)| check(name, *value))?;
    if args.reset && wanted.is_empty() {
        return Err(Failure::usage("--reset: which settings? (`manypath sysctl` lists them)"));
    }
    let changes = wanted.iter().filter(|(_, value)| args.reset || value.is_some());
    let changes: Vec<_> =
        changes.map(|(name, value)| (*name, value.filter(|_| !args.reset))).collect();
    change(&changes)?;
    let stacks = (!changes.is_empty()).then(reload_stacks);
    show(&wanted, stacks, args.json)
}

fn check(name: &str, value: Option<&str>) -> Result<(), Failure> {
    if CHAINS.iter().any(|(known, _, _)| *known == name) {
        return match value {
            None | Some("0" | "1") => Ok(()),
            Some(value) => Err(Failure::usage(format!("{name} = {value}: 0 or 1"))),
        };
    }
    let Some(knob) = Knob::by_name(name) else {
        return Err(Failure::usage(format!("unknown setting \"{name}\""))
            .hint("`manypath sysctl` lists them"));
    };
    value.map_or(Ok(()), |value| knob.parse(value).map(drop).map_err(Failure::usage))
}

/// The knobs first and together, as they may be refused; no value resets.
fn change(changes: &[(&str, Option<&str>)]) -> Result<(), Failure> {
    let mut knobs = Vec::new();
    for (name, value) in changes {
        let Some(knob) = Knob::by_name(name) else { continue };
        let value = value.map(|value| knob.parse(value)).transpose().map_err(Failure::usage)?;
        knobs.push((knob, value));
    }
    if !knobs.is_empty() {
        SettingsFile::usual().set(&knobs).map_err(settings_failure)?;
    }
    changes.iter().try_for_each(|(name, value)| change_chain(name, *value))
}

/// Changes a default of the rules table, if it is one that is named.
fn change_chain(name: &str, value: Option<&str>) -> Result<(), Failure> {
    let Some((_, chain, _)) = CHAINS.iter().find(|(known, _, _)| *known == name) else {
        return Ok(());
    };
    let initial = manypath_rules::Table::default().default_policy(*chain);
    let policy = value.map_or(initial, policy_of);
    let set = RulesFile::usual().edit(|document| {
        document.set_default(*chain, policy);
        Ok(())
    });
    set.map_err(failure)
}

fn show(
    wanted: &[(&str, Option<&str>)],
    stacks: Option<Applied>,
    json: bool,
) -> Result<u8, Failure> {
    let mut settings = all()?;
    settings.retain(|name, _| wanted.is_empty() || wanted.iter().any(|(known, _)| known == name));
    if json {
        return print_json(&Report { settings, stacks });
    }
    for (name, setting) in &settings {
        println!("{name} = {}", setting.value);
    }
    if let Some(stacks) = stacks {
        println!("{stacks}");
    }
    Ok(0)
}

fn all() -> Result<BTreeMap<&'static str, Setting>, Failure> {
    let table = RulesFile::usual().read().map_err(failure)?.table();
    let initial = manypath_rules::Table::default();
    let chains = CHAINS.iter().map(|(name, chain, help)| {
        let value = number_of(table.default_policy(*chain)).to_owned();
        let default = number_of(initial.default_policy(*chain)).to_owned();
        (*name, Setting { value, default, help })
    });
    let said = SettingsFile::usual().read().map_err(settings_failure)?;
    let config = StackConfig::default();
    let knobs = KNOBS.iter().map(|knob| {
        let default = knob.get(&config);
        let value = said.iter().find(|(name, _)| *name == knob.name).map_or(default, |(_, v)| *v);
        let (value, default) = (knob.show(value), knob.show(default));
        (knob.name, Setting { value, default, help: knob.help })
    });
    Ok(chains.chain(knobs).collect())
}

/// What is wrong with the settings.
pub(crate) fn settings_failure(error: SettingsError) -> Failure {
    Failure::new(error.to_string())
}

fn policy_of(value: &str) -> Policy {
    if value == "1" { Policy::Enable } else { Policy::Disable }
}

fn number_of(policy: Policy) -> &'static str {
    match policy {
        Policy::Enable => "1",
        Policy::Disable => "0",
    }
}
