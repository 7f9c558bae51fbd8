//! `manypath rules`: the table of what is carried, shown and changed.

mod apply;
pub(crate) mod args;
mod shimrules;
mod show;

use crate::failure::Failure;
pub(crate) use apply::{Applied, to_running_stacks as reload_stacks};
use args::{Call, PeerArgs, RulesAction, RulesArgs};
use manypath_control::counted;
use manypath_rules::{
    Chain, Client, FileError, Place, Policy, Protocol, Query, Rule, RuleError, RulesFile,
};
use serde::Serialize;
pub(crate) use show::json as print_json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub(crate) use shimrules::shimrules;

/// What a change prints as JSON.
#[derive(Serialize)]
struct ChangeJson<'a> {
    done: &'a str,
    file: &'a Path,
    stacks: &'a Applied,
}

/// What was done to the table.
struct Done {
    text: String,
    /// Where a rule was added.
    added: Option<Place>,
}

impl From<String> for Done {
    fn from(text: String) -> Self {
        Self { text, added: None }
    }
}

/// Shows or changes the table.
pub(crate) fn rules(args: &RulesArgs) -> Result<u8, Failure> {
    let file = args.rules.clone().map_or_else(RulesFile::usual, RulesFile::named);
    super::config::note_outdated(file.sources());
    if let Some(path) =
        args.rules.as_deref().filter(|path| !args.action.takes_missing() && !path.exists())
    {
        return Err(super::stack::no_rules(path));
    }
    match &args.action {
        RulesAction::Add { at, force, words } => {
            let done = add(&file, words, *at, *force)?;
            changed(&file, &done, args.json)
        }
        RulesAction::Delete { words } => {
            let done = delete(&file, words)?;
            changed(&file, &done, args.json)
        }
        RulesAction::Flush => {
            let done = flush(&file)?;
            changed(&file, &done, args.json)
        }
        RulesAction::Default { chain: Some(chain), policy: Some(policy) } => {
            let done = set_default(&file, parse(chain)?, parse(policy)?)?;
            changed(&file, &done, args.json)
        }
        RulesAction::Default { chain, policy: _ } => {
            let chain = chain.as_deref().map(parse).transpose()?;
            show::defaults(&file, chain, args.json)
        }
        RulesAction::List { chain, policy } => {
            let chain = chain.as_deref().map(parse).transpose()?;
            let policy = policy.as_deref().map(parse).transpose()?;
            show::list(&file, chain, policy, args.json)
        }
        RulesAction::Explain { call, address, udp, peer } => {
            let client = peer.client()?;
            show::explanation(&file, query(*call, *address, *udp, client.as_ref())?, args.json)
        }
        RulesAction::Test { file: other } => test(&file, other.clone(), args.json),
    }
}

/// Adds a rule, unless it is there already or can never match.
fn add(
    file: &RulesFile,
    words: &[String],
    at: Option<usize>,
    force: bool,
) -> Result<Done, Failure> {
    let rule: Rule = parse(&words.join(" "))?;
    let text = rule.to_string();
    let known = file.read().map_err(failure)?.table().place_of(&rule);
    if let Some(place) = known.filter(|_| at.is_none() && !force) {
        return Ok(Done { text: format!("{place}: {text} (as before)"), added: Some(place) });
    }
    let mut useless = false;
    let added = file.edit(|document| {
        let place = document.add(rule, at)?;
        let findings = document.table().findings();
        match findings.iter().find(|finding| finding.place == place && !force) {
            Some(finding) => {
                useless = true;
                Err(RuleError::new(format!("not added: the rule {}", finding.why)))
            }
            None => Ok(place),
        }
    });
    let place = added.map_err(|error| match useless {
        true => failure(error).hint("use --force to override"),
        false => failure(error),
    })?;
    Ok(Done { text: format!("{place}: {text}"), added: Some(place) })
}

fn delete(file: &RulesFile, words: &[String]) -> Result<Done, Failure> {
    if let [chain, policy, number] = words
        && let Ok(number) = number.parse()
    {
        let place = Place { chain: parse(chain)?, policy: parse(policy)?, number };
        let rule = file.edit(|document| document.delete_at(place)).map_err(failure)?;
        return Ok(format!("deleted {place}: {rule}").into());
    }
    let rule: Rule = parse(&words.join(" "))?;
    let place = file.edit(|document| document.delete(&rule)).map_err(failure)?;
    Ok(format!("deleted {place}: {rule}").into())
}

fn flush(file: &RulesFile) -> Result<Done, Failure> {
    let count = file.edit(|document| Ok(document.flush())).map_err(failure)?;
    Ok(format!("{} deleted", counted(count, "rule", "rules")).into())
}

fn set_default(file: &RulesFile, chain: Chain, policy: Policy) -> Result<Done, Failure> {
    file.edit(|document| {
        document.set_default(chain, policy);
        Ok(())
    })
    .map_err(failure)?;
    Ok(format!("default of {chain}: {policy}").into())
}

/// Tells what was done, lets running stacks go by it, and warns of rules without effect.
fn changed(file: &RulesFile, done: &Done, json: bool) -> Result<u8, Failure> {
    let stacks = apply::to_running_stacks();
    if json {
        let (done, file) = (&done.text, file.sources().written());
        return show::json(&ChangeJson { done, file, stacks: &stacks });
    }
    println!("{}\n{stacks}", done.text);
    let findings = file.read().map_err(failure)?.table().findings();
    let others = findings.iter().filter(|finding| Some(finding.place) != done.added);
    others.for_each(|finding| eprintln!("manypath: {}", show::finding(finding)));
    Ok(0)
}

fn query(
    call: Call,
    address: SocketAddr,
    udp: bool,
    client: Option<&Client>,
) -> Result<Query<'_>, Failure> {
    let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
    match call {
        Call::Bind => Ok(Query::local(protocol, address, client)),
        Call::Connect if client.is_none() => Ok(Query::remote(protocol, address)),
        Call::Connect => {
            Err(Failure::usage("--from, --key and --peer tell who asks for a service: write bind"))
        }
    }
}

impl PeerArgs {
    /// The peer that is meant, if any is.
    fn client(&self) -> Result<Option<Client>, Failure> {
        let Self { from, key, peer } = self;
        if from.is_none() && key.is_none() && peer.is_none() {
            return Ok(None);
        }
        if let Some(key) = key {
            // It is written as in a rule.
            let _same_words: Rule = parse(&format!("local enable key={key}"))?;
        }
        let (addresses, key) = (from.iter().copied().collect(), key.clone());
        Ok(Some(Client { addresses, key, name: peer.clone() }))
    }
}

/// Fails if a rule can never match.
fn test(file: &RulesFile, other: Option<PathBuf>, json: bool) -> Result<u8, Failure> {
    let file = other.map_or_else(|| file.clone(), RulesFile::named);
    let named = file.sources().places().count() == 1;
    if named && file.sources().existing().is_empty() {
        let path = file.sources().written().display().to_string();
        return Err(Failure::new(format!("there is no {path}")));
    }
    show::checked(&file, json)
}

/// Reads one word or rule of the command line.
fn parse<T: std::str::FromStr<Err = RuleError>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|e: RuleError| Failure::usage(e.to_string()))
}

/// What is wrong with the table or its file.
pub(crate) fn failure(error: FileError) -> Failure {
    let denied =
        matches!(&error, FileError::Io(_, e) if e.kind() == std::io::ErrorKind::PermissionDenied);
    let failure = Failure::new(error.to_string());
    if denied {
        failure.hint("as root, or with a table of your own: --rules FILE")
    } else {
        failure
    }
}
