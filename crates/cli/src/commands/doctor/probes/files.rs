//! What the user's files say about the peer and the paths: rules, settings, policies, and what is remembered.

use super::super::findings::{
    Exclusion, FileFault, Findings, PathFinding, Remembered, RuleFinding, UnencryptedBy, Wish,
};
use manypath_control::runtime;
use manypath_control::status::{FallbackReason, StackStatus};
use manypath_daemon::{PeerCache, Said, SettingsError, SettingsFile};
use manypath_rules::paths::{PathEntry, PathsFile};
use manypath_rules::{
    Decider, Document, Encrypt, FileError, Form, PathLimits, Place, Policy, Protocol, Query, Rule,
    RulesFile, Table,
};
use manypath_trust::IdentitySource;
use std::net::SocketAddr;

/// Reads them.
pub(super) fn look(findings: &mut Findings) {
    let mut limits = None;
    match RulesFile::usual().read() {
        Ok(document) => {
            let table = document.table();
            findings.ruled.rule = rule(&table, findings);
            findings.ruled.unencrypted_by = unencrypted_by(&document, &table, findings);
            limits = path_limits(&table, findings);
        }
        Err(error) => findings.files.push(fault("rules", error)),
    }
    match PathsFile::usual().read() {
        Ok(entries) => {
            for path in &mut findings.paths {
                path.wanted.wish = wish(&entries, path);
                path.wanted.excluded_by =
                    limits.and_then(|limits| exclusion(limits, &entries, path));
            }
        }
        Err(error) => findings.files.push(fault("paths", error)),
    }
    let settings = SettingsFile::usual().read();
    // Stacks that encrypt nothing make no key, so neither does doctor.
    let encrypts = !settings.as_ref().is_ok_and(|all| is_off(all));
    if let Err(error) = settings {
        findings.files.push(settings_fault(error));
    }
    if encrypts && let Err(error) = IdentitySource::Own.load_lasting() {
        let (file, message) = (error.path.clone(), error.message().to_owned());
        findings.files.push(FileFault { kind: "keys", file, line: None, message });
    }
}

/// Whether settings and rules let connections to `destination` be encrypted.
pub(super) fn encrypts(destination: SocketAddr) -> bool {
    let document = RulesFile::usual().read();
    let ruled = document.ok().and_then(|document| {
        let table = document.table();
        let decision = table.decide(Query::remote(Protocol::Tcp, destination));
        decision.options.and_then(|(options, _)| options.encrypt)
    });
    match ruled {
        Some(encrypt) => encrypt != Encrypt::Off,
        None => !SettingsFile::usual().read().is_ok_and(|all| is_off(&all)),
    }
}

/// Whether settings turn encryption off.
fn is_off(settings: &[Said]) -> bool {
    settings.iter().any(|said| said.name == "encrypt" && said.value == Encrypt::Off as u64)
}

/// What is remembered against the peer, here and in running stacks.
pub(super) fn remembered(findings: &mut Findings, stacks: &[StackStatus]) {
    let namespace = runtime::network_namespace().unwrap_or_default();
    let kept = PeerCache::usual().read().unwrap_or_default().into_iter();
    let kept = kept.filter(|one| one.namespace == namespace).filter_map(|one| {
        let remaining_s = one.remaining().as_secs();
        one.reason.map(|reason| Remembered { addr: one.addr, port: one.port, reason, remaining_s })
    });
    let told = stacks.iter().flat_map(|stack| &stack.peers).map(|one| {
        let remaining_s = one.expires_ms / 1000;
        Remembered { addr: one.addr, port: one.port, reason: one.reason, remaining_s }
    });
    let about = |one: &Remembered| {
        let port = one.port.is_none() || one.port == findings.port;
        // Who answers for ports below 1024 is remembered apart.
        let unproven = one.reason == FallbackReason::UnprovenPort;
        let near = one.reason == FallbackReason::NothingToGain;
        let asked = one.port.is_some() || near || unproven == (findings.udp_port < 1024);
        findings.addresses.contains(&one.addr) && port && asked
    };
    let mut found: Vec<Remembered> = Vec::new();
    for one in kept.chain(told).filter(about) {
        if !found.iter().any(|other| (other.addr, other.port) == (one.addr, one.port)) {
            found.push(one);
        }
    }
    findings.remembered = found;
}

/// The rule that keeps the peer's connections off. Without a port those count that are about all of them.
fn rule(table: &Table, findings: &Findings) -> Option<RuleFinding> {
    let address = SocketAddr::new(*findings.addresses.first()?, findings.port.unwrap_or(0));
    let query = Query::remote(Protocol::Tcp, address);
    let explained = table.explain(query);
    (explained.policy == Policy::Disable).then(|| match explained.decider {
        Decider::Default => RuleFinding { place: None, rule: None },
        Decider::Rule(place) => {
            let step = explained.steps.iter().find(|step| step.place == place);
            let place = format!("{} {} {}", place.chain, place.policy, place.number);
            RuleFinding { place: Some(place), rule: step.map(|step| step.rule.clone()) }
        }
    })
}

