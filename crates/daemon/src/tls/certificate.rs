//! Certificates that a server shows: read from files, or made here and signed by themselves (RFC 5280).

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::io;
use std::path::Path;

/// A certificate with its chain and private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub(super) certified: CertifiedKey,
    /// Whether somebody wants this one to be shown.
    is_given: bool,
}

/// Tags of DER (X.690).
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
/// Object identifiers with their tag: ecdsa-with-SHA256, id-ecPublicKey and secp256r1 (RFC 5480), commonName, and
/// subjectAltName (RFC 5280).
const ECDSA_SHA256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_KEY: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];
const ALT_NAME: &[u8] = &[6, 3, 0x55, 0x1d, 0x11];
/// From 2020, without an end (RFC 5280 section 4.1.2.5).
const NOT_BEFORE: &[u8] = b"200101000000Z";
const NOT_AFTER: &[u8] = b"99991231235959Z";

impl Certificate {
    /// Reads a chain of certificates and the private key of its first one, both as PEM.
    ///
    /// # Errors
    /// Which file cannot be read, or has none.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, String> {
        let why =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let found = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
        let certificates: Vec<_> = found.map_err(|e| why(chain, &e))?;
        if certificates.is_empty() {
            return Err(why(chain, &"no certificate in PEM form"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            if matches!(error, pem::Error::NoItemsFound) {
                return why(key, &"no private key in PEM form without a passphrase");
            }
            why(key, &error)
        })?;
        let private = any_supported_type(&private).map_err(|e| why(key, &e))?;
        let certified = CertifiedKey::new(certificates, private);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(Self { certified, is_given: true })
            }
            Err(_) => Err(why(key, &format!("not the key of {}", chain.display()))),
        }
    }

    /// Whether it was read from files.
    pub(crate) const fn is_given(&self) -> bool {
        self.is_given
    }

    /// Makes one for a host name, with a new key, signed by itself.
    pub(super) fn make(name: &str) -> io::Result<Self> {
        let random = SystemRandom::new();
        let failed = |_| io::Error::other("no key for a certificate could be made");
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
        let pkcs8 = pkcs8.map_err(failed)?;
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random);
        let pair = pair.map_err(|error| io::Error::other(error.to_string()))?;
        let content = content(name, pair.public_key().as_ref());
        let signature = pair.sign(&random, &content).map_err(failed)?;
        let algorithm = field(SEQUENCE, ECDSA_SHA256);
        let whole = [content, algorithm, bits(signature.as_ref())].concat();
        let certificate = CertificateDer::from(field(SEQUENCE, &whole));
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec()));
        let key = any_supported_type(&key).map_err(io::Error::other)?;
        Ok(Self { certified: CertifiedKey::new(vec![certificate], key), is_given: false })
    }
}

/// What is signed (TBSCertificate).
fn content(name: &str, public_key: &[u8]) -> Vec<u8> {
    let holder = field(SEQUENCE, &[COMMON_NAME, &field(UTF8, name.as_bytes())].concat());
    let holder = field(SEQUENCE, &field(SET, &holder));
    let validity = [field(UTC_TIME, NOT_BEFORE), field(TIME, NOT_AFTER)].concat();
    let kind = field(SEQUENCE, &[EC_KEY, P256].concat());
    let key = field(SEQUENCE, &[kind, bits(public_key)].concat());
    let names = field(OCTET_STRING, &field(SEQUENCE, &field(DNS_NAME, name.as_bytes())));
    let extension = field(SEQUENCE, &[ALT_NAME, &names].concat());
    let parts = [
        field(VERSION, &field(INTEGER, &[2])),
        field(INTEGER, &[1]),
        field(SEQUENCE, ECDSA_SHA256),
        holder.clone(),
        field(SEQUENCE, &validity),
        holder,
        key,
        field(EXTENSIONS, &field(SEQUENCE, &extension)),
    ];
    field(SEQUENCE, &parts.concat())
}

/// A field: its tag, its length (X.690 section 8.1.3) and its content, which is shorter than 64 KiB.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let head = match (high, low) {
        (0, 0..0x80) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head, content].concat()
}

fn bits(content: &[u8]) -> Vec<u8> {
    field(BIT_STRING, &[&[0], content].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::Encoding;

    #[test]
    fn a_certificate_that_is_made_fits_its_key_and_is_well_formed() {
        let long = format!("{}.example", "a".repeat(63));
        for name in ["localhost", &long] {
            let made = Certificate::make(name).unwrap().certified;
            assert_eq!(made.keys_match(), Ok(()), "rustls parses it");
            assert!(made.cert[0].windows(name.len()).any(|part| part == name.as_bytes()));
        }
    }

    #[test]
    fn files_without_a_certificate_are_refused_by_name() {
        let empty = Path::new("/dev/null");
        let error = Certificate::read(empty, empty).unwrap_err();
        assert!(error.starts_with("/dev/null: "), "{error}");
        let [chain, key, other] = ["chain", "key", "other"].map(|name| {
            std::env::temp_dir().join(format!("manypath-{name}-{}", std::process::id()))
        });
        let made = Certificate::make("localhost").unwrap().certified;
        let pem = |kind: &str, der: &[u8]| {
            let text = base64ct::Base64::encode_string(der);
            format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
        };
        std::fs::write(&chain, pem("CERTIFICATE", &made.cert[0])).unwrap();
        std::fs::write(&key, pem("ENCRYPTED PRIVATE KEY", &[0; 9])).unwrap();
        let alg = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let of_other = EcdsaKeyPair::generate_pkcs8(alg, &SystemRandom::new()).unwrap();
        std::fs::write(&other, pem("PRIVATE KEY", of_other.as_ref())).unwrap();
        let refused = |key: &Path| Certificate::read(&chain, key).unwrap_err();
        let said = (refused(&key), refused(&other));
        [&chain, &key, &other].iter().for_each(|file| std::fs::remove_file(file).unwrap());
        assert!(said.0.ends_with(": no private key in PEM form without a passphrase"), "{said:?}");
        assert_eq!(said.1, format!("{}: not the key of {}", other.display(), chain.display()));
        let missing = Certificate::read(Path::new("/nowhere/a.pem"), empty).unwrap_err();
        assert!(missing.starts_with("/nowhere/a.pem: "), "{missing}");
    }
}
