//! What `manypath key` prints.

use super::print_json;
use crate::failure::Failure;
use manypath_keys::PublicKey;
use manypath_trust::{
    AuthorizedPeers, Fault, Fingerprint, IdentitySource, KnownPeersFile, Place, SshHosts,
};
use serde::Serialize;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct KeyJson {
    key: String,
    fingerprint: String,
    words: String,
    /// By which the host with the key is reached through a relay.
    key_address: Ipv6Addr,
    /// Where it stands; in a list, that is said once.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    revoked: bool,
}

#[derive(Serialize)]
struct PeerJson {
    address: IpAddr,
    #[serde(flatten)]
    key: KeyJson,
}

#[derive(Serialize)]
struct AuthorizedJson {
    name: String,
    #[serde(flatten)]
    key: KeyJson,
}

#[derive(Serialize)]
struct ShowJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    keys: Vec<KeyJson>,
    /// Whether one of them has the fingerprint that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
}

#[derive(Serialize)]
struct ListJson {
    folder: PathBuf,
    peers: Vec<PeerJson>,
    revoked: Vec<KeyJson>,
    authorized: Vec<AuthorizedJson>,
    faults: Vec<String>,
}

impl From<PublicKey> for KeyJson {
    fn from(key: PublicKey) -> Self {
        let fingerprint = Fingerprint::of(&key);
        Self {
            key: key.to_string(),
            words: fingerprint.words(),
            key_address: fingerprint.address(),
            fingerprint: fingerprint.to_string(),
            file: None,
            revoked: false,
        }
    }
}

/// A key with the file that it stands in.
struct Found {
    key: PublicKey,
    file: PathBuf,
    revoked: bool,
}

/// The caller's key; its own is made if there is none.
pub(super) fn own(
    source: &IdentitySource,
    compare: Option<&str>,
    json: bool,
) -> Result<u8, Failure> {
    let key = source.load()?.public_key();
    print(None, &[Found { key, file: source.path(), revoked: false }], compare, json)
}

/// The keys of a peer, also that by which SSH knows it.
pub(super) fn peer(addr: IpAddr, compare: Option<&str>, json: bool) -> Result<u8, Failure> {
    let file = KnownPeersFile::usual();
    let (known, ssh) = (file.load()?, SshHosts::usual()?);
    warn(file.path(), known.faults());
    let revoked = |key: &PublicKey| known.is_revoked(key) || ssh.is_revoked(key);
    let found = |key, file: &Path| Found { key, file: file.to_owned(), revoked: revoked(&key) };
    let keys = known.keys_of(addr).map(|key| found(key, file.path()));
    let ssh_keys = ssh.keys_of(addr).map(|key| found(key, Path::new("known_hosts")));
    let keys: Vec<_> = keys.chain(ssh_keys).collect();
    if keys.is_empty() {
        return Err(Failure::new(format!("no key is known for {addr}")).hint(format!(
            "`manypath key trust {addr} KEY`, with the key that `manypath key show` prints there"
        )));
    }
    print(Some(addr), &keys, compare, json)
}

fn print(
    address: Option<IpAddr>,
    found: &[Found],
    compare: Option<&str>,
    json: bool,
) -> Result<u8, Failure> {
    let matching = |text| {
        let mut usable = found.iter().filter(|found| !found.revoked);
        usable.try_fold(false, |any, found| Ok(any | Fingerprint::of(&found.key).matches(text)?))
    };
    let same = compare.map(matching).transpose();
    let same = same.map_err(|error: manypath_trust::BadFingerprint| {
        Failure::usage(format!("--compare: {error}"))
    })?;
    let status = u8::from(same == Some(false));
    if json {
        let key = |found: &Found| KeyJson {
            file: Some(found.file.clone()),
            revoked: found.revoked,
            ..KeyJson::from(found.key)
        };
        print_json(&ShowJson { address, keys: found.iter().map(key).collect(), same })?;
        return Ok(status);
    }
    for (index, found) in found.iter().enumerate() {
        if index > 0 {
            println!();
        }
        let (key, fingerprint) = (found.key, Fingerprint::of(&found.key));
        let revoked = if found.revoked { "  (revoked)" } else { "" };
        println!("key          {key}{revoked}");
        println!("fingerprint  {fingerprint}");
        println!("words        {}", fingerprint.words());
        println!("address      {}", fingerprint.address());
        println!("file         {}", found.file.display());
    }
    match same {
        Some(true) => println!("the fingerprint is the same"),
        Some(false) => println!("THE FINGERPRINT IS ANOTHER ONE: do not trust this key"),
        None => {}
    }
    Ok(status)
}

/// All that the files say.
pub(super) fn list(json: bool) -> Result<u8, Failure> {
    let (file, authorized_file) = (KnownPeersFile::usual(), Place::AuthorizedPeers.path());
    let known = file.load()?;
    let authorized = AuthorizedPeers::load(&authorized_file)?;
    if json {
        let faults = [
            (file.path(), known.faults().collect()),
            (&authorized_file, authorized.faults.clone()),
        ];
        let faults = faults.into_iter().flat_map(|(path, faults): (&Path, Vec<Fault>)| {
            faults.into_iter().map(|fault| format!("{}: {fault}", path.display()))
        });
        let peers = known.peers().map(|(address, key)| PeerJson { address, key: key.into() });
        let allowed = authorized.peers().into_iter();
        let allowed =
            allowed.map(|(key, name)| AuthorizedJson { name: name.to_owned(), key: key.into() });
        return print_json(&ListJson {
            folder: manypath_trust::folder(),
            peers: peers.collect(),
            revoked: known.revoked().map(KeyJson::from).collect(),
            authorized: allowed.collect(),
            faults: faults.collect(),
        });
    }
    warn(file.path(), known.faults());
    warn(&authorized_file, authorized.faults.iter().cloned());
    for (addr, key) in known.peers() {
        println!("{addr}  {key}  {}", Fingerprint::of(&key));
    }
    for key in known.revoked() {
        println!("revoked  {key}  {}", Fingerprint::of(&key));
    }
    for (key, name) in authorized.peers() {
        println!("authorized  {key}  {}  {name}", Fingerprint::of(&key));
    }
    if known.peers().next().is_none() {
        println!("no peer is known in {}", file.path().display());
    }
    Ok(0)
}

fn warn(file: &Path, faults: impl Iterator<Item = Fault>) {
    faults.for_each(|fault| eprintln!("manypath: {}: {fault}", file.display()));
}
