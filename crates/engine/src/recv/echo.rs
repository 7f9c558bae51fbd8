//! Congestion that the network has told of, until the peer has heard of it (RFC 3168 section 6.1.3, RFC
//! 4960 appendix A): each SACK goes with an ECNE for each path on which a packet with CE has arrived, until
//! a CWR answers it.
//!
//! An ECNE has room for one TSN. Of several packets with CE it is the last one's: the sender answers once
//! per window, and sees by it whether a mark belongs to the window that it has answered already.

use crate::path::PathId;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use manypath_wire::chunk::Ecne;

/// Marks that wait for a CWR.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    /// One entry per path at most.
    waiting: Vec<Echo>,
}

#[derive(Clone, Copy, Debug)]
struct Echo {
    path: PathId,
    /// The lowest TSN of the last marked packet.
    tsn: Tsn64,
    /// Marked packets since the last CWR.
    packets: u32,
}

impl Echoes {
    /// A packet with CE, whose lowest new TSN is `tsn`, came over `path`. Returns whether that is the
    /// first since the last CWR: the sender should hear of it soon.
    pub(crate) fn note(&mut self, path: PathId, tsn: Tsn64) -> bool {
        match self.waiting.iter_mut().find(|echo| echo.path == path) {
            Some(echo) => {
                echo.tsn = echo.tsn.max(tsn);
                echo.packets = echo.packets.saturating_add(1);
                false
            }
            None => {
                self.waiting.push(Echo { path, tsn, packets: 1 });
                true
            }
        }
    }

    /// A CWR up to `tsn` came over `path`; it is for that path or for `all`.
    pub(crate) fn on_cwr(&mut self, path: PathId, tsn: Tsn64, all: bool) {
        self.waiting.retain(|echo| (echo.path != path && !all) || echo.tsn > tsn);
    }

    /// Keeps those of paths that exist.
    pub(crate) fn retain(&mut self, exists: impl Fn(PathId) -> bool) {
        self.waiting.retain(|echo| exists(echo.path));
    }

    /// The TSNs begin anew.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The chunks to be sent.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Ecne> {
        let chunk = |echo: &Echo| Ecne { lowest_tsn: echo.tsn.wire(), packets: Some(echo.packets) };
        self.waiting.iter().map(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::{Echoes, PathId, Tsn64};
    use alloc::vec::Vec;
    use manypath_wire::Tsn;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    fn told(echoes: &Echoes) -> Vec<(u32, Option<u32>)> {
        echoes.chunks().map(|ecne| (ecne.lowest_tsn.0, ecne.packets)).collect()
    }

    #[test]
    fn marks_are_told_until_a_cwr_of_their_path_answers_them() {
        let (one, two) = (PathId(1), PathId(2));
        let mut echoes = Echoes::default();
        assert!(echoes.note(one, tsn(5)));
        assert!(!echoes.note(one, tsn(9)));
        assert!(echoes.note(two, tsn(7)));
        assert_eq!(told(&echoes), [(9, Some(2)), (7, Some(1))]);
        echoes.on_cwr(one, tsn(8), false);
        assert_eq!(told(&echoes).len(), 2, "a later mark is not answered by it");
        echoes.on_cwr(one, tsn(9), false);
        assert_eq!(told(&echoes), [(7, Some(1))]);
        echoes.on_cwr(one, tsn(9), false);
        assert_eq!(told(&echoes).len(), 1, "nor that of another path");
        echoes.on_cwr(one, tsn(9), true);
        assert_eq!(told(&echoes), []);
    }
}
