//! Keys of peers, by address, remembered on first contact like SSH's `known_hosts`.
//!
//! ```text
//! # the file server, compared by telephone
//! 192.0.2.7 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
//! 2001:db8::7 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG1hbnlwYXRoIGxldHMgYW55IFRDUCBwcm9ncmFtIHVz
//! @revoked bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM= stolen notebook
//! ```

use crate::error::TrustError;
use crate::line::{Fault, take_key, words_of};
use crate::places::Place;
use crate::verdict::{Source, Verdict};
use manypath_keys::PublicKey;
use manypath_rules::{KeptFile, KeptFileError};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Most lines of a file to which lines are added. Nothing is forgotten to make room: a peer that is forgotten would be
/// taken for a new one.
const MAX_LINES: usize = 8192;
const REVOKED: &str = "@revoked";

/// The lines of a file. Lines that are not touched stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownPeers {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Peer(IpAddr, PublicKey),
    Revoked(PublicKey),
    Comment,
    Fault(String),
}

impl KnownPeers {
    /// Reads a text. Lines that cannot be read are [`Self::faults`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let line = |text: &str| Line { text: text.to_owned(), content: content(text) };
        Self { lines: text.lines().map(line).collect() }
    }

    /// What a peer at this address that has shown this key is. Some other key may stand for the address, too.
    #[must_use]
    pub fn verdict(&self, addr: IpAddr, key: &PublicKey) -> Verdict {
        if self.is_revoked(key) {
            return Verdict::Revoked;
        }
        let mut keys = self.keys_of(addr);
        match keys.clone().next() {
            None => Verdict::New,
            Some(_) if keys.any(|known| known == *key) => Verdict::Known(Source::KnownPeers),
            Some(known) => Verdict::Changed { known },
        }
    }

    /// Whether a key stands for the address: the peer there was authenticated once, and does without it never again.
    #[must_use]
    pub fn is_known(&self, addr: IpAddr) -> bool {
        self.keys_of(addr).next().is_some()
    }

    /// Whether nobody is to be believed by this key.
    #[must_use]
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.revoked().any(|revoked| revoked == *key)
    }

    /// The keys of an address.
    pub fn keys_of(&self, addr: IpAddr) -> impl Iterator<Item = PublicKey> + Clone {
        let addr = addr.to_canonical();
        self.peers().filter(move |(of, _)| *of == addr).map(|(_, key)| key)
    }

    /// All addresses with a key, in the order of the file.
    pub fn peers(&self) -> impl Iterator<Item = (IpAddr, PublicKey)> + Clone {
        self.lines.iter().filter_map(|line| match line.content {
            Content::Peer(addr, key) => Some((addr, key)),
            Content::Revoked(_) | Content::Comment | Content::Fault(_) => None,
        })
    }

    /// All keys that are revoked.
    pub fn revoked(&self) -> impl Iterator<Item = PublicKey> {
        self.lines.iter().filter_map(|line| match line.content {
            Content::Revoked(key) => Some(key),
            Content::Peer(..) | Content::Comment | Content::Fault(_) => None,
        })
    }

    /// The lines that cannot be read.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let numbered = self.lines.iter().zip(1..);
        numbered.filter_map(|(line, number)| match &line.content {
            Content::Fault(message) => Some(Fault { line: number, message: message.clone() }),
            Content::Peer(..) | Content::Revoked(_) | Content::Comment => None,
        })
    }

    /// Remembers the key of an address of which nothing was known. Returns whether the key is known for it now: not if
    /// another key is, if the key is revoked, or if there is no room.
    #[must_use]
    pub fn remember(&mut self, addr: IpAddr, key: PublicKey) -> bool {
        match self.verdict(addr, &key) {
            Verdict::New if self.lines.len() < MAX_LINES => self.push(peer(addr, key)),
            Verdict::Known(_) => {}
            Verdict::New | Verdict::Changed { .. } | Verdict::Revoked => return false,
        }
        true
    }

    /// Puts the key in the place of all that stand for the address.
    pub fn trust(&mut self, addr: IpAddr, key: PublicKey) {
        self.forget(addr);
        self.push(peer(addr, key));
    }

    /// Forgets an address, and returns how many keys stood for it. The next contact is the first one again.
    pub fn forget(&mut self, addr: IpAddr) -> usize {
        let addr = addr.to_canonical();
        self.remove(|content| matches!(content, Content::Peer(of, _) if *of == addr))
    }

    /// Forgets a key for all addresses, also that it is revoked, and returns how many lines said so.
    pub fn forget_key(&mut self, key: &PublicKey) -> usize {
        self.remove(|content| match content {
            Content::Peer(_, of) | Content::Revoked(of) => of == key,
            Content::Comment | Content::Fault(_) => false,
        })
    }

    /// Believes nobody by this key any more. Addresses that it stands for keep it, so that what comes there is no first
    /// contact. Returns whether that is new.
    pub fn revoke(&mut self, key: PublicKey) -> bool {
        let new = !self.is_revoked(&key);
        if new {
            self.push(format!("{REVOKED} {key}"));
        }
        new
    }

    fn push(&mut self, text: String) {
        self.lines.push(Line { content: content(&text), text });
    }

    fn remove(&mut self, is_meant: impl Fn(&Content) -> bool) -> usize {
        let before = self.lines.len();
        self.lines.retain(|line| !is_meant(&line.content));
        before - self.lines.len()
    }
}

