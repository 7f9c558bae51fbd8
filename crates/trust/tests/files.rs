//! What happens to files: who may have written them, who may read them, and who writes at the same time.

use crate::common::{Folder, addr, key};
use manypath_keys::Identity;
use manypath_rules::KeptFile;
use manypath_trust::{
    AuthorizedPeers, IdentitySource, KnownPeersFile, SshHosts, load_identity,
    load_or_create_identity, load_secret, new_secret,
};
use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::process::Command;
use std::thread;

/// Somebody else, for root.
const OTHER: Option<u32> = Some(4711);

fn is_root(folder: &Folder) -> bool {
    fs::metadata(folder.at("")).expect("the folder").uid() == 0
}

#[test]
fn an_identity_is_made_on_first_use_for_its_owner_alone() {
    let folder = Folder::new("first");
    let path = folder.at("below/identity");
    let made = load_or_create_identity(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"), "{text}");
    assert_eq!(load_or_create_identity(&path).unwrap().public_key(), made.public_key());
    assert_eq!(load_identity(&path).unwrap().public_key(), made.public_key());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn an_identity_that_is_only_to_be_read_is_not_made() {
    let folder = Folder::new("missing");
    let error = load_identity(&folder.at("identity")).unwrap_err().to_string();
    assert!(error.ends_with("identity: there is no such file"), "{error}");
    assert!(!folder.at("identity").exists());
}

#[test]
fn many_who_come_first_get_the_same_identity() {
    let folder = Folder::new("race");
    let path = folder.at("identity");
    let made = || load_or_create_identity(&path).unwrap().public_key();
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(made)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|key| *key == all[0]), "{all:?}");
}

