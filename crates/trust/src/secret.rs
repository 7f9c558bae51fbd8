//! A secret that both ends have, from which both have the same key pair: who knows it can be either end.

use crate::error::TrustError;
use base64ct::{Base64, Encoding};
use manypath_keys::{BadKey, Identity};
use manypath_rules::KeptFile;
use std::path::Path;
use zeroize::Zeroizing;

/// A new secret: 256 random bits in base64, for the files of both ends.
///
/// # Errors
/// [`BadKey`] if the system has no randomness.
pub fn new_secret() -> Result<Zeroizing<String>, BadKey> {
    Ok(Zeroizing::new(Base64::encode_string(Identity::generate()?.as_ref())))
}

/// The identity of both ends, from a file with a secret.
///
/// # Errors
/// When it cannot be read; when others own it or may read it; when it holds less than 256 bits in base64.
pub fn load_secret(path: &Path) -> Result<Identity, TrustError> {
    let text = KeptFile::named(path.to_owned()).read_secret()?.map(Zeroizing::new);
    let wrong = |message| TrustError::new(path, message);
    let text = text.ok_or_else(|| {
        wrong("there is no secret: make one by `manypath key secret`, or copy that of the peer")
    })?;
    let secret = Base64::decode_vec(text.trim()).map(Zeroizing::new).unwrap_or_default();
    Identity::from_secret(&secret).map_err(|_| {
        wrong("no secret in base64 of 256 bits or more: `manypath key secret` makes one")
    })
}
