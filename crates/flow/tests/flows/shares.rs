//! Flows that are to have more or less than others.

use crate::pair::*;
use manypath_flow::{FlowId, Share};
use std::collections::BTreeMap;

/// Flows of A with these shares, all with more to send than will be sent.
fn busy(shares: &[Share]) -> (Pair, Vec<FlowId>) {
    let mut pair = Pair::new(64);
    let flows: Vec<_> = shares.iter().map(|_| pair.flow().0).collect();
    for (&flow, &share) in flows.iter().zip(shares) {
        pair.a.set_share(flow, share);
        pair.a.write(flow, pattern(0, 0, 200_000)).unwrap();
    }
    (pair, flows)
}

/// How many of the next `count` messages are of each flow. The path is so slow that a turn has no more than
/// one of them.
fn turns(pair: &mut Pair, flows: &[FlowId], count: usize) -> Vec<usize> {
    let streams: Vec<_> = flows.iter().map(|flow| pair.a.status(*flow).unwrap().stream).collect();
    let mut seen = BTreeMap::new();
    for _ in 0..count {
        pair.wait(600);
        *seen.entry(pair.a.poll_message(FRAGMENT).unwrap().stream.0).or_insert(0) += 1;
    }
    streams.iter().map(|stream| seen.get(stream).copied().unwrap_or(0)).collect()
}

fn weight(weight: u16) -> Share {
    Share { weight, ..Share::default() }
}

#[test]
fn flows_send_in_proportion_to_their_weights() {
    let (mut pair, flows) = busy(&[weight(1), weight(3), weight(0), weight(4)]);
    assert_eq!(turns(&mut pair, &flows, 90), [10, 30, 10, 40]);
}

#[test]
fn an_urgent_flow_goes_first_and_leaves_a_part_to_the_others() {
    let urgent = Share { urgent: true, ..Share::default() };
    let (mut pair, flows) = busy(&[weight(1), urgent, weight(1)]);
    assert_eq!(turns(&mut pair, &flows, 8), [0, 8, 0]);
    assert_eq!(turns(&mut pair, &flows, 90), [5, 80, 5]);
}

#[test]
fn weights_count_among_urgent_flows_too() {
    let urgent = |weight| Share { weight, urgent: true };
    let (mut pair, flows) = busy(&[urgent(1), urgent(2)]);
    assert_eq!(turns(&mut pair, &flows, 60), [20, 40]);
}

/// A share that is changed while the flow waits for its turn holds from the next one on.
#[test]
fn a_share_can_be_changed_while_data_waits() {
    let (mut pair, flows) = busy(&[weight(1), weight(1)]);
    assert_eq!(turns(&mut pair, &flows, 10), [5, 5]);
    pair.a.set_share(flows[0], weight(4));
    assert_eq!(turns(&mut pair, &flows, 50), [40, 10]);
}

/// A turn that a flow could not use up is not saved for later.
#[test]
fn a_flow_without_data_loses_the_rest_of_its_turn() {
    let mut pair = Pair::new(64);
    let (a, b) = (pair.flow().0, pair.flow().0);
    pair.a.set_share(a, weight(10));
    pair.a.write(b, pattern(0, 0, 200_000)).unwrap();
    for _ in 0..3 {
        pair.a.write(a, pattern(0, 0, 2 * FRAGMENT)).unwrap();
        assert_eq!(turns(&mut pair, &[a, b], 6)[0], 2);
    }
}

/// The flow of each of the next `count` messages over a path that takes `millis` for each, those of the same one put
/// together: its place among `flows`, and bytes.
fn runs(pair: &mut Pair, flows: &[FlowId], count: usize, millis: u64) -> Vec<(usize, usize)> {
    let streams: Vec<_> = flows.iter().map(|flow| pair.a.status(*flow).unwrap().stream).collect();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for _ in 0..count {
        pair.wait(millis);
        let sent = pair.a.poll_message(FRAGMENT).unwrap();
        let flow = streams.iter().position(|stream| *stream == sent.stream.0).unwrap();
        match runs.last_mut().filter(|(last, _)| *last == flow) {
            Some((_, bytes)) => *bytes += sent.payload.len(),
            None => runs.push((flow, sent.payload.len())),
        }
    }
    runs
}

/// A packet of each flow would be a small write to each program at the other end.
#[test]
fn a_turn_has_many_messages_where_the_path_is_fast() {
    let (mut pair, flows) = busy(&[weight(1), weight(1), weight(2)]);
    runs(&mut pair, &flows, 60, 1);
    let runs = runs(&mut pair, &flows, 150, 1);
    let (whole, full) = (&runs[1..runs.len() - 1], (16 << 10) / FRAGMENT * FRAGMENT);
    for (flow, bytes) in whole {
        assert_eq!(*bytes, if *flow == 2 { 2 * full } else { full }, "{runs:?}");
    }
    assert!(whole.len() >= 7);
}

/// Where a turn is gone in a moment it has as much as a flow may have written.
#[test]
fn a_turn_has_what_a_flow_has_written_where_the_path_is_faster_still() {
    let (mut pair, flows) = busy(&[weight(1), weight(1)]);
    // Fourteen round trips of the least turn would be another test; these have doubled to 64 KiB.
    let runs = runs(&mut pair, &flows, 250, 0);
    assert!(runs[runs.len() - 2].1 > 64_000, "{runs:?}");
    assert!(
        runs.windows(2).all(|pair| pair[1].1 <= 2 * pair[0].1 + FRAGMENT || pair[0].1 < 20_000)
    );
}

/// A flow with little to send is served before those with much, which is what interactive programs need. But
/// it does so with no more than a turn's bytes in a round.
#[test]
fn many_flows_with_little_to_send_leave_half_to_the_others() {
    let mut pair = Pair::new(64);
    let flows: Vec<_> = (0..8).map(|_| pair.flow().0).collect();
    let (bulk, little) = flows.split_at(4);
    let streams: Vec<_> = little.iter().map(|flow| pair.a.status(*flow).unwrap().stream).collect();
    let (mut of_bulk, mut of_little, mut first) = (0, 0, 0);
    while of_bulk < 400_000 {
        for flow in little {
            if pair.a.status(*flow).unwrap().queued == 0 {
                pair.a.write(*flow, pattern(0, 0, 1000)).unwrap();
            }
        }
        for flow in bulk {
            let _ = pair.a.write(*flow, pattern(0, 0, 100_000));
        }
        let sent = pair.a.poll_message(FRAGMENT).unwrap();
        let early = streams.contains(&sent.stream.0);
        *(if early { &mut of_little } else { &mut of_bulk }) += sent.payload.len();
        first += usize::from(early && of_bulk == 0);
    }
    assert!(first >= 4, "each of them before the others' first");
    assert!(of_little * 9 < of_bulk * 10, "{of_little} {of_bulk}");
}