#[test]
fn a_file_that_is_no_identity_is_told_and_never_overwritten() {
    let folder = Folder::new("bad");
    let path = folder.at("identity");
    let good = folder.at("good");
    load_or_create_identity(&good).unwrap();
    let good = fs::read_to_string(good).unwrap();
    let cut = &good[..good.len() / 2];
    for text in ["", "\n", "garbage", "-----BEGIN PRIVATE KEY-----\n", cut, &good.replace('b', "c")]
    {
        KeptFile::named(path.clone()).read_or_make_secret(|| Ok(text.to_owned())).unwrap();
        for error in [load_or_create_identity(&path), load_identity(&path)].map(Result::unwrap_err)
        {
            let error = error.to_string();
            assert!(error.contains("identity: "), "{error}");
            assert!(error.contains("restore it, or move it away"), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_secret_that_others_may_open_is_not_used() {
    let folder = Folder::new("modes");
    let path = folder.at("identity");
    load_or_create_identity(&path).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let error = load_or_create_identity(&path).unwrap_err().to_string();
        assert!(error.contains("others may open this secret: `chmod 600` it"), "{error}");
        assert!(load_secret(&path).unwrap_err().to_string().contains("chmod 600"));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    load_or_create_identity(&path).unwrap();
}

#[test]
fn root_uses_no_identity_of_another_user() {
    let folder = Folder::new("owner");
    if !is_root(&folder) {
        return;
    }
    load_or_create_identity(&folder.at("identity")).unwrap();
    symlink(folder.at("identity"), folder.at("way")).unwrap();
    assert!(load_identity(&folder.at("way")).is_ok());
    lchown(folder.at("way"), OTHER, OTHER).unwrap();
    let error = load_or_create_identity(&folder.at("way")).unwrap_err().to_string();
    assert!(error.contains("link way belongs to another user (uid 4711)"), "{error}");
    chown(folder.at("identity"), OTHER, OTHER).unwrap();
    let error = load_or_create_identity(&folder.at("identity")).unwrap_err().to_string();
    assert!(error.contains("belongs to another user (uid 4711)"), "{error}");
    fs::create_dir(folder.at("theirs")).unwrap();
    chown(folder.at("theirs"), OTHER, OTHER).unwrap();
    let error = load_or_create_identity(&folder.at("theirs/identity")).unwrap_err().to_string();
    assert!(error.contains("directory belongs to another user (uid 4711)"), "{error}");
    assert_eq!(fs::read_dir(folder.at("theirs")).unwrap().count(), 0);
}

#[test]
fn a_secret_gives_both_ends_the_same_identity() {
    let folder = Folder::new("secret");
    let path = folder.at("secret");
    let error = load_secret(&path).unwrap_err().to_string();
    assert!(error.contains("make one by `manypath key secret`"), "{error}");
    let put = |text: &str| {
        let _ = fs::remove_file(&path);
        KeptFile::named(path.clone()).read_or_make_secret(|| Ok(text.to_owned())).unwrap();
    };
    let secret = new_secret().unwrap();
    assert_ne!(*secret, *new_secret().unwrap());
    put(&format!("{}\n", *secret));
    let here = load_secret(&path).unwrap().public_key();
    assert_eq!(load_secret(&path).unwrap().public_key(), here);
    put("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    let seven = Identity::from_secret(&[7; 32]).unwrap().public_key();
    assert_eq!(load_secret(&path).unwrap().public_key(), seven);
    for weak in ["", "correct horse battery staple", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw=="]
    {
        put(weak);
        let error = load_secret(&path).unwrap_err().to_string();
        assert!(error.contains("no secret in base64 of 256 bits or more"), "{error}");
    }
}

#[test]
fn identities_are_named_by_a_word_or_a_path() {
    assert_eq!("own".parse(), Ok(IdentitySource::Own));
    assert_eq!("secret".parse(), Ok(IdentitySource::Secret));
    let ssh: IdentitySource = "ssh".parse().unwrap();
    assert_eq!(ssh.path().to_str(), Some("/etc/ssh/ssh_host_ed25519_key"));
    let path = "/etc/manypath/key";
    assert_eq!(path.parse::<IdentitySource>().unwrap().path().to_str(), Some(path));
    for word in ["", "Own", "key", "./key"] {
        assert!(word.parse::<IdentitySource>().is_err(), "{word}");
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let folder = Folder::new("writers");
    let file = KnownPeersFile::named(folder.at("known_peers"));
    file.change(|peers| peers.trust(addr("192.0.2.1"), key(0))).unwrap();
    let write = |writer: u8| {
        for number in 0..20 {
            let addr = IpAddr::from(Ipv4Addr::new(10, 0, writer, number));
            assert!(file.change(|peers| peers.remember(addr, key(writer))).unwrap());
        }
    };
    thread::scope(|scope| (1..=4).for_each(|writer| drop(scope.spawn(move || write(writer)))));
    assert_eq!(file.load().unwrap().peers().count(), 1 + 4 * 20);
    assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o644);
}

/// Each child is this test with a place in its environment.
#[test]
fn processes_at_the_same_time_lose_nothing() {
    const PLACE: &str = "MANYPATH_TEST_KNOWN_PEERS";
    if let Some(path) = std::env::var_os(PLACE) {
        let (file, id) = (KnownPeersFile::named(path.into()), std::process::id());
        for number in 0..20_u8 {
            let [.., high, low] = id.to_be_bytes();
            let addr = IpAddr::from(Ipv4Addr::new(10, high, low, number));
            assert!(file.change(|peers| peers.remember(addr, key(1))).unwrap());
        }
        return;
    }
    let folder = Folder::new("processes");
    let path = folder.at("known_peers");
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "files::processes_at_the_same_time_lose_nothing"]);
        command.env(PLACE, &path).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(|_| child()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let known = KnownPeersFile::named(path).load().unwrap();
    assert_eq!(known.peers().count(), 3 * 20);
}

#[test]
fn bytes_that_are_no_text_spoil_one_line_and_are_never_rewritten() {
    let folder = Folder::new("bytes");
    let file = KnownPeersFile::named(folder.at("known_peers"));
    let mut bytes = format!("# M\u{fc}ller\n192.0.2.7 {}\n192.0.2.8 ", key(1)).into_bytes();
    bytes.extend_from_slice(b"M\xfcller\n");
    fs::write(file.path(), &bytes).unwrap();
    let peers = file.load().unwrap();
    assert!(peers.is_known(addr("192.0.2.7")));
    assert_eq!(peers.faults().map(|fault| fault.line).collect::<Vec<_>>(), [3]);
    let error = file.change(|peers| peers.remember(addr("192.0.2.9"), key(1))).unwrap_err();
    assert!(error.to_string().contains("not a text in UTF-8"), "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), bytes);
    assert!(AuthorizedPeers::load(file.path()).is_ok() && SshHosts::load(file.path()).is_ok());
}

#[test]
fn a_file_that_no_person_wrote_is_not_loaded() {
    let folder = Folder::new("large");
    let file = KnownPeersFile::named(folder.at("known_peers"));
    fs::write(file.path(), "#".repeat((1 << 20) + 1)).unwrap();
    let error = file.load().unwrap_err().to_string();
    assert!(error.contains("known_peers: larger than 1 MiB"), "{error}");
    assert!(file.change(|peers| peers.remember(addr("192.0.2.1"), key(1))).is_err());
    assert_eq!(fs::metadata(file.path()).unwrap().len(), (1 << 20) + 1);
}
