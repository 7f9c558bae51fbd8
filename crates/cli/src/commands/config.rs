//! `manypath config`: settings by name, kept in a file, in force at once.

use super::rules::{Applied, failure, print_json, reload_stacks};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use manypath_daemon::{KNOBS, Knob, SettingsError, SettingsFile, StackConfig};
use manypath_rules::paths::PathsFile;
use manypath_rules::{Chain, KeptFile, Policy, RulesFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Show and change settings.
///
/// Changes apply immediately; associations that exist keep the values they began with.
/// default_local_enable and default_remote_enable (1 or 0) are the defaults of the chains of
/// `manypath rules`. Command line options of a stack take precedence over settings. Kept in
/// $MANYPATH_SYSCTL, ~/.config/manypath/sysctl.conf or /etc/manypath/sysctl.conf.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath config\n  manypath config set init_rtx_max=3 log_level=info\n  manypath config reset init_rtx_max"
)]
pub(crate) struct ConfigArgs {
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Option<ConfigAction>,
}

#[derive(Subcommand, Debug)]
enum ConfigAction {
    /// Show all settings (the default).
    #[command(after_help = "Example:\n  manypath config show --origin")]
    Show {
        /// Show where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Show single settings.
    #[command(after_help = "Example:\n  manypath config get step_aside")]
    Get {
        /// Settings.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Change settings.
    #[command(after_help = "Example:\n  manypath config set init_rtx_max=3 log_level=info")]
    Set {
        /// Settings and their values.
        #[arg(required = true, value_name = "NAME=VALUE")]
        settings: Vec<String>,
    },
    /// Reset settings to their defaults.
    #[command(after_help = "Example:\n  manypath config reset init_rtx_max")]
    Reset {
        /// Settings.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Make running stacks read settings, rules and path policies again.
    ///
    /// Only needed after editing the files by hand: commands apply changes immediately. A stack
    /// keeps its present settings and rules if a file is wrong, and says why. Existing connections
    /// continue.
    #[command(
        after_help = "Example:\n  sudoedit /etc/manypath/rules && sudo manypath config reload"
    )]
    Reload,
    /// Show the files in which settings, rules and path policies are kept.
    #[command(after_help = "Example:\n  manypath config file")]
    File,
}

/// `sysctl` as it was called until 0.2.
#[derive(Args, Debug)]
pub(crate) struct SysctlArgs {
    #[arg(long)]
    json: bool,
    #[arg(long)]
    reset: bool,
    #[arg(value_name = "NAME[=VALUE]")]
    settings: Vec<String>,
}

/// `reload` as it was called until 0.2.
#[derive(Args, Debug)]
pub(crate) struct ReloadArgs {
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Setting {
    value: String,
    default: String,
    /// The file that sets it.
    origin: Option<PathBuf>,
    help: &'static str,
}

#[derive(Serialize)]
struct Report {
    settings: BTreeMap<&'static str, Setting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Applied>,
}

/// The files in which things are kept.
#[derive(Serialize)]
struct Files {
    settings: PathBuf,
    rules: PathBuf,
    path_policies: PathBuf,
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

/// Shows or changes what is asked for.
pub(crate) fn config(args: &ConfigArgs) -> Result<u8, Failure> {
    match &args.action {
        None => show(&[], None, false, args.json),
        Some(ConfigAction::Show { origin }) => show(&[], None, *origin, args.json),
        Some(ConfigAction::Get { names }) => apply(names, false, args.json),
        Some(ConfigAction::Set { settings }) => {
            if let Some(name) = settings.iter().find(|setting| !setting.contains('=')) {
                let message = format!("{name}: write {name}=VALUE");
                return Err(
                    Failure::usage(message).hint(format!("`manypath config get {name}` shows it"))
                );
            }
            apply(settings, false, args.json)
        }
        Some(ConfigAction::Reset { names }) => apply(names, true, args.json),
        Some(ConfigAction::Reload) => reload(&ReloadArgs { json: args.json }),
        Some(ConfigAction::File) => files(args.json),
    }
}

/// The same by its former name.
pub(crate) fn sysctl(args: &SysctlArgs) -> Result<u8, Failure> {
    if args.reset && args.settings.is_empty() {
        return Err(Failure::usage("--reset: which settings? (`manypath config` lists them)"));
    }
    apply(&args.settings, args.reset, args.json)
}

/// Has running stacks read their files; fails when a stack has not taken them.
pub(crate) fn reload(args: &ReloadArgs) -> Result<u8, Failure> {
    let applied = reload_stacks();
    if applied.found_nobody() {
        // The next stack would not begin with a wrong one.
        super::stack::check_files(&RulesFile::usual())?;
    }
    if args.json {
        print_json(&applied)?;
    } else {
        println!("{applied}");
    }
    Ok(u8::from(!applied.is_complete()))
}

/// The files that hold; where there is none yet, the one that would be written.
fn files(json: bool) -> Result<u8, Failure> {
    let of = |file: &KeptFile| file.current().unwrap_or_else(|| file.written()).to_owned();
    let files = Files {
        settings: of(SettingsFile::usual().file()),
        rules: of(RulesFile::usual().file()),
        path_policies: of(PathsFile::usual().file()),
    };
    if json {
        return print_json(&files);
    }
    let named = [
        ("settings", &files.settings),
        ("rules", &files.rules),
        ("path policies", &files.path_policies),
    ];
    for (name, file) in named {
        let note = if file.exists() { "" } else { "  (not there yet)" };
        println!("{name:<14} {}{note}", file.display());
    }
    Ok(0)
}

/// Changes what is asked for, then shows what was named.
fn apply(settings: &[String], reset: bool, json: bool) -> Result<u8, Failure> {
    let wanted: Vec<(&str, Option<&str>)> = settings
        .iter()
        .map(|text| text.split_once('=').map_or((text.as_str(), None), |(n, v)| (n, Some(v))))
        .map(|(name, value)| (name.trim(), value.map(str::trim)))
        .collect();
    // All are looked at before one is changed.
    wanted.iter().try_for_each(|(name, value)| check(name, *value))?;
    let changes = wanted.iter().filter(|(_, value)| reset || value.is_some());
    let changes: Vec<_> = changes.map(|(name, value)| (*name, value.filter(|_| !reset))).collect();
    change(&changes)?;
    let stacks = (!changes.is_empty()).then(reload_stacks);
    show(&wanted, stacks, false, json)
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
            .hint("`manypath config` lists them"));
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
    origin: bool,
    json: bool,
) -> Result<u8, Failure> {
    let mut settings = all()?;
    settings.retain(|name, _| wanted.is_empty() || wanted.iter().any(|(known, _)| known == name));
    if json {
        return print_json(&Report { settings, stacks });
    }
    let mut text = String::new();
    for (name, setting) in &settings {
        let from = match &setting.origin {
            Some(file) if origin => format!("  ({})", file.display()),
            None if origin => "  (default)".to_owned(),
            _ => String::new(),
        };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{name} = {}{from}", setting.value);
    }
    if let Some(stacks) = stacks {
        let _ = writeln!(text, "{stacks}");
    }
    super::print(text.as_bytes())
}

fn all() -> Result<BTreeMap<&'static str, Setting>, Failure> {
    let table = RulesFile::usual().read().map_err(failure)?.table();
    let initial = manypath_rules::Table::default();
    let chains = CHAINS.iter().map(|(name, chain, help)| {
        let value = number_of(table.default_policy(*chain)).to_owned();
        let default = number_of(initial.default_policy(*chain)).to_owned();
        let origin = (value != default).then(|| origin_of(RulesFile::usual().file())).flatten();
        (*name, Setting { value, default, origin, help })
    });
    let said = SettingsFile::usual().read().map_err(settings_failure)?;
    let config = StackConfig::default();
    let knobs = KNOBS.iter().map(|knob| {
        let default = knob.get(&config);
        let set = said.iter().find(|(name, _)| *name == knob.name);
        let origin = set.and_then(|_| origin_of(SettingsFile::usual().file()));
        let (value, default) = (knob.show(set.map_or(default, |(_, v)| *v)), knob.show(default));
        (knob.name, Setting { value, default, origin, help: knob.help })
    });
    Ok(chains.chain(knobs).collect())
}

fn origin_of(file: &KeptFile) -> Option<PathBuf> {
    file.current().map(Path::to_owned)
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
