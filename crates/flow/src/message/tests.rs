use super::*;
use core::net::SocketAddr;
use std::boxed::Box;
use std::vec;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn every_body() -> Vec<Body> {
    let v4 = address("192.0.2.1:80");
    let v6 = address("[2001:db8::1]:65535");
    vec![
        Body::Open(Open { window: 65536, destination: v4, source: v6 }),
        Body::Open(Open { window: u32::MAX, destination: v6, source: v4 }),
        Body::Accept(Accept { window: 262_144, local: v6 }),
        Body::Refuse(Refusal::NotAllowed),
        Body::Refuse(Refusal::Busy),
        Body::Refuse(Refusal::Errno(111)),
        Body::Refuse(Refusal::Other(200)),
        Body::Finish(Finish { bytes: 1 << 40 }),
        Body::Reset,
        Body::Credit(Credit { window: 1 << 20, reclaim: true, granted: u64::MAX }),
        Body::Credit(Credit { window: 1 << 20, reclaim: false, granted: 7 }),
        Body::Want(Want { window: 65536 }),
        Body::Return(Return { returned: 12345 }),
        Body::Probe(Probe { stamp: u64::MAX }),
        Body::Report(Report { stamp: 1 << 40, queued: 7 }),
        Body::Datagram(DatagramBody::Open(DatagramOpen {
            lifetime_ms: 200,
            destination: v4,
            source: v6,
        })),
        Body::Datagram(DatagramBody::Accept),
        Body::Datagram(DatagramBody::Close(None)),
        Body::Datagram(DatagramBody::Close(Some(Refusal::NotAllowed))),
        Body::Datagram(DatagramBody::Unreachable(111)),
        Body::Refuse(Refusal::NotRelay),
        Body::Refuse(Refusal::DestinationClosed),
        Body::Refuse(Refusal::NoSuchName),
        Body::Relay(RelayBody::Ask),
        Body::Relay(RelayBody::Answer(RelayAnswer::Relays)),
        Body::Relay(RelayBody::Answer(RelayAnswer::NotRelay)),
        Body::Relay(RelayBody::Answer(RelayAnswer::NotAllowed)),
        Body::Relay(RelayBody::Register),
        Body::Relay(RelayBody::Registered),
        Body::Relay(RelayBody::Candidates(SeenAt::default())),
        Body::Relay(RelayBody::Candidates(
            ["10.0.0.1:9899", "[fd00::1]:9899"]
                .map(|addr| addr.parse().unwrap())
                .into_iter()
                .collect(),
        )),
        Body::Datagram(DatagramBody::SeenAt(SeenAt::default())),
        Body::Datagram(DatagramBody::SeenAt([v4, v6].into_iter().collect())),
        Body::Datagram(DatagramBody::SeenAt([v6; 9].into_iter().collect())),
        Body::Refuse(Refusal::Circle),
        Body::Refuse(Refusal::OverQuota),
        relay_open(Destination::Address(v4)),
        relay_open(Destination::Address(v6)),
        relay_open(far()),
        Body::Datagram(DatagramBody::OpenBeyond(DatagramOpen {
            lifetime_ms: 250,
            destination: v6,
            source: v4,
        })),
        relay_open(Destination::Name(HostName::new(&"x".repeat(253)).unwrap(), 1)),
    ]
}

fn relay_open(destination: Destination) -> Body {
    let (source, beyond) = (address("[2001:db8::1]:40000"), destination.into());
    Body::Relay(RelayBody::Open(Box::new(RelayOpen { window: 65536, source, beyond })))
}

fn relay_open_by(passed: Passed) -> Body {
    let (source, beyond) = (address("192.0.2.1:40000"), Beyond { destination: far(), passed });
    Body::Relay(RelayBody::Open(Box::new(RelayOpen { window: 65536, source, beyond })))
}

