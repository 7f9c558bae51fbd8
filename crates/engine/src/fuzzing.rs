//! Properties of the engine's insides that hold for all bytes: what the fuzz targets run, and what the
//! tests below run on the corpora of those targets. With the feature `fuzzing` only.

pub use crate::association::cookie_model::check as check_cookie;
pub use crate::recv::model::{check_hostile_data, check_order, check_tracker};

/// Choices made by the bytes of an input. When they are used up, all numbers are 0.
#[derive(Clone, Debug)]
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte, while there is one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit.max(1)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    /// At most so many of the bytes that follow.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Replays all files of a target's corpus.
    fn replay(target: &str, check: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut count = 0;
        for file in fs::read_dir(&corpus).unwrap() {
            check(&fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 10, "only {count} files in {}", corpus.display());
    }

    #[test]
    fn the_tracker_agrees_with_a_set_on_the_corpus() {
        replay("tracker", super::check_tracker);
    }

    #[test]
    fn messages_arrive_whole_and_in_order_on_the_corpus() {
        replay("reassembly", super::check_order);
    }

    #[test]
    fn the_receive_buffer_is_accounted_for_on_the_corpus() {
        replay("hostile_data", super::check_hostile_data);
    }

    #[test]
    fn no_forged_cookie_is_accepted_on_the_corpus() {
        replay("cookie", super::check_cookie);
    }
}
