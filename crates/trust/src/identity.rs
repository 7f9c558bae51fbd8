//! The caller's own key, in the format of OpenSSH's private keys (PROTOCOL.key): `ssh-keygen` makes and shows them, and
//! host keys of SSH are such files.

use crate::error::TrustError;
use crate::places::Place;
use crate::secret::load_secret;
use manypath_keys::{BadKey, Identity};
use manypath_rules::{KeptFile, goes_with_container};
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData, PrivateKey};
use ssh_key::public::Ed25519PublicKey;
use ssh_key::{Error, LineEnding};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The host key of SSH, which only root may read.
const SSH_HOST_KEY: &str = "/etc/ssh/ssh_host_ed25519_key";

const ANOTHER_TYPE: &str = "a private key of another type: use an Ed25519 key";

/// Where an end has its key from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdentitySource {
    /// The caller's file, made on first use.
    #[default]
    Own,
    /// The host key of SSH.
    SshHost,
    /// The caller's secret, which the peer has, too.
    Secret,
    /// A private key of OpenSSH.
    File(PathBuf),
}

impl FromStr for IdentitySource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "own" => Ok(Self::Own),
            "ssh" => Ok(Self::SshHost),
            "secret" => Ok(Self::Secret),
            path if Path::new(path).is_absolute() => Ok(Self::File(path.into())),
            _ => Err("write own, ssh, secret, or the absolute path of a private key of OpenSSH"),
        }
    }
}

impl IdentitySource {
    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Own => Place::Identity.path(),
            Self::SshHost => SSH_HOST_KEY.into(),
            Self::Secret => Place::Secret.path(),
            Self::File(path) => path.clone(),
        }
    }

    /// The key pair, as by [`Self::load`], unless it would have to be made where it would go with a container: the next
    /// one at the same address would be another peer.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_lasting(&self) -> Result<Identity, TrustError> {
        let path = self.path();
        let folder = path.parent().unwrap_or(&path);
        let named = std::env::var_os("MANYPATH_KEYS").is_some_and(|value| !value.is_empty());
        if *self == Self::Own && !named && !path.exists() && goes_with_container(folder) {
            let why = "it would go with the container: set MANYPATH_KEYS to a folder that stays";
            return Err(TrustError::new(&path, why));
        }
        self.load()
    }

    /// The key pair. Only that of [`Self::Own`] is made if it is missing.
    ///
    /// # Errors
    /// When the file is missing or is no such file, or when others may read it.
    pub fn load(&self) -> Result<Identity, TrustError> {
        match self {
            Self::Own => load_or_create_identity(&self.path()),
            Self::Secret => load_secret(&self.path()),
            Self::SshHost | Self::File(_) => load_identity(&self.path()),
        }
    }
}

/// The key pair of a file, which is made if it is missing, for its owner alone. Of two callers, one makes it.
///
/// # Errors
/// When it cannot be read or made; when others own it or may read it; when it holds no Ed25519 key. A file that is
/// there is never overwritten.
pub fn load_or_create_identity(path: &Path) -> Result<Identity, TrustError> {
    let file = KeptFile::named(path.to_owned());
    let text = file.read_or_make_secret(|| new_file().map_err(io::Error::other))?;
    parse(&text).map_err(|message| TrustError::new(path, message))
}

/// The key pair of a file that is there.
///
/// # Errors
/// As [`load_or_create_identity`]; when there is no such file.
pub fn load_identity(path: &Path) -> Result<Identity, TrustError> {
    let text = KeptFile::named(path.to_owned()).read_secret()?;
    let text = text.ok_or_else(|| TrustError::new(path, "there is no such file"))?;
    parse(&text).map_err(|message| TrustError::new(path, message))
}

fn new_file() -> Result<String, String> {
    let text = |error: BadKey| error.to_string();
    let private = Identity::generate().map_err(text)?;
    let public = *Identity::from_private(&private).map_err(text)?.public_key().as_bytes();
    let pair = Ed25519Keypair {
        public: Ed25519PublicKey(public),
        private: Ed25519PrivateKey::from_bytes(&private),
    };
    let key = PrivateKey::new(KeypairData::Ed25519(pair), "manypath");
    let file = key.and_then(|key| key.to_openssh(LineEnding::LF));
    file.map(|file| file.to_string()).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Identity, String> {
    let key = PrivateKey::from_openssh(text).map_err(|error| {
        if error == Error::AlgorithmUnknown {
            return ANOTHER_TYPE.to_owned();
        }
        format!("no private key of OpenSSH ({error}): restore it, or move it away to get a new one")
    })?;
    if key.is_encrypted() {
        return Err("it has a passphrase: use a key without one, as for an SSH server".to_owned());
    }
    let pair = key.key_data().ed25519().ok_or(ANOTHER_TYPE)?;
    let identity = Identity::from_private(&pair.private.to_bytes()).map_err(|e| e.to_string())?;
    match identity.public_key().as_bytes() == &pair.public.0 {
        true => Ok(identity),
        false => Err("its public key is that of another private key: restore the file".to_owned()),
    }
}
