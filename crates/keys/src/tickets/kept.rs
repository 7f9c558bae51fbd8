//! Tickets as a client keeps them in a file: each is a line that only the identity can read which has got it.
//!
//! ```text
//! end of the ticket (seconds since 1970)  the identity's public key (base64)  sealed (base64)
//! sealed, with AES-256-GCM, the two fields before it authenticated:
//!   nonce (12) | cipher suite (2) | the server's key (32) | its UDP address: length (1), text |
//!   secret: length (1), bytes | ticket | tag (16)
//! ```

use super::{MAX_LIFE, MAX_TICKET, Ticket, random};
use crate::{Identity, PublicKey};
use base64ct::{Base64, Encoding};
use manypath_aead::CipherSuite;
use manypath_engine::protection::{NONCE_LEN, TAG_LEN};
use manypath_engine::{Duration, Instant};
use ring::aead::{Aad, Nonce};
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// Longest line that is read.
const MAX_LINE: usize = 1024;
/// Bytes of a resumption secret: those of the hash of its cipher suite.
const SECRET_LENS: [usize; 2] = [32, 48];

/// Now, by two clocks: lines are read by another process, perhaps after the machine was booted again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// By the clock of the engine.
    pub now: Instant,
    /// By that of the host, in seconds since 1970.
    pub unix: u64,
}

/// Why a line is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnusableTicket {
    /// It is no ticket, or was changed.
    Damaged,
    /// Its time is over.
    Expired,
    /// It is that of another identity, as it says.
    Foreign,
}

impl Ticket {
    /// A line for a file. `server` is the UDP address of the ticket's server. None if its time is over, if it is not
    /// that of `identity`, or if the system has no randomness.
    pub fn to_line(&self, at: Moment, server: SocketAddr, identity: &Identity) -> Option<String> {
        let left = self.expires.since(at.now).as_secs();
        if left == 0 || self.client != identity.public_key() {
            return None;
        }
        let begin = format!("{} {}", at.unix.saturating_add(left), self.client);
        let mut content = encode(self, server)?;
        let nonce: [u8; NONCE_LEN] = random()?;
        let (cipher, aad) = (identity.ticket_cipher()?, Aad::from(begin.as_bytes()));
        let sealing = Nonce::assume_unique_for_key(nonce);
        let tag = cipher.seal_in_place_separate_tag(sealing, aad, &mut content).ok()?;
        let sealed = Base64::encode_string(&[&nonce, &content[..], tag.as_ref()].concat());
        Some(format!("{begin} {sealed}"))
    }

    /// Reads a line that [`Self::to_line`] has made: the UDP address of its server, and the ticket.
    ///
    /// # Errors
    /// [`UnusableTicket`].
    pub fn from_line(
        line: &str,
        at: Moment,
        identity: &Identity,
    ) -> Result<(SocketAddr, Self), UnusableTicket> {
        let (end, client, sealed) = fields(line).ok_or(UnusableTicket::Damaged)?;
        if end <= at.unix {
            return Err(UnusableTicket::Expired);
        }
        if client != identity.public_key() {
            return Err(UnusableTicket::Foreign);
        }
        let begin = format!("{end} {client}");
        let content = unseal(identity, &begin, sealed).ok_or(UnusableTicket::Damaged)?;
        // A clock that was set back does not make it last.
        let expires = at.now + Duration::from_secs(end - at.unix).min(MAX_LIFE);
        parse(&content, client, expires).ok_or(UnusableTicket::Damaged)
    }

    /// Until when the ticket of a line is good, in seconds since 1970. None if it is no line of a ticket.
    pub fn end_of_line(line: &str) -> Option<u64> {
        fields(line).map(|(end, ..)| end)
    }
}

fn len(bytes: &[u8]) -> Option<u8> {
    u8::try_from(bytes.len()).ok()
}

/// What is sealed.
pub(super) fn encode(ticket: &Ticket, server: SocketAddr) -> Option<Zeroizing<Vec<u8>>> {
    let addr = server.to_string();
    let (addr_len, secret_len) = (len(addr.as_bytes())?, len(&ticket.secret)?);
    let suite = ticket.suite.id().to_be_bytes();
    let fields: [&[u8]; 7] = [
        &suite,
        ticket.server.as_bytes(),
        &[addr_len],
        addr.as_bytes(),
        &[secret_len],
        &ticket.secret,
        &ticket.bytes,
    ];
    Some(Zeroizing::new(fields.concat()))
}

/// The end, whose it is, and what is sealed. A line that is not written as [`Ticket::to_line`] does is none.
fn fields(line: &str) -> Option<(u64, PublicKey, &str)> {
    let mut words = line.split(' ').filter(|_| line.len() <= MAX_LINE);
    let (end, client, sealed) = (words.next()?, words.next()?, words.next()?);
    let (time, key) = (end.parse::<u64>().ok()?, client.parse::<PublicKey>().ok()?);
    let is_plain = time.to_string() == end && key.to_string() == client;
    (is_plain && !sealed.is_empty() && words.next().is_none()).then_some((time, key, sealed))
}

