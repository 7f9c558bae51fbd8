//! The file of tickets: which stack gets which tickets, and what happens to those of other identities.

use crate::common::Folder;
use manypath_keys::{Identity, Moment, PublicKey};
use manypath_rules::KeptFile;
use manypath_trust::{KnownPeersFile, TicketsFile};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;

/// Computed by the cryptography package of Python: versions that differ would lose each other's tickets.
/// Tickets of a server with the key 09...09 at 192.0.2.7:9899, of the identities 01...01 and 02...02, until 2100.
const OURS: &str = concat!(
    "4102444800 iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w= BQUFBQUFBQUFBQUF6R4xjojKZQuk",
    "RPYv7ZmtDvn3gCL1Ui2aTX7SxQ0zdJ7yq4a49fZTfeReTn8Fy6Sc4Ke7mQU9aGz2FNzWKlaR5vfRpXtKsMiv",
    "J+XmUrOeNwxIm+HLOYyS9Mae+0FPJ81Xs9GeuvaAolacts0WnzAerRhexrxl4/OW6MoQVIBQqjSTkLzPQ4pM",
    "wAvf9/BhexDbZSv8auLmhiWSjzTjKMiTYtbRZeyB4ciKhId3w6jkT0OBuJi5g27Tl1Bnhhc=",
);
const THEIRS: &str = concat!(
    "4102444800 gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q= BQUFBQUFBQUFBQUFIMaj1LoM339m",
    "u9MHPpKgbqtpIo+VJDoq2btrP3mMDGR8gZDI7IuzWNO9HyjH4YfyuiQn/MOPI5MAIKCFLy6YtHeCRydQiS2I",
    "Liplyuv6a5qzQqyWVwFCKbXzJQrPAyx363p/vQMEOSM9aF2Hwi5FdzSHKXq/zYfCSYR8bKKQ8t65hYx/k5J5",
    "GzQpBBrzauiEJPhBzD8vMjswtiHQN8TdX0V3AzP6FMDuIeQjU0jZ0BGiPTyyMFf4WPDQ3mg=",
);
const NOW: u64 = 1_800_000_000;
const END: u64 = 4_102_444_800;

fn file(folder: &Folder) -> TicketsFile {
    TicketsFile::beside(&KnownPeersFile::named(folder.at("known_peers")))
}

fn identity(private: u8) -> Identity {
    Identity::from_private(&[private; 32]).expect("a key")
}

fn at(unix: u64) -> Moment {
    Moment { unix, ..Moment::default() }
}

