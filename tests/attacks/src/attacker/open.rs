//! Connections that are none of the attacker's business, and messages that are none.

use super::Words;
use super::peer::{CONTROL, Event, Extras, Peer};
use manypath_wire::chunk::GapBlocks;
use serde_json::{Map, Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(2500);

/// `open SERVER SOURCE LISTED TARGET...`: the answer to a connection to each target, asked for in an association
/// that says it has the address LISTED, too (0.0.0.0: none).
pub(super) fn open(server: SocketAddr, mut words: Words) -> io::Result<Value> {
    let (source, listed): (IpAddr, Ipv4Addr) = (words.next()?, words.next()?);
    let mut report = Map::new();
    for target in words.rest() {
        let to: SocketAddr = target.parse().map_err(io::Error::other)?;
        let addresses = if listed.is_unspecified() { vec![] } else { vec![listed] };
        let extras = Extras { addresses: &addresses, ..Extras::default() };
        let outcome = match Peer::connect((source, 0).into(), server, &extras)? {
            Some(mut peer) => {
                peer.open(to, (source, 4711).into())?;
                let said = answer(&mut peer)?;
                if said == "accepted" { page(&mut peer)? } else { said }
            }
            None => "no association".to_owned(),
        };
        report.insert(target, outcome.into());
    }
    Ok(report.into())
}

/// What the server answers to an OPEN.
fn answer(peer: &mut Peer) -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        for event in peer.step(Duration::from_millis(50))? {
            match event {
                Event::Data { ppid: CONTROL, payload } => {
                    peer.sack(peer.cumulative(), GapBlocks::EMPTY)?;
                    match payload.first() {
                        Some(2) => return Ok("accepted".into()),
                        Some(3) => return Ok(format!("refused {}", payload.get(8).unwrap_or(&0))),
                        _ => {}
                    }
                }
                Event::Ended => return Ok("aborted".into()),
                Event::Data { .. } | Event::Other => {}
            }
        }
    }
    Ok("no answer".into())
}

/// What the service says, in one word at the end of its page.
fn page(peer: &mut Peer) -> io::Result<String> {
    peer.say("GET / HTTP/1.0\r\n\r\n")?;
    let (until, mut page) = (Instant::now() + Duration::from_secs(1), Vec::new());
    while Instant::now() < until && !peer.ended {
        for event in peer.step(Duration::from_millis(50))? {
            if let Event::Data { payload, ppid } = event {
                peer.sack(peer.cumulative(), GapBlocks::EMPTY)?;
                if ppid != CONTROL {
                    page.extend(payload);
                }
            }
        }
    }
    let page = String::from_utf8_lossy(&page).into_owned();
    Ok(format!("accepted {}", page.split_whitespace().last().unwrap_or_default()))
}

/// Messages that break the flow protocol.
fn breaches() -> Vec<(u32, Vec<u8>)> {
    let open = |rest: &[u8]| [&[1, 1, 0, 0, 0, 0, 0, 1][..], rest].concat();
    let flow = |kind: u8, rest: &[u8]| [&[kind, 1, 0, 0, 0, 0, 0, 1][..], rest].concat();
    let v4 = [4, 0, 0x1f, 0x90, 203, 0, 113, 1];
    let window = [0x40, 0, 0, 0];
    vec![
        (CONTROL, vec![]),
        (CONTROL, vec![1]),
        (CONTROL, open(&[])),
        (CONTROL, open(&window)),
        (CONTROL, open(&[&window[..], &v4].concat())),
        (CONTROL, open(&[&window[..], &[9, 0, 0, 80, 1, 2, 3, 4], &v4].concat())),
        (CONTROL, open(&[&window[..], &[6, 0, 0, 80, 1, 2, 3, 4], &v4].concat())),
        (CONTROL, open(&[&[0, 0, 0, 1][..], &v4, &v4].concat())),
        (CONTROL, [&[1, 1, 0, 0, 0, 0, 0, 9][..], &window, &v4, &v4].concat()),
        (CONTROL, [&[1, 0, 0, 0, 0, 0, 0, 0][..], &window, &v4, &v4].concat()),
        (CONTROL, flow(2, &window)),
        (CONTROL, flow(3, &[1, 0, 0, 0])),
        (CONTROL, flow(4, &[0xff; 8])),
        (CONTROL, flow(99, &[0; 16])),
        (0x6d50_0101, vec![0; 100]),
        (0x6d50_0102, vec![0; 100]),
        (0x1234_5678, vec![0; 100]),
    ]
}

/// `malformed SERVER PORT SOURCE`: one association for each breach, beside one that behaves.
pub(super) fn malformed(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (port, source): (u16, IpAddr) = (words.next()?, words.next()?);
    let new = || -> io::Result<Peer> {
        let peer = Peer::connect((source, 0).into(), server, &Extras::default())?;
        peer.ok_or_else(|| io::Error::other("the server refused"))
    };
    let mut good = new()?;
    let (mut aborted, all) = (0, breaches());
    let count = all.len();
    for (ppid, message) in all {
        let mut peer = new()?;
        // An empty message is a breach of SCTP itself: it has no user data.
        peer.data(0, ppid, &message)?;
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && !peer.ended {
            peer.step(Duration::from_millis(50))?;
        }
        aborted += u32::from(peer.ended);
    }
    good.open((server.ip(), port).into(), (source, 4711).into())?;
    let after = answer(&mut good)?;
    Ok(json!({ "breaches": count, "aborted": aborted, "good": after }))
}
