//! Tickets under attack: what the fuzz target `tickets` checks.

use super::kept::{encode, parse};
use super::{Content, MAX_LIFE, Moment, Ticket, TicketIssuer, UnusableTicket};
use crate::{Identity, PublicKey};
use manypath_aead::CipherSuite;
use manypath_engine::protection::Declined;
use manypath_engine::{Duration, Instant};
use zeroize::Zeroizing;

/// The lines of the corpus are those of this identity, and good at this time.
const PRIVATE: [u8; 32] = [1; 32];
const AT: Moment = Moment { now: Instant::from_nanos(1 << 40), unix: 1_800_000_000 };

/// Reads the bytes as a ticket or as the file of a client, or changes a good one as they say.
///
/// # Panics
/// If a ticket is read other than it was made.
pub fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => check_content(rest),
        1 => check_changed_ticket(rest),
        2 => check_sealed(rest),
        3 => check_changed_line(rest),
        _ => check_file(&String::from_utf8_lossy(rest)),
    }
}

fn identity() -> Option<Identity> {
    Identity::from_private(&PRIVATE).ok()
}

/// Any bytes as what a server has sealed.
fn check_content(bytes: &[u8]) {
    let Some(content) = Content::parse(bytes) else { return };
    let again =
        Content::parse(&content.encode()).map(|it| (it.suite, it.ends, it.client, it.secret));
    assert_eq!(again, Some((content.suite, content.ends, content.client, content.secret)));
}

/// A ticket that was changed on the way.
fn check_changed_ticket(choices: &[u8]) {
    let (issuer, suite) = (TicketIssuer::default(), CipherSuite::Aes128Gcm);
    let issued = issuer.issue(AT.now, suite, PublicKey::from([9; 32]), &[7; 32]);
    let Some((ticket, _life)) = issued else { return };
    let changed = changed(&ticket, choices);
    let opened = issuer.open(AT.now, &changed).map(|content| content.secret);
    match changed == ticket {
        true => assert_eq!(opened.map(|secret| secret.to_vec()), Ok(std::vec![7; 32])),
        false => assert_eq!(opened.err(), Some(Declined::Unknown)),
    }
}

/// Any bytes as what a client has sealed.
fn check_sealed(bytes: &[u8]) {
    let Some((server, ticket)) = parse(bytes, PublicKey::from([9; 32]), AT.now) else { return };
    let encoded = encode(&ticket, server).map(|content| parse(&content, ticket.client, AT.now));
    let again = encoded.flatten();
    assert!(again.is_some(), "it cannot be read again");
    let Some((again, read)) = again else { return };
    assert_eq!((again, &read.bytes, &read.secret), (server, &ticket.bytes, &ticket.secret));
    assert_eq!((read.suite, read.server), (ticket.suite, ticket.server));
}

/// A line that was changed in the file.
fn check_changed_line(choices: &[u8]) {
    let Some(identity) = identity() else { return };
    let ticket = Ticket {
        bytes: std::vec![7; 90],
        secret: Zeroizing::new(std::vec![8; 32]),
        suite: CipherSuite::Aes128Gcm,
        server: PublicKey::from([9; 32]),
        client: identity.public_key(),
        expires: AT.now + Duration::from_secs(3600),
    };
    let server = std::net::SocketAddr::from(([192, 0, 2, 7], 9899));
    let Some(line) = ticket.to_line(AT, server, &identity) else { return };
    let changed = changed(line.as_bytes(), choices);
    let text = String::from_utf8_lossy(&changed);
    let read = Ticket::from_line(&text, AT, &identity);
    assert_eq!(read.is_ok(), text == line);
}

/// Any bytes as the file.
fn check_file(text: &str) {
    let Some(identity) = identity() else { return };
    for line in text.lines() {
        let end = Ticket::end_of_line(line);
        match Ticket::from_line(line, AT, &identity) {
            Ok((_, ticket)) => {
                assert!(AT.now < ticket.expires && ticket.expires <= AT.now + MAX_LIFE);
                assert_eq!(ticket.client, identity.public_key());
            }
            Err(UnusableTicket::Expired) => assert!(end.is_some_and(|end| end <= AT.unix)),
            Err(UnusableTicket::Foreign) => assert!(end.is_some_and(|end| end > AT.unix)),
            Err(UnusableTicket::Damaged) => {}
        }
    }
}

/// Cut, lengthened, or with bytes turned over, as the choices say.
fn changed(good: &[u8], choices: &[u8]) -> Vec<u8> {
    let mut changed = good.to_vec();
    for choice in choices.chunks_exact(3).take(8) {
        let at = usize::from(u16::from_be_bytes([choice[0], choice[1]]));
        let len = changed.len().max(1);
        match (choice[0] >> 6, changed.get_mut(at % 1024 % len)) {
            (0 | 1, Some(byte)) => *byte ^= choice[2],
            (2, _) => changed.truncate(at % 1024 % len),
            (_, _) => changed.push(choice[2]),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::fs;
    use std::path::Path;

    #[test]
    fn tickets_are_read_as_they_were_made_or_not_at_all_on_the_corpus() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tickets");
        let mut count = 0;
        for file in fs::read_dir(&corpus).unwrap() {
            check(&fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 10, "only {count} files in {}", corpus.display());
    }
}