fn lines(folder: &Folder) -> Vec<String> {
    let text = fs::read_to_string(folder.at("tickets")).expect("the file");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn put(file: &TicketsFile, lines: &[&str]) {
    file.put(NOW, &lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).expect("room");
}

#[test]
fn tickets_are_taken_once_by_whose_they_are() {
    let folder = Folder::new("tickets");
    let file = file(&folder);
    assert_eq!(file.path(), folder.at("tickets"));
    assert!(file.take(at(NOW), &identity(1)).unwrap().tickets.is_empty());
    assert!(!folder.at("tickets").exists() && !folder.at("tickets.lock").exists());
    put(&file, &[OURS]);
    put(&file, &[THEIRS]);
    assert_eq!(fs::metadata(folder.at("tickets")).unwrap().mode() & 0o777, 0o600);
    let taken = file.take(at(NOW), &identity(1)).unwrap();
    let [(server, ticket)] = &taken.tickets[..] else { panic!("{taken:?}") };
    assert_eq!(server.to_string(), "192.0.2.7:9899");
    assert_eq!(ticket.server(), PublicKey::from([9; 32]));
    assert_eq!((ticket.client(), ticket.as_bytes()), (identity(1).public_key(), &[7; 90][..]));
    assert_eq!(lines(&folder), [THEIRS]);
    assert!(file.take(at(NOW), &identity(1)).unwrap().tickets.is_empty());
    // Over, whoever looks.
    assert_eq!(file.take(at(END), &identity(1)).unwrap().damaged, 0);
    assert_eq!(lines(&folder), [""; 0]);
}

#[test]
fn of_many_who_take_at_once_one_gets_each_ticket() {
    let folder = Folder::new("ticket-race");
    let file = file(&folder);
    put(&file, &[OURS]);
    // Whoever finds the lock held for too long gets none.
    let take = || file.take(at(NOW), &identity(1)).map_or(0, |taken| taken.tickets.len());
    let got: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(got, 1);
}

/// A process that was suspended in the middle.
#[test]
fn a_lock_that_another_process_holds_does_not_hold_up_who_takes() {
    let folder = Folder::new("ticket-lock");
    let file = file(&folder);
    put(&file, &[OURS]);
    let lock = File::open(folder.at("tickets.lock")).unwrap();
    lock.lock().unwrap();
    let error = file.take(at(NOW), &identity(1)).unwrap_err();
    assert!(error.to_string().contains("holds its lock"), "{error}");
    assert_eq!(lines(&folder), [OURS]);
    drop(lock);
    assert_eq!(file.take(at(NOW), &identity(1)).unwrap().tickets.len(), 1);
}

#[test]
fn damaged_lines_are_counted_and_go() {
    let folder = Folder::new("ticket-damage");
    let file = file(&folder);
    let changed = OURS.replacen("BQUFBQUF", "BQUFBQUG", 1);
    let cut = &OURS[..OURS.len() - 8];
    let text = [OURS, &changed, cut, "garbage", "", "# comment", THEIRS].join("\n");
    let write = |bytes: &[u8]| {
        fs::write(folder.at("tickets"), bytes).unwrap();
        fs::set_permissions(folder.at("tickets"), Permissions::from_mode(0o600)).unwrap();
    };
    write(&[text.as_bytes(), b"\n\xFF\xFE\n"].concat());
    let taken = file.take(at(NOW), &identity(1)).unwrap();
    assert_eq!((taken.tickets.len(), taken.damaged), (1, 4));
    assert_eq!(lines(&folder), [THEIRS]);
    write(&[b'x'; 1 << 20]);
    assert_eq!(file.take(at(NOW), &identity(1)).unwrap().damaged, 1);
    write(&[b'x'; (1 << 20) + 1]);
    assert!(file.take(at(NOW), &identity(1)).unwrap_err().to_string().contains("1 MiB"));
    assert!(file.put(NOW, &[OURS.to_owned()]).is_err());
    assert_eq!(fs::metadata(folder.at("tickets")).unwrap().len(), (1 << 20) + 1, "left as it is");
}

#[test]
fn a_file_that_others_may_open_is_neither_used_nor_written() {
    let folder = Folder::new("ticket-modes");
    let file = file(&folder);
    put(&file, &[OURS]);
    fs::set_permissions(folder.at("tickets"), Permissions::from_mode(0o640)).unwrap();
    for error in [file.take(at(NOW), &identity(1)).err(), file.put(NOW, &[]).err()] {
        assert!(error.unwrap().to_string().contains("chmod 600"));
    }
    assert_eq!(lines(&folder), [OURS]);
    // What is no regular file is not replaced either.
    fs::remove_file(folder.at("tickets")).unwrap();
    fs::create_dir(folder.at("tickets")).unwrap();
    assert!(file.take(at(NOW), &identity(1)).is_err() && file.put(NOW, &[]).is_err());
}

#[test]
fn behind_a_link_of_the_caller_the_file_itself_is_replaced() {
    let folder = Folder::new("ticket-link");
    KeptFile::named(folder.at("elsewhere")).read_or_make_secret(|| Ok(String::new())).unwrap();
    symlink(folder.at("elsewhere"), folder.at("tickets")).unwrap();
    put(&file(&folder), &[OURS]);
    assert!(fs::symlink_metadata(folder.at("tickets")).unwrap().is_symlink());
    assert_eq!(lines(&folder), [OURS]);
}

#[test]
fn no_more_than_1024_lines_are_kept_and_those_that_end_first_go() {
    let folder = Folder::new("ticket-limit");
    let file = file(&folder);
    let of = |end: u64| OURS.replacen(&END.to_string(), &end.to_string(), 1);
    let many: Vec<_> = (0..1500).map(|number| of(NOW - 100 + number)).collect();
    file.put(NOW, &many).unwrap();
    file.put(NOW, &[OURS.to_owned()]).unwrap();
    let kept = lines(&folder);
    assert_eq!(kept.len(), 1024);
    assert_eq!(kept.last().unwrap(), OURS);
    assert!(kept[0].starts_with(&(NOW + 1400 - 1023).to_string()), "{}", &kept[0][..20]);
}
