//! How a view lies in the memory of a module: numbers of 64 bits, little-endian.
//!
//! ```text
//!   0  now, in ns since the start of the endpoint          32 + 64 index:  srtt, ns; 0: not measured
//!   8  left: bytes that wait                                          + 8:  rttvar, ns
//!  16  sendable: of them, what the peer's window takes                +16:  min_rtt, ns; 0: not measured
//!  24  window: bytes that may be outstanding in all                   +24:  cwnd, bytes
//!                                                                     +32:  in_flight, bytes
//!                                                                     +40:  chunk_limit, bytes
//!                                                                     +48:  1 if the window has room, or 0
//!                                                                     +56:  number of the path
//! ```

use manypath_engine::{Duration, Instant, PathView, SchedulerView};

const HEAD: usize = 32;
const PATH: usize = 64;
/// Room for every path that an association can have.
const MAX_PATHS: usize = 32;

/// Bytes of the largest view.
pub const VIEW_LEN: usize = HEAD + MAX_PATHS * PATH;

/// Writes the view; the number of its bytes.
pub(crate) fn write(out: &mut [u8; VIEW_LEN], now: Instant, view: &SchedulerView<'_>) -> usize {
    let demand = view.demand;
    let head = [
        nanos(now.since(Instant::ZERO)),
        demand.left as u64,
        demand.sendable as u64,
        demand.window as u64,
    ];
    put(&mut out[..HEAD], &head);
    let room = out[HEAD..].chunks_exact_mut(PATH);
    let written = room.zip(view.paths).map(|(room, path)| put(room, &fields(path))).count();
    HEAD + written * PATH
}

fn fields(path: &PathView) -> [u64; PATH / 8] {
    [
        nanos(path.srtt.unwrap_or_default()),
        nanos(path.rttvar),
        nanos(path.min_rtt.unwrap_or_default()),
        path.cwnd as u64,
        path.in_flight as u64,
        path.chunk_limit as u64,
        u64::from(path.has_window),
        u64::from(path.id.0),
    ]
}

fn put(room: &mut [u8], numbers: &[u64]) {
    for (room, number) in room.chunks_exact_mut(8).zip(numbers) {
        room.copy_from_slice(&number.to_le_bytes());
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
