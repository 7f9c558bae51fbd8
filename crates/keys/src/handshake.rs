//! One handshake of TLS 1.3 (RFC 8446) with raw public keys (RFC 7250) at both ends, by rustls, and the keys of
//! an epoch that come of it.

use crate::exporter::{Exporter, Secret};
use crate::key_log::Material;
use crate::{Failure, Identity, PublicKey};
use manypath_aead::CipherSuite;
use manypath_engine::protection::{KeyRole, NONCE_LEN};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::{cipher_suite as suites, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Most bytes that a handshake takes from a peer; ours sends less than 1,000.
const MAX_BYTES: usize = 16_384;

/// What the labels of keys begin with: of those that follow from a handshake, and from a ticket.
const PRIMARY: &str = "EXPORTER_DTLS_IN_SCTP_PRIMARY";
pub(crate) const RESUMED: &str = "EXPORTER_DTLS_IN_SCTP_RESUMED";

/// A handshake under way, or complete.
#[derive(Debug)]
pub(crate) struct Handshake {
    connection: Connection,
    secret: Arc<Secret>,
    /// Bytes that the peer may still send.
    left: usize,
}

impl Handshake {
    /// Begins one. The client has something to send at once.
    pub(crate) fn begin(role: KeyRole, identity: &Identity) -> Result<Self, Failure> {
        let secret = Arc::new(Secret::default());
        let connection = match role {
            KeyRole::Client => Connection::Client(client(identity, secret.clone())?),
            KeyRole::Server => Connection::Server(server(identity, secret.clone())?),
        };
        Ok(Self { connection, secret, left: MAX_BYTES })
    }

    /// Takes what the peer has sent.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(Failure::Malformed)?;
        while !bytes.is_empty() {
            let taken = self.connection.read_tls(&mut bytes).map_err(|_| Failure::Malformed)?;
            let state = self.connection.process_new_packets()?;
            // Nothing is sent inside of TLS.
            if taken == 0 || state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
                return Err(Failure::Malformed);
            }
        }
        Ok(())
    }

    /// Appends what is to be sent. Whether that was anything.
    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        // Memory takes all that is written to it.
        while self.connection.wants_write() && self.connection.write_tls(out).is_ok() {}
        out.len() > before
    }

    /// Who the peer is, once both ends have proved that they have their keys.
    pub(crate) fn peer(&self) -> Option<PublicKey> {
        if self.connection.is_handshaking() {
            return None;
        }
        PublicKey::from_spki(self.connection.peer_certificates()?.first()?)
    }

    /// What was agreed on, if that is so already.
    pub(crate) fn cipher_suite(&self) -> Option<CipherSuite> {
        let suite = self.connection.negotiated_cipher_suite()?;
        CipherSuite::from_id(suite.suite().into())
    }

    /// The key of what `sender` sends, in an association in which `context` was agreed on. The client has it when
    /// the handshake is complete, the server one flight earlier; before there is none.
    pub(crate) fn key(&self, sender: KeyRole, context: &[u8]) -> Result<Option<Material>, Failure> {
        let Some(suite) = self.cipher_suite() else { return Ok(None) };
        let Some(exporter) = self.secret.exporter(suite) else { return Ok(None) };
        let material = material(&exporter, suite, (PRIMARY, sender), context);
        material.ok_or(Failure::Malformed).map(Some)
    }

    /// What the keys of an association to come follow from that resumes this one.
    pub(crate) fn resumption_secret(&self, context: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let exporter = self.secret.exporter(self.cipher_suite()?)?;
        exporter.export_secret("EXPORTER_DTLS_IN_SCTP_RESUMPTION", context)
    }
}

/// What protects the packets of `sender`, whose label goes behind `prefix`.
pub(crate) fn material(
    exporter: &Exporter,
    suite: CipherSuite,
    (prefix, sender): (&str, KeyRole),
    context: &[u8],
) -> Option<Material> {
    let sender = match sender {
        KeyRole::Client => "CLIENT",
        KeyRole::Server => "SERVER",
    };
    let export = |part, len| {
        let label = format!("{prefix}_{sender}_{part}");
        exporter.export(&label, context, len)
    };
    let (key, sn) = (export("KEY", suite.key_len())?, export("SN", suite.key_len())?);
    let iv = *export("IV", NONCE_LEN)?.first_chunk()?;
    Some(Material { suite, key, iv, sn })
}

/// TLS 1.3 with the cipher suites of DTLS chunks and X25519.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![
        suites::TLS13_AES_128_GCM_SHA256,
        suites::TLS13_AES_256_GCM_SHA384,
        suites::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    let kx_groups = vec![kx_group::X25519];
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..default_provider() })
}