#[test]
fn a_relay_is_passed_once_and_so_many_at_most() {
    let by = |passed: Passed, relay: u8| passed.by([relay; 8]);
    let four = (1..=4).try_fold(Passed::default(), by).unwrap();
    assert_eq!((four.by([5; 8]), by(Passed::default(), 0).unwrap().by([0; 8])), (None, None));
    // Who names more of them is taken to have passed as many as there may be.
    let mut bytes = control(relay_open_by(four)).encode().to_vec();
    let at = bytes.len() - 4 * 8 - 4;
    bytes[at] = 200;
    bytes.extend([6; 100]);
    assert_eq!(Control::parse(&bytes), Ok(Parsed::Control(control(relay_open_by(four)))));
    bytes.truncate(at + 4 + 3 * 8);
    assert_eq!(Control::parse(&bytes), Err(FlowError::Truncated(136)));
}

fn far() -> Destination {
    Destination::Name(HostName::new("a.example").unwrap(), 443)
}

fn control(body: Body) -> Control {
    Control { from_opener: true, generation: 0x0102_0304, body }
}

#[test]
fn messages_survive_encoding() {
    for body in every_body() {
        for from_opener in [true, false] {
            let sent = Control { from_opener, ..control(body.clone()) };
            assert_eq!(Control::parse(&sent.encode()), Ok(Parsed::Control(sent)));
        }
    }
}

#[test]
fn open_has_the_documented_bytes() {
    let (destination, source) = (address("10.1.2.3:443"), address("[fd00::1]:40000"));
    let bytes = control(Body::Open(Open { window: 0x0004_0000, destination, source })).encode();
    let mut expected = vec![1, 1, 0, 0, 1, 2, 3, 4, 0, 4, 0, 0];
    expected.extend([4, 0, 0x01, 0xbb, 10, 1, 2, 3]);
    expected.extend([6, 0, 0x9c, 0x40, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes, expected);
}

#[test]
fn credit_has_the_documented_bytes() {
    let credit = Credit { window: 0x10_0000, reclaim: true, granted: 0x0102_0304_0506 };
    let bytes = Control { from_opener: false, ..control(Body::Credit(credit)) }.encode();
    let expected = [6, 0, 0, 0, 1, 2, 3, 4, 0, 0x10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6];
    assert_eq!(bytes[..], expected);
}

#[test]
fn every_truncation_is_an_error() {
    for body in every_body() {
        let bytes = control(body.clone()).encode();
        for len in 0..bytes.len() {
            let kind = if len == 0 { 0 } else { body.kind() };
            assert_eq!(Control::parse(&bytes[..len]), Err(FlowError::Truncated(kind)));
        }
    }
}

#[test]
fn longer_messages_are_read_as_far_as_known() {
    for body in every_body() {
        let mut bytes = control(body.clone()).encode().to_vec();
        bytes.extend([0xff; 9]);
        assert_eq!(Control::parse(&bytes), Ok(Parsed::Control(control(body))));
    }
}

#[test]
fn unknown_types_are_ignorable_from_128_on() {
    for kind in [0, 9, 127, 142, 255] {
        let bytes = [kind, 0, 0, 0, 0, 0, 0, 1, 9, 9];
        let expected = match kind {
            128.. => Ok(Parsed::Ignorable(kind)),
            _ => Err(FlowError::UnknownMessage(kind)),
        };
        assert_eq!(Control::parse(&bytes), expected);
    }
}

#[test]
fn open_with_bad_fields_is_refused() {
    let (destination, source) = (address("10.1.2.3:443"), address("10.1.2.4:1"));
    let bytes = control(Body::Open(Open { window: 65536, destination, source })).encode();
    let mut family = bytes.to_vec();
    family[12] = 5;
    assert_eq!(Control::parse(&family), Err(FlowError::BadAddressFamily(5)));
    let mut window = bytes.to_vec();
    window[9] = 0;
    assert_eq!(Control::parse(&window), Err(FlowError::BadWindow(0)));
}
