//! What happens when streams, flows or memory run out.

use crate::pair::*;
use manypath_flow::{FlowConfig, FlowEvent, FlowId, FlowMux, INITIAL_CREDIT, OpenError, Refusal};

const INITIAL: u64 = INITIAL_CREDIT as u64;

#[test]
fn opening_fails_when_there_are_too_many() {
    let mut pair = Pair::with(8, FlowConfig { max_flows: 3, ..FlowConfig::default() });
    for _ in 0..3 {
        pair.a.open(destination(), source()).unwrap();
    }
    assert_eq!(pair.a.open(destination(), source()), Err(OpenError::TooManyFlows));
    assert_eq!(pair.a.counters().open_failures, 1);
}

/// As many as an association has streams for, all at once, with the limits that hold by default.
#[test]
fn a_thousand_flows_fit_at_once() {
    let mut pair = Pair::new(1024);
    for _ in 0..1024 {
        pair.a.open(destination(), source()).unwrap();
    }
    pair.settle();
    for event in events(&mut pair.z) {
        pair.z.accept(event.flow(), local());
    }
    pair.settle();
    let opened = |event: &FlowEvent| matches!(event, FlowEvent::Opened { .. });
    assert_eq!(events(&mut pair.a).iter().filter(|event| opened(event)).count(), 1024);
}

#[test]
fn opening_fails_when_memory_is_promised_away() {
    let receive_budget = 4 * INITIAL + 5;
    let mut pair = Pair::with(8, FlowConfig { receive_budget, ..FlowConfig::default() });
    for _ in 0..4 {
        pair.a.open(destination(), source()).unwrap();
    }
    assert_eq!(pair.a.open(destination(), source()), Err(OpenError::NoMemory));
    assert_eq!(pair.a.promised(), 4 * INITIAL);
}

#[test]
fn flows_beyond_the_acceptors_limit_are_refused_busy() {
    let narrow = FlowConfig { max_flows: 1, ..FlowConfig::default() };
    let short = FlowConfig { receive_budget: INITIAL, ..FlowConfig::default() };
    for config in [narrow, short] {
        let mut pair = Pair::new(8);
        pair.z = FlowMux::new(false, 8, config);
        let first = pair.a.open(destination(), source()).unwrap();
        let second = pair.a.open(destination(), source()).unwrap();
        pair.a.write(second, pattern(1, 0, 700)).unwrap();
        pair.settle();
        let refused = FlowEvent::Refused { flow: second, refusal: Refusal::Busy };
        assert_eq!(events(&mut pair.a), [refused, FlowEvent::Closed(second)]);
        assert_eq!(events(&mut pair.z).len(), 1, "the user hears of the first only");
        let counters = pair.z.counters();
        assert_eq!(counters.refused_too_many + counters.refused_no_memory, 1);
        assert_eq!(counters.discarded_bytes, 700);
        // The first goes on, and its place can be taken after it.
        pair.a.reset(first);
        pair.settle();
        events(&mut pair.z);
        pair.a.open(destination(), source()).unwrap();
        pair.settle();
        assert!(matches!(events(&mut pair.z)[..], [FlowEvent::Incoming { .. }]));
    }
}

#[test]
fn flows_on_streams_that_are_not_there_are_refused() {
    let mut pair = Pair::new(8);
    let flows: Vec<_> = (0..6).map(|_| pair.a.open(destination(), source()).unwrap()).collect();
    pair.a.write(flows[3], pattern(1, 0, 100)).unwrap();
    pair.a.limit_streams(4);
    pair.z.limit_streams(4);
    pair.settle();
    // Streams 0, 2, 4, 6, 1 and 3 were taken.
    let lost: Vec<_> = [flows[2], flows[3]]
        .into_iter()
        .flat_map(|flow| {
            let refusal = Refusal::NoStream;
            [FlowEvent::Refused { flow, refusal }, FlowEvent::Closed(flow)]
        })
        .collect();
    assert_eq!(events(&mut pair.a), lost);
    assert_eq!(events(&mut pair.z).len(), 4);
    assert_eq!(pair.a.open(destination(), source()), Err(OpenError::NoStream));
    assert_eq!(pair.a.streams(), 4);
}

