//! Which part of a file to write next, and which has been written.

use std::collections::BTreeMap;

/// A file whose parts are written at their offsets, in any order.
///
/// What an interrupted upload leaves may have holes, but none before the last [`SPREAD`](Self::SPREAD)
/// bytes: no part is sent that lies further behind the first one that is not yet written.
#[derive(Debug)]
pub struct Upload {
    size: u64,
    next: u64,
    /// Everything before this is written.
    done: u64,
    /// Parts behind that which are written: from, to.
    early: BTreeMap<u64, u64>,
}

impl Upload {
    /// Bytes at the end of what is there that may be holes.
    pub const SPREAD: u64 = 64 << 20;

    /// A file of `size` bytes, of which the server has `there`, left by an upload that was interrupted.
    pub fn new(size: u64, there: u64) -> Self {
        let have = there.min(size).saturating_sub(Self::SPREAD);
        Self { size, next: have, done: have, early: BTreeMap::new() }
    }

    /// The next part to write, of at most `length` bytes: its offset and length.
    pub fn next(&mut self, length: u32) -> Option<(u64, u32)> {
        let end = self.size.min(self.done + Self::SPREAD);
        let length = u64::from(length).min(end.saturating_sub(self.next)) as u32;
        let part = (self.next, length);
        self.next += u64::from(length);
        (length > 0).then_some(part)
    }

    /// Bytes that have not been sent.
    pub fn unsent(&self) -> u64 {
        self.size - self.next
    }

    /// Whether all parts have been sent.
    pub fn is_sent(&self) -> bool {
        self.next == self.size
    }

    /// The part at `offset` is written.
    pub fn on_written(&mut self, offset: u64, length: u32) {
        self.early.insert(offset, offset + u64::from(length));
        while let Some(end) = self.early.remove(&self.done) {
            self.done = end;
        }
    }

    /// Whether everything is written.
    pub fn is_done(&self) -> bool {
        self.done == self.size
    }

    /// Bytes at the beginning that are written.
    pub fn done(&self) -> u64 {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_further_ahead_of_the_first_hole_than_is_written_again_on_resume() {
        let mut upload = Upload::new(200 << 20, 0);
        let first = upload.next(1 << 20);
        while let Some((offset, length)) = upload.next(1 << 20) {
            assert!(offset + u64::from(length) <= Upload::SPREAD);
            upload.on_written(offset, length);
        }
        assert!(!upload.is_sent());
        let (offset, length) = first.expect("a part");
        upload.on_written(offset, length);
        assert_eq!(upload.done(), Upload::SPREAD);
        assert!(upload.next(1).is_some());
    }

    #[test]
    fn an_upload_is_continued_before_what_may_be_holes() {
        assert_eq!(Upload::new(200 << 20, 100 << 20).done(), 36 << 20);
        assert_eq!(Upload::new(200 << 20, 10 << 20).done(), 0);
    }

    #[test]
    fn a_file_without_bytes_is_done_at_once() {
        assert!(Upload::new(0, 0).is_done() && Upload::new(0, 0).is_sent());
    }
}
