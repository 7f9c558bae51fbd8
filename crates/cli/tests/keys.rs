//! `manypath key`: keys of the caller and of peers, in files of a test's own.

use crate::common;

use common::folder::Folder;
use common::{Finished, MANYPATH, finish};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const KEY: &str = "bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM=";
/// The same as SSH writes it.
const SSH: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIG1hbnlwYXRoIGxldHMgYW55IFRDUCBwcm9ncmFtIHVz";
const FINGERPRINT: &str = "SHA256:nRD6qo0UmYRKEZK2N5peJXzlLhLxv+L+dm6rFQZzjas";

/// A folder for keys, in which only its owner may write.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(&format!("keys-{name}"));
    std::fs::create_dir(folder.at("keys")).expect("a folder");
    folder
}

fn run(folder: &Folder, args: &[&str]) -> Finished {
    let mut command = Command::new(MANYPATH);
    command.env("MANYPATH_KEYS", folder.at("keys")).env("HOME", folder.text());
    command.env("MANYPATH_RUNTIME_DIR", folder.at("keys")).arg("key").args(args);
    finish(command)
}

fn ok(folder: &Folder, args: &[&str]) -> String {
    let done = run(folder, args);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{args:?}: {done:?}");
    done.stdout
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    serde_json::from_str(&ok(folder, &[args, &["--json"]].concat())).expect("JSON")
}

fn refused(folder: &Folder, args: &[&str], code: i32, why: &str) {
    let done = run(folder, args);
    assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
    assert!(done.stderr.contains(why), "{args:?}: {done:?}");
}

#[test]
fn the_callers_key_is_made_once() {
    let folder = folder("own");
    let first = ok(&folder, &[]);
    let line = |name: &str| {
        let line = first.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}: {first}")).trim().to_owned()
    };
    assert_eq!(line("file"), folder.at("keys/identity"));
    assert_eq!(line("words").split(' ').count(), 12);
    assert_eq!(ok(&folder, &["show"]), first);
    let shown = json(&folder, &["show"]);
    assert_eq!(shown["keys"][0]["key"], line("key"));
    assert_eq!(shown["keys"][0]["fingerprint"], line("fingerprint"));
    let compared = ok(&folder, &["show", "--compare", &line("words").to_uppercase()]);
    assert!(compared.ends_with("the fingerprint is the same\n"), "{compared}");
    let other = run(&folder, &["show", "--compare", FINGERPRINT]);
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stdout.contains("THE FINGERPRINT IS ANOTHER ONE"), "{other:?}");
    refused(
        &folder,
        &["show", "--compare", "zebra"],
        2,
        "--compare: not a fingerprint: write SHA256:",
    );
}

#[test]
fn an_identity_that_others_may_read_is_not_used() {
    let folder = folder("open");
    ok(&folder, &[]);
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(folder.at("keys/identity"), open).expect("its mode");
    refused(&folder, &["show"], 1, "keys/identity: others may open this secret: `chmod 600` it");
}

#[test]
fn keys_of_peers_are_trusted_shown_revoked_and_forgotten() {
    let folder = folder("peers");
    refused(&folder, &["show", "192.0.2.7"], 1, "no key is known for 192.0.2.7");
    assert!(ok(&folder, &["list"]).starts_with("no peer is known in"));
    let told = ok(&folder, &["trust", "192.0.2.7", "ssh-ed25519", SSH, "me@host"]);
    assert!(told.starts_with(&format!("192.0.2.7 has the key {KEY}\n")), "{told}");
    ok(&folder, &["trust", "2001:db8::7", KEY]);
    let listed = ok(&folder, &["list"]);
    let line = |addr: &str| format!("{addr}  {KEY}  {FINGERPRINT}\n");
    assert_eq!(listed, line("192.0.2.7") + &line("2001:db8::7"));
    assert!(ok(&folder, &["show", "192.0.2.7", "--compare", FINGERPRINT]).contains("is the same"));

    let told = ok(&folder, &["revoke", "192.0.2.7"]);
    assert!(told.starts_with("192.0.2.7: 1 key revoked\n"), "{told}");
    refused(&folder, &["trust", "192.0.2.8", KEY], 1, "is revoked");
    let compared = run(&folder, &["show", "192.0.2.7", "--compare", FINGERPRINT]);
    assert_eq!(compared.code, Some(1), "a key that is revoked is not to be trusted: {compared:?}");
    let listed = json(&folder, &["list"]);
    assert_eq!(listed["peers"][0]["address"], "192.0.2.7");
    assert_eq!(listed["revoked"][0]["key"], KEY);
    assert!(ok(&folder, &["list"]).contains(&format!("revoked  {KEY}")));

    let told = ok(&folder, &["forget", "2001:db8::7"]);
    assert!(told.starts_with("2001:db8::7 forgotten (1 line)\n"), "{told}");
    assert_eq!(json(&folder, &["forget", KEY])["done"], format!("{KEY} forgotten (2 lines)"));
    refused(&folder, &["forget", KEY], 1, "is not in");
    assert_eq!(folder.read("keys/known_peers"), "");
}

