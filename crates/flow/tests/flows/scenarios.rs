//! The protocol's courses, one by one. A opens; Z accepts.

use crate::pair::*;
use bytes::Bytes;
use manypath_flow::{
    FlowConfig, FlowEvent, FlowState, INITIAL_CREDIT, OpenError, Refusal, WriteError,
};

#[test]
fn data_both_ways_and_orderly_end() {
    let mut pair = Pair::new(4);
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(1, 0, 100_000)).unwrap();
    pair.z.write(z, pattern(2, 0, 5000)).unwrap();
    pair.settle();
    assert_eq!(events(&mut pair.z), [FlowEvent::Readable(z), FlowEvent::Writable(z)][..1]);
    assert_eq!(read_all(&mut pair.z, z), pattern(1, 0, 100_000));
    assert_eq!(read_all(&mut pair.a, a), pattern(2, 0, 5000));
    // A -> FINISH -> Z
    pair.a.finish(a);
    pair.settle();
    assert_eq!(events(&mut pair.z), [FlowEvent::Finished(z)]);
    assert_eq!(pair.a.status(a).unwrap().state, FlowState::HalfClosedLocal);
    assert_eq!(pair.z.status(z).unwrap().state, FlowState::HalfClosedRemote);
    // The other direction goes on.
    pair.z.write(z, pattern(2, 5000, 70_000)).unwrap();
    // A <- FINISH <- Z
    pair.z.finish(z);
    assert_eq!(pair.z.write(z, Bytes::from_static(b"x")), Err(WriteError::Finished));
    pair.settle();
    assert!(!events(&mut pair.a).contains(&FlowEvent::Finished(a)), "unread data comes first");
    assert_eq!(read_all(&mut pair.a, a), pattern(2, 5000, 70_000));
    assert_eq!(events(&mut pair.a), [FlowEvent::Finished(a), FlowEvent::Closed(a)]);
    assert_eq!(events(&mut pair.z).last(), Some(&FlowEvent::Closed(z)));
    assert!(pair.a.is_drained() && pair.z.is_drained());
    assert_eq!((pair.a.promised(), pair.z.promised()), (0, 0));
}

#[test]
fn data_goes_with_the_open_up_to_the_initial_credit() {
    let mut pair = Pair::new(4);
    let a = pair.a.open(destination(), source()).unwrap();
    pair.a.write(a, pattern(1, 0, 100_000)).unwrap();
    pair.settle();
    let z = match events(&mut pair.z)[..] {
        [FlowEvent::Incoming { flow, destination: d, source: s }, FlowEvent::Readable(same)] => {
            assert_eq!((d, s, same), (destination(), source(), flow));
            flow
        }
        ref other => panic!("{other:?}"),
    };
    assert_eq!(pair.z.status(z).unwrap().bytes_in, u64::from(INITIAL_CREDIT));
    assert_eq!(pair.z.write(z, Bytes::from_static(b"x")), Err(WriteError::NotAccepted));
    pair.z.accept(z, local());
    pair.settle();
    assert_eq!(read_all(&mut pair.z, z), pattern(1, 0, 100_000));
}

#[test]
fn refusal_reaches_the_opener_and_the_stream_is_used_again() {
    let mut pair = Pair::new(1);
    for refusal in [Refusal::NotAllowed, Refusal::Errno(111)] {
        let a = pair.a.open(destination(), source()).unwrap();
        assert_eq!(pair.a.open(destination(), source()), Err(OpenError::NoStream));
        pair.a.write(a, pattern(1, 0, 1000)).unwrap();
        pair.a.finish(a);
        pair.settle();
        let z = events(&mut pair.z)[0].flow();
        pair.z.refuse(z, refusal);
        pair.settle();
        let refused = FlowEvent::Refused { flow: a, refusal };
        assert_eq!(events(&mut pair.a), [refused, FlowEvent::Closed(a)]);
        assert_eq!(events(&mut pair.z), []);
        assert!(pair.a.is_drained() && pair.z.is_drained());
    }
}

#[test]
fn stalled_reader_stops_its_own_flow_only() {
    let mut pair = Pair::new(4);
    let (stalled, stalled_z) = pair.flow();
    let (free, free_z) = pair.flow();
    let mut written = [0_u64; 2];
    for _ in 0..200 {
        for (i, flow) in [stalled, free].into_iter().enumerate() {
            let len = pair.a.writable(flow).min(64 << 10);
            pair.a.write(flow, pattern(i as u64, written[i], len)).unwrap();
            written[i] += len as u64;
        }
        pair.settle();
        read_all(&mut pair.z, free_z);
    }
    let status = pair.z.status(stalled_z).unwrap();
    assert_eq!(status.buffered, u64::from(FlowConfig::default().first_window));
    assert_eq!(pair.z.status(free_z).unwrap().bytes_in, 200 * (64 << 10));
    assert_eq!(pair.a.status(stalled).unwrap().credit_stalls, 1);
}
