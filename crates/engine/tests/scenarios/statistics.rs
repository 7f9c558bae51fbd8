//! What an association tells of itself: counts of packets and chunks.

use crate::pair::{Pair, Side, message, millis};
use manypath_engine::{AssociationId, AssociationStatistics, Duration, Outgoing};

fn both(pair: &mut Pair, (a, z): (AssociationId, AssociationId)) -> [AssociationStatistics; 2] {
    let of_a = pair.a.endpoint.take_statistics(a).unwrap();
    [of_a, pair.z.endpoint.take_statistics(z).unwrap()]
}

#[test]
fn chunks_are_counted_by_their_kinds_at_both_ends() {
    let (mut pair, a, z) = Pair::established(1);
    pair.drive(Duration::from_secs(1));
    let [a_before, z_before] = both(&mut pair, (a, z));
    assert_eq!((a_before.ordered_sent, z_before.ordered_received), (0, 0));
    pair.send(Side::A, a, 0, &[1; 5000]);
    let unordered = Outgoing { unordered: true, ..message(1, &[2; 100]) };
    pair.a.endpoint.send(pair.now, a, unordered).unwrap();
    pair.drive(Duration::from_secs(1));
    let [sent, received] = both(&mut pair, (a, z));
    assert_eq!((sent.ordered_sent, sent.unordered_sent, sent.chunks_repeated), (4, 1, 0));
    assert_eq!((received.ordered_received, received.unordered_received), (4, 1));
    assert_eq!((received.duplicates, received.chunks_ahead, received.ordered_sent), (0, 0, 0));
    assert!(received.sacks_sent > 0);
    assert_eq!(received.sacks_sent - z_before.sacks_sent, sent.sacks_received);
    assert_eq!(sent.gap_blocks_received, 0);
    let grown = |now: u64, before: u64| now - before;
    assert_eq!(
        grown(received.control_sent, z_before.control_sent),
        grown(sent.control_received, a_before.control_received)
    );
    assert_eq!(
        grown(sent.control_sent, a_before.control_sent),
        grown(received.control_received, z_before.control_received)
    );
    assert_eq!(
        grown(sent.packets_sent, a_before.packets_sent),
        grown(received.packets_received, z_before.packets_received)
    );
}

#[test]
fn losses_show_in_the_counts() {
    let (mut pair, a, z) = Pair::established(1);
    pair.send(Side::A, a, 0, &[7; 200_000]);
    pair.drive(millis(25));
    pair.lose(Side::A, "DATA", 1);
    pair.drive(Duration::from_secs(2));
    let [sent, received] = both(&mut pair, (a, z));
    assert_eq!(sent.chunks_repeated, 1);
    assert!(sent.gap_blocks_received > 0 && received.chunks_ahead > 0, "{sent:?} {received:?}");
    assert_eq!(sent.ordered_sent, received.ordered_received);
}

#[test]
fn the_longest_timeout_is_that_since_it_was_asked_for_last() {
    let (mut pair, a, z) = Pair::established(1);
    pair.drive(Duration::from_secs(1));
    let calm = both(&mut pair, (a, z))[0].longest_rto.unwrap();
    pair.cut(1);
    pair.send(Side::A, a, 0, b"into the void");
    pair.drive(Duration::from_secs(4));
    let (path, long) = both(&mut pair, (a, z))[0].longest_rto.unwrap();
    assert!(long > calm.1 * 2 && path == calm.0, "{calm:?} {long:?}");
    pair.restore(1);
    pair.drive(Duration::from_secs(60));
    let _since = both(&mut pair, (a, z));
    pair.send(Side::A, a, 0, b"heard again");
    pair.drive(Duration::from_secs(5));
    assert!(both(&mut pair, (a, z))[0].longest_rto.unwrap().1 < long);
}
