//! Peers that say anything at all: no panic, and no more memory than was promised.

use crate::pair::*;
use crate::replay::{CONFIG, check_limits, react};
use bytes::Bytes;
use manypath_engine::{Message, Ppid, StreamId, Tsn};
use manypath_flow::message::{
    Accept, Body, Control, Credit, Finish, Open, RelayBody, RelayOpen, Return, Want,
};
use manypath_flow::{
    Destination, FlowMux, HostName, INITIAL_CREDIT, PPID_CONTROL, PPID_DATA_OF_ACCEPTOR,
    PPID_DATA_OF_OPENER, Refusal, RelayAnswer,
};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> + Clone {
    let near = prop_oneof![Just(0_u64), Just(INITIAL_CREDIT.into()), Just(u64::MAX)];
    prop_oneof![(near, 0..3_u64).prop_map(|(n, d)| n.wrapping_sub(d)), any::<u64>()]
}

fn body() -> impl Strategy<Value = Body> + Clone {
    let window = || number().prop_map(|n| n as u32);
    prop_oneof![
        8 => window().prop_map(|window| {
            Body::Open(Open { window, destination: destination(), source: source() })
        }),
        3 => window().prop_map(|window| Body::Accept(Accept { window, local: local() })),
        1 => any::<u16>().prop_map(|errno| Body::Refuse(Refusal::Errno(errno))),
        1 => prop_oneof![Just(0), number()].prop_map(|bytes| Body::Finish(Finish { bytes })),
        2 => Just(Body::Reset),
        2 => (window(), any::<bool>(), number()).prop_map(|(window, reclaim, granted)| {
            Body::Credit(Credit { window, reclaim, granted })
        }),
        2 => window().prop_map(|window| Body::Want(Want { window })),
        2 => number().prop_map(|returned| Body::Return(Return { returned })),
        2 => relay(),
    ]
}

fn relay() -> impl Strategy<Value = Body> + Clone {
    let answers = vec![RelayAnswer::Relays, RelayAnswer::NotRelay, RelayAnswer::NotAllowed];
    let open = |beyond| RelayOpen { window: INITIAL_CREDIT, source: source(), beyond };
    let name = HostName::new("a.example").map(|name| Destination::Name(name, 443));
    let destinations = [destination().into(), name.unwrap().into()];
    prop_oneof![
        Just(RelayBody::Ask),
        Just(RelayBody::Candidates([source()].into_iter().collect())),
        prop::sample::select(answers).prop_map(RelayBody::Answer),
        prop::sample::select(destinations.to_vec())
            .prop_map(move |one| RelayBody::Open(Box::new(open(one)))),
    ]
    .prop_map(Body::Relay)
}

fn payload() -> impl Strategy<Value = (Ppid, Bytes)> {
    let control = (any::<bool>(), 0..4_u32, body()).prop_map(|(from_opener, generation, body)| {
        (PPID_CONTROL, Control { from_opener, generation, body }.encode())
    });
    let bent = (control.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |((ppid, bytes), at, value)| {
            let mut bytes = bytes.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = value;
            (ppid, Bytes::from(bytes))
        },
    );
    let noise = proptest::collection::vec(any::<u8>(), 0..40)
        .prop_map(|bytes| (PPID_CONTROL, Bytes::from(bytes)));
    let ppid = prop_oneof![
        8 => Just(PPID_DATA_OF_OPENER),
        8 => Just(PPID_DATA_OF_ACCEPTOR),
        1 => any::<u32>().prop_map(Ppid),
    ];
    let data = (ppid, prop_oneof![0..2000_usize, 0..70_000_usize])
        .prop_map(|(ppid, len)| (ppid, Bytes::from(vec![7; len])));
    prop_oneof![12 => control, 2 => bent, 1 => noise, 6 => data]
}

fn received() -> impl Strategy<Value = Message> {
    (0..4_u16, payload(), any::<u8>()).prop_map(|(stream, (ppid, payload), dice)| {
        let kind = payload.first().copied().unwrap_or(0);
        let unordered = if dice < 240 { ppid == PPID_CONTROL && kind > 5 } else { dice < 248 };
        Message {
            stream: StreamId(stream),
            ppid,
            unordered,
            number: 0,
            tsn: Tsn(0),
            payload,
            more: false,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_peer_makes_a_mux_panic_or_grow(
        steps in proptest::collection::vec((received(), any::<u8>()), 1..100),
    ) {
        let mut mux = FlowMux::new(true, 3, CONFIG);
        let mut errors = 0;
        for (message, dice) in steps {
            // A real caller aborts the association at the first error; nothing breaks if not.
            errors += u64::from(mux.handle_message(message).is_err());
            react(&mut mux, dice);
            check_limits(&mux);
        }
        prop_assert_eq!(mux.counters().protocol_errors, errors);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Control::parse(&bytes);
    }
}
