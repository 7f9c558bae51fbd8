//! What an idle association occupies.

use crate::pair::Pair;
use bytes::Bytes;
use manypath_engine::{Config, Duration, StreamId};

const ASSOCIATIONS: usize = 1000;
/// Over HB.interval: the paths have been probed.
const REST: Duration = Duration::from_secs(100);

/// Bytes of one association at the end that connects and at the one that accepts, when it is idle.
pub(crate) fn bytes(paths: u8, exchanged: usize) -> [usize; 2] {
    let mut pair = Pair::new(&Config::production(), paths);
    let message = Bytes::from(vec![1; exchanged.max(1)]);
    let mut associations = Vec::with_capacity(ASSOCIATIONS);
    let before = pair.heap;
    for _ in 0..ASSOCIATIONS {
        let ids = pair.connect();
        if exchanged > 0 {
            for side in 0..2 {
                assert!(pair.offer(side, ids[side], StreamId(0), &message));
                (0..40).for_each(|_| pair.turn());
                assert_eq!(pair.read(1 - side, ids[1 - side]), exchanged);
            }
        }
        associations.push(ids);
    }
    pair.rest(REST);
    let up = |ids: &[_; 2]| pair.is_up(0, ids[0]) && pair.is_up(1, ids[1]);
    assert!(associations.iter().all(up));
    [0, 1].map(|side| pair.heap[side].wrapping_sub(before[side]) / ASSOCIATIONS)
}
