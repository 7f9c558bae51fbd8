//! Who this host is, and which keys of peers it takes.

use super::Rejection;
use crate::files::Writer;
use crate::files::contacts::{self, Contact};
use crate::keeper::{Keeper, hand_over};
use crate::log;
use manypath_control::status::IdentityStatus;
use manypath_keys::{Identity as OwnIdentity, KeyLogFile, PublicKey};
use manypath_rules::{Client, Identity, Source};
use manypath_trust::{
    AuthorizedPeers, Fingerprint, IdentitySource, KnownPeersFile, SshHosts, TicketsFile,
    TrustStore, Verdict, is_key_address,
};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use tracing::warn;

/// What the files tell of peers: their keys, and whose may begin associations if not all may.
pub(crate) type Peers = (TrustStore, Option<AuthorizedPeers>);

/// Where a stack finds its own key and those of peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFiles {
    /// Its private key.
    pub identity: IdentitySource,
    /// The keys that peers have shown, by their addresses.
    pub known_peers: KnownPeersFile,
    /// Whether hosts count that the user knows by SSH.
    pub ssh_hosts: bool,
    /// The keys whose owners may begin associations. Without it all may.
    pub authorized_peers: Option<PathBuf>,
}

impl KeyFiles {
    /// The caller's usual files, with a key from there.
    #[must_use]
    pub fn usual(identity: IdentitySource) -> Self {
        let known_peers = KnownPeersFile::usual();
        Self { identity, known_peers, ssh_hosts: true, authorized_peers: None }
    }

    /// Those that are read again.
    pub(crate) fn read_again(&self) -> impl Iterator<Item = PathBuf> {
        let known = self.known_peers.path().to_owned();
        let ssh = self.ssh_hosts.then(SshHosts::places).into_iter().flatten();
        std::iter::once(known).chain(self.authorized_peers.clone()).chain(ssh)
    }

    fn read(&self, own: PublicKey) -> io::Result<Peers> {
        let known = self.known_peers.load().map_err(io::Error::other)?;
        let path = self.known_peers.path().display();
        known.faults().for_each(|fault| warn!(target: log::PEERS, "{path}: {fault}; ignored"));
        let only = (self.identity == IdentitySource::Secret).then_some(own);
        let ssh = match self.ssh_hosts {
            true => SshHosts::usual().map_err(io::Error::other)?,
            false => SshHosts::default(),
        };
        let authorized = self.authorized_peers.as_deref().map(AuthorizedPeers::load);
        let authorized = authorized.transpose().map_err(io::Error::other)?;
        Ok((TrustStore { known, ssh, only }, authorized))
    }
}

/// What is known of a peer that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Its key was seen for the first time at its address.
    New,
    /// Its address is known to have its key.
    Known,
    /// Its key is authorized.
    Authorized,
    /// It has connected to this host, which takes every key.
    Anyone,
}

impl Standing {
    /// Whether its key was known to this host before it showed it.
    pub(crate) const fn is_known(self) -> bool {
        matches!(self, Self::Known | Self::Authorized)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Known => "known",
            Self::Authorized => "authorized",
            Self::Anyone => "unknown",
        }
    }
}

/// A key for people.
pub(super) fn name(key: &PublicKey) -> String {
    Fingerprint::of(key).to_string()
}

fn open_key_log() -> io::Result<Option<KeyLogFile>> {
    let Some(path) = KeyLogFile::path_from_env() else { return Ok(None) };
    let opened = manypath_rules::open_to_append(&path, 0o600).and_then(KeyLogFile::new);
    let named = |error| io::Error::other(format!("MANYPATH_KEYLOG: {}: {error}", path.display()));
    let file = opened.map_err(named)?;
    warn!(target: log::STACK, "MANYPATH_KEYLOG: whoever has that file can read what is encrypted");
    Ok(Some(file))
}

/// The same. `lasting`: a file that cannot be written only costs what it is for.
fn open_key_log_or_warn(lasting: bool) -> io::Result<Option<KeyLogFile>> {
    open_key_log().or_else(|error| match lasting {
        true => {
            warn!(target: log::STACK, "no keys are written: {error}");
            Ok(None)
        }
        false => Err(error),
    })
}

/// The own key, and those of peers.
#[derive(Debug)]
pub(crate) struct Trust {
    /// Without them the key is one for this stack alone, and peers are known until it ends.
    files: Option<KeyFiles>,
    /// Why the files of the user are not used.
    unkept: Option<String>,
    identity: OwnIdentity,
    store: TrustStore,
    authorized: Option<AuthorizedPeers>,
    /// Begun with the first thing to write.
    writer: Option<Writer<Contact>>,
    /// Where the keys of all associations go, for who reads captures.
    key_log: Option<KeyLogFile>,
}

impl Trust {
    /// `lasting`: the own key is not made where it would go with a container.
    ///
    /// # Errors
    /// When a file cannot be read, or the own key not be made.
    pub(crate) fn load(files: Option<KeyFiles>, lasting: bool) -> io::Result<Self> {
        let identity = match &files {
            Some(KeyFiles { identity, .. }) if lasting => identity.load_lasting(),
            Some(KeyFiles { identity, .. }) => identity.load(),
            None => return Self::generate(None),
        };
        let identity = identity.map_err(io::Error::other)?;
        let read = files.as_ref().map(|files| files.read(identity.public_key()));
        let (store, authorized) = read.transpose()?.unwrap_or_default();
        let key_log = open_key_log_or_warn(lasting)?;
        Ok(Self { files, unkept: None, identity, store, authorized, writer: None, key_log })
    }

