//! A queue of bytes that keeps large pieces as they are and gathers small ones.

use alloc::collections::VecDeque;
use bytes::{Bytes, BytesMut};

/// Pieces below this size are copied together, so that a queue of tiny writes costs about its bytes
/// and not an allocation for each.
const SMALL: usize = 512;

/// Size at which gathered bytes become a piece.
const GATHERED: usize = 8 << 10;

/// Bytes in order.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    pieces: VecDeque<Bytes>,
    gathered: BytesMut,
    len: usize,
}

impl ByteQueue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        if bytes.len() >= SMALL {
            self.close_gathered();
            self.pieces.push_back(bytes);
        } else {
            self.gathered.extend_from_slice(&bytes);
            if self.gathered.len() >= GATHERED {
                self.close_gathered();
            }
        }
    }

    /// The first piece, whatever its size.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.close_gathered();
        }
        let piece = self.pieces.pop_front()?;
        self.len -= piece.len();
        Some(piece)
    }

    /// Exactly the first `max` bytes, or all if there are fewer. Copies only to join pieces.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let wanted = max.min(self.len);
        if wanted == 0 {
            return None;
        }
        if self.pieces.is_empty() {
            self.close_gathered();
        }
        let first = self.pieces.front_mut()?;
        if first.len() > wanted {
            self.len -= wanted;
            return Some(first.split_to(wanted));
        }
        if first.len() == wanted { self.pop() } else { Some(self.join(wanted)) }
    }

    /// The first `N` bytes, which stay; none if there are fewer.
    pub(crate) fn head<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = self.pieces.iter().flatten().chain(&self.gathered);
        let mut head = [0; N];
        for byte in &mut head {
            *byte = *bytes.next()?;
        }
        Some(head)
    }

    fn join(&mut self, wanted: usize) -> Bytes {
        let mut joined = BytesMut::with_capacity(wanted);
        while joined.len() < wanted {
            let Some(mut piece) = self.pop() else { break };
            let missing = wanted - joined.len();
            if piece.len() > missing {
                let rest = piece.split_off(missing);
                self.len += rest.len();
                self.pieces.push_front(rest);
            }
            joined.extend_from_slice(&piece);
        }
        joined.freeze()
    }

    fn close_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.pieces.push_back(core::mem::take(&mut self.gathered).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn drain(queue: &mut ByteQueue, max: usize) -> Vec<Bytes> {
        core::iter::from_fn(|| queue.take(max)).collect()
    }

    #[test]
    fn large_piece_is_sliced_without_copying() {
        let whole = Bytes::from((0..=255).cycle().take(3000).collect::<Vec<u8>>());
        let mut queue = ByteQueue::default();
        queue.push(whole.clone());
        let parts = drain(&mut queue, 1000);
        assert_eq!(parts.len(), 3);
        for (i, part) in parts.iter().enumerate() {
            assert_eq!(part.as_ptr(), whole[i * 1000..].as_ptr());
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn small_pieces_are_joined_to_full_fragments() {
        let mut queue = ByteQueue::default();
        for i in 0..2000_u32 {
            queue.push(Bytes::copy_from_slice(&[i as u8; 7]));
        }
        let parts = drain(&mut queue, 1000);
        assert!(parts.iter().all(|part| part.len() == 1000));
        let all = parts.concat();
        assert!(all.chunks(7).enumerate().all(|(i, piece)| piece.iter().all(|&b| b == i as u8)));
    }

    #[test]
    fn tail_of_a_large_piece_is_joined_with_what_follows() {
        let mut queue = ByteQueue::default();
        queue.push(Bytes::from(std::vec![1; 1500]));
        queue.push(Bytes::from(std::vec![2; 600]));
        queue.push(Bytes::from_static(&[3; 10]));
        let sizes: Vec<_> = drain(&mut queue, 1000).iter().map(Bytes::len).collect();
        assert_eq!(sizes, [1000, 1000, 110]);
    }

    #[test]
    fn head_is_seen_across_pieces_and_stays() {
        let mut queue = ByteQueue::default();
        assert_eq!(queue.head::<1>(), None);
        queue.push(Bytes::from(std::vec![1; 512]));
        queue.push(Bytes::from_static(&[2, 3]));
        assert_eq!(queue.take(511).map(|taken| taken.len()), Some(511));
        assert_eq!((queue.head(), queue.head::<4>()), (Some([1, 2, 3]), None));
        assert_eq!(queue.take(3).as_deref(), Some(&[1, 2, 3][..]));
    }

    #[test]
    fn lone_small_piece_goes_at_once() {
        let mut queue = ByteQueue::default();
        queue.push(Bytes::from_static(b"x"));
        assert_eq!(queue.take(1000), Some(Bytes::from_static(b"x")));
        assert_eq!(queue.take(1000), None);
        assert_eq!(queue.pop(), None);
    }
}
