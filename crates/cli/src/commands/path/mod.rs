//! `manypath path`: what each path is there for, shown, changed and watched.

pub(crate) mod args;
mod last;
mod monitor;
mod show;

use super::rules::{Applied, print_json, reload_stacks};
use super::stacks::query;
use crate::failure::Failure;
use args::{PathAction, PathArgs};
use manypath_control::path::PathPolicy;
use manypath_control::status::PathStatus;
use manypath_rules::paths::{
    PathEntry, PathSelector, PathWish, PathWord, PathsFile, Role, parse_path,
};
use manypath_rules::{FileError, RuleError};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a change prints as JSON.
#[derive(Serialize)]
struct ChangeJson<'a> {
    done: &'a str,
    file: &'a Path,
    stacks: &'a Applied,
    /// Paths of running stacks that are meant.
    paths: usize,
    /// Peers to which no path carries data any more.
    stranded: &'a BTreeSet<String>,
    /// Lines that decide before this one where both fit.
    before: &'a [String],
    /// The interface that is meant, if this host has none of that name now.
    missing_interface: Option<&'a str>,
}

/// What a change has done.
struct Done {
    text: String,
    stranded: BTreeSet<String>,
    before: Vec<String>,
}

/// Shows, changes or watches.
pub(crate) fn path(args: &PathArgs) -> Result<u8, Failure> {
    let action = match &args.action {
        None | Some(PathAction::Show) => return show::show(args.json),
        Some(PathAction::Monitor { all }) => return monitor::monitor(*all, args.json),
        Some(action) => action,
    };
    let file = PathsFile::usual();
    super::config::note_outdated(file.sources());
    let (selector, words) = said(action.words(), action.is_removal())?;
    let stacks = query(false)?;
    if !action.is_removal() {
        warn_if_absent(&selector);
    }
    let (mut stranded, mut refused, mut before) = (BTreeSet::new(), false, Vec::new());
    let done = file.edit(|document| {
        let done = match action {
            PathAction::Add { .. } => {
                document.add(&selector, &words).map(|it| format!("added: {it}"))
            }
            PathAction::Remove { .. } => {
                document.remove(&selector).map(|it| format!("removed: {it}"))
            }
            PathAction::Change { .. } | PathAction::Show | PathAction::Monitor { .. } => {
                document.change(&selector, &words).map(|it| format!("changed: {it}"))
            }
        }?;
        // Stacks leave a file alone that they cannot read.
        stranded =
            document.entries().map_or_else(|_| BTreeSet::new(), |it| last::stranded(&stacks, &it));
        let earlier = if action.is_removal() { Vec::new() } else { document.before(&selector) };
        before = earlier.iter().map(ToString::to_string).collect();
        let hidden = earlier.iter().find(|it| it.selector.covers(&selector));
        refused = (hidden.is_some() || !stranded.is_empty()) && !action.is_forced();
        match (refused, hidden) {
            (false, _) => Ok(done),
            (true, Some(line)) => Err(RuleError::new(format!(
                "it would never match, because \"{line}\" precedes it: nothing was changed"
            ))),
            (true, None) => Err(RuleError::new(format!(
                "no path would be left that carries data to {}: nothing was changed",
                last::list(&stranded)
            ))),
        }
    });
    let text = done.map_err(|error| match refused {
        true => failure(error).hint("use --force to override"),
        false => failure(error),
    })?;
    changed(&file, &selector, &Done { text, stranded, before }, args.json)
}

/// Which paths, and what of them. A removal says only which.
fn said(words: &[String], removal: bool) -> Result<(PathSelector, Vec<PathWord>), Failure> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (selector, wishes) = parse_path(&words).map_err(|e| Failure::usage(e.to_string()))?;
    if selector.is_empty() {
        return Err(Failure::usage("no paths given: write ADDRESS, dev INTERFACE or peer ADDRESS")
            .hint("`manypath path show` lists them"));
    }
    match (removal, wishes.is_empty()) {
        (true, false) => Err(Failure::usage("remove takes only the selection of paths")
            .hint(format!("manypath path remove {selector}"))),
        (false, true) => Err(Failure::usage(format!("no policy given for {selector}"))
            .hint("backup, cost N, metered RATE, budget SIZE/PERIOD, hours FROM-UNTIL, primary, disable, enable")),
        (true, true) | (false, false) => Ok((selector, wishes)),
    }
}

/// Tells what was done, lets running stacks go by it, and counts what it is about.
fn changed(
    file: &PathsFile,
    selector: &PathSelector,
    done: &Done,
    json: bool,
) -> Result<u8, Failure> {
    let stacks = reload_stacks();
    let all = query(false)?;
    let paths = all.iter().flat_map(|stack| &stack.associations).flat_map(|one| &one.paths);
    let paths = paths.filter(|path| is_meant(selector, path)).count();
    let missing_interface = selector.device.as_deref().filter(|name| !has_interface(name));
    if json {
        let (file, Done { text, stranded, before }) = (file.sources().written(), done);
        return print_json(&ChangeJson {
            done: text,
            file,
            stacks: &stacks,
            paths,
            stranded,
            before,
            missing_interface,
        });
    }
    println!("{}", done.text);
    done.before.iter().for_each(|it| println!("\"{it}\" precedes it, and wins where both match"));
    println!("{stacks}");
    match paths {
        0 => println!("matches no existing path"),
        1 => println!("matches 1 existing path"),
        n => println!("matches {n} existing paths"),
    }
    if !done.stranded.is_empty() {
        println!("no path is left to carry data to {}", last::list(&done.stranded));
    }
    Ok(0)
}

/// Says before the policy is written that it names nothing of this host. It is kept for when that comes.
fn warn_if_absent(selector: &PathSelector) {
    let absent = |what: String| {
        eprintln!("manypath: this host has no {what} now; the policy applies once it has");
    };
    match (&selector.device, selector.local) {
        (Some(name), _) if !has_interface(name) => absent(format!("interface {name}")),
        (_, Some(local)) => {
            let interfaces = manypath_net::interfaces().unwrap_or_default();
            let there = interfaces.iter().any(|it| it.addr == local);
            if !interfaces.is_empty() && !there {
                absent(format!("address {local}"));
            }
        }
        _ => {}
    }
}

/// Whether this network has an interface of that name, as far as the kernel tells.
fn has_interface(name: &str) -> bool {
    let Ok(table) = fs::read_to_string("/proc/net/dev") else { return true };
    let mut names = table.lines().filter_map(|line| line.trim_start().split_once(':'));
    names.any(|(known, _)| known == name)
}

fn is_meant(selector: &PathSelector, path: &PathStatus) -> bool {
    selector.fits_local(path.local.ip(), &path.interface) && selector.fits_peer(path.remote.ip())
}

/// What a stack tells of a policy, in the words of this command.
pub(crate) fn words(policy: &PathPolicy) -> String {
    let roles = [Role::Backup, Role::Disabled];
    let role = roles.into_iter().find(|role| role.name() == policy.role).unwrap_or_default();
    let (cost, primary) = (policy.cost, policy.primary);
    let metered = policy.metered_bytes_per_s;
    PathWish { role, cost, metered, primary, ..PathWish::default() }.to_string()
}

/// What is wrong with the file, or with what was asked of it.
pub(crate) fn failure(error: FileError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        FileError::Io(..) | FileError::Edit(_) => failure,
        FileError::Rule(path, _) => {
            failure.hint(format!("fix or remove the line in {}", path.display()))
        }
    }
}

fn kept(file: &PathsFile) -> Result<Vec<PathEntry>, Failure> {
    file.read().map_err(failure)
}
