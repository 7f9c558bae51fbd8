//! Packets: `< sctp(tag=1)/udp(9899>9899): DATA[...]; SACK[...]` and ICMP.
//!
//! A packet may name its addresses, which scripts with several paths need:
//! `< 192.0.2.2 > 192.168.0.1 sctp: ...`.

use super::cursor::Cursor;
use super::value::{args, values};
use crate::language::ast::{Body, Direction, EcnBits, Header, Icmp, Item, Packet, Value};
use crate::language::error::Stop;
use crate::language::token::Token;
use manypath_engine::Ecn;
use std::net::IpAddr;

/// One packet, after its direction.
pub(super) fn packet(cursor: &mut Cursor<'_>, direction: Direction) -> Result<Packet, Stop> {
    let (addresses, ecn) = if matches!(cursor.peek(), Some(Token::Ip(_))) {
        (Some(addresses(cursor)?), None)
    } else {
        (None, ip_info(cursor)?)
    };
    let mut udp = None;
    let body = if cursor.skip_word("icmp") {
        icmp(cursor)?
    } else if cursor.skip_word("sctp") {
        let header = header(cursor)?;
        if cursor.skip_sign('/') {
            udp = Some(encapsulation(cursor)?);
        }
        cursor.sign(':')?;
        chunks(cursor, header)?
    } else {
        return Err(cursor.gap("only SCTP and ICMP packets are known"));
    };
    if direction == Direction::Outbound && !matches!(body, Body::Chunks(..)) {
        return Err(cursor.gap("outbound packets are described by their chunks"));
    }
    Ok(Packet { direction, ecn, udp, addresses, body })
}

fn addresses(cursor: &mut Cursor<'_>) -> Result<(IpAddr, IpAddr), Stop> {
    let from = address(cursor)?;
    cursor.sign('>')?;
    let to = address(cursor)?;
    Ok((from, to))
}

fn address(cursor: &mut Cursor<'_>) -> Result<IpAddr, Stop> {
    match cursor.take()? {
        Token::Ip(address) => Ok(*address),
        other => Err(cursor.unexpected("an address", other)),
    }
}

/// Fields of the IP header and ports: its ECN bits. The old form of ICMP has the packet that it is about in
/// front.
fn ip_info(cursor: &mut Cursor<'_>) -> Result<Option<EcnBits>, Stop> {
    let mut ecn = None;
    for close in [']', ')'] {
        if !cursor.skip_sign(if close == ']' { '[' } else { '(' }) {
            continue;
        }
        for part in values(cursor, close)? {
            let known = match &part {
                Value::Word(word) => {
                    ecn = ecn_bits(word);
                    ecn.is_some()
                }
                Value::Call(name, _) => name == "sctp",
                _ => false,
            };
            if !known {
                return Err(cursor.gap("fields of the IP header are not simulated"));
            }
        }
    }
    if matches!(cursor.peek(), Some(Token::Int(_))) {
        return Err(cursor.gap("packets with ports of their own are not simulated"));
    }
    Ok(ecn)
}

fn ecn_bits(word: &str) -> Option<EcnBits> {
    Some(match word {
        "noecn" => EcnBits::Exactly(Ecn::NotEct),
        "ect0" => EcnBits::Exactly(Ecn::Ect0),
        "ect1" => EcnBits::Exactly(Ecn::Ect1),
        "ect01" => EcnBits::Capable,
        "ce" => EcnBits::Exactly(Ecn::Ce),
        _ => return None,
    })
}

fn header(cursor: &mut Cursor<'_>) -> Result<Header, Stop> {
    let mut header = Header::default();
    if !cursor.skip_sign('(') {
        return Ok(header);
    }
    loop {
        match cursor.word("a field of the common header")? {
            "bad_crc32c" => header.bad_checksum = true,
            "zero_checksum" => header.zero_checksum = true,
            "tag" => {
                cursor.sign('=')?;
                header.tag = Some(cursor.number("the tag")?);
            }
            other => return Err(cursor.error(format!("'{other}' is not in the common header"))),
        }
        if !cursor.skip_sign(',') {
            cursor.sign(')')?;
            return Ok(header);
        }
    }
}

fn encapsulation(cursor: &mut Cursor<'_>) -> Result<(u16, u16), Stop> {
    if !cursor.skip_word("udp") {
        return Err(cursor.error("expected 'udp'"));
    }
    cursor.sign('(')?;
    let from = cursor.number("the UDP source port")?;
    cursor.sign('>')?;
    let to = cursor.number("the UDP destination port")?;
    cursor.sign(')')?;
    Ok((from, to))
}

fn chunks(cursor: &mut Cursor<'_>, header: Header) -> Result<Body, Stop> {
    if cursor.skip_sign('[') {
        let bytes = values(cursor, ']')?.into_iter().map(|byte| match byte {
            Value::Int(byte) => u8::try_from(byte).ok(),
            _ => None,
        });
        let bytes = bytes.collect::<Option<_>>().ok_or_else(|| cursor.error("expected bytes"))?;
        return Ok(Body::Bytes(header, bytes));
    }
    let mut list = Vec::new();
    if !matches!(cursor.peek(), Some(Token::Word(_))) {
        return Ok(Body::Chunks(header, list));
    }
    loop {
        let name = cursor.word("a chunk")?.to_string();
        cursor.sign('[')?;
        list.push(Item { name, args: args(cursor, ']')? });
        if !cursor.skip_sign(';') {
            return Ok(Body::Chunks(header, list));
        }
    }
}

fn icmp(cursor: &mut Cursor<'_>) -> Result<Body, Stop> {
    let kind = cursor.word("an ICMP type")?.to_string();
    let code = match cursor.peek() {
        Some(Token::Word(code)) if code != "mtu" && code != "id" => {
            cursor.next();
            Some(code.clone())
        }
        _ => None,
    };
    let mtu = if cursor.skip_word("mtu") { Some(cursor.number("the MTU")?) } else { None };
    if cursor.skip_word("id") {
        cursor.number::<u16>("the echo id")?;
    }
    if cursor.skip_sign('[') {
        while !cursor.skip_sign(']') {
            cursor.take()?;
        }
    }
    Ok(Body::Icmp(Icmp { kind, code, mtu }))
}
