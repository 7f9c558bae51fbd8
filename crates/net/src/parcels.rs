//! Packets that the user of the driver carries: those of paths that no socket of this host stands for.
//!
//! Such a path begins at an address that only stands for this host. What the endpoint sends from there waits to be
//! taken, and what has come for it is handed over as if a socket had received it.

use manypath_engine::PathAddr;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Most bytes that wait to be taken; packets beyond that are dropped, as by the queue of an interface.
const MAX_WAITING: usize = 1 << 20;

/// A packet, and the path that it is to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parcel {
    /// Its path.
    pub path: PathAddr,
    /// The packet, without headers of IP and UDP.
    pub bytes: Vec<u8>,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    pub(crate) local: Option<SocketAddr>,
    waiting: VecDeque<Parcel>,
    bytes: usize,
}

impl Parcels {
    /// Keeps the packets of a run that begins where no socket is, and tells how many there was no room for. `None` if
    /// it begins elsewhere.
    pub(crate) fn take(
        &mut self,
        path: PathAddr,
        bytes: &[u8],
        segment_size: usize,
    ) -> Option<u64> {
        self.local.filter(|local| *local == path.local)?;
        let mut dropped = 0;
        for packet in bytes.chunks(segment_size.max(1)) {
            if self.bytes + packet.len() > MAX_WAITING {
                dropped += 1;
                continue;
            }
            self.bytes += packet.len();
            self.waiting.push_back(Parcel { path, bytes: packet.to_vec() });
        }
        Some(dropped)
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.waiting.pop_front()?;
        self.bytes -= parcel.bytes.len();
        Some(parcel)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_its_address_are_kept_up_to_a_bound() {
        let local: SocketAddr = "[2001:2f::1]:9899".parse().unwrap();
        let path = PathAddr { local, remote: "[2001:2f::2]:9899".parse().unwrap() };
        let mut parcels = Parcels::default();
        assert_eq!(parcels.take(path, &[0; 10], 10), None, "nobody carries them");
        parcels.local = Some(local);
        assert_eq!(parcels.take(path, &[0; 25], 10), Some(0));
        assert_eq!(
            parcels.waiting.iter().map(|it| it.bytes.len()).collect::<Vec<_>>(),
            [10, 10, 5]
        );
        let dropped: u64 = (0..2000).filter_map(|_| parcels.take(path, &[0; 1000], 1000)).sum();
        assert!(parcels.bytes <= MAX_WAITING && dropped > 900, "{dropped}");
    }
}