fn client(identity: &Identity, secret: Arc<Secret>) -> Result<ClientConnection, Error> {
    let provider = provider();
    let verifier = Arc::new(RawKeys(provider.clone()));
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&TLS13])?.dangerous();
    let keys = AlwaysResolvesClientRawPublicKeys::new(identity.key.clone());
    let builder = builder.with_custom_certificate_verifier(verifier);
    let mut config = builder.with_client_cert_resolver(Arc::new(keys));
    config.key_log = secret;
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // Peers are known by their keys.
    let nobody = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    ClientConnection::new(Arc::new(config), nobody)
}

fn server(identity: &Identity, secret: Arc<Secret>) -> Result<ServerConnection, Error> {
    let provider = provider();
    let verifier = Arc::new(RawKeys(provider.clone()));
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let keys = AlwaysResolvesServerRawPublicKeys::new(identity.key.clone());
    let builder = builder.with_client_cert_verifier(verifier);
    let mut config = builder.with_cert_resolver(Arc::new(keys));
    config.key_log = secret;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    ServerConnection::new(Arc::new(config))
}

/// Takes any Ed25519 key that its owner has proved to have. Whether it is the right one is decided outside.
#[derive(Debug)]
struct RawKeys(Arc<CryptoProvider>);

impl RawKeys {
    fn check_form(key: &CertificateDer<'_>) -> Result<(), Error> {
        let known = PublicKey::from_spki(key).is_some();
        if known { Ok(()) } else { Err(CertificateError::BadEncoding.into()) }
    }

    fn check(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }
}

const NOT_TLS_1_2: Error = Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered);

impl ServerCertVerifier for RawKeys {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::check_form(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NOT_TLS_1_2)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::check_form(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NOT_TLS_1_2)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Handshake;
    use crate::Identity;
    use manypath_aead::CipherSuite;
    use manypath_engine::protection::KeyRole;

    fn identity() -> Identity {
        Identity::from_private(&Identity::generate().unwrap()).unwrap()
    }

    /// What `from` has to say reaches `to`.
    fn carry(from: &mut Handshake, to: &mut Handshake) {
        let mut flight = Vec::new();
        assert!(from.transmit(&mut flight));
        to.receive(&flight).unwrap();
    }

    #[test]
    fn the_server_has_the_keys_with_its_own_flight_and_they_are_those_of_the_library() {
        let (a, z) = (identity(), identity());
        let mut client = Handshake::begin(KeyRole::Client, &a).unwrap();
        let mut server = Handshake::begin(KeyRole::Server, &z).unwrap();
        let has_key = |end: &Handshake| end.key(KeyRole::Client, b"").unwrap().is_some();
        carry(&mut client, &mut server);
        assert!(has_key(&server) && !has_key(&client));
        let suite = CipherSuite::Aes128Gcm;
        let early = server.secret.exporter(suite).unwrap().export("label", b"context", 16).unwrap();
        carry(&mut server, &mut client);
        assert_eq!((client.peer(), server.peer()), (Some(z.public_key()), None));
        carry(&mut client, &mut server);
        assert_eq!(server.peer(), Some(a.public_key()));
        for end in [&client, &server] {
            let out = [0; 16];
            let theirs = end.connection.export_keying_material(out, b"label", Some(b"context"));
            assert_eq!(&theirs.unwrap()[..], &early[..]);
        }
    }

    #[test]
    fn each_handshake_has_other_keys() {
        let exported = || {
            let mut client = Handshake::begin(KeyRole::Client, &identity()).unwrap();
            let mut server = Handshake::begin(KeyRole::Server, &identity()).unwrap();
            carry(&mut client, &mut server);
            let exporter = server.secret.exporter(CipherSuite::Aes128Gcm).unwrap();
            exporter.export("label", b"", 16).unwrap()
        };
        assert_ne!(exported(), exported());
    }

    #[test]
    fn no_more_is_taken_than_a_handshake_needs() {
        let mut server = Handshake::begin(KeyRole::Server, &identity()).unwrap();
        // The first record of a handshake message that goes on, again and again.
        let mut record = vec![0x16, 3, 3, 0x10, 0, 1, 0, 0xFF, 0xFF];
        record.resize(5 + 0x1000, 0);
        let outcomes: Vec<_> = (0..20).map(|_| server.receive(&record).is_ok()).collect();
        assert!(outcomes.iter().filter(|taken| **taken).count() < 4, "{outcomes:?}");
    }
}
