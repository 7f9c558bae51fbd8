//! `manypath key`: the caller's key, and those of peers.

pub(crate) mod args;
mod show;

use super::rules::{Applied, print_json, reload_stacks};
use crate::failure::Failure;
use args::{KeyAction, KeyArgs};
use manypath_control::counted;
use manypath_keys::PublicKey;
use manypath_trust::{IdentitySource, KnownPeers, KnownPeersFile, parse_key};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

/// What a change prints as JSON.
#[derive(Serialize)]
struct ChangeJson<'a> {
    done: &'a str,
    file: &'a Path,
    stacks: &'a Applied,
}

#[derive(Serialize)]
struct SecretJson<'a> {
    secret: &'a str,
}

/// An address, or a key.
enum Subject {
    Address(IpAddr),
    Key(PublicKey),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addr) => addr.fmt(f),
            Self::Key(key) => key.fmt(f),
        }
    }
}

/// Shows or changes keys.
pub(crate) fn key(args: &KeyArgs) -> Result<u8, Failure> {
    match &args.action {
        None => show::own(&IdentitySource::Own, None, args.json),
        Some(KeyAction::Show { address: Some(addr), identity: _, compare }) => {
            show::peer(*addr, compare.as_deref(), args.json)
        }
        Some(KeyAction::Show { address: None, identity, compare }) => {
            let identity = identity.as_ref().unwrap_or(&IdentitySource::Own);
            show::own(identity, compare.as_deref(), args.json)
        }
        Some(KeyAction::List) => show::list(args.json),
        Some(KeyAction::Trust { address, key }) => {
            let key = parse_key(&key.join(" ")).map_err(Failure::usage)?;
            change(args.json, |peers| trust(peers, *address, key))
        }
        Some(KeyAction::Forget { what }) => {
            let what = subject(what)?;
            change(args.json, |peers| forget(peers, &what))
        }
        Some(KeyAction::Revoke { what }) => {
            let what = subject(what)?;
            change(args.json, |peers| revoke(peers, &what))
        }
        Some(KeyAction::Secret) => secret(args.json),
    }
}

fn subject(words: &[String]) -> Result<Subject, Failure> {
    let text = words.join(" ");
    if let Ok(addr) = text.parse() {
        return Ok(Subject::Address(addr));
    }
    parse_key(&text).map(Subject::Key).map_err(|_| {
        Failure::usage(format!("\"{text}\" is neither a numeric address nor a key"))
            .hint("`manypath key list` shows those that are known")
    })
}

fn trust(peers: &mut KnownPeers, addr: IpAddr, key: PublicKey) -> Result<String, Failure> {
    if peers.is_revoked(&key) {
        let hint = format!("`manypath key forget {key}` takes that back");
        return Err(Failure::new(format!("{key} is revoked")).hint(hint));
    }
    peers.trust(addr, key);
    Ok(format!("{addr} has the key {key}"))
}

fn forget(peers: &mut KnownPeers, what: &Subject) -> Result<String, Failure> {
    let lines = match what {
        Subject::Address(addr) => peers.forget(*addr),
        Subject::Key(key) => peers.forget_key(key),
    };
    match lines {
        0 => Err(unknown(what)),
        _ => Ok(format!("{what} forgotten ({})", counted(lines, "line", "lines"))),
    }
}

fn revoke(peers: &mut KnownPeers, what: &Subject) -> Result<String, Failure> {
    let keys: Vec<_> = match what {
        Subject::Address(addr) => peers.keys_of(*addr).collect(),
        Subject::Key(key) => vec![*key],
    };
    if keys.is_empty() {
        return Err(unknown(what));
    }
    let revoked = keys.iter().filter(|key| peers.revoke(**key)).count();
    Ok(format!("{what}: {} revoked", counted(revoked, "key", "keys")))
}

fn unknown(what: &Subject) -> Failure {
    Failure::new(format!("{what} is not in {}", KnownPeersFile::usual().path().display()))
        .hint("`manypath key list` shows what is")
}

/// Changes the file and has running stacks read it.
fn change(
    json: bool,
    change: impl FnOnce(&mut KnownPeers) -> Result<String, Failure>,
) -> Result<u8, Failure> {
    let file = KnownPeersFile::usual();
    let done = file.try_change(change)?;
    let stacks = reload_stacks();
    if json {
        return print_json(&ChangeJson { done: &done, file: file.path(), stacks: &stacks });
    }
    println!("{done}\n{stacks}");
    Ok(0)
}

fn secret(json: bool) -> Result<u8, Failure> {
    let secret = manypath_trust::new_secret().map_err(|error| Failure::new(error.to_string()))?;
    if json {
        return print_json(&SecretJson { secret: &secret });
    }
    println!("{}", *secret);
    Ok(0)
}
