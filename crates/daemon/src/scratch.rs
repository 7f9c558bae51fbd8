//! The buffer into which the loop reads what programs write.
//!
//! What fills half of it goes on without a copy, and the next read takes another buffer: the one that was given back last,
//! which is most likely still in a cache, however many connections take turns.

use bytes::Bytes;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Bytes of a buffer, and of one read at most.
const SIZE: usize = 64 << 10;
/// Buffers that are kept for the next reads.
const MAX_SPARE: usize = 16;

/// Behind a lock because [`Bytes`] may be dropped on any thread; the loop's are dropped by the loop.
type Spare = Arc<Mutex<Vec<Box<[u8]>>>>;

/// A buffer of [`SIZE`] bytes, and those to use next.
#[derive(Debug)]
pub(crate) struct Scratch {
    buffer: Box<[u8]>,
    spare: Spare,
}

impl Scratch {
    /// The first `len` bytes. Whoever holds them holds at most twice as much memory.
    pub(crate) fn take(&mut self, len: usize) -> Bytes {
        if len < self.buffer.len() / 2 {
            return Bytes::copy_from_slice(&self.buffer[..len]);
        }
        let next = self.spare.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_else(empty);
        let buffer = mem::replace(&mut self.buffer, next);
        Bytes::from_owner(Filled { buffer, len, spare: Arc::clone(&self.spare) })
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self { buffer: empty(), spare: Spare::default() }
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

fn empty() -> Box<[u8]> {
    vec![0; SIZE].into_boxed_slice()
}

/// A buffer that is in use.
struct Filled {
    buffer: Box<[u8]>,
    len: usize,
    spare: Spare,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Ok(mut spare) = self.spare.lock()
            && spare.len() < MAX_SPARE
        {
            spare.push(mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_half_of_the_buffer_is_not_copied_and_less_is() {
        let mut scratch = Scratch::default();
        for (len, is_copied) in [(1, true), (SIZE / 2 - 1, true), (SIZE / 2, false), (SIZE, false)]
        {
            let begin = scratch.as_ptr();
            scratch.fill(7);
            let piece = scratch.take(len);
            assert_eq!(piece.as_ptr() != begin, is_copied, "{len} bytes");
            scratch.fill(8);
            assert!(piece.len() == len && piece.iter().all(|byte| *byte == 7), "{len} bytes");
        }
    }

    #[test]
    fn the_buffer_that_was_given_back_last_is_used_next_and_few_are_kept() {
        let mut scratch = Scratch::default();
        let [first, second] = [(); 2].map(|()| scratch.take(SIZE));
        let begin = first.as_ptr();
        drop(second);
        drop(first);
        let third = scratch.take(SIZE);
        assert_eq!(scratch.as_ptr(), begin);
        let many: Vec<_> = (0..2 * MAX_SPARE).map(|_| scratch.take(SIZE)).collect();
        drop((third, many));
        assert_eq!(scratch.spare.lock().unwrap().len(), MAX_SPARE);
    }
}
