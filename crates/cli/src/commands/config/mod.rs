//! `manypath config`: settings by name, in force at once, and the files of the configuration.

mod page;

pub(crate) use page::write_page;

use super::rules::{Applied, failure, print_json, reload_stacks};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use manypath_daemon::{KNOBS, Knob, SettingsError, SettingsFile, StackConfig};
use manypath_rules::paths::PathsFile;
use manypath_rules::{Chain, Policy, RulesFile, Sources};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Show and change settings, and show where the configuration comes from.
///
/// ~/.config/manypath/config.toml and /etc/manypath/config.toml add up; see manypath-config(5).
/// Changes apply immediately; associations that exist keep the values they began with.
/// default_local_enable and default_remote_enable (1 or 0) are the defaults of the chains of
/// `manypath rules`. Command line options of a stack take precedence over settings.
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
        /// Show the file and line of each setting, rule and path policy.
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
        after_help = "Example:\n  sudoedit /etc/manypath/config.toml && sudo manypath config reload"
    )]
    Reload,
    /// Show the files of the configuration, those that take precedence first.
    #[command(after_help = "Example:\n  manypath config file")]
    File,
    /// Move the files of manypath 0.2 (rules, sysctl.conf, paths) into config.toml.
    ///
    /// As root the files of the host, otherwise your own. The old ones stay as rules.old,
    /// sysctl.old and paths.old, which manypath does not read.
    #[command(after_help = "Example:\n  sudo manypath config migrate\n  manypath config migrate")]
    Migrate,
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
    /// The file that sets it, and the line.
    origin: Option<Origin>,
    help: &'static str,
}

#[derive(Serialize)]
struct Report {
    settings: BTreeMap<&'static str, Setting>,
    /// Rules, services among them, and path policies; with `show --origin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Lines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Applied>,
}

/// A place in a file.
#[derive(Serialize)]
struct Origin {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// What is not a setting.
#[derive(Serialize)]
struct Lines {
    rules: Vec<Line>,
    path_policies: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    origin: Origin,
}

/// The files of each part, those that take precedence first, and the one that changes are written to.
#[derive(Serialize)]
struct Files {
    name: &'static str,
    read: Vec<PathBuf>,
    written: PathBuf,
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
        Some(ConfigAction::Migrate) => migrate(args.json),
    }
}

/// The same by its former name.
pub(crate) fn sysctl(args: &SysctlArgs) -> Result<u8, Failure> {
    if args.reset && args.settings.is_empty() {
        return Err(Failure::usage("--reset: name the settings (`manypath config` lists them)"));
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

/// Says that files in the old format are read. Those that a variable names are not meant.
pub(crate) fn note_outdated(sources: &Sources) {
    for path in sources.outdated() {
        eprintln!(
            "manypath: {} is in the format of manypath 0.2: `manypath config migrate` moves it into \
             config.toml",
            path.display()
        );
    }
}

/// The files that are read, and the one that changes are written to.
fn files(json: bool) -> Result<u8, Failure> {
    let of = |name, sources: &Sources| Files {
        name,
        read: sources.existing(),
        written: sources.written().to_owned(),
    };
    let files = [
        of("settings", SettingsFile::usual().sources()),
        of("rules", RulesFile::usual().sources()),
        of("path policies", PathsFile::usual().sources()),
    ];
    if json {
        return print_json(&files);
    }
    for Files { name, read, written } in &files {
        let read: Vec<_> = read.iter().map(|path| path.display().to_string()).collect();
        match read.as_slice() {
            [] => println!("{name:<14} {}  (not there yet)", written.display()),
            read => println!("{name:<14} {}", read.join(", then ")),
        }
    }
    Ok(0)
}

/// Moves old files, and has running stacks read the new one.
fn migrate(json: bool) -> Result<u8, Failure> {
    // A stack would not take what is wrong in the old ones either.
    super::stack::check_files(&RulesFile::usual())?;
    let migration = manypath_rules::migrate()
        .map_err(|e| Failure::new(format!("{}: {}", e.path.display(), e.error)))?;
    let stacks = reload_stacks();
    if json {
        return print_json(&Migrated {
            config: &migration.config,
            moved: migration.moved.iter().map(|(from, _)| from.as_path()).collect(),
            stacks: &stacks,
        });
    }
    for (from, kept) in &migration.moved {
        let config = migration.config.display();
        println!("{} is part of {config} now (the old file is {})", from.display(), kept.display());
    }
    match migration.moved.is_empty() {
        true => println!("no files to move"),
        false => println!("{stacks}"),
    }
    Ok(0)
}

#[derive(Serialize)]
struct Migrated<'a> {
    config: &'a Path,
    moved: Vec<&'a Path>,
    stacks: &'a Applied,
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
    note_outdated(SettingsFile::usual().sources());
    let mut settings = all()?;
    settings.retain(|name, _| wanted.is_empty() || wanted.iter().any(|(known, _)| known == name));
    let lines = if origin { Some(lines()?) } else { None };
    if json {
        return print_json(&Report { settings, lines, stacks });
    }
    let mut text = String::new();
    for (name, setting) in &settings {
        let from = match &setting.origin {
            Some(place) if origin => format!("  ({place})"),
            None if origin => "  (default)".to_owned(),
            _ => String::new(),
        };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{name} = {}{from}", setting.value);
    }
    let lines = lines.into_iter().flat_map(|it| it.rules.into_iter().chain(it.path_policies));
    for line in lines {
        let _ = writeln!(text, "{}  ({})", line.text, line.origin);
    }
    if let Some(stacks) = stacks {
        let _ = writeln!(text, "{stacks}");
    }
    super::print(text.as_bytes())
}

/// Rules and path policies, with their places.
fn lines() -> Result<Lines, Failure> {
    let line = |(file, line, text): (&Path, usize, &str)| Line {
        text: text.to_owned(),
        origin: Origin { file: file.to_owned(), line: Some(line) },
    };
    let rules = RulesFile::usual().read().map_err(failure)?;
    let paths = PathsFile::usual().document().map_err(failure)?;
    Ok(Lines {
        rules: rules.origins().map(line).collect(),
        path_policies: paths.origins().map(line).collect(),
    })
}

fn all() -> Result<BTreeMap<&'static str, Setting>, Failure> {
    let document = RulesFile::usual().read().map_err(failure)?;
    let (table, initial) = (document.table(), manypath_rules::Table::default());
    let chains = CHAINS.iter().map(|(name, chain, help)| {
        let value = number_of(table.default_policy(*chain)).to_owned();
        let default = number_of(initial.default_policy(*chain)).to_owned();
        let origin = document.default_origin(*chain);
        let origin = origin.map(|file| Origin { file: file.to_owned(), line: None });
        (*name, Setting { value, default, origin, help })
    });
    let said = SettingsFile::usual().read().map_err(settings_failure)?;
    let config = StackConfig::default();
    let knobs = KNOBS.iter().map(|knob| {
        let default = knob.get(&config);
        let set = said.iter().find(|said| said.name == knob.name);
        let origin =
            set.map(|said| Origin { file: said.origin.0.clone(), line: Some(said.origin.1) });
        let value = knob.show(set.map_or(default, |said| said.value));
        let default = knob.show(default);
        (knob.name, Setting { value, default, origin, help: knob.help })
    });
    Ok(chains.chain(knobs).collect())
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file.display()),
            None => self.file.display().fmt(f),
        }
    }
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
