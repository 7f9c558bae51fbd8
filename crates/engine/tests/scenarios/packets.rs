//! What all packets of a conversation have in common, whatever is lost in it (RFC 9260 sections 3, 5.1,
//! 6.9, 6.10 and 8.5).

use crate::pair::{PORT_A, PORT_Z, Pair, Side, config, millis};
use bytes::Bytes;
use manypath_engine::{Config, Duration, Outgoing, PathAddr, Ppid, StreamId};
use manypath_wire::chunk::{Chunk, Data};
use manypath_wire::packet::{CommonHeader, Packet};
use manypath_wire::parameter::Parameter;
use std::collections::BTreeMap;

type Recorded = (Side, PathAddr, Vec<u8>);

/// Two paths, messages of all kinds in both directions, one packet of every kind lost.
fn conversation() -> Vec<Recorded> {
    let named = |side| Config { adaptation: Some(1), reconfiguration: true, ..config(side) };
    let mut pair = Pair::with(2, named(Side::A), named(Side::Z));
    pair.record = true;
    for chunk in ["INIT", "COOKIE_ECHO", "SHUTDOWN", "SHUTDOWN_COMPLETE"] {
        pair.lose(Side::A, chunk, 1);
    }
    for chunk in ["INIT_ACK", "COOKIE_ACK", "SACK", "SHUTDOWN_ACK"] {
        pair.lose(Side::Z, chunk, 1);
    }
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"first words");
    pair.drive(Duration::from_secs(60));
    let z = pair.z.endpoint.associations()[0];
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        for (number, size) in [1, 2, 3, 5000, 7, 20_001, 30].into_iter().enumerate() {
            let now = pair.now;
            let message = Outgoing {
                stream: StreamId(number as u16 % 3),
                ppid: Ppid(0x0102_0304),
                unordered: number % 2 == 1,
                payload: Bytes::from(vec![0xff; size]),
            };
            pair.node(side).endpoint.send(now, id, message).unwrap();
        }
    }
    pair.lose(Side::A, "DATA", 2);
    pair.lose(Side::Z, "DATA", 2);
    pair.drive(Duration::from_secs(20));
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (7, 8));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(30));
    assert!(pair.a.endpoint.associations().is_empty() && pair.z.endpoint.associations().is_empty());
    pair.recorded
}

fn chunks(bytes: &[u8]) -> Vec<Chunk<'_>> {
    Packet::parse(bytes).unwrap().chunks().map(Result::unwrap).collect()
}

fn data_from(side: Side, packets: &[Recorded]) -> Vec<Data<'_>> {
    let of_side = packets.iter().filter(|(from, ..)| *from == side);
    let all = of_side.flat_map(|(_, _, bytes)| chunks(bytes));
    all.filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data) } else { None }).collect()
}

#[test]
fn all_packets_have_the_ports_of_the_association_on_all_paths() {
    let packets = conversation();
    let second =
        packets.iter().filter(|(_, addr, _)| addr.remote.ip().to_string().contains(".2.0."));
    assert!(second.count() > 10);
    for (from, _, bytes) in &packets {
        let header = Packet::parse(bytes).unwrap().header();
        let ports = (header.source_port, header.destination_port);
        assert_eq!(ports, if *from == Side::A { (PORT_A, PORT_Z) } else { (PORT_Z, PORT_A) });
    }
}

