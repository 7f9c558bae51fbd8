//! Keys and hosts of OpenSSH. The files in `ssh/` are what `ssh-keygen` has written, for these tests alone.

use crate::common::{Folder, addr, key};
use manypath_keys::PublicKey;
use manypath_trust::{
    Fingerprint, IdentitySource, KnownPeers, SshHosts, load_identity, load_or_create_identity,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

const PUBLIC: &str = include_str!("ssh/ed25519.pub");
const HASHED: &str = include_str!("ssh/hashed");

fn host() -> PublicKey {
    let word = PUBLIC.split(' ').nth(1).expect("the key");
    word.parse().expect("a key")
}

/// A private key with the mode that a checkout does not keep.
fn private(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.at(name);
    let from = format!("{}/tests/ssh/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::copy(from, &path).expect("copied");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    path
}

#[test]
fn a_host_key_is_an_identity() {
    let folder = Folder::new("host-key");
    let path = private(&folder, "ed25519");
    let identity = IdentitySource::File(path.clone()).load().unwrap();
    assert_eq!(identity.public_key(), host());
    assert_eq!(load_or_create_identity(&path).unwrap().public_key(), host());
    let fingerprint = Fingerprint::of(&host()).to_string();
    assert_eq!(fingerprint, "SHA256:6g9VDRutpw/i/wP/RhrbvjkO6niHcD5RlNKVxq7QCFI");
}

/// A damaged file must not quietly make another host of this one.
#[test]
fn a_damaged_private_key_is_refused_or_the_same() {
    let folder = Folder::new("damaged");
    let path = private(&folder, "ed25519");
    let good = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 0..good.len() {
        for byte in [b'A', b'=', b'\n', 0xFF, good[at] ^ 1] {
            let mut bad = good.clone();
            bad[at] = byte;
            fs::write(&path, bad).unwrap();
            match load_identity(&path) {
                Ok(identity) => assert_eq!(identity.public_key(), host(), "{byte} at {at}"),
                Err(_) => refused += 1,
            }
        }
        fs::write(&path, &good[..at]).unwrap();
        assert!(load_identity(&path).map_or(true, |it| it.public_key() == host()), "cut at {at}");
    }
    assert!(refused > 4 * good.len() / 2, "{refused} of {}", 5 * good.len());
}

#[test]
fn other_private_keys_are_told() {
    let folder = Folder::new("other-keys");
    for (name, why) in [("passphrase", "it has a passphrase"), ("ecdsa", "use an Ed25519 key")] {
        let error = load_identity(&private(&folder, name)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn ssh_reads_an_identity() {
    let folder = Folder::new("ssh-reads");
    let identity = load_or_create_identity(&folder.at("identity")).unwrap();
    let path = folder.at("identity");
    let Ok(shown) = Command::new("ssh-keygen").arg("-y").arg("-f").arg(path).output() else {
        return; // A machine without OpenSSH.
    };
    let shown = String::from_utf8(shown.stdout).unwrap();
    let peers = KnownPeers::parse(&format!("192.0.2.7 {shown}"));
    assert_eq!(peers.peers().next(), Some((addr("192.0.2.7"), identity.public_key())), "{shown}");
}

#[test]
fn hosts_are_known_by_their_addresses() {
    let plain = format!("server,192.0.2.7,2001:db8::7 {PUBLIC}\n[192.0.2.9]:2222 {PUBLIC}");
    for text in [plain.as_str(), HASHED] {
        let hosts = SshHosts::parse(text);
        let known = |of: &str| hosts.knows(addr(of), &host());
        assert!(known("192.0.2.7") && known("2001:db8::7") && known("::ffff:192.0.2.7"), "{text}");
        assert!(!known("192.0.2.8") && !known("192.0.2.9"), "{text}");
        assert!(!hosts.knows(addr("192.0.2.7"), &key(1)));
    }
}

#[test]
fn lines_that_prove_nothing_do_not_count() {
    for line in [
        format!("@cert-authority 192.0.2.7 {PUBLIC}"),
        format!("192.0.2.* {PUBLIC}"),
        format!("* {PUBLIC}"),
        format!("!192.0.2.7 {PUBLIC}"),
        format!("192.0.2.7 {}", PUBLIC.replace("ssh-ed25519", "ssh-rsa")),
        format!("# 192.0.2.7 {PUBLIC}"),
        format!("|1||= {PUBLIC}"),
        "192.0.2.7".to_owned(),
    ] {
        let hosts = SshHosts::parse(&format!("{line}\n192.0.2.8 {PUBLIC}"));
        assert!(!hosts.knows(addr("192.0.2.7"), &host()), "{line}");
        assert!(hosts.knows(addr("192.0.2.8"), &host()), "{line}");
    }
}

#[test]
fn a_revoked_host_key_is_never_known() {
    let hosts = SshHosts::parse(&format!("192.0.2.7 {PUBLIC}\n@revoked * {PUBLIC}"));
    assert!(hosts.is_revoked(&host()));
    assert!(!hosts.knows(addr("192.0.2.7"), &host()));
}