/// The rule by which connections to the peer are not encrypted.
fn unencrypted_by(
    document: &Document,
    table: &Table,
    findings: &Findings,
) -> Option<UnencryptedBy> {
    let address = SocketAddr::new(*findings.addresses.first()?, findings.port.unwrap_or(0));
    let (options, place) = table.decide(Query::remote(Protocol::Tcp, address)).options?;
    if options.encrypt != Some(Encrypt::Off) {
        return None;
    }
    let (_, rule) = table.list(place.chain, place.policy).nth(place.number - 1)?;
    let (file, line) = document.origin(place)?;
    let (rule, file, cure) = (rule.to_string(), file.into(), encrypting(document, place, rule));
    Some(UnencryptedBy { rule, file, line, cure })
}

/// The command that adds a rule before the one at `place`, which is the same but lets connections be encrypted.
fn encrypting(document: &Document, place: Place, rule: &Rule) -> Option<String> {
    let mut rule = rule.clone();
    rule.options.encrypt = Some(Encrypt::Opportunistic);
    // Native SCTP programs do not encrypt.
    rule.options.form = rule.options.form.filter(|form| *form != Form::Direct);
    let comes_first = |at: &Option<usize>| {
        let added = document.clone().add(rule.clone(), *at);
        added.is_ok_and(|added| added.number <= place.number)
    };
    let at = [Some(place.number), None].into_iter().find(comes_first)?;
    let at = at.map_or(String::new(), |number| format!("--at {number} "));
    Some(format!("manypath rules add {at}{rule}"))
}

/// Which uplinks a rule lets connections to the peer use, and where it stands.
fn path_limits(table: &Table, findings: &Findings) -> Option<(PathLimits, Place)> {
    let address = SocketAddr::new(*findings.addresses.first()?, findings.port.unwrap_or(0));
    let (options, place) = table.decide(Query::remote(Protocol::Tcp, address)).options?;
    Some((options.path_limits(), place)).filter(|(limits, _)| !limits.is_none())
}

/// The rule, if it keeps connections off a path. A budget counts whatever else is wanted.
fn exclusion(
    (limits, place): (PathLimits, Place),
    entries: &[PathEntry],
    path: &PathFinding,
) -> Option<Exclusion> {
    let is_budget = |entry: &PathEntry| {
        entry.wish.budget.is_some() && entry.selector.device.as_ref() == Some(&path.interface)
    };
    let is_metered = entries.iter().any(is_budget)
        || entry(entries, path).is_some_and(|entry| entry.wish.metered.is_some());
    if limits.allow(&path.interface, path.local, is_metered) {
        return None;
    }
    let place = format!("{} {} {}", place.chain, place.policy, place.number);
    Some(Exclusion { place, words: limits.to_string(), strict: limits.is_strict() })
}

fn wish(entries: &[PathEntry], path: &PathFinding) -> Option<Wish> {
    let entry = entry(entries, path)?;
    Some(Wish {
        role: entry.wish.role.name().to_owned(),
        words: entry.wish.to_string(),
        selector: entry.selector.to_string(),
    })
}

/// The line that says what is wanted of a path now: those about single peers hold before others, then the first that
/// fits.
fn entry<'a>(entries: &'a [PathEntry], path: &PathFinding) -> Option<&'a PathEntry> {
    let minute = manypath_net::local_time().minute;
    let fits = |entry: &&PathEntry| {
        let selector = &entry.selector;
        entry.wish.hours.is_none_or(|hours| hours.contain(minute))
            && selector.fits_local(path.local, &path.interface)
            && selector.fits_peer(path.remote.ip())
    };
    let single = entries.iter().filter(|entry| entry.selector.peer.is_some()).find(fits);
    single.or_else(|| entries.iter().find(fits))
}

fn fault(kind: &'static str, error: FileError) -> FileFault {
    match error {
        FileError::Io(file, error) => {
            FileFault { kind, file, line: None, message: error.to_string() }
        }
        FileError::Rule(file, error) => {
            FileFault { kind, file, line: error.line, message: error.message }
        }
        FileError::Edit(error) => {
            FileFault { kind, file: kind.into(), line: error.line, message: error.message }
        }
    }
}

fn settings_fault(error: SettingsError) -> FileFault {
    let kind = "settings";
    match error {
        SettingsError::File(error) => {
            FileFault { kind, file: error.path, line: None, message: error.error.to_string() }
        }
        SettingsError::Line(file, line, message) => {
            FileFault { kind, file, line: Some(line), message }
        }
        SettingsError::Together(file, message) => FileFault { kind, file, line: None, message },
    }
}
