//! TLS 1.3 (RFC 8446) around connections that carry packets, for networks that let nothing else pass.
//!
//! It is a wrapping and proves nothing: a client takes any certificate, and a server asks for none. Who the peer is and
//! what nobody may read, the keys of the association inside decide, as over UDP (docs/key-management.md).

mod certificate;
mod session;

pub use certificate::Certificate;

use manypath_net::{Wrap, Wrapper};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};
use session::Session;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The name of the protocol in the ClientHello (ALPN, RFC 7301).
const PROTOCOL: &[u8] = b"manypath/1";

/// What TLS shows to who looks on.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// What a server shows; made for the occasion when absent.
    pub certificate: Option<Certificate>,
    /// The name that a client asks for (SNI, RFC 6066 section 3), and the one in a certificate that is made here.
    pub name: Option<String>,
}

/// Makes TLS of connections.
#[derive(Debug)]
pub(crate) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// TLS as configured.
    pub(crate) fn new(config: &TlsConfig) -> io::Result<Self> {
        let name = match &config.name {
            Some(name) => server_name(name).map_err(io::Error::other)?,
            None => ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        };
        let certificate = config.shown()?;
        let provider = Arc::new(default_provider());
        let (client, server) = client(&provider, config.name.is_some())
            .and_then(|client| Ok((client, server(provider, certificate)?)))
            .map_err(io::Error::other)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name })
    }
}

impl Wrapper for Tls {
    fn dial(&self) -> io::Result<Box<dyn Wrap>> {
        let connection = ClientConnection::new(self.client.clone(), self.name.clone());
        let connection = connection.map_err(io::Error::other)?;
        Ok(Box::new(Session::new(Connection::Client(connection))))
    }

    fn accept(&self) -> io::Result<Box<dyn Wrap>> {
        let connection = ServerConnection::new(self.server.clone()).map_err(io::Error::other)?;
        Ok(Box::new(Session::new(Connection::Server(connection))))
    }

    fn protocol(&self) -> &[u8] {
        PROTOCOL
    }
}

/// A host name for SNI, or why it is none.
fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    match ServerName::try_from(name.to_owned()) {
        Ok(name @ ServerName::DnsName(_)) => Ok(name),
        _ => Err(format!("{name}: not a host name")),
    }
}

impl TlsConfig {
    /// The certificate that a server shows.
    pub(crate) fn shown(&self) -> io::Result<Certificate> {
        let make = || Certificate::make(self.name.as_deref().unwrap_or("localhost"));
        self.certificate.clone().map_or_else(make, Ok)
    }

    /// Whether the name can be asked for.
    ///
    /// # Errors
    /// That it is no host name.
    pub fn check(&self) -> Result<(), String> {
        self.name.as_deref().map_or(Ok(()), |name| server_name(name).map(drop))
    }
}

fn client(provider: &Arc<CryptoProvider>, names: bool) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&TLS13])?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(Anybody(provider.clone())));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = names;
    Ok(config)
}

fn server(provider: Arc<CryptoProvider>, certificate: Certificate) -> Result<ServerConfig, Error> {
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let key = Arc::new(SingleCertAndKey::from(certificate.certified));
    let mut config = builder.with_no_client_auth().with_cert_resolver(key);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Takes any certificate: nothing is trusted because of it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn tls(name: Option<&str>) -> Tls {
        let (certificate, name) = (None, name.map(str::to_owned));
        Tls::new(&TlsConfig { certificate, name }).unwrap()
    }

    /// Moves what one end has to say to the other, `cut` bytes at a time.
    fn carry(from: &mut dyn Wrap, to: &mut dyn Wrap, cut: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        assert!(from.write_wire(&mut wire).unwrap());
        for piece in wire.chunks(cut) {
            let mut piece = piece;
            while !piece.is_empty() {
                to.read_wire(&mut piece).unwrap();
            }
        }
        wire
    }

    #[test]
    fn what_one_end_says_the_other_one_hears_however_it_is_cut() {
        let tls = tls(Some("www.example"));
        for cut in [1, 100, 1 << 14] {
            let (mut client, mut server) = (tls.dial().unwrap(), tls.accept().unwrap());
            assert_eq!(client.write(b"early").unwrap_err().kind(), ErrorKind::WouldBlock);
            let hello = carry(&mut *client, &mut *server, cut);
            let has = |name: &[u8]| hello.windows(name.len()).any(|part| part == name);
            assert!(has(b"www.example") && has(PROTOCOL));
            carry(&mut *server, &mut *client, cut);
            carry(&mut *client, &mut *server, cut);
            for (from, to) in [(true, b"there"), (false, b"again")] {
                let (from, to_end) =
                    if from { (&mut client, &mut server) } else { (&mut server, &mut client) };
                assert_eq!(from.write(to).unwrap(), 5);
                carry(&mut **from, &mut **to_end, cut);
                let mut read = [0; 10];
                assert_eq!(to_end.read(&mut read).unwrap(), 5);
                assert_eq!(&read[..5], to);
                assert_eq!(to_end.read(&mut read).unwrap_err().kind(), ErrorKind::WouldBlock);
            }
        }
    }

    #[test]
    fn what_is_not_tls_is_an_error() {
        let mut server = tls(None).accept().unwrap();
        let error = server.read_wire(&mut &b"GET / HTTP/1.1\r\n\r\n"[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn only_host_names_are_asked_for() {
        let check = |name: &str| TlsConfig { certificate: None, name: Some(name.into()) }.check();
        assert!(check("www.example").is_ok());
        assert!(check("192.0.2.1").is_err() && check("a b").is_err());
    }
}