#[test]
fn lines_of_a_person_stay_and_wrong_ones_are_named() {
    let folder = folder("lines");
    let text = format!("# by hand\nserver.example {KEY}\n");
    folder.file("keys/known_peers", &text);
    folder.file("keys/authorized_peers", format!("{KEY} alice\nnobody\n"));
    ok(&folder, &["trust", "192.0.2.7", KEY]);
    assert_eq!(folder.read("keys/known_peers"), format!("{text}192.0.2.7 {KEY}\n"));
    let done = run(&folder, &["list"]);
    for fault in ["known_peers: line 2: \"server.example\" is neither", "authorized_peers: line 2"]
    {
        assert!(done.stderr.contains(fault), "{done:?}");
    }
    assert!(done.stdout.contains(&format!("authorized  {KEY}  {FINGERPRINT}  alice")), "{done:?}");
    let listed = json(&folder, &["list"]);
    assert_eq!(listed["authorized"][0]["name"], "alice");
    assert_eq!(listed["faults"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_is_neither_an_address_nor_a_key_is_refused() {
    let folder = folder("wrong");
    refused(&folder, &["trust", "server.example", KEY], 2, "invalid value 'server.example'");
    refused(&folder, &["trust", "192.0.2.7", &KEY[1..]], 2, "is not a public key: write the 44");
    refused(&folder, &["forget", "server.example"], 2, "is neither a numeric address nor a key");
    refused(&folder, &["revoke", "192.0.2.7"], 1, "192.0.2.7 is not in");
    assert!(!std::path::Path::new(&folder.at("keys/known_peers")).exists());
}

#[test]
fn hosts_of_ssh_are_shown() {
    let folder = folder("ssh");
    std::fs::create_dir(folder.at(".ssh")).expect("a folder");
    folder.file(".ssh/known_hosts", format!("192.0.2.7 ssh-ed25519 {SSH}\n"));
    let shown = json(&folder, &["show", "192.0.2.7"]);
    assert_eq!(
        (&shown["keys"][0]["key"], &shown["keys"][0]["file"]),
        (&KEY.into(), &"known_hosts".into())
    );
}

#[test]
fn each_identity_is_shown() {
    let folder = folder("identities");
    refused(&folder, &["show", "--identity", "secret"], 1, "make one by `manypath key secret`");
    ok(&folder, &[]);
    let own = folder.at("keys/identity");
    assert_eq!(ok(&folder, &["show", "--identity", &own]), ok(&folder, &["show"]));
    folder.file("keys/secret", ok(&folder, &["secret"]));
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.at("keys/secret"), closed).expect("its mode");
    let of_secret = ok(&folder, &["show", "--identity", "secret"]);
    assert!(of_secret.contains(&folder.at("keys/secret")), "{of_secret}");
    refused(
        &folder,
        &["show", "--identity", "./key"],
        2,
        "write own, ssh, secret, or the absolute",
    );
    refused(&folder, &["show", "192.0.2.7", "--identity", "own"], 2, "cannot be used with");
}

#[test]
fn a_secret_is_new_each_time() {
    let folder = folder("secret");
    let secret = ok(&folder, &["secret"]);
    assert_eq!(secret.len(), 45, "{secret}");
    assert_ne!(json(&folder, &["secret"])["secret"], secret.trim());
}
