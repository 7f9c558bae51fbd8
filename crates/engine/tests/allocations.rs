//! What is allocated while an association carries data.

#[path = "../examples/cost/heap.rs"]
mod heap;
#[path = "../examples/cost/pair.rs"]
#[allow(dead_code, reason = "the bench uses more of it")]
mod pair;

use bytes::Bytes;
use manypath_engine::Config;
use pair::Pair;

/// Bytes that arrive before the count begins, while buffers and windows still grow, and after that.
const BEFORE: usize = 64 << 20;
const COUNTED: usize = 16 << 20;

/// Allocations by both ends for each packet, with messages of `size`.
fn per_packet(size: usize) -> f64 {
    let mut pair = Pair::new(&Config::production(), 1);
    let [sender, receiver] = pair.connect();
    let payload = Bytes::from(vec![5; size]);
    let mut carry = |total: usize| {
        let (mut arrived, packets) = (0, pair.packets);
        while arrived < total {
            pair.fill(0, sender, &payload);
            pair.turn();
            arrived += pair.read(1, receiver);
        }
        pair.packets - packets
    };
    carry(BEFORE);
    let before = heap::calls();
    let packets = carry(COUNTED);
    let count = (heap::calls() - before) as f64 / packets as f64;
    println!("{size} bytes a message: {count:.3} allocations per packet, both ends");
    count
}

/// The data of each chunk is copied into memory of its own: what a reader leaves unread must not hold the memory of
/// everything that arrived with it. A message of several chunks is put together in another piece. Nothing else
/// is allocated, and nothing by the sender.
#[test]
fn a_packet_of_a_long_transfer_costs_the_copy_of_its_data_and_little_else() {
    for size in [1 << 10, 16 << 10, 64 << 10] {
        let count = per_packet(size);
        assert!(count < 1.3, "{size}: {count}");
    }
}
