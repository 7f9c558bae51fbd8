//! Who may lead a kept file elsewhere, and who not. What only root can try is left out for others.

use super::*;
use crate::{KeptFile, KeptFileError, open_to_append};
use std::env;
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};

/// Somebody else, for root.
const OTHER: Option<u32> = Some(4711);

/// A directory of the caller's that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            env::temp_dir().join(format!("manypath-location-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("victim"), "root:x:0:0").unwrap();
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn victim(&self) -> String {
        fs::read_to_string(self.at("victim")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    geteuid().is_root()
}

fn append(path: PathBuf) -> Result<(), String> {
    let file = KeptFile::named(path);
    let done = file.edit(|text| Ok::<_, KeptFileError>((text + "added\n", ())));
    done.map_err(|failed| failed.error.to_string())
}

#[test]
fn root_replaces_nothing_through_a_link_of_another_user() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("service");
    let cache = folder.at("cache");
    fs::create_dir(&cache).unwrap();
    symlink(folder.at("victim"), cache.join("peers")).unwrap();
    lchown(cache.join("peers"), OTHER, OTHER).unwrap();
    let refused = append(cache.join("peers")).unwrap_err();
    assert!(refused.contains("link peers belongs to another user (uid 4711)"), "{refused}");
    let read = KeptFile::named(cache.join("peers")).read().unwrap_err().error.to_string();
    assert!(read.contains("(uid 4711)"), "{read}");
    assert_eq!(folder.victim(), "root:x:0:0");
}

#[test]
fn root_writes_in_no_directory_that_another_user_can_exchange_files_in() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("folders");
    let of_other = folder.at("other");
    fs::create_dir(&of_other).unwrap();
    fs::write(of_other.join("rules"), "kept\n").unwrap();
    chown(&of_other, OTHER, OTHER).unwrap();
    let refused = append(of_other.join("rules")).unwrap_err();
    assert!(refused.contains("directory belongs to another user (uid 4711)"), "{refused}");
    assert_eq!(KeptFile::named(of_other.join("rules")).read().unwrap(), "kept\n");
    // A directory of root's, reached by a link of somebody else.
    symlink(&folder.0, of_other.join("way")).unwrap();
    lchown(of_other.join("way"), OTHER, OTHER).unwrap();
    let refused = append(of_other.join("way/rules")).unwrap_err();
    assert!(refused.contains("link way belongs to another user"), "{refused}");
    assert!(!folder.at("rules").exists());
}

#[test]
fn a_log_is_neither_written_through_a_link_of_another_user_nor_read_by_everybody() {
    let folder = Folder::new("log");
    let log = |name: &str, line: &str| {
        let mut file =
            open_to_append(&folder.at(name), 0o640).map_err(|error| error.to_string())?;
        file.write_all(line.as_bytes()).map_err(|error| error.to_string())
    };
    log("log", "one ").unwrap();
    log("log", "two").unwrap();
    assert_eq!(fs::read_to_string(folder.at("log")).unwrap(), "one two");
    assert_eq!(fs::metadata(folder.at("log")).unwrap().mode() & 0o007, 0);
    log("missing/log", "").unwrap_err();
    symlink("log", folder.at("own")).unwrap();
    log("own", " three").unwrap();
    assert_eq!(fs::read_to_string(folder.at("log")).unwrap(), "one two three");
    if is_root() {
        symlink("victim", folder.at("foreign")).unwrap();
        lchown(folder.at("foreign"), OTHER, OTHER).unwrap();
        let refused = log("foreign", "root2::0:0").unwrap_err();
        assert!(refused.contains("belongs to another user (uid 4711)"), "{refused}");
        assert_eq!(folder.victim(), "root:x:0:0");
    }
}

