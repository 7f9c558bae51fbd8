//! Chunks of a peer that keeps no rule: whatever it sends, what the receive window says is held is
//! what is held, and it stays within the limits.

use crate::choices::Choices;
use crate::config::{Config, NrSack};
use crate::recv::Receiver;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use manypath_wire::chunk::{
    Data, ForwardTsn, FragmentPlace, IData, IForwardTsn, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams,
};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

const STREAMS: u16 = 4;
const BUFFER: u32 = 4000;
/// Of chunks that may be larger than the buffer.
const LARGE: usize = 64;

/// Runs the course that the bytes describe.
///
/// # Panics
/// If the receiver holds what it does not account for, or too much.
pub fn check(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.byte();
    let nr_sack = if kind & 4 == 0 { NrSack::Off } else { NrSack::Case2 };
    let config = Config { receive_buffer: BUFFER, ..Config::default() };
    let initial = Tsn(choices.u32());
    let mut receiver = Receiver::new(&config, initial, STREAMS, nr_sack);
    if kind & 1 == 1 {
        receiver.interleave();
    } else if kind & 2 == 2 {
        receiver.expect_forward_tsn();
    }
    let mut largest = 0;
    while let Some(what) = choices.next() {
        if step(&mut receiver, what, &mut choices, &mut largest).is_err() {
            // The association is aborted.
            return;
        }
        let (bytes, chunks) = receiver.recount();
        assert_eq!((bytes, chunks), receiver.window.counts(), "after {what}");
        // One chunk may be larger than the buffer, beside a buffer of others.
        assert!(bytes <= BUFFER as usize + largest.max(BUFFER as usize), "{bytes}, {largest}");
    }
}

/// `largest` is the most user data that a chunk has brought so far.
fn step(
    receiver: &mut Receiver,
    what: u8,
    choices: &mut Choices<'_>,
    largest: &mut usize,
) -> Result<(), &'static str> {
    // Close to what is expected, where it hurts most.
    let tsn = |choices: &mut Choices<'_>, receiver: &Receiver| {
        let ahead = choices.byte();
        Tsn(receiver.next_tsn().0.wrapping_add(u32::from(ahead)).wrapping_sub(4))
    };
    match what % 8 {
        0..=3 => {
            let tsn = tsn(choices, receiver);
            data(receiver, tsn, choices, largest)
        }
        4 => {
            let tsn = tsn(choices, receiver);
            forward(receiver, tsn, choices)
        }
        5 => {
            while receiver.read().is_some() {}
            Ok(())
        }
        6 if !receiver.has_deferred_reset() => {
            let last = tsn(choices, receiver);
            let stream = StreamId(choices.byte().into());
            let streams = choices.flag().then(|| BTreeSet::from([stream]));
            receiver.reset_after(streams, last).map(|_| ())
        }
        _ => {
            if choices.below(4) == 0 {
                receiver.restart(receiver.distant_tsn());
            }
            receiver.finish_reset().map(|_| ())
        }
    }
}

fn data(
    receiver: &mut Receiver,
    tsn: Tsn,
    choices: &mut Choices<'_>,
    largest: &mut usize,
) -> Result<(), &'static str> {
    let (labels, flags, len) = (choices.byte(), choices.byte(), choices.byte());
    let stream = StreamId(u16::from(labels & 7) % (STREAMS + 1));
    let number = labels >> 3 & 7;
    let [begin, end, unordered, immediate] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
    let scale = if labels >> 6 == 3 { LARGE } else { 4 };
    let payload = &alloc::vec![0; usize::from(len) * scale][..];
    *largest = payload.len().max(*largest);
    if !receiver.is_interleaving() {
        let (ssn, ppid) = (Ssn(number.into()), Ppid(0));
        let data = Data { tsn, stream, ssn, ppid, unordered, begin, end, immediate, payload };
        return receiver.handle_data(&data).map(|_| ());
    }
    let mid = Mid(number.into());
    let place = if begin {
        FragmentPlace::First(Ppid(0))
    } else {
        FragmentPlace::Later(Fsn(u32::from(flags >> 4)))
    };
    let data = IData { tsn, stream, mid, place, unordered, end, immediate, payload };
    receiver.handle_i_data(&data).map(|_| ())
}

fn forward(
    receiver: &mut Receiver,
    cum_tsn: Tsn,
    choices: &mut Choices<'_>,
) -> Result<(), &'static str> {
    let labels = choices.take(2).iter();
    let parts = labels.map(|byte| (StreamId(u16::from(byte & 7)), byte >> 4, byte & 8 != 0));
    if receiver.is_interleaving() {
        let skipped: Vec<_> = parts
            .map(|(stream, mid, unordered)| SkippedMessage {
                stream,
                unordered,
                mid: Mid(mid.into()),
            })
            .collect();
        let skipped = SkippedMessages::from_slice(&skipped);
        return receiver.handle_i_forward_tsn(&IForwardTsn { cum_tsn, skipped }).map(|_| ());
    }
    // Where it was not agreed on, the chunk is one of unknown type.
    if receiver.expects_forward_tsn() {
        let skipped: Vec<_> =
            parts.map(|(stream, ssn, _)| SkippedStream { stream, ssn: Ssn(ssn.into()) }).collect();
        let skipped = SkippedStreams::from_slice(&skipped);
        receiver.handle_forward_tsn(&ForwardTsn { cum_tsn, skipped });
    }
    Ok(())
}