#[test]
fn flows_that_cannot_send_leave_others_room_to_write() {
    let config = FlowConfig { send_budget: 300_000, ..FlowConfig::default() };
    let mut pair = Pair::with(64, config);
    let stuck: Vec<_> = (0..40).map(|_| pair.a.open(destination(), source()).unwrap()).collect();
    let mut queued = 0;
    for &flow in &stuck {
        let len = pair.a.writable(flow);
        pair.a.write(flow, pattern(0, 0, len)).unwrap();
        queued += len;
        assert_eq!(pair.a.writable(flow), FlowMux::WRITE_FLOOR.saturating_sub(len));
    }
    assert!(queued <= 300_000 + 40 * FlowMux::WRITE_FLOOR);
    let late = pair.a.open(destination(), source()).unwrap();
    assert_eq!(pair.a.writable(late), FlowMux::WRITE_FLOOR);
}

fn growing_config() -> FlowConfig {
    FlowConfig {
        first_window: INITIAL_CREDIT,
        receive_budget: 12 * INITIAL,
        ..FlowConfig::default()
    }
}

/// What one flow can have of that: 2/3 of 3/4.
const LARGEST: u64 = 6 * INITIAL;

/// A flow from A whose window at Z has grown to the largest, and how many bytes it has carried. Each
/// way takes 10 ms.
fn grown(pair: &mut Pair) -> (FlowId, FlowId, u64) {
    let (a, z) = pair.flow();
    let mut offset = 0;
    for _ in 0..40 {
        let len = pair.a.writable(a);
        pair.a.write(a, pattern(1, offset, len)).unwrap();
        offset += len as u64;
        pair.wait(10);
        pair.send_a();
        pair.arrive_z();
        read_all(&mut pair.z, z);
        pair.wait(10);
        pair.send_z();
        pair.arrive_a();
    }
    pair.settle();
    read_all(&mut pair.z, z);
    pair.settle();
    assert_eq!(pair.z.status(z).unwrap().receive_credit, LARGEST, "the window has grown");
    (a, z, offset)
}

fn open_six_more(pair: &mut Pair) {
    for _ in 0..6 {
        pair.a.open(destination(), source()).unwrap();
    }
    pair.settle();
}

#[test]
fn idle_flows_return_credit_when_memory_is_short() {
    let mut pair = Pair::with(64, growing_config());
    let (a, z, offset) = grown(&mut pair);
    open_six_more(&mut pair);
    assert_eq!(pair.z.counters().refused_no_memory, 0);
    pair.a.open(destination(), source()).unwrap();
    pair.settle();
    assert_eq!(pair.z.counters().refused_no_memory, 1);
    assert_eq!(pair.z.counters().reclaimed_credit, LARGEST - INITIAL);
    assert_eq!(pair.z.status(z).unwrap().receive_credit, INITIAL);
    assert_eq!(pair.a.status(a).unwrap().send_credit, INITIAL);
    assert_eq!(pair.z.promised(), 7 * INITIAL);
    // The flow still works, and its bytes are still in order.
    pair.a.write(a, pattern(1, offset, 100_000)).unwrap();
    let mut rest = Vec::new();
    for _ in 0..4 {
        pair.settle();
        rest.extend(read_all(&mut pair.z, z));
    }
    assert_eq!(rest, pattern(1, offset, 100_000));
}

#[test]
fn busy_flows_give_way_as_their_readers_consume() {
    let mut pair = Pair::with(64, growing_config());
    let (a, z, offset) = grown(&mut pair);
    open_six_more(&mut pair);
    assert_eq!(pair.z.promised(), 12 * INITIAL);
    pair.a.write(a, pattern(1, offset, 200_000)).unwrap();
    pair.settle();
    read_all(&mut pair.z, z);
    let counters = pair.z.counters();
    assert_eq!((counters.window_shrinks, counters.windows_reclaimed), (1, 0));
    assert_eq!(pair.z.status(z).unwrap().receive_window, 2 * INITIAL_CREDIT);
    assert_eq!(pair.z.promised(), 12 * INITIAL - 200_000, "a window shrinks as it is consumed");
}

#[test]
fn credit_of_a_flow_with_data_to_send_is_not_returned() {
    let mut pair = Pair::with(64, growing_config());
    let (a, z, offset) = grown(&mut pair);
    open_six_more(&mut pair);
    pair.a.open(destination(), source()).unwrap();
    pair.send_a();
    pair.arrive_z();
    pair.a.write(a, pattern(1, offset, 200_000)).unwrap();
    pair.send_z();
    pair.arrive_a();
    pair.settle();
    assert_eq!(pair.z.counters().windows_reclaimed, 1);
    assert_eq!(pair.z.counters().reclaimed_credit, 0);
    assert_eq!(read_all(&mut pair.z, z), pattern(1, offset, 200_000));
}