#[test]
fn a_directory_where_everybody_writes_is_good_only_if_it_is_sticky() {
    let folder = Folder::new("shared");
    let shared = folder.at("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    let refused = append(shared.join("rules")).unwrap_err();
    assert!(refused.contains("others may write to the directory"), "{refused}");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    append(shared.join("rules")).unwrap();
    // A group of the caller's own is the default of many systems.
    fs::set_permissions(&shared, Permissions::from_mode(0o775)).unwrap();
    append(shared.join("rules")).unwrap();
    assert_eq!(fs::read_to_string(shared.join("rules")).unwrap(), "added\nadded\n");
}

#[test]
fn neither_the_lock_nor_the_new_file_is_written_through_a_link() {
    let folder = Folder::new("beside");
    symlink("victim", folder.at("rules.new")).unwrap();
    append(folder.at("rules")).unwrap();
    assert_eq!(fs::read_to_string(folder.at("rules")).unwrap(), "added\n");
    symlink("victim", folder.at("peers.lock")).unwrap();
    let refused = append(folder.at("peers")).unwrap_err();
    assert!(refused.contains("peers.lock is a symbolic link"), "{refused}");
    assert_eq!(folder.victim(), "root:x:0:0");
}

#[test]
fn a_lock_cannot_be_held_by_other_users() {
    let folder = Folder::new("lock");
    // As it was made before.
    fs::write(folder.at("rules.lock"), "").unwrap();
    fs::set_permissions(folder.at("rules.lock"), Permissions::from_mode(0o644)).unwrap();
    append(folder.at("rules")).unwrap();
    let mode = fs::metadata(folder.at("rules.lock")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    if is_root() {
        chown(folder.at("rules.lock"), OTHER, OTHER).unwrap();
        let refused = append(folder.at("rules")).unwrap_err();
        assert!(refused.contains("lock file belongs to another user (uid 4711)"), "{refused}");
    }
}

#[test]
fn links_of_ones_own_are_followed_and_stay() {
    let folder = Folder::new("dotfiles");
    fs::create_dir(folder.at("dotfiles")).unwrap();
    fs::write(folder.at("dotfiles/rules"), "old\n").unwrap();
    fs::set_permissions(folder.at("dotfiles/rules"), Permissions::from_mode(0o600)).unwrap();
    symlink("dotfiles", folder.at("config")).unwrap();
    symlink("../dotfiles/./rules", folder.at("dotfiles/again")).unwrap();
    symlink(folder.at("config/again"), folder.at("rules")).unwrap();
    append(folder.at("rules")).unwrap();
    assert!(folder.at("rules").is_symlink() && folder.at("dotfiles/again").is_symlink());
    assert_eq!(fs::read_to_string(folder.at("dotfiles/rules")).unwrap(), "old\nadded\n");
    assert_eq!(fs::metadata(folder.at("dotfiles/rules")).unwrap().mode() & 0o777, 0o600);
    assert!(folder.at("dotfiles/rules.lock").exists());
}

#[test]
fn a_link_to_nothing_gets_its_file_and_a_circle_is_told() {
    let folder = Folder::new("circle");
    symlink("later/rules", folder.at("rules")).unwrap();
    append(folder.at("rules")).unwrap();
    assert_eq!(fs::read_to_string(folder.at("later/rules")).unwrap(), "added\n");
    symlink("circle", folder.at("circle")).unwrap();
    assert!(append(folder.at("circle")).is_err());
}

#[test]
fn a_fifo_is_not_waited_for() {
    let folder = Folder::new("fifo");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, folder.at("rules"), FileType::Fifo, mode, 0).unwrap();
    let error = KeptFile::named(folder.at("rules")).read().unwrap_err().error.to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn devices_and_open_files_are_read_and_never_replaced() {
    assert_eq!(KeptFile::named("/dev/null".into()).read().unwrap(), "");
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"remote disable\n").unwrap();
    drop(writer);
    let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
    let path = PathBuf::from(format!("/dev/fd/{number}"));
    assert_eq!(KeptFile::named(path).read().unwrap(), "remote disable\n");
    let folder = Folder::new("device");
    symlink("/dev/null", folder.at("null")).unwrap();
    let location = Location::for_reading(&folder.at("null")).unwrap();
    let refused = location.replace("text", false).unwrap_err().to_string();
    assert!(refused.contains("not a regular file"), "{refused}");
}
