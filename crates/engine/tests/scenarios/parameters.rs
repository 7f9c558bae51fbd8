//! Parameters of INIT and INIT ACK: unknown, forbidden, missing, too many
//! (RFC 9260 sections 3.2.1, 3.2.2, 3.3.2, 3.3.3 and 5.1.2).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{CloseReason, Config, Event};
use manypath_wire::cause::Cause;
use manypath_wire::chunk::{Chunk, CookieEcho, Init, InitAck};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{Parameter, ParameterWriter, Parameters};
use manypath_wire::{Tsn, VerificationTag};

pub(crate) const TAG: u32 = 0x0a0b_0c0d;

pub(crate) fn written(parameters: &[Parameter<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; 4000];
    let mut writer = ParameterWriter::new(&mut bytes);
    parameters.iter().for_each(|parameter| writer.push(parameter).unwrap());
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

fn init(parameters: &[u8]) -> Vec<u8> {
    let init = Init {
        tag: VerificationTag(TAG),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::from_bytes(parameters),
    };
    packet(Side::A, 0, &[Chunk::Init(init)])
}

/// The last packet that `from` has sent.
pub(crate) fn last(pair: &Pair, from: Side) -> Vec<u8> {
    pair.recorded.iter().rev().find(|(side, ..)| *side == from).unwrap().2.clone()
}

pub(crate) fn first_chunk(bytes: &[u8]) -> Chunk<'_> {
    Packet::parse(bytes).unwrap().chunks().next().unwrap().unwrap()
}

/// Z's INIT ACK to an INIT with these parameters.
pub(crate) fn init_ack(pair: &mut Pair, parameters: &[u8]) -> Vec<u8> {
    pair.record = true;
    pair.inject(Side::A, 1, &init(parameters));
    pair.drive(millis(15));
    last(pair, Side::Z)
}

/// Completes the handshake by hand.
pub(crate) fn echo_cookie(pair: &mut Pair, ack: &[u8]) {
    let Chunk::InitAck(ack) = first_chunk(ack) else { panic!("no INIT ACK") };
    let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie),
        _ => None,
    });
    let echo = Chunk::CookieEcho(CookieEcho { cookie: cookie.unwrap() });
    pair.inject(Side::A, 1, &packet(Side::A, ack.tag.0, &[echo]));
    pair.drive(millis(15));
}

#[test]
fn unknown_parameters_of_an_init_say_themselves_what_to_do() {
    let cases =
        [(0x0f, true, false), (0x4f, true, true), (0x8f, false, false), (0xcf, false, true)];
    for (kind, stops, reported) in cases {
        let mut pair = Pair::new(1);
        let unknown = [kind, 0xf0, 0, 6, 1, 2, 0, 0];
        let mut bytes = unknown.to_vec();
        bytes.extend(written(&[Parameter::AdaptationIndication(5)]));
        let ack = init_ack(&mut pair, &bytes);
        let Chunk::InitAck(fields) = first_chunk(&ack) else { panic!("{kind:#x}") };
        let reports: Vec<_> = fields
            .parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Ok(Parameter::UnrecognizedParameter(raw)) => Some(raw),
                _ => None,
            })
            .collect();
        assert_eq!(reports, vec![&unknown[..6]; usize::from(reported)], "{kind:#x}");
        echo_cookie(&mut pair, &ack);
        let Event::Connected { adaptation, .. } = pair.z.heard()[0] else { panic!("{kind:#x}") };
        assert_eq!(*adaptation, (!stops).then_some(5), "{kind:#x}");
    }
}

#[test]
fn a_host_name_is_refused() {
    let mut pair = Pair::new(1);
    let answer = init_ack(&mut pair, &written(&[Parameter::HostNameAddress(b"example\0")]));
    let Chunk::Abort(abort) = first_chunk(&answer) else { panic!("no ABORT") };
    assert!(matches!(abort.causes.iter().next(), Some(Ok(Cause::UnresolvableAddress(_)))));
    assert_eq!(Packet::parse(&answer).unwrap().header().tag, VerificationTag(TAG));
}

#[test]
fn a_parameter_with_an_impossible_length_aborts_the_set_up() {
    let too_long: &[u8] = &[0xc0, 0, 0, 8, 1, 2, 3, 4];
    let too_short: &[u8] = &[0xc0, 0, 0, 3];
    let cut_off: &[u8] = &[0x80, 8, 0, 9, 192];
    for parameters in [too_long, too_short, cut_off] {
        let mut pair = Pair::new(1);
        let answer = init_ack(&mut pair, parameters);
        let Chunk::Abort(abort) = first_chunk(&answer) else { panic!("{parameters:?}: no ABORT") };
        assert!(matches!(abort.causes.iter().next(), Some(Ok(Cause::ProtocolViolation(_)))));
    }
    // What stands behind a parameter that orders to stop is not looked at.
    let stop = [&[0x3f, 0xff, 0, 4][..], too_long].concat();
    let mut pair = Pair::new(1);
    assert!(matches!(first_chunk(&init_ack(&mut pair, &stop)), Chunk::InitAck(_)));
}

