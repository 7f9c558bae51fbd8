//! Destinations that must not be reached by plain TCP. The stack refuses them; where there is no stack, or it is not
//! asked, the launcher has to know them itself.

use manypath_rules::{Chain, Policy, Protocol, Query, RulesFile, Table};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The rules for SCTP only, as the file has them now.
#[derive(Debug, Default)]
pub(crate) struct OnlySctp {
    file: Option<RulesFile>,
    table: Table,
    /// The files that `table` was read from.
    read: Vec<Option<Version>>,
}

/// Device, inode, size and time of a file: another text has other ones.
type Version = (u64, u64, u64, i64, i64);

impl OnlySctp {
    pub(crate) fn new(file: Option<RulesFile>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Whether a rule forbids plain TCP to the destination.
    pub(crate) fn holds_for(&mut self, destination: SocketAddr) -> bool {
        self.refresh();
        self.table.is_sctp_only(destination)
    }

    /// Whether the rules leave the destination to plain TCP.
    pub(crate) fn leaves_to_tcp(&mut self, destination: SocketAddr) -> bool {
        self.refresh();
        let query = Query::remote(Protocol::Tcp, destination);
        self.table.decide(query).policy == Policy::Disable
    }

    /// Whether any rule forbids plain TCP.
    pub(crate) fn holds_somewhere(&mut self) -> bool {
        self.refresh();
        let mut enabled = self.table.list(Chain::Remote, Policy::Enable);
        enabled.any(|(_, rule)| rule.options.may_need_sctp())
    }

    /// Reads the file if it has changed. A wrong table is not taken, as by the stack.
    fn refresh(&mut self) {
        let Some(file) = &self.file else { return };
        let now: Vec<_> = file.sources().places().map(|path| version(&path)).collect();
        if now == self.read {
            return;
        }
        if let Ok(document) = file.read() {
            self.table = document.table();
            self.read = now;
        }
    }
}

fn version(path: &Path) -> Option<Version> {
    let about = fs::metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.size(), about.mtime(), about.mtime_nsec()))
}

/// What a program hears that must not fall back to TCP for a reason of [`crate::Report::left`]; none for what is
/// never carried, whatever the rules say.
pub(crate) fn errno_of(reason: &str) -> Option<i32> {
    match reason {
        "no-stack" | "stack-lost" | "bound-to-device" | "foreign-source" => Some(libc::ENETUNREACH),
        "other-network-namespace" | "mptcp" | "32-bit" => Some(libc::ENETUNREACH),
        "marked" | "egress-policy" => Some(libc::ENETUNREACH),
        "stack-silent" => Some(libc::ETIMEDOUT),
        "no-gate" | "no-descriptors" | "no-cookie" => Some(libc::EHOSTUNREACH),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hold_as_the_file_has_them_and_a_wrong_file_changes_nothing() {
        let path = std::env::temp_dir().join(format!("manypath-only-{}", std::process::id()));
        let mut only = OnlySctp::new(Some(RulesFile::named(path.clone())));
        let [one, other] = ["192.0.2.1:80", "192.0.2.2:80"].map(|text| text.parse().unwrap());
        assert!(!only.holds_for(one), "there is no file");
        fs::write(&path, "remote enable host 192.0.2.1 sctp-only=on\n").unwrap();
        assert!(only.holds_for(one) && !only.holds_for(other) && only.holds_somewhere());
        fs::write(&path, "nonsense, and longer than before, so that it counts as another one\n")
            .unwrap();
        assert!(only.holds_for(one) && !only.holds_for(other));
        fs::write(&path, "remote disable host 192.0.2.2\n").unwrap();
        assert!(!only.leaves_to_tcp(one) && only.leaves_to_tcp(other));
        fs::write(&path, "remote enable sctp-only=on\n").unwrap();
        assert!(only.holds_for(one) && only.holds_for(other));
        fs::remove_file(path).unwrap();
        assert!(!only.holds_for(one) && !only.holds_somewhere());
    }
}