#[test]
fn all_packets_have_the_tag_that_their_receiver_gave_and_an_init_has_none() {
    let packets = conversation();
    let mut given = BTreeMap::new();
    for (from, _, bytes) in &packets {
        for chunk in chunks(bytes) {
            match chunk {
                Chunk::Init(init) => given.insert(*from == Side::A, init.tag),
                Chunk::InitAck(ack) => given.insert(*from == Side::A, ack.tag),
                _ => None,
            };
        }
        let tag = Packet::parse(bytes).unwrap().header().tag;
        match chunks(bytes)[..] {
            [Chunk::Init(init)] => {
                assert_eq!(tag.0, 0);
                assert_ne!(init.tag.0, 0);
            }
            // Out of the blue: the tag comes back as it was.
            [Chunk::ShutdownComplete(complete)] if complete.tag_reflected => {
                assert_eq!((*from, Some(&tag)), (Side::A, given.get(&true)));
            }
            _ => assert_eq!(Some(&tag), given.get(&(*from == Side::Z)), "{:?}", chunks(bytes)),
        }
    }
    let all = packets.iter().flat_map(|(_, _, bytes)| chunks(bytes));
    let completes =
        all.filter(|chunk| matches!(chunk, Chunk::ShutdownComplete(c) if c.tag_reflected));
    assert!(completes.count() > 0);
}

#[test]
fn init_init_ack_shutdown_complete_and_abort_travel_alone() {
    let (mut alone, mut others) = (BTreeMap::new(), 0);
    for (_, _, bytes) in conversation() {
        for chunk in chunks(&bytes) {
            let name = match chunk {
                Chunk::Init(_) => "INIT",
                Chunk::InitAck(_) => "INIT_ACK",
                Chunk::ShutdownComplete(_) => "SHUTDOWN_COMPLETE",
                _ => {
                    others += 1;
                    continue;
                }
            };
            *alone.entry(name).or_insert(0) += 1;
            assert_eq!(chunks(&bytes).len(), 1);
        }
    }
    assert!(
        alone.len() == 3 && alone.values().all(|count| *count > 1) && others > 100,
        "{alone:?}"
    );
    // An ABORT does not even take along what is queued.
    let (mut pair, a, _) = Pair::established(1);
    pair.record = true;
    pair.send(Side::A, a, 0, b"too late");
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(50));
    assert!(matches!(chunks(&pair.recorded[0].2)[..], [Chunk::Abort(_)]));
}

#[test]
fn chunks_are_padded_with_zeros_to_four_bytes_and_no_further() {
    let mut padded = 0;
    for (_, _, bytes) in conversation() {
        assert_eq!(bytes.len() % 4, 0);
        let mut rest = &bytes[CommonHeader::LEN..];
        while !rest.is_empty() {
            let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            let (chunk, behind) = rest.split_at(length.next_multiple_of(4));
            assert!(chunk[length..].iter().all(|byte| *byte == 0));
            padded += usize::from(length % 4 != 0);
            rest = behind;
        }
        assert_eq!(rest.len(), 0);
    }
    assert!(padded > 5, "{padded}");
}

/// One that loses nothing and begins with a message, which leaves with the COOKIE ECHO.
fn first_words() -> Vec<Recorded> {
    let mut pair = Pair::new(1);
    pair.record = true;
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"first words");
    pair.drive(Duration::from_secs(1));
    pair.recorded
}

#[test]
fn cookie_chunks_come_first_then_control_then_data_in_the_order_of_tsns() {
    let mut bundles = 0;
    for (_, _, bytes) in conversation().into_iter().chain(first_words()) {
        let chunks = chunks(&bytes);
        let first = |chunk: &Chunk<'_>| matches!(chunk, Chunk::CookieEcho(_) | Chunk::CookieAck);
        assert!(!chunks[1..].iter().any(first));
        let is_data = |chunk: &&Chunk<'_>| matches!(chunk, Chunk::Data(_));
        let control = chunks.iter().take_while(|chunk| !is_data(chunk)).count();
        assert!(chunks[control..].iter().all(|chunk| is_data(&chunk)), "{chunks:?}");
        bundles += usize::from(control > 0 && control < chunks.len());
        let tsns: Vec<_> = chunks[control..]
            .iter()
            .filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data.tsn.0) } else { None })
            .collect();
        assert!(tsns.is_sorted_by(|one, next| next.wrapping_sub(*one) as i32 > 0));
    }
    assert!(bundles > 1);
}

