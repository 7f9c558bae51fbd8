//! Messages of the SSH connection protocol: RFC 4254.

use crate::codec::{Malformed, Put, Reader};

/// One message about a channel, as it came. Channel numbers are those of the side that receives
/// the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message<'a> {
    OpenConfirmation {
        channel: u32,
        sender: u32,
        window: u32,
        max_packet: u32,
    },
    OpenFailure {
        channel: u32,
        reason: u32,
        description: &'a [u8],
    },
    WindowAdjust {
        channel: u32,
        bytes: u32,
    },
    Data {
        channel: u32,
        data: &'a [u8],
    },
    ExtendedData {
        channel: u32,
        code: u32,
        data: &'a [u8],
    },
    Eof {
        channel: u32,
    },
    Close {
        channel: u32,
    },
    Request {
        channel: u32,
        kind: &'a [u8],
        want_reply: bool,
        rest: &'a [u8],
    },
    Success {
        channel: u32,
    },
    Failure {
        channel: u32,
    },
    /// A message that is not about a channel of ours.
    Other(u8),
}

const OPEN: u8 = 90;
const OPEN_CONFIRMATION: u8 = 91;
const OPEN_FAILURE: u8 = 92;
const WINDOW_ADJUST: u8 = 93;
const DATA: u8 = 94;
const EXTENDED_DATA: u8 = 95;
const EOF: u8 = 96;
const CLOSE: u8 = 97;
const REQUEST: u8 = 98;
const SUCCESS: u8 = 99;
const FAILURE: u8 = 100;

impl<'a> Message<'a> {
    /// Reads a payload: message number and fields.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(payload, "message of the connection protocol");
        let number = r.u8()?;
        if !(OPEN_CONFIRMATION..=FAILURE).contains(&number) {
            return Ok(Self::Other(number));
        }
        let channel = r.u32()?;
        Ok(match number {
            OPEN_CONFIRMATION => {
                let (sender, window, max_packet) = (r.u32()?, r.u32()?, r.u32()?);
                Self::OpenConfirmation { channel, sender, window, max_packet }
            }
            OPEN_FAILURE => {
                Self::OpenFailure { channel, reason: r.u32()?, description: r.string()? }
            }
            WINDOW_ADJUST => Self::WindowAdjust { channel, bytes: r.u32()? },
            DATA => Self::Data { channel, data: r.string()? },
            EXTENDED_DATA => Self::ExtendedData { channel, code: r.u32()?, data: r.string()? },
            EOF => Self::Eof { channel },
            CLOSE => Self::Close { channel },
            REQUEST => {
                let (kind, want_reply) = (r.string()?, r.bool()?);
                Self::Request { channel, kind, want_reply, rest: r.rest() }
            }
            SUCCESS => Self::Success { channel },
            _ => Self::Failure { channel },
        })
    }
}

/// Why a server would not open a channel: RFC 4254 section 5.1.
pub(crate) fn open_failure_reason(reason: u32) -> &'static str {
    match reason {
        1 => "administratively prohibited",
        2 => "connect failed",
        3 => "unknown channel type",
        4 => "resource shortage",
        _ => "refused",
    }
}

/// CHANNEL_OPEN, section 5.1; `extra` are the fields of the channel's kind.
pub(crate) fn open(
    out: &mut Vec<u8>,
    kind: &str,
    sender: u32,
    window: u32,
    max_packet: u32,
    extra: &[u8],
) {
    out.put_u8(OPEN);
    out.put_string(kind.as_bytes());
    out.put_u32(sender);
    out.put_u32(window);
    out.put_u32(max_packet);
    out.extend_from_slice(extra);
}

/// CHANNEL_WINDOW_ADJUST, section 5.2.
pub(crate) fn window_adjust(out: &mut Vec<u8>, channel: u32, bytes: u32) {
    out.put_u8(WINDOW_ADJUST);
    out.put_u32(channel);
    out.put_u32(bytes);
}

/// CHANNEL_DATA, section 5.2.
pub(crate) fn data(out: &mut Vec<u8>, channel: u32, data: &[u8]) {
    out.put_u8(DATA);
    out.put_u32(channel);
    out.put_string(data);
}

/// CHANNEL_EOF, section 5.3.
pub(crate) fn eof(out: &mut Vec<u8>, channel: u32) {
    out.put_u8(EOF);
    out.put_u32(channel);
}

/// CHANNEL_CLOSE, section 5.3.
pub(crate) fn close(out: &mut Vec<u8>, channel: u32) {
    out.put_u8(CLOSE);
    out.put_u32(channel);
}

/// CHANNEL_FAILURE, section 5.4.
pub(crate) fn failure(out: &mut Vec<u8>, channel: u32) {
    out.put_u8(FAILURE);
    out.put_u32(channel);
}

/// CHANNEL_REQUEST, section 5.4; `extra` are the fields of the request's kind.
pub(crate) fn request(out: &mut Vec<u8>, channel: u32, kind: &str, want_reply: bool, extra: &[u8]) {
    out.put_u8(REQUEST);
    out.put_u32(channel);
    out.put_string(kind.as_bytes());
    out.put_u8(u8::from(want_reply));
    out.extend_from_slice(extra);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_reads_as_it_was_written() {
        let mut out = Vec::new();
        data(&mut out, 7, b"hello");
        assert_eq!(Message::parse(&out), Ok(Message::Data { channel: 7, data: b"hello" }));
    }

    #[test]
    fn a_string_longer_than_its_message_is_an_error() {
        let mut out = Vec::new();
        data(&mut out, 7, b"hello");
        assert!(Message::parse(&out[..out.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn no_payload_panics(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Message::parse(&payload);
        }
    }
}
