//! A log of keys, with which captures of protected associations can be read: for DTLS chunks what SSLKEYLOGFILE is for
//! TLS.

use manypath_aead::CipherSuite;
use manypath_engine::protection::{KeyAgreement, NONCE_LEN, RecordKey};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// The environment variable that names the file.
const VARIABLE: &str = "MANYPATH_KEYLOG";
/// Where a tie breaker is in a DTLS Key Management parameter.
const TIE_BREAKER: std::ops::Range<usize> = 4..8;

/// What protects the packets that one end sends in one epoch.
pub(crate) struct Material {
    pub(crate) suite: CipherSuite,
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) iv: [u8; NONCE_LEN],
    pub(crate) sn: Zeroizing<Vec<u8>>,
}

impl Material {
    pub(crate) fn record_key(&self) -> Option<RecordKey> {
        self.suite.key(&self.key, self.iv, &self.sn).ok()
    }

    /// The line that tells it. The association is named by both tie breakers, the client's first.
    pub(crate) fn line(&self, agreed: &KeyAgreement, epoch: u64) -> Zeroizing<String> {
        let [client, server] = [&agreed.client_parameter, &agreed.server_parameter]
            .map(|it| hex(it.get(TIE_BREAKER).unwrap_or_default()));
        let (suite, key, iv, sn) = (self.suite.id(), hex(&self.key), hex(&self.iv), hex(&self.sn));
        let keys = format!("{suite:04x} {} {} {}", *key, *iv, *sn);
        Zeroizing::new(format!("SCTP_DTLS_KEY {}{} {epoch} {keys}", *client, *server))
    }
}

fn hex(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A file of keys. Whoever reads it can read all that was sent with them, and could have changed it: it is for
/// looking into one's own captures, and belongs nowhere else.
#[derive(Debug)]
pub struct KeyLogFile(File);

impl KeyLogFile {
    /// What the environment variable `MANYPATH_KEYLOG` names; none if that is not set.
    #[must_use]
    pub fn path_from_env() -> Option<PathBuf> {
        std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// Takes a file that was opened to append.
    ///
    /// # Errors
    /// The system's, and `PermissionDenied` if anybody but its owner may open the file.
    pub fn new(file: File) -> io::Result<Self> {
        if file.metadata()?.mode() & 0o077 != 0 {
            let why = "others may open the key log: give it mode 0600 (chmod 600)";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self(file))
    }

    /// Adds a line of [`KeyManagement::poll_key_log`](crate::KeyManagement::poll_key_log).
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        // In one call, so that lines of several processes stay whole.
        self.0.write_all(Zeroizing::new(format!("{line}\n")).as_bytes())
    }
}