impl fmt::Display for KnownPeers {
    /// The text of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{}", line.text))
    }
}

/// The file. Reading and changing it may block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeersFile(KeptFile);

impl KnownPeersFile {
    /// The caller's usual file.
    #[must_use]
    pub fn usual() -> Self {
        Self::named(Place::KnownPeers.path())
    }

    /// A file at a place of one's own.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path))
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What it says; nothing if there is no file.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than 1 MiB.
    pub fn load(&self) -> Result<KnownPeers, TrustError> {
        Ok(KnownPeers::parse(&self.0.read_lossy()?))
    }

    /// Changes what it says. Of two processes that do so at once, neither loses the other's change; a reader finds the
    /// old text or the new one.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn change<T>(&self, change: impl FnOnce(&mut KnownPeers) -> T) -> Result<T, TrustError> {
        self.try_change(|peers| Ok(change(peers)))
    }

    /// As [`Self::change`]. The file stays as it was when `change` fails.
    ///
    /// # Errors
    /// As [`Self::change`]; what `change` says.
    pub fn try_change<T, E: From<TrustError>>(
        &self,
        change: impl FnOnce(&mut KnownPeers) -> Result<T, E>,
    ) -> Result<T, E> {
        let changed = self.0.edit(|text| {
            let mut peers = KnownPeers::parse(&text);
            let result = change(&mut peers).map_err(Failed)?;
            Ok((peers.to_string(), result))
        });
        changed.map_err(|Failed(error)| error)
    }
}

/// What a change says, or what the operating system does.
struct Failed<E>(E);

impl<E: From<TrustError>> From<KeptFileError> for Failed<E> {
    fn from(error: KeptFileError) -> Self {
        Self(TrustError::from(error).into())
    }
}

fn peer(addr: IpAddr, key: PublicKey) -> String {
    format!("{} {key}", addr.to_canonical())
}

fn content(line: &str) -> Content {
    let Some(mut words) = words_of(line) else { return Content::Comment };
    let first = words.next().unwrap_or_default();
    let read = match (first, first.parse::<IpAddr>()) {
        (REVOKED, _) => take_key(&mut words).map(Content::Revoked),
        (_, Ok(addr)) => take_key(&mut words).map(|key| Content::Peer(addr.to_canonical(), key)),
        _ => Err(format!("\"{first}\" is neither an address nor {REVOKED}")),
    };
    read.unwrap_or_else(Content::Fault)
}