fn unseal(identity: &Identity, begin: &str, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
    let sealed = Base64::decode_vec(sealed).ok()?;
    let (nonce, content) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut content = Zeroizing::new(content.to_vec());
    let opening = Nonce::assume_unique_for_key(*nonce);
    let aad = Aad::from(begin.as_bytes());
    identity.ticket_cipher()?.open_in_place(opening, aad, &mut content).ok()?;
    let len = content.len().checked_sub(TAG_LEN)?;
    content.truncate(len);
    Some(content)
}

/// Reads what was sealed.
pub(super) fn parse(
    content: &[u8],
    client: PublicKey,
    expires: Instant,
) -> Option<(SocketAddr, Ticket)> {
    let (suite, rest) = content.split_first_chunk::<2>()?;
    let (server, rest) = rest.split_first_chunk::<32>()?;
    let (addr_len, rest) = rest.split_first()?;
    let (addr, rest) = rest.split_at_checked(usize::from(*addr_len))?;
    let (secret_len, rest) = rest.split_first()?;
    let (secret, bytes) = rest.split_at_checked(usize::from(*secret_len))?;
    let suite = CipherSuite::from_id(u16::from_be_bytes(*suite))?;
    let fits = SECRET_LENS.contains(&secret.len()) && (1..=MAX_TICKET).contains(&bytes.len());
    let addr = std::str::from_utf8(addr).ok()?.parse().ok().filter(|_| fits)?;
    let (bytes, secret) = (bytes.to_vec(), Zeroizing::new(secret.to_vec()));
    let server = PublicKey::from(*server);
    Some((addr, Ticket { bytes, secret, suite, server, client, expires }))
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINE, Moment, Ticket, UnusableTicket};
    use crate::{Identity, PublicKey};
    use manypath_aead::CipherSuite;
    use manypath_engine::{Duration, Instant};
    use std::net::SocketAddr;
    use zeroize::Zeroizing;

    const UNIX: u64 = 1_800_000_000;

    fn identity(private: u8) -> Identity {
        Identity::from_private(&[private; 32]).unwrap()
    }

    fn ticket(client: &Identity, life: u64) -> Ticket {
        Ticket {
            bytes: vec![7; 255],
            secret: Zeroizing::new(vec![9; 48]),
            suite: CipherSuite::Aes256Gcm,
            server: PublicKey::from([3; 32]),
            client: client.public_key(),
            expires: now() + Duration::from_secs(life),
        }
    }

    fn now() -> Instant {
        Instant::ZERO + Duration::from_secs(100)
    }

    fn addr() -> SocketAddr {
        "[2001:db8:1111:2222:3333:4444:5555:6666%4294967295]:65535".parse().unwrap()
    }

    fn at(now: Instant, unix: u64) -> Moment {
        Moment { now, unix }
    }

    fn line(client: &Identity) -> String {
        ticket(client, 60).to_line(at(now(), UNIX), addr(), client).unwrap()
    }

    #[test]
    fn a_line_is_read_by_the_identity_that_has_written_it_and_says_nothing_to_others() {
        let client = identity(1);
        let line = line(&client);
        assert!(line.len() <= MAX_LINE, "{}", line.len());
        assert_eq!(Ticket::end_of_line(&line), Some(UNIX + 60));
        // Another process, later, whose clock counts from elsewhere.
        let time = at(Instant::ZERO, UNIX + 20);
        let (server, read) = Ticket::from_line(&line, time, &client).unwrap();
        assert_eq!(server, addr());
        assert_eq!((&read.bytes, &read.secret[..]), (&vec![7; 255], &[9; 48][..]));
        assert_eq!((read.server, read.client), ([3; 32].into(), client.public_key()));
        assert_eq!(read.suite, CipherSuite::Aes256Gcm);
        assert_eq!(read.expires, Instant::ZERO + Duration::from_secs(40));
        let other = Ticket::from_line(&line, time, &identity(2));
        assert_eq!(other.err(), Some(UnusableTicket::Foreign));
        assert!(!line.contains("2001:db8"), "not even where it has been");
    }

    #[test]
    fn no_line_outlives_its_ticket_whatever_the_clock_says() {
        let client = identity(1);
        let line = line(&client);
        for (unix, err) in [(UNIX + 59, None), (UNIX + 60, Some(UnusableTicket::Expired))] {
            assert_eq!(Ticket::from_line(&line, at(now(), unix), &client).err(), err);
        }
        // The clock was set back by years.
        let read = Ticket::from_line(&line, at(now(), 1), &client).unwrap().1;
        assert_eq!(read.expires, now() + super::MAX_LIFE);
        let end = now() + Duration::from_secs(60);
        let over = ticket(&client, 60).to_line(at(end, 1), addr(), &client);
        assert_eq!(over, None);
        assert_eq!(ticket(&client, 60).to_line(at(now(), 1), addr(), &identity(2)), None);
    }

    #[test]
    fn a_line_that_was_changed_or_cut_is_damaged() {
        let client = identity(1);
        let line = line(&client);
        let read = |line: &str| Ticket::from_line(line, at(now(), UNIX), &client).err();
        for at in 0..line.len() {
            assert!(read(&line[..at]).is_some(), "cut at {at}");
            let mut changed = line.clone().into_bytes();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            assert!(read(std::str::from_utf8(&changed).unwrap()).is_some(), "changed at {at}");
        }
        for text in ["", " ", "# comment", "1 2 3", &format!("{line} "), &format!("0{line}")] {
            assert_eq!(read(text), Some(UnusableTicket::Damaged), "{text}");
        }
    }
}
