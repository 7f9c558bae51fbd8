//! The keys of peers.

use super::Writer;
use crate::log;
use manypath_keys::PublicKey;
use manypath_trust::KnownPeersFile;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use tracing::warn;

/// First contacts that may wait.
const MAX_JOBS: usize = 256;

/// The first contact with a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contact {
    addr: IpAddr,
    key: [u8; 32],
}

impl Contact {
    pub(crate) const fn new(addr: IpAddr, key: PublicKey) -> Self {
        Self { addr, key: *key.as_bytes() }
    }
}

/// Begins to write the keys of peers.
///
/// # Errors
/// When there are no threads left.
pub(crate) fn writer(file: KnownPeersFile) -> io::Result<Writer<Contact>> {
    Writer::start("known-peers", MAX_JOBS, move |contact| write(&file, &contact))
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
