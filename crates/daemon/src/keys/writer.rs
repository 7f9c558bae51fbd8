//! The thread that writes the keys of peers (see [`jobs`](crate::jobs)): another process may hold the file's lock.

use crate::jobs::{self, Offered};
use crate::log;
use manypath_keys::PublicKey;
use manypath_trust::KnownPeersFile;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tracing::warn;

/// First contacts that may wait.
const MAX_JOBS: usize = 256;
/// How long the end waits for what is still to be written.
const MAX_END: Duration = Duration::from_secs(1);

/// The first contact with a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contact {
    addr: IpAddr,
    key: [u8; 32],
}

impl Contact {
    pub(super) const fn new(addr: IpAddr, key: PublicKey) -> Self {
        Self { addr, key: *key.as_bytes() }
    }
}

/// The thread. Dropping it lets it finish, and waits a moment for that.
#[derive(Debug)]
pub(crate) struct Writer(jobs::Queue<Contact>);

impl Writer {
    /// # Errors
    /// When there are no threads left.
    pub(crate) fn start(file: KnownPeersFile) -> io::Result<Self> {
        jobs::worker("known-peers", MAX_JOBS, move |contact| write(&file, &contact)).map(Self)
    }

    /// Takes a contact; false when too many wait.
    pub(crate) fn take(&self, contact: Contact) -> bool {
        self.0.offer(contact) == Offered::Taken
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.finish(MAX_END);
    }
}

fn write(file: &KnownPeersFile, contact: &Contact) {
    let Contact { addr, key } = contact;
    let why = match file.change(|known| known.remember(*addr, (*key).into())) {
        Ok(true) => return,
        Ok(false) => format!("{}: no room, or another key is there by now", file.path().display()),
        Err(error) => error.to_string(),
    };
    warn!(target: log::PEERS, "the key of {addr} is not kept: {why}");
}
