//! All chunks, parameters and causes up to some size, with every Length that their field can be wrong by.

use crate::reparse;

/// Values are at most so long: longer than the fixed part of any chunk, parameter or cause.
const MAX_VALUE: usize = 36;
/// Lengths that claim more than there is go so far beyond it.
const MAX_LENGTH: u16 = 44;

/// A header of type and Length, as parameters and causes have it, and a value.
fn block(kind: u16, length: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &length.to_be_bytes(), value].concat()
}

/// A packet with one chunk, whatever its Length says.
fn packet(kind: u8, flags: u8, length: u16, value: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[kind, flags], &length.to_be_bytes(), value].concat()
}

/// The same with its true Length.
fn packet_of(kind: u8, value: &[u8]) -> Vec<u8> {
    packet(kind, 0, 4 + value.len() as u16, value)
}

/// Values of one length: nothing, everything, and numbers that count up, which are small where a count stands.
fn values(len: usize) -> [Vec<u8>; 3] {
    [vec![0; len], vec![0xFF; len], (0..len).map(|at| (at % 4 / 3 * (1 + at / 4)) as u8).collect()]
}

#[test]
fn every_chunk_type_with_every_length_is_safe() {
    for kind in 0..=u8::MAX {
        for len in 0..=MAX_VALUE {
            for value in values(len) {
                for length in 0..=MAX_LENGTH {
                    reparse::check(&packet(kind, 0, length, &value));
                }
                reparse::check(&packet(kind, 0xFF, 4 + len as u16, &value));
                reparse::check(&packet(kind, 0, u16::MAX, &value));
            }
        }
    }
}

/// Carriers of parameters: the chunk type, and what stands before them.
const PARAMETERS: [(u8, usize); 5] = [(1, 16), (2, 16), (130, 0), (0xC1, 4), (0x80, 4)];
/// Carriers of causes.
const CAUSES: [(u8, usize); 2] = [(6, 0), (9, 0)];

fn check_blocks(carriers: &[(u8, usize)], kinds: impl Iterator<Item = u16> + Clone) {
    for (carrier, before) in carriers {
        for kind in kinds.clone() {
            for len in 0..=MAX_VALUE {
                for (pick, value) in values(len).into_iter().enumerate() {
                    for length in 0..=MAX_LENGTH {
                        // The field is right, or wrong in one of the ways: not with each value.
                        if pick == 2 || usize::from(length) == 4 + len {
                            let block = block(kind, length, &value);
                            let whole = [&vec![0; *before][..], &block].concat();
                            reparse::check(&packet_of(*carrier, &whole));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_known_parameter_with_every_length_is_safe() {
    check_blocks(&PARAMETERS, (0..=24).chain(0x8000..=0x800A).chain(0xC000..=0xC008));
}

#[test]
fn every_known_cause_with_every_length_is_safe() {
    check_blocks(&CAUSES, (0..=16).chain(99..=104).chain(0xA0..=0xA6).chain(0x0105..=0x0107));
}

#[test]
fn every_parameter_and_cause_type_is_safe() {
    for kind in 0..=u16::MAX {
        for len in [0, 3, 8] {
            let value = &values(len)[2];
            let block = block(kind, 4 + len as u16, value);
            reparse::check(&packet_of(130, &block));
            reparse::check(&packet_of(9, &block));
        }
    }
}
