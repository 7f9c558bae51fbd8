//! How a connection to a master begins: the multiplexing protocol of OpenSSH (PROTOCOL.mux).

use crate::codec::{Malformed, Put, Reader, framed};
use std::fmt;

const HELLO: u32 = 0x0000_0001;
const PROXY: u32 = 0x1000_000f;
const PROXY_GRANTED: u32 = 0x8000_000f;
const PERMISSION_DENIED: u32 = 0x8000_0002;
const FAILURE: u32 = 0x8000_0003;
/// The only version there is.
const VERSION: u32 = 4;
const REQUEST_ID: u32 = 0;

/// A master that does not let us in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MuxError {
    /// It speaks another version of the protocol.
    Version(u32),
    /// It does not know the proxy mode (OpenSSH before 7.4), or refuses; what it says.
    Refused(String),
    /// It says something else than the protocol allows.
    Unexpected(u32),
    /// It says something that cannot be read.
    Malformed(Malformed),
}

impl fmt::Display for MuxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "the master speaks version {version} of the multiplexing protocol, not {VERSION}"
            ),
            Self::Refused(reason) => write!(f, "the master refuses to pass messages on: {reason}"),
            Self::Unexpected(number) => write!(f, "the master answers with message {number:#x}"),
            Self::Malformed(error) => write!(f, "the master sends a {error}"),
        }
    }
}

impl From<Malformed> for MuxError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// What both sides say first, and the request to pass messages on.
pub(crate) fn begin(out: &mut Vec<u8>) {
    framed(out, |out| {
        out.put_u32(HELLO);
        out.put_u32(VERSION);
    });
    framed(out, |out| {
        out.put_u32(PROXY);
        out.put_u32(REQUEST_ID);
    });
}

/// Reads what the master says at the beginning. True when it passes messages on from now on.
pub(crate) fn is_granted(packet: &[u8]) -> Result<bool, MuxError> {
    let mut r = Reader::new(packet, "message of the multiplexing protocol");
    match r.u32()? {
        HELLO => match r.u32()? {
            VERSION => Ok(false),
            other => Err(MuxError::Version(other)),
        },
        PROXY_GRANTED => Ok(true),
        PERMISSION_DENIED | FAILURE => {
            let _request = r.u32()?;
            Err(MuxError::Refused(String::from_utf8_lossy(r.string()?).into_owned()))
        }
        other => Err(MuxError::Unexpected(other)),
    }
}
