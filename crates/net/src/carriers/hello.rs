//! The first bytes of a client of TLS: whether its ClientHello names a protocol. Nothing else of it is looked at.

/// Most bytes of a ClientHello with its record headers. Those of browsers have 2 KiB.
pub(crate) const MAX_HELLO: usize = 16 << 10;
/// The content type of handshake messages, their header, and the type of a ClientHello (RFC 8446 sections 5.1 and 4).
const HANDSHAKE: u8 = 22;
const MAJOR_VERSION: u8 = 3;
const RECORD_HEADER: usize = 5;
const MAX_RECORD: usize = 1 << 14;
const MESSAGE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;
/// The legacy version and the random bytes of a ClientHello (RFC 8446 section 4.1.2).
const VERSION_AND_RANDOM: usize = 34;
/// The extension with the names of protocols (RFC 7301 section 3.1).
const ALPN: &[u8] = &[0, 16];

/// Who begins a connection so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    /// More bytes will tell.
    Unknown,
    /// Its ClientHello names the protocol.
    Ours,
    /// Anybody else.
    Other,
}

/// Judges the `bytes` with which a connection begins.
pub(crate) fn judge(bytes: &[u8], protocol: &[u8]) -> Client {
    match message(bytes) {
        Ok(hello) if names(&hello, protocol) == Some(true) => Client::Ours,
        Ok(_) => Client::Other,
        Err(client) => client,
    }
}

/// The body of the first handshake message, which may be cut into several records; or what is known without it.
fn message(bytes: &[u8]) -> Result<Vec<u8>, Client> {
    let (mut message, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        if rest[0] != HANDSHAKE || rest.get(1).is_some_and(|major| *major != MAJOR_VERSION) {
            return Err(Client::Other);
        }
        let Some((header, content)) = rest.split_at_checked(RECORD_HEADER) else { break };
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if len == 0 || len > MAX_RECORD {
            return Err(Client::Other);
        }
        let (content, behind) = content.split_at(len.min(content.len()));
        message.extend(content);
        rest = behind;
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Client::Other);
        }
        let &[_, high, mid, low, ..] = &message[..] else { continue };
        let wanted = usize::try_from(u32::from_be_bytes([0, high, mid, low])).unwrap_or(MAX_HELLO);
        if let Some(body) = message.get(MESSAGE_HEADER..MESSAGE_HEADER + wanted) {
            return Ok(body.to_vec());
        }
        if wanted >= MAX_HELLO {
            return Err(Client::Other);
        }
    }
    Err(if bytes.len() >= MAX_HELLO { Client::Other } else { Client::Unknown })
}

/// Whether the body of a ClientHello names the protocol; nothing if it is malformed.
fn names(hello: &[u8], protocol: &[u8]) -> Option<bool> {
    let mut hello = Fields(hello);
    hello.take(VERSION_AND_RANDOM)?;
    // The session id, the cipher suites and the methods of compression.
    [1, 2, 1].into_iter().try_for_each(|width| hello.vector(width).map(drop))?;
    let mut extensions = hello.vector(2)?;
    while !extensions.0.is_empty() {
        let kind = extensions.take(2)?;
        let mut data = extensions.vector(2)?;
        if kind == ALPN {
            let mut list = data.vector(2)?;
            while !list.0.is_empty() {
                if list.vector(1)?.0 == protocol {
                    return Some(true);
                }
            }
        }
    }
    Some(false)
}

/// What has not been read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A vector behind its length, which has `width` bytes (RFC 8446 section 3.4).
    fn vector(&mut self, width: usize) -> Option<Self> {
        let len = self.take(width)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        self.take(len).map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(width: usize, content: &[u8]) -> Vec<u8> {
        [&content.len().to_be_bytes()[8 - width..], content].concat()
    }

    /// A ClientHello with these protocols, as a handshake message.
    fn hello(protocols: &[&[u8]]) -> Vec<u8> {
        let names: Vec<u8> = protocols.iter().flat_map(|name| vector(1, name)).collect();
        let alpn = [ALPN, &vector(2, &vector(2, &names))].concat();
        let name = [&[0, 0][..], &vector(2, b"some name")].concat();
        let extensions = vector(2, &[name, alpn].concat());
        let body = [
            &[3, 3][..],
            &[7; 32],
            &vector(1, &[8; 32]),
            &vector(2, &[19, 1]),
            &[1, 0],
            &extensions,
        ]
        .concat();
        [&[CLIENT_HELLO][..], &vector(3, &body)].concat()
    }

    /// As records of so many bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &vector(2, part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn the_protocol_is_found_however_the_hello_is_cut_and_never_before_it_is_there() {
        let message = hello(&[b"h2", b"manypath/1"]);
        for size in [1, 2, 3, 50, 1 << 14] {
            let bytes = records(&message, size);
            assert_eq!(judge(&bytes, b"manypath/1"), Client::Ours, "{size}");
            assert_eq!(judge(&bytes, b"manypath"), Client::Other);
            for len in 0..bytes.len() {
                assert_eq!(judge(&bytes[..len], b"manypath/1"), Client::Unknown, "{size}: {len}");
            }
        }
        assert_eq!(judge(&records(&hello(&[]), 100), b"manypath/1"), Client::Other);
    }

    #[test]
    fn whoever_speaks_something_else_is_known_by_the_first_bytes() {
        let long = [&[HANDSHAKE, 3, 1, 0, 4, CLIENT_HELLO][..], &[0xff; 3]].concat();
        let others = [
            &b"G"[..],
            &[HANDSHAKE, 2],
            &[HANDSHAKE, 3, 1, 0, 0],
            &[HANDSHAKE, 3, 1, 0, 4, 2],
            &long,
        ];
        for bytes in others {
            assert_eq!(judge(bytes, b"manypath/1"), Client::Other, "{bytes:?}");
        }
        let endless = records(&[&[CLIENT_HELLO, 0, 0x3f, 0xf0][..], &[0; MAX_HELLO]].concat(), 100);
        assert_eq!(judge(&endless[..MAX_HELLO - 1], b"x"), Client::Unknown);
        assert_eq!(judge(&endless[..MAX_HELLO], b"x"), Client::Other);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            judge(&bytes, b"manypath/1");
            judge(&[&[HANDSHAKE, 3, 1, 0, 199, CLIENT_HELLO, 0, 0][..], &bytes].concat(), b"manypath/1");
        }

        /// More bytes change nothing once it is known who a client is.
        #[test]
        fn damage_is_survived_and_a_verdict_stays(
            at in 0_usize..200, to in any::<u8>(), size in 1_usize..120, more in any::<[u8; 20]>(),
        ) {
            let mut bytes = records(&hello(&[b"http/1.1", b"manypath/1"]), size);
            let at = at % bytes.len();
            bytes[at] = to;
            bytes.extend(more);
            let verdicts = (0..=bytes.len()).map(|len| judge(&bytes[..len], b"manypath/1"));
            let known: Vec<_> = verdicts.skip_while(|it| *it == Client::Unknown).collect();
            prop_assert!(known.windows(2).all(|two| two[0] == two[1]), "{known:?}");
        }
    }
}
