//! Streams that begin anew.

use crate::config::{Config, NrSack};
use crate::recv::{DataOutcome, Receiver};
use crate::send::Streams;
use alloc::vec::Vec;
use manypath_wire::chunk::{Data, FragmentPlace, IData};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

fn receiver() -> Receiver {
    Receiver::new(&Config::default(), Tsn(1), 4, NrSack::Case2)
}

fn one(stream: u16) -> Streams {
    Some([StreamId(stream)].into())
}

/// A message of one chunk arrives.
fn arrive(receiver: &mut Receiver, tsn: u32, stream: u16, ssn: u16) {
    let data = Data {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: Ppid(tsn),
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: b"x",
    };
    assert_eq!(receiver.handle_data(&data), Ok(DataOutcome::Accepted));
}

fn read(receiver: &mut Receiver) -> Vec<u32> {
    core::iter::from_fn(|| receiver.read()).map(|message| message.ppid.0).collect()
}

#[test]
fn numbers_begin_again_on_the_streams_that_are_named() {
    let mut receiver = receiver();
    for (tsn, stream, ssn) in [(1, 1, 0), (2, 1, 1), (3, 2, 0)] {
        arrive(&mut receiver, tsn, stream, ssn);
    }
    assert_eq!(receiver.reset_after(one(1), Tsn(3)), Ok(true));
    arrive(&mut receiver, 4, 1, 0);
    arrive(&mut receiver, 5, 2, 1);
    assert_eq!(read(&mut receiver), [1, 2, 3, 4, 5]);
    assert_eq!(receiver.reset_after(None, Tsn(5)), Ok(true));
    arrive(&mut receiver, 6, 2, 0);
    arrive(&mut receiver, 7, 1, 0);
    assert_eq!(read(&mut receiver), [6, 7]);
}

#[test]
fn a_reset_waits_for_what_was_sent_before_it_and_holds_what_comes_after() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 1, 0);
    assert_eq!(receiver.reset_after(one(1), Tsn(3)), Ok(false));
    assert!(receiver.has_deferred_reset());
    // 4 and 6 belong to the new numbers, 5 to another stream.
    arrive(&mut receiver, 4, 1, 0);
    arrive(&mut receiver, 6, 1, 1);
    arrive(&mut receiver, 5, 2, 0);
    arrive(&mut receiver, 3, 1, 2);
    assert_eq!(receiver.finish_reset(), Ok(None));
    assert_eq!((read(&mut receiver), receiver.queued()), ([1, 5].into(), 3));
    arrive(&mut receiver, 2, 1, 1);
    assert_eq!(receiver.finish_reset(), Ok(Some(one(1))));
    assert_eq!((read(&mut receiver), receiver.queued()), ([2, 3, 4, 6].into(), 0));
    assert!(!receiver.has_deferred_reset());
}

#[test]
fn with_i_data_both_kinds_of_numbers_begin_again() {
    let mut receiver = receiver();
    receiver.interleave();
    let mut arrive = |tsn: u32, unordered, mid, last: bool| {
        let place =
            if last { FragmentPlace::Later(Fsn(1)) } else { FragmentPlace::First(Ppid(tsn)) };
        let chunk = IData {
            tsn: Tsn(tsn),
            stream: StreamId(1),
            mid: Mid(mid),
            place,
            unordered,
            end: last,
            immediate: false,
            payload: b"x",
        };
        assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
        if tsn.is_multiple_of(6) {
            assert_eq!(receiver.reset_after(None, Tsn(tsn)), Ok(true));
        }
        receiver.read().map(|message| message.ppid.0)
    };
    for round in [0, 6, 12] {
        let got: Vec<_> = [(1, false), (3, true), (5, false)]
            .into_iter()
            .flat_map(|(at, unordered)| {
                let mid = u32::from(at == 5);
                let tsn = round + at;
                [arrive(tsn, unordered, mid, false), arrive(tsn + 1, unordered, mid, true)]
            })
            .collect();
        let whole = [1, 3, 5].map(|at| Some(round + at));
        assert_eq!(got, [None, whole[0], None, whole[1], None, whole[2]]);
    }
}

#[test]
fn after_a_restart_old_tsns_are_old() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 1, 0);
    arrive(&mut receiver, 3, 1, 2);
    let distant = receiver.distant_tsn();
    assert_eq!(distant, Tsn(2 + (1 << 31)));
    receiver.restart(distant);
    assert_eq!((receiver.next_tsn(), receiver.cum_tsn()), (distant, Tsn(distant.0 - 1)));
    arrive(&mut receiver, distant.0, 1, 0);
    arrive(&mut receiver, distant.0 + 1, 2, 0);
    // What waited for its predecessor waits no longer.
    assert_eq!(read(&mut receiver), [1, 3, distant.0, distant.0 + 1]);
    assert_eq!(receiver.queued(), 0);
}

#[test]
fn a_restart_gives_back_the_room_of_what_waited_for_a_reset() {
    let mut receiver = receiver();
    assert_eq!(receiver.reset_after(one(1), Tsn(3)), Ok(false));
    arrive(&mut receiver, 4, 1, 0);
    receiver.restart(receiver.distant_tsn());
    assert_eq!(receiver.window.counts(), (0, 0));
}
