//! Which part of a file to read next, and which has come.

use std::collections::{BTreeMap, VecDeque};

/// A file that is read in parts which come in any order, and written from its beginning to its end: so
/// what is written is always a beginning of the file, however it ends, and can be continued.
#[derive(Debug)]
pub struct Download {
    size: u64,
    /// Everything before this has been asked for.
    next: u64,
    /// Everything before this has been taken.
    taken: u64,
    /// Parts that came short, to be asked for again.
    again: VecDeque<(u64, u32)>,
    /// Parts that came before those in front of them.
    early: BTreeMap<u64, Vec<u8>>,
    held: usize,
}

impl Download {
    /// A file of `size` bytes, of which the first `have` are there.
    pub fn new(size: u64, have: u64) -> Self {
        let have = have.min(size);
        let (again, early) = (VecDeque::new(), BTreeMap::new());
        Self { size, next: have, taken: have, again, early, held: 0 }
    }

    /// The next part to ask for, of at most `length` bytes: its offset and length.
    pub fn next(&mut self, length: u32) -> Option<(u64, u32)> {
        if let Some(part) = self.again.pop_front() {
            return Some(part);
        }
        let length = u64::from(length).min(self.size - self.next) as u32;
        let part = (self.next, length);
        self.next += u64::from(length);
        (length > 0).then_some(part)
    }

    /// Whether everything has been asked for.
    pub fn is_asked(&self) -> bool {
        self.next == self.size && self.again.is_empty()
    }

    /// Bytes that have not been asked for.
    pub fn unasked(&self) -> u64 {
        let again: u64 = self.again.iter().map(|(_, length)| u64::from(*length)).sum();
        self.size - self.next + again
    }

    /// The part at `offset` came, of `length` bytes that were asked for. False if it is none of them.
    pub fn on_data(&mut self, offset: u64, length: u32, data: Vec<u8>) -> bool {
        let came = data.len() as u64;
        if came == 0 || came > u64::from(length) || offset < self.taken {
            return false;
        }
        if came < u64::from(length) {
            self.again.push_back((offset + came, length - came as u32));
        }
        self.held += data.len();
        self.early.insert(offset, data).is_none()
    }

    /// The next piece in order: where it belongs, and what it is.
    pub fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let data = self.early.remove(&self.taken)?;
        let offset = self.taken;
        self.taken += data.len() as u64;
        self.held -= data.len();
        Some((offset, data))
    }

    /// Whether everything has been taken.
    pub fn is_done(&self) -> bool {
        self.taken == self.size
    }

    /// Bytes at the beginning that have been taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes that wait for others in front of them.
    pub fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_order_and_length_parts_come_in_the_file_is_written_once_from_front_to_back(
            file in proptest::collection::vec(any::<u8>(), 0..500),
            have in 0usize..500,
            choices in proptest::collection::vec((any::<usize>(), 1u32..40), 3000),
        ) {
            let mut download = Download::new(file.len() as u64, have as u64);
            let mut written = file[..have.min(file.len())].to_vec();
            let mut asked = Vec::new();
            for (choice, length) in choices {
                if let Some(part) = download.next(length) {
                    asked.push(part);
                } else if asked.is_empty() {
                    break;
                }
                let (offset, length) = asked.swap_remove(choice % asked.len());
                let came = 1 + choice as u32 % length;
                let start = offset as usize;
                let data = file[start..start + came as usize].to_vec();
                prop_assert!(download.on_data(offset, length, data));
                while let Some((offset, data)) = download.take() {
                    prop_assert_eq!(offset, written.len() as u64);
                    written.extend(data);
                }
            }
            prop_assert!(download.is_done() && download.is_asked() && download.held() == 0);
            prop_assert_eq!(written, file);
        }
    }

    #[test]
    fn more_than_was_asked_for_is_refused() {
        let mut download = Download::new(10, 0);
        assert_eq!(download.next(4), Some((0, 4)));
        assert!(!download.on_data(0, 4, vec![0; 5]));
    }
}
