//! Fixed stream-to-path mapping (Dreibholz et al. 2010, "Fixed"): a path carries the data of its
//! own streams only, and stays idle when they have none.
//!
//! When a path fails its streams go to the others, and come back when it does. Which path a stream
//! should use follows from the paths that are usable now; that it does not change while something
//! of the stream is under way on a path that still works, is seen to by the send queue.

use crate::config::StreamMapping;
use crate::path::{PathId, PathSet};
use manypath_wire::StreamId;

/// The path that `stream` is tied to while these paths are `usable`; `None`: any of them.
pub(crate) fn home(mapping: &StreamMapping, stream: StreamId, usable: PathSet) -> Option<PathId> {
    match mapping {
        StreamMapping::Any | StreamMapping::Dynamic => None,
        StreamMapping::Modulo => modulo(stream, usable),
        StreamMapping::Manual(list) => {
            let path = (*list.get(usize::from(stream.0))?)?;
            if usable.contains(path) { Some(path) } else { modulo(stream, usable) }
        }
    }
}

fn modulo(stream: StreamId, usable: PathSet) -> Option<PathId> {
    let index = usize::from(stream.0).checked_rem(usable.len())?;
    usable.iter().nth(index)
}

#[cfg(test)]
mod tests {
    use super::home;
    use crate::config::StreamMapping;
    use crate::path::{PathId, PathSet};
    use alloc::vec::Vec;
    use manypath_wire::StreamId;

    fn homes(mapping: &str, usable: &[u8]) -> Vec<Option<u8>> {
        let mapping: StreamMapping = mapping.parse().unwrap();
        let mut set = PathSet::default();
        usable.iter().for_each(|id| set.insert(PathId(*id)));
        (0..5).map(|stream| home(&mapping, StreamId(stream), set).map(|path| path.0)).collect()
    }

    #[test]
    fn streams_modulo_usable_paths() {
        assert_eq!(homes("modulo", &[1, 4]), [Some(1), Some(4), Some(1), Some(4), Some(1)]);
        assert_eq!(homes("modulo", &[]), [None; 5]);
        assert_eq!(homes("any", &[1, 4]), [None; 5]);
    }

    #[test]
    fn the_streams_of_a_failed_path_are_spread_over_the_others() {
        let all = homes("2,0,1,-", &[0, 1, 2]);
        assert_eq!(all, [Some(2), Some(0), Some(1), None, None]);
        let failed = homes("2,0,1,-", &[0, 2]);
        assert_eq!(failed, [Some(2), Some(0), Some(0), None, None]);
    }
}
