//! One connection inside of TLS.

use super::PROTOCOL;
use manypath_net::Wrap;
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};

/// Most bytes taken at a time: one record (RFC 8446 section 5.1).
const RECORD: usize = 1 << 14;

/// TLS without the socket.
#[derive(Debug)]
pub(super) struct Session(Connection);

impl Session {
    pub(super) const fn new(connection: Connection) -> Self {
        Self(connection)
    }
}

impl Wrap for Session {
    fn read_wire(&mut self, wire: &mut dyn Read) -> io::Result<usize> {
        let count = self.0.read_tls(wire)?;
        let foreign = |error| io::Error::new(ErrorKind::InvalidData, error);
        self.0.process_new_packets().map_err(foreign)?;
        // A web server without this protocol may complete the handshake.
        if !self.0.is_handshaking() && self.0.alpn_protocol() != Some(PROTOCOL) {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(count)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reader().read(into)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.0.writer().write(&bytes[..bytes.len().min(RECORD)])
    }

    fn write_wire(&mut self, wire: &mut dyn Write) -> io::Result<bool> {
        while self.0.wants_write() {
            match self.0.write_tls(wire) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
