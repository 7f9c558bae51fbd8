//! The exporter of TLS 1.3 (RFC 8446 section 7.5). rustls has it only for complete handshakes, but the server must
//! open what the client seals before that (draft-westerlund-tsvwg-sctp-dtls-handshake section 7.2.1, step 5). rustls
//! tells the secret that exports come from to a `KeyLog` when it has sent its flight.

use manypath_aead::CipherSuite;
use ring::digest::{self, Digest};
use ring::hkdf::{self, KeyType, Prk};
use rustls::KeyLog;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// Where rustls leaves the secret of a connection.
#[derive(Default)]
pub(crate) struct Secret(Mutex<Option<Zeroizing<Vec<u8>>>>);

impl Secret {
    /// What keys are exported with, once it is known.
    pub(crate) fn exporter(&self, suite: CipherSuite) -> Option<Exporter> {
        let secret = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Exporter::new(suite, secret.as_ref()?))
    }
}

impl fmt::Debug for Secret {
    /// Does not print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl KeyLog for Secret {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *own = Some(Zeroizing::new(secret.to_vec()));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

/// The exporter of a connection.
pub(crate) struct Exporter {
    secret: Prk,
    hkdf: hkdf::Algorithm,
    hash: &'static digest::Algorithm,
}

/// A length, as ring wants it.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Exporter {
    /// One that exports from `secret`.
    pub(crate) fn new(suite: CipherSuite, secret: &[u8]) -> Self {
        let (hkdf, hash) = match suite {
            CipherSuite::Aes128Gcm | CipherSuite::ChaCha20Poly1305 => {
                (hkdf::HKDF_SHA256, &digest::SHA256)
            }
            CipherSuite::Aes256Gcm => (hkdf::HKDF_SHA384, &digest::SHA384),
        };
        Self { secret: Prk::new_less_safe(hkdf, secret), hkdf, hash }
    }

    /// As long a secret as others can be exported from.
    pub(crate) fn export_secret(&self, label: &str, context: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.export(label, context, self.hash.output_len())
    }

    /// TLS-Exporter(label, context, len). None if `len` is more than HKDF gives.
    pub(crate) fn export(
        &self,
        label: &str,
        context: &[u8],
        len: usize,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let (nothing, context) = (self.digest(b""), self.digest(context));
        let size = self.hash.output_len();
        let secret = expand_label(&self.secret, label, nothing.as_ref(), size)?;
        let secret = Prk::new_less_safe(self.hkdf, &secret);
        expand_label(&secret, "exporter", context.as_ref(), len)
    }

    fn digest(&self, bytes: &[u8]) -> Digest {
        digest::digest(self.hash, bytes)
    }
}

/// HKDF-Expand-Label (RFC 8446 section 7.1).
fn expand_label(
    secret: &Prk,
    label: &str,
    context: &[u8],
    len: usize,
) -> Option<Zeroizing<Vec<u8>>> {
    const PREFIX: &str = "tls13 ";
    let size = u16::try_from(len).ok()?.to_be_bytes();
    let label_len = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_len = [u8::try_from(context.len()).ok()?];
    let (prefix, label) = (PREFIX.as_bytes(), label.as_bytes());
    let info = [&size[..], &label_len, prefix, label, &context_len, context];
    let mut out = Zeroizing::new(vec![0; len]);
    secret.expand(&info, Length(len)).and_then(|okm| okm.fill(&mut out)).ok()?;
    Some(out)
}