#[test]
fn no_packet_is_larger_than_its_path_allows_and_data_fills_it() {
    let largest = conversation().iter().map(|(_, _, bytes)| bytes.len()).max().unwrap();
    assert_eq!(largest, 1500 - 20 - 8);
}

#[test]
fn fragments_have_one_sequence_number_sequential_tsns_and_say_which_part_they_are() {
    let packets = conversation();
    for side in [Side::A, Side::Z] {
        let by_tsn: BTreeMap<u32, Data<'_>> = {
            let all = data_from(side, &packets);
            let first = all[0].tsn.0;
            all.into_iter().map(|data| (data.tsn.0.wrapping_sub(first), data)).collect()
        };
        // No TSN is left out, and none is before the first.
        assert!(by_tsn.keys().copied().eq(0..by_tsn.len() as u32));
        let all: Vec<_> = by_tsn.into_values().collect();
        let mut next_ssn = BTreeMap::new();
        let (mut whole, mut cut) = (0, 0);
        for message in all.split_inclusive(|data| data.end) {
            let [begin, .., end] = message else {
                assert!(message[0].begin && message[0].end);
                whole += 1;
                check_ssn(&message[0], &mut next_ssn);
                continue;
            };
            cut += 1;
            assert!(begin.begin && !begin.end && end.end && !end.begin);
            assert!(message[1..message.len() - 1].iter().all(|d| !d.begin && !d.end));
            for data in message {
                assert_eq!((data.ssn, data.unordered), (begin.ssn, begin.unordered));
                assert_eq!((data.stream, data.ppid), (begin.stream, Ppid(0x0102_0304)));
                assert!(!data.payload.is_empty());
            }
            check_ssn(begin, &mut next_ssn);
        }
        assert!(whole >= 5 && cut == 2);
    }
}

/// SSNs count the ordered messages of a stream from 0; unordered ones leave them as they are.
fn check_ssn(data: &Data<'_>, next: &mut BTreeMap<u16, u16>) {
    if !data.unordered {
        let next = next.entry(data.stream.0).or_insert(0);
        assert_eq!(data.ssn.0, *next);
        *next += 1;
    }
}

#[test]
fn init_and_init_ack_have_only_parameters_that_belong_there() {
    for (_, _, bytes) in conversation() {
        let parameters = match chunks(&bytes)[0] {
            Chunk::Init(init) => init.parameters,
            Chunk::InitAck(ack) => ack.parameters,
            _ => continue,
        };
        assert!(parameters.iter().count() > 2);
        for parameter in parameters.iter().map(Result::unwrap) {
            assert!(
                matches!(
                    parameter,
                    Parameter::Ipv4Address(_)
                        | Parameter::SupportedAddressTypes(_)
                        | Parameter::SupportedExtensions(_)
                        | Parameter::EcnCapable
                        | Parameter::AdaptationIndication(_)
                        | Parameter::StateCookie(_)
                ),
                "{parameter:?}"
            );
        }
    }
}

#[test]
fn parameters_of_init_and_init_ack_are_named_once_and_none_is_a_host_name() {
    let mut seen = 0;
    for (_, _, bytes) in conversation() {
        let parameters = match chunks(&bytes)[0] {
            Chunk::Init(init) => init.parameters,
            Chunk::InitAck(ack) => ack.parameters,
            _ => continue,
        };
        seen += 1;
        // The Chunk Flags are reserved.
        assert_eq!(bytes[13], 0);
        let mut kinds: Vec<_> = parameters
            .iter()
            .map(Result::unwrap)
            .inspect(|parameter| match parameter {
                Parameter::HostNameAddress(_) => panic!("a host name"),
                Parameter::SupportedAddressTypes(types) => assert!(types.iter().eq([5])),
                _ => {}
            })
            .filter(|parameter| !matches!(parameter, Parameter::Ipv4Address(_)))
            .map(|parameter| std::mem::discriminant(&parameter))
            .collect();
        let count = kinds.len();
        kinds.dedup();
        assert_eq!(kinds.len(), count);
    }
    assert!(seen >= 4);
}
