//! One thing that is wrong.

use super::super::findings::{Findings, PathFinding, UnencryptedBy};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};

/// How bad it is; the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Weight {
    /// Nothing is carried because of it.
    Broken,
    /// Less is carried than could be.
    Degraded,
    /// It is worth knowing.
    Note,
}

/// Where a command is to be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Place {
    /// On this host.
    Here,
    /// On the peer.
    Peer,
}

/// The path that is meant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(in super::super) struct PathName {
    pub(in super::super) interface: String,
    pub(in super::super) local: IpAddr,
    pub(in super::super) remote: SocketAddr,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(in super::super) struct Cause {
    /// Its name, which does not change between versions.
    pub(in super::super) name: &'static str,
    pub(in super::super) weight: Weight,
    /// What it is, in a sentence.
    pub(in super::super) text: String,
    /// The path concerned; absent if it is the whole.
    pub(in super::super) path: Option<PathName>,
    /// The command that fixes it; absent if none can.
    pub(in super::super) command: Option<String>,
    /// Where to give the command.
    pub(in super::super) place: Place,
}

impl Cause {
    pub(super) fn new(name: &'static str, weight: Weight, text: impl Into<String>) -> Self {
        let (path, command, place) = (None, None, Place::Here);
        Self { name, weight, text: text.into(), path, command, place }
    }

    pub(super) fn on(self, path: &PathFinding) -> Self {
        let PathFinding { local, interface, remote, .. } = path;
        let (local, interface, remote) = (*local, interface.clone(), *remote);
        Self { path: Some(PathName { interface, local, remote }), ..self }
    }

    /// A command that fixes it on this host.
    pub(super) fn mend(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), place: Place::Here, ..self }
    }

    /// It lies in `encrypt=off` here: names the rule that says so, if one does, and the command that allows encryption.
    pub(super) fn mend_encryption(self, findings: &Findings) -> Self {
        let Some(by) = &findings.ruled.unencrypted_by else {
            return self.mend("manypath config set encrypt=opportunistic");
        };
        let UnencryptedBy { rule, file, line, cure } = by;
        let (text, file) = (self.text, file.display());
        let text = format!("{text}; a rule turns encryption off: {rule} ({file} line {line})");
        Self { text, command: cure.clone(), place: Place::Here, ..self }
    }

    /// A command that fixes it on the peer.
    pub(super) fn mend_on_peer(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), place: Place::Peer, ..self }
    }
}
