//! The record layer with each cipher suite.

use manypath_aead::{CipherSuite, WrongLength};
use manypath_engine::protection::{
    Limits, NONCE_LEN, OpenError, OpeningKey, RECORD_HEADER_LEN, RECORD_TRAILER_LEN, RecordCipher,
    RecordKey, SAMPLE_LEN, SealingKey, TAG_LEN,
};

fn key(suite: CipherSuite, byte: u8) -> RecordKey {
    let bytes = vec![byte; suite.key_len()];
    suite.key(&bytes, [byte; NONCE_LEN], &bytes).expect("its length")
}

fn pair(suite: CipherSuite, epoch: u64) -> (SealingKey, OpeningKey) {
    (SealingKey::new(epoch, key(suite, 7)), OpeningKey::new(epoch, key(suite, 7)))
}

/// A record with `content` in it.
fn sealed(key: &mut SealingKey, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0xEE; RECORD_HEADER_LEN];
    record.extend(content);
    record.resize(record.len() + RECORD_TRAILER_LEN, 0xEE);
    key.seal(&mut record).expect("far from the limit");
    record
}

#[test]
fn what_is_sealed_is_opened_once_in_any_order() {
    for suite in CipherSuite::ALL {
        let (mut sealing, mut opening) = pair(suite, 3);
        let records: Vec<_> =
            (0..300_u16).map(|n| sealed(&mut sealing, &n.to_be_bytes())).collect();
        for n in (0..300_usize).rev() {
            let opened = opening.open(&mut records[n].clone()).map(<[u8]>::to_vec);
            assert_eq!(opened, Ok((n as u16).to_be_bytes().to_vec()));
            assert_eq!(opening.open(&mut records[n].clone()), Err(OpenError::Replayed));
        }
        assert_eq!((opening.opened(), opening.failures(), sealing.sealed()), (300, 0, 300));
    }
}

#[test]
fn an_empty_record_and_the_longest_one_are_opened() {
    for suite in CipherSuite::ALL {
        let (mut sealing, mut opening) = pair(suite, 4);
        for len in [0, 1, 1 << 14] {
            let mut record = sealed(&mut sealing, &vec![5; len]);
            assert_eq!(opening.open(&mut record), Ok(&vec![5; len][..]));
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    for suite in CipherSuite::ALL {
        let (mut sealing, mut opening) = pair(suite, 3);
        let record = sealed(&mut sealing, b"chunks");
        for bit in 0..record.len() * 8 {
            let mut forged = record.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(opening.open(&mut forged).is_err(), "bit {bit}");
        }
        for len in 0..record.len() {
            assert!(opening.open(&mut record[..len].to_vec()).is_err(), "{len} bytes");
        }
        assert_eq!(opening.opened(), 0);
        assert_eq!(opening.open(&mut record.clone()), Ok(&b"chunks"[..]));
    }
}

#[test]
fn nothing_of_the_content_and_not_the_sequence_number_is_readable() {
    for suite in CipherSuite::ALL {
        let (mut sealing, _) = pair(suite, 3);
        let records: Vec<_> = (0..64).map(|_| sealed(&mut sealing, &[b'A'; 64])).collect();
        assert!(records.iter().all(|record| !record.windows(4).any(|it| it == b"AAAA")));
        let numbers = (0_u16..).zip(&records);
        let plain = numbers.filter(|(n, record)| record[1..3] == n.to_be_bytes()).count();
        assert!(plain < 4, "{plain} sequence numbers are not encrypted");
    }
}

#[test]
fn sequence_numbers_go_on_beyond_16_bits() {
    let (mut sealing, mut opening) = pair(CipherSuite::Aes128Gcm, 3);
    for n in 0..200_000_u32 {
        let mut record = sealed(&mut sealing, &n.to_be_bytes());
        // Losses in a row that 16 bits still bridge.
        if n % 50_000 < 30_000 {
            continue;
        }
        assert_eq!(opening.open(&mut record), Ok(&n.to_be_bytes()[..]));
    }
}

#[test]
fn keys_of_another_epoch_or_length_are_of_no_use() {
    let (mut sealing, _) = pair(CipherSuite::Aes128Gcm, 3);
    let mut record = sealed(&mut sealing, b"chunks");
    let mut next = OpeningKey::new(4, key(CipherSuite::Aes128Gcm, 7));
    assert!(!next.matches(&record));
    assert_eq!(next.open(&mut record.clone()), Err(OpenError::Malformed));
    let mut other = OpeningKey::new(3, key(CipherSuite::Aes128Gcm, 8));
    assert_eq!(other.open(&mut record), Err(OpenError::NotAuthentic));
    for suite in CipherSuite::ALL {
        let (short, right) = (vec![0; suite.key_len() - 1], vec![0; suite.key_len()]);
        assert_eq!(suite.key(&short, [0; NONCE_LEN], &right).err(), Some(WrongLength));
        assert_eq!(suite.key(&right, [0; NONCE_LEN], &short).err(), Some(WrongLength));
        assert_eq!(CipherSuite::from_id(suite.id()), Some(suite));
    }
}

/// A cipher that protects nothing, for very few records.
struct Plain;

impl RecordCipher for Plain {
    fn seal(&self, _: [u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> Option<[u8; TAG_LEN]> {
        Some([0; TAG_LEN])
    }

    fn open(&self, _: [u8; NONCE_LEN], _: &[u8], content: &mut [u8]) -> bool {
        content.ends_with(&[0; TAG_LEN])
    }

    fn mask(&self, _: &[u8; SAMPLE_LEN]) -> [u8; 2] {
        [0; 2]
    }

    fn limits(&self) -> Limits {
        Limits { sealed: 2, failures: 2 }
    }
}

#[test]
fn a_key_is_used_no_more_than_its_limits_allow() {
    let mut sealing = SealingKey::new(3, RecordKey::new(Plain, [0; NONCE_LEN]));
    let mut opening = OpeningKey::new(3, RecordKey::new(Plain, [0; NONCE_LEN]));
    let records = [(); 2].map(|()| sealed(&mut sealing, b"chunks"));
    assert_eq!(sealing.left(), 0);
    assert!(sealing.seal(&mut records[0].clone()).is_err());
    for _ in 0..2 {
        let mut forged = records[0].clone();
        *forged.last_mut().unwrap() = 1;
        assert_eq!(opening.open(&mut forged), Err(OpenError::NotAuthentic));
    }
    assert_eq!(opening.open(&mut records[1].clone()), Err(OpenError::Exhausted));
}

#[test]
fn padding_is_taken_off_and_other_content_types_are_refused() {
    let record = |inner: &[u8]| [&[0x2B, 0, 0][..], inner, &[0; TAG_LEN]].concat();
    let open = |inner: &[u8]| {
        let mut opening = OpeningKey::new(3, RecordKey::new(Plain, [0; NONCE_LEN]));
        opening.open(&mut record(inner)).map(<[u8]>::to_vec)
    };
    assert_eq!(open(b"chunks\x17"), Ok(b"chunks".to_vec()));
    assert_eq!(open(b"chunks\x17\0\0\0"), Ok(b"chunks".to_vec()));
    assert_eq!(open(b"chunks\x16"), Err(OpenError::Malformed));
    assert_eq!(open(b"\0\0\0\0"), Err(OpenError::Malformed));
}
