//! The user that a process becomes.

use std::fs;

/// The user of the system's service.
const SERVICE: &str = "manypath";
/// Ids that systemd and Debian leave to nobody, and that a container with the usual 65536 ids has.
/// `nobody` (65534) is no choice: programs that have nothing to do with manypath run as that user.
const UNUSED: std::ops::RangeInclusive<u32> = 65520..=65533;

/// A user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// The user `manypath` if this host has it, else the highest id of 65520 to 65533 that is neither a user's nor
/// a group's.
#[must_use]
pub fn unprivileged_user() -> Option<User> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    choose(&read("/etc/passwd"), &read("/etc/group"))
}

fn choose(passwd: &str, group: &str) -> Option<User> {
    let service = passwd.lines().filter_map(entry).find(|(name, ..)| *name == SERVICE);
    if let Some((_, uid, Some(gid))) = service.filter(|(_, uid, _)| *uid != 0) {
        return Some(User { uid, gid });
    }
    let taken =
        |id: u32| passwd.lines().chain(group.lines()).filter_map(entry).any(|one| one.1 == id);
    UNUSED.rev().find(|id| !taken(*id)).map(|id| User { uid: id, gid: id })
}

/// Name, id, and for a user the id of its group.
fn entry(line: &str) -> Option<(&str, u32, Option<u32>)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let id = fields.nth(1)?.parse().ok()?;
    Some((name, id, fields.next().and_then(|gid| gid.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";

    #[test]
    fn the_service_user_comes_before_an_id_that_nobody_has() {
        let with = format!("{PASSWD}manypath:x:998:997::/:/bin/false\n");
        assert_eq!(choose(&with, ""), Some(User { uid: 998, gid: 997 }));
        assert_eq!(choose(PASSWD, ""), Some(User { uid: 65533, gid: 65533 }));
        let taken = format!("{PASSWD}somebody:x:65533:100::/:/bin/false\n");
        assert_eq!(choose(&taken, "users:x:65532:\n"), Some(User { uid: 65531, gid: 65531 }));
    }

    #[test]
    fn root_by_another_name_is_not_taken() {
        let passwd = "manypath:x:0:0::/:/bin/false\n";
        assert_eq!(choose(passwd, "").map(|user| user.uid), Some(65533));
    }
}