#[test]
fn address_lists_are_cut_and_filtered() {
    let mut pair = Pair::new(1);
    let mut addresses: Vec<_> =
        ["127.0.0.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "10.1.0.1"]
            .map(|text| Parameter::Ipv4Address(text.parse().unwrap()))
            .into();
    addresses.extend((0..50).map(|n| Parameter::Ipv4Address([10, 77, 0, n].into())));
    let ack = init_ack(&mut pair, &written(&addresses));
    echo_cookie(&mut pair, &ack);
    let z = pair.z.endpoint.associations()[0];
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    assert_eq!(paths.len(), 16);
    assert!(paths[1..].iter().all(|p| p.addr.remote.to_string().starts_with("10.77.0.")));
}

#[test]
fn a_cookie_preservative_at_most_doubles_the_life() {
    for (asked, wait, accepted) in [(0, 1100, false), (500, 1400, true), (90_000, 2100, false)] {
        let short = Config { cookie_life: millis(1000), ..config(Side::Z) };
        let mut pair = Pair::with(1, config(Side::A), short);
        let ack = init_ack(&mut pair, &written(&[Parameter::CookiePreservative(asked)]));
        pair.drive(millis(wait));
        echo_cookie(&mut pair, &ack);
        assert_eq!(pair.z.endpoint.associations().len(), usize::from(accepted), "{asked}");
    }
}

/// A in COOKIE-WAIT gets this INIT ACK. Returns what it says, and why it gives up.
fn answer_to_init_ack(change: impl Fn(&mut InitAck<'_>), parameters: &[u8]) -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(1);
    pair.record = true;
    pair.lose(Side::A, "INIT", 1);
    pair.connect();
    pair.drive(millis(1));
    let sent = last(&pair, Side::A);
    let Chunk::Init(init) = first_chunk(&sent) else { panic!("no INIT") };
    let mut ack = InitAck {
        tag: VerificationTag(TAG),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::from_bytes(parameters),
    };
    change(&mut ack);
    pair.inject(Side::Z, 1, &packet(Side::Z, init.tag.0, &[Chunk::InitAck(ack)]));
    pair.drive(millis(15));
    let said = last(&pair, Side::A);
    (pair, said)
}

#[test]
fn impossible_init_acks_end_the_attempt() {
    type Change = fn(&mut InitAck<'_>);
    let cookie = written(&[Parameter::StateCookie(b"cookie")]);
    let named =
        written(&[Parameter::StateCookie(b"cookie"), Parameter::HostNameAddress(b"example\0")]);
    let large = written(&[Parameter::StateCookie(&[1; 1460])]);
    let cases: [(Change, &[u8], u16); 6] = [
        (|ack| ack.a_rwnd = 1499, &cookie, 7),
        (|ack| ack.outbound_streams = 0, &cookie, 7),
        (|ack| ack.inbound_streams = 0, &cookie, 7),
        (|_| {}, &[], 2),
        (|_| {}, &named, 5),
        (|_| {}, &large, 4),
    ];
    for (change, parameters, cause) in cases {
        let (pair, said) = answer_to_init_ack(change, parameters);
        let Chunk::Abort(abort) = first_chunk(&said) else { panic!("no ABORT, cause {cause}") };
        assert_eq!(abort.causes.iter().next().unwrap().unwrap().code(), cause);
        assert_eq!(Packet::parse(&said).unwrap().header().tag, VerificationTag(TAG));
        let reason = pair.a.heard();
        assert!(matches!(reason[..], [Event::Closed(CloseReason::ProtocolViolation(_))]));
    }
}

#[test]
fn padding_in_an_init_is_skipped_and_leaves_no_trace_in_the_cookie() {
    // RFC 4820 section 4: type 0x8005, 200 bytes, and a parameter behind it that counts.
    let mut padding = vec![0x80, 0x05, 0, 200];
    padding.resize(200, 0xEE);
    let address = written(&[Parameter::Ipv4Address([10, 1, 0, 77].into())]);
    let [plain, padded] = [address.clone(), [padding, address].concat()].map(|parameters| {
        let ack = init_ack(&mut Pair::new(1), &parameters);
        let Chunk::InitAck(ack) = first_chunk(&ack) else { panic!("no INIT ACK") };
        let parameters: Vec<_> = ack.parameters.iter().map(Result::unwrap).collect();
        let unrecognized = parameters
            .iter()
            .any(|parameter| matches!(parameter, Parameter::UnrecognizedParameter(_)));
        assert!(!unrecognized);
        ack.parameters.as_bytes().len()
    });
    assert_eq!(plain, padded);
}

#[test]
fn an_init_ack_with_a_zero_tag_ends_the_attempt_with_the_t_bit() {
    let cookie = written(&[Parameter::StateCookie(b"cookie")]);
    let (pair, said) = answer_to_init_ack(|ack| ack.tag.0 = 0, &cookie);
    let Chunk::Abort(abort) = first_chunk(&said) else { panic!("no ABORT") };
    assert!(abort.tag_reflected);
    assert!(pair.a.endpoint.associations().is_empty());
}

#[test]
fn unknown_parameters_of_an_init_ack_are_reported_with_the_cookie_echo() {
    let mut parameters = written(&[Parameter::StateCookie(b"cookie")]);
    let unknown = [0xcf, 0xf0, 0, 6, 1, 2, 0, 0];
    parameters.extend(unknown);
    let (_, said) = answer_to_init_ack(|_| {}, &parameters);
    let packet = Packet::parse(&said).unwrap();
    let chunks: Vec<_> = packet.chunks().map(Result::unwrap).collect();
    let [Chunk::CookieEcho(echo), Chunk::Error(error)] = chunks[..] else { panic!("{chunks:?}") };
    assert_eq!(echo.cookie, b"cookie");
    let cause = error.causes.iter().next().unwrap().unwrap();
    assert_eq!(cause, Cause::UnrecognizedParameters(&unknown));
}
