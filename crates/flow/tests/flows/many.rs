//! Many flows at once: every one gets its turn, and none is looked at when it is not its turn.

use crate::pair::*;
use manypath_flow::{FlowConfig, FlowEvent, FlowId, FlowMux, PPID_CONTROL};
use std::collections::BTreeMap;

const FLOWS: usize = 10_000;

fn config() -> FlowConfig {
    FlowConfig {
        max_flows: FLOWS,
        receive_budget: 4 << 30,
        send_budget: 1 << 30,
        ..FlowConfig::default()
    }
}

/// A pair with `FLOWS` accepted flows from A to Z.
fn crowd() -> (Pair, Vec<FlowId>) {
    let mut pair = Pair::with(FLOWS as u16, config());
    let flows: Vec<_> = (0..FLOWS).map(|_| pair.a.open(destination(), source()).unwrap()).collect();
    pair.settle();
    for event in events(&mut pair.z) {
        pair.z.accept(event.flow(), local());
    }
    pair.settle();
    assert_eq!(events(&mut pair.a).len(), FLOWS);
    (pair, flows)
}

#[test]
fn ten_thousand_flows_take_turns() {
    let (mut pair, flows) = crowd();
    for &flow in &flows {
        for _ in 0..3 {
            pair.a.write(flow, pattern(0, 0, FRAGMENT)).unwrap();
        }
    }
    for _ in 0..3 {
        pair.wait(600);
        let mut turns = BTreeMap::new();
        for _ in 0..FLOWS {
            let sent = pair.a.poll_message(FRAGMENT).unwrap();
            assert_eq!(sent.payload.len(), FRAGMENT);
            *turns.entry(sent.stream).or_insert(0) += 1;
            pair.to_z.push_back(message(sent));
        }
        assert_eq!(turns.len(), FLOWS, "each flow once in a round");
    }
    pair.settle();
    let flows_z: Vec<_> = pair.z.flows().collect();
    for (&a, z) in flows.iter().zip(flows_z) {
        assert_eq!(read_all(&mut pair.z, z).len(), 3 * FRAGMENT);
        pair.a.finish(a);
        pair.z.finish(z);
    }
    pair.settle();
    let closed = |event: &FlowEvent| matches!(event, FlowEvent::Closed(_));
    assert_eq!(events(&mut pair.a).iter().filter(|event| closed(event)).count(), FLOWS);
    assert_eq!(events(&mut pair.z).iter().filter(|event| closed(event)).count(), FLOWS);
    assert!(pair.a.is_drained() && pair.z.is_drained());
}

/// A small request passes a crowd of bulk flows, and control all of them.
#[test]
fn a_small_message_is_the_next_whatever_the_others_have_to_send() {
    let mut pair = Pair::new(64);
    let bulk: Vec<_> = (0..30).map(|_| pair.flow().0).collect();
    let (small, _) = pair.flow();
    for flow in bulk {
        pair.a.write(flow, pattern(0, 0, 200_000)).unwrap();
    }
    for _ in 0..7 {
        pair.a.poll_message(FRAGMENT).unwrap();
    }
    let stream = pair.a.status(small).unwrap().stream;
    pair.a.write(small, pattern(1, 0, 100)).unwrap();
    let position = (0..).find(|_| pair.a.poll_message(FRAGMENT).unwrap().stream.0 == stream);
    assert_eq!(position, Some(0));
    pair.a.open(destination(), source()).unwrap();
    assert_eq!(pair.a.poll_message(FRAGMENT).unwrap().ppid, PPID_CONTROL);
}

/// Small writes that wait together leave together; one alone leaves at once.
#[test]
fn small_writes_are_joined_and_never_delayed() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(0, 0, 1)).unwrap();
    assert_eq!(pair.a.poll_message(FRAGMENT).map(|sent| sent.payload.len()), Some(1));
    for i in 0..3000 {
        pair.a.write(a, pattern(0, 1 + i, 1)).unwrap();
    }
    let sizes: Vec<_> = std::iter::from_fn(|| pair.a.poll_message(FRAGMENT))
        .map(|sent| sent.payload.len())
        .collect();
    assert_eq!(sizes, [FRAGMENT, FRAGMENT, 200]);
    assert_eq!(pair.z.status(z).unwrap().bytes_in, 0);
}

/// A peer that sends byte by byte does not make us hold an allocation for each.
#[test]
fn bytes_received_one_by_one_are_read_together() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    for i in 0..20_000 {
        pair.a.write(a, pattern(0, i, 1)).unwrap();
        pair.send_a();
    }
    pair.settle();
    let mut reads = 0;
    let mut all = Vec::new();
    while let Some(bytes) = pair.z.read(z) {
        reads += 1;
        all.extend_from_slice(&bytes);
    }
    assert_eq!(all, pattern(0, 0, 20_000));
    assert_eq!(reads, 3);
}

#[test]
fn fragment_size_of_zero_still_makes_progress() {
    let mut mux = FlowMux::new(true, 1, FlowConfig::default());
    let flow = mux.open(destination(), source()).unwrap();
    mux.write(flow, pattern(0, 0, 2)).unwrap();
    assert!(mux.poll_message(0).is_some());
    assert_eq!(mux.poll_message(0).map(|sent| sent.payload.len()), Some(1));
}