    /// With a key for this stack alone, and the reason why the files of the user are not used, if there are any.
    ///
    /// # Errors
    /// When no key can be made.
    pub(crate) fn generate(unkept: Option<String>) -> io::Result<Self> {
        let private = OwnIdentity::generate().map_err(io::Error::other)?;
        let identity = OwnIdentity::from_private(&private).map_err(io::Error::other)?;
        let (store, authorized) = Default::default();
        let key_log = open_key_log_or_warn(true)?;
        Ok(Self { files: None, unkept, identity, store, authorized, writer: None, key_log })
    }

    /// Whether the files of the user are not used.
    pub(crate) const fn is_unkept(&self) -> bool {
        self.unkept.is_some()
    }

    /// The own key, for the status.
    pub(super) fn identity_status(&self, tickets: usize) -> IdentityStatus {
        let (key, unkept) = (name(&self.identity.public_key()), self.unkept.clone());
        IdentityStatus { key, unkept, tickets }
    }

    /// Whether keys of associations are written to a file.
    pub(super) const fn logs_keys(&self) -> bool {
        self.key_log.is_some()
    }

    /// Where tickets are kept, if the own key is.
    pub(super) fn tickets_file(&self) -> Option<TicketsFile> {
        self.files.as_ref().map(|files| TicketsFile::beside(&files.known_peers))
    }

    /// Writes a line of the log of keys.
    pub(super) fn log_key(&mut self, line: &str) {
        let written = self.key_log.as_mut().map(|file| file.write(line));
        if let Some(Err(error)) = written {
            warn!(target: log::STACK, "MANYPATH_KEYLOG: {error}; no more keys are written");
            self.key_log = None;
        }
    }

    /// Reads again what may have changed about peers, if there are files.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn read_peers(&self) -> io::Result<Option<Peers>> {
        self.files.as_ref().map(|files| files.read(self.identity.public_key())).transpose()
    }

    /// This is known of peers from now on.
    pub(crate) fn adopt(&mut self, peers: Peers) {
        (self.store, self.authorized) = peers;
    }

    pub(crate) const fn identity(&self) -> &OwnIdentity {
        &self.identity
    }

    /// Whether a peer at this address may not do without encryption.
    pub(crate) fn is_known(&self, addr: IpAddr) -> bool {
        is_key_address(addr) || self.store.is_known(addr)
    }

    /// Whether a peer at this address may have this key.
    pub(crate) fn judge(&self, addr: IpAddr, presented: &PublicKey) -> Result<Standing, Rejection> {
        if is_key_address(addr) {
            return self.judge_key_address(addr, presented);
        }
        match self.store.verdict(addr, presented) {
            Verdict::New => Ok(Standing::New),
            Verdict::Known(_) => Ok(Standing::Known),
            Verdict::Changed { known } => {
                Err(Rejection::KeyChanged { addr, known, presented: *presented })
            }
            Verdict::Revoked => Err(Rejection::KeyRevoked(*presented)),
        }
    }

    /// The address itself says which key is the right one.
    fn judge_key_address(&self, addr: IpAddr, key: &PublicKey) -> Result<Standing, Rejection> {
        match IpAddr::from(Fingerprint::of(key).address()) == addr {
            _ if self.store.is_revoked(key) => Err(Rejection::KeyRevoked(*key)),
            true => Ok(Standing::Known),
            false => Err(Rejection::OtherKey { addr, presented: *key }),
        }
    }

    /// Whether a peer with this key may begin associations.
    pub(crate) fn admit(&self, key: &PublicKey) -> Result<Standing, Rejection> {
        let allows = |list: &AuthorizedPeers| list.allows(key).is_some();
        match (self.store.only, self.authorized.as_ref().map(allows)) {
            _ if self.store.is_revoked(key) => Err(Rejection::KeyRevoked(*key)),
            (Some(only), _) if only != *key => Err(Rejection::NotAuthorized(*key)),
            (_, Some(false)) => Err(Rejection::NotAuthorized(*key)),
            (None, None) => Ok(Standing::Anyone),
            _ => Ok(Standing::Authorized),
        }
    }

    /// The name of an authorized peer, if it has one.
    pub(super) fn authorized_name(&self, key: &PublicKey) -> Option<&str> {
        self.authorized.as_ref()?.allows(key).filter(|name| !name.is_empty())
    }

    /// Whether a peer that may begin associations can be that of a rule.
    pub(super) fn may_take(&self, wanted: &Source) -> bool {
        let Some(authorized) = &self.authorized else {
            return !matches!(wanted.identity, Some(Identity::Peer(_)));
        };
        let client = |(key, known): (PublicKey, &str)| Client {
            key: Some(name(&key)),
            name: Some(known.to_owned()),
            ..Client::default()
        };
        authorized.peers().into_iter().any(|peer| wanted.admits(Some(&client(peer))))
    }

    /// The peer at this address, of which nothing may be known, has this key. False if that cannot be kept.
    pub(crate) fn remember(&mut self, addr: IpAddr, key: PublicKey) -> bool {
        if is_key_address(addr) || self.store.verdict(addr, &key) != Verdict::New {
            return true;
        }
        let fits = self.store.known.remember(addr, key);
        fits && (self.files.is_none() || self.keep(Contact::new(addr, key)))
    }

    fn keep(&mut self, contact: Contact) -> bool {
        let Some(files) = &self.files else { return false };
        let start = || contacts::writer(files.known_peers.clone());
        hand_over(contact, Keeper::remember, &mut self.writer, start)
    }
}
