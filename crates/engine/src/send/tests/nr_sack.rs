//! What the peer will not renege on: it leaves the send buffer at once, and for good.

use super::{Bench, FULL, classic};
use crate::path::PathId;
use crate::send::SackView;
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::{GapBlock, GapBlocks};

type Blocks<'a> = &'a [(u64, u64)];

impl Bench {
    /// An NR-SACK with absolute TSNs in its blocks, renegable and not, arrives over a path.
    fn nr_sack(
        &mut self,
        cum: u64,
        (gaps, nr_gaps): (Blocks<'_>, Blocks<'_>),
        via: u8,
    ) -> Result<(), &'static str> {
        let [gaps, nr_gaps] = [gaps, nr_gaps].map(|blocks| -> Vec<GapBlock> {
            let offset = |tsn: u64| u16::try_from(tsn - cum).unwrap();
            let block = |(start, end): &(u64, u64)| (offset(*start), offset(*end));
            let block = |blocks| {
                let (start, end) = block(blocks);
                GapBlock { start, end }
            };
            blocks.iter().map(block).collect()
        });
        let view = SackView {
            a_rwnd: Some(self.a_rwnd),
            gaps: GapBlocks::from_slice(&gaps),
            nr_gaps: GapBlocks::from_slice(&nr_gaps),
            ..SackView::of_shutdown(Tsn(cum as u32))
        };
        self.sender.handle_sack(self.now, &view, PathId(via), &mut self.paths)?;
        self.check();
        Ok(())
    }

    fn buffered(&self) -> usize {
        self.sender.buffer.used() / FULL
    }
}

#[test]
fn the_send_buffer_is_freed_in_the_middle_and_the_hole_is_walked_over() {
    let mut bench = Bench::opened(2);
    bench.push(0, 10);
    bench.pass(100);
    bench.nr_sack(0, (&[(2, 2)], &[(3, 6)]), 0).unwrap();
    assert_eq!(bench.buffered(), 6);
    // What was only renegable becomes safe; what was safe stays so and is not freed twice.
    bench.nr_sack(0, (&[], &[(2, 7)]), 0).unwrap();
    assert_eq!(bench.buffered(), 4);
    bench.nr_sack(8, (&[], &[]), 0).unwrap();
    assert_eq!((bench.buffered(), bench.cum()), (2, 8));
    bench.nr_sack(10, (&[], &[]), 0).unwrap();
    assert!(bench.sender.is_drained());
}

#[test]
fn a_tsn_in_blocks_of_both_kinds_is_safe() {
    let mut bench = Bench::opened(1);
    bench.push(0, 6);
    bench.nr_sack(0, (&[(3, 5)], &[(4, 4)]), 0).unwrap();
    assert_eq!(bench.buffered(), 5);
    // The renegable ones may be taken back, the safe one may not.
    bench.sack(0, &[(5, 6)], 0);
    assert_eq!(bench.buffered(), 5);
    assert_eq!(bench.path(0).flight().booked(), 5 * FULL);
    // One report for having been taken back, one from 6.
    assert_eq!(bench.missing(3), 2);
    bench.sack(6, &[], 0);
    assert!(bench.sender.is_drained());
}

#[test]
fn safe_chunks_that_are_not_reported_again_stay_acknowledged() {
    let mut bench = Bench::reported(2);
    bench.push(0, 4);
    bench.push(1, 2);
    bench.nr_sack(0, (&[], &[(5, 6)]), 1).unwrap();
    bench.a_rwnd = 5000;
    // A SACK that was overtaken on the other path: its window is not believed either.
    bench.nr_sack(0, (&[], &[(2, 2), (6, 6)]), 0).unwrap();
    assert_eq!(bench.buffered(), 3);
    assert!(bench.sender.outstanding().window().rwnd() > 5000);
    bench.nr_sack(0, (&[], &[(2, 3)]), 1).unwrap();
    assert_eq!(bench.sender.outstanding().window().rwnd(), 5000 - 2 * FULL);
}

#[test]
fn a_peer_that_takes_back_what_was_safe_gets_only_the_rest_again() {
    let mut bench = Bench::opened(1);
    bench.push(0, 4);
    bench.nr_sack(0, (&[], &[(2, 3)]), 0).unwrap();
    bench.nr_sack(1, (&[], &[]), 0).unwrap();
    bench.nr_sack(1, (&[(1, 2)], &[]), 0).unwrap();
    bench.now = bench.path(0).flight().t3().unwrap();
    bench.sender.handle_t3(crate::path::PathId(0), &mut bench.paths);
    assert_eq!(bench.send(0), [4]);
    bench.nr_sack(4, (&[], &[]), 0).unwrap();
    assert!(bench.sender.is_drained());
}

#[test]
fn chunks_that_a_short_sack_does_not_report_any_more_are_in_flight_again() {
    let mut bench = Bench::opened(1);
    bench.push(0, 3);
    bench.sack(0, &[(1, 2)], 0);
    assert_eq!(bench.path(0).in_flight(), 1460);
    bench.sack(1, &[], 0);
    assert_eq!(bench.path(0).in_flight(), 2 * 1460);
    let rto = bench.path(0).rtt().rto();
    bench.now = bench.path(0).flight().t3().unwrap();
    bench.sender.handle_t3(crate::path::PathId(0), &mut bench.paths);
    assert_eq!(bench.send(0), [2]);
    bench.sack(1, &[(2, 2)], 0);
    assert_eq!(bench.path(0).rtt().rto(), rto * 2, "a second acknowledgement is no sample");
}

#[test]
fn blocks_of_either_kind_must_be_of_what_was_sent() {
    let mut bench = Bench::opened(1);
    bench.push(0, 4);
    bench.nr_sack(0, (&[], &[(4, 3)]), 0).unwrap();
    assert_eq!(bench.buffered(), 4);
    assert!(bench.nr_sack(0, (&[], &[(5, 5)]), 0).is_err());
}

#[test]
fn freed_chunks_let_the_user_queue_more() {
    let config = crate::config::Config { send_buffer: 10 * FULL as u32, ..classic() };
    let mut bench = Bench::new(1, &config);
    bench.queue(10);
    bench.send_all(0);
    assert_eq!(bench.sender.space(), 0);
    bench.nr_sack(0, (&[], &[(2, 3)]), 0).unwrap();
    assert_eq!(bench.sender.space(), 2 * FULL);
}
