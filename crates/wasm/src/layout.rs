//! How a view lies in the memory of a module: numbers of 64 bits, little-endian.
//!
//! That of a path scheduler:
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
//!
//! That of a congestion control, which writes its decisions where the first three numbers lie:
//!
//! ```text
//!   0  cwnd, bytes                                          72  acked, bytes
//!   8  ssthresh, bytes; 2^32 - 1: never set                 80  rtt, ns; 0: not measured
//!  16  pacing_rate, bytes/s; 0: none                        88  newest transmission acknowledged; 0: ambiguous
//!  24  now, in ns since the start of the endpoint           96  sent: transmissions so far
//!  32  initial_window, bytes                               104  1 if the cumulative acknowledgement advanced, or 0
//!  40  chunk_limit, bytes                                  112  1 if the window was used up, or 0
//!  48  in_flight, bytes                                    120  1 in fast recovery, or 0
//!  56  srtt, ns; 0: not measured                           128  all paths: cwnd, bytes
//!  64  min_rtt, ns; 0: not measured                        136  all paths: ssthresh, bytes
//!                                                          144  all paths: cwnd / srtt, bytes/s
//!                                                          152  all paths: largest cwnd / srtt^2, bytes/s^2
//! ```

use manypath_engine::{
    AckView, CongestionEvent, CongestionView, CongestionWindow, Duration, Instant, PathView,
    SchedulerView,
};

const HEAD: usize = 32;
const PATH: usize = 64;
/// Room for every path that an association can have.
const MAX_PATHS: usize = 32;

/// Bytes of the largest view of a path scheduler.
pub const VIEW_LEN: usize = HEAD + MAX_PATHS * PATH;
/// Bytes of the view of a congestion control.
pub const CONTROL_VIEW_LEN: usize = 160;

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

/// What a congestion control sees of its path. `acked` and what follows it are zero if nothing was acknowledged.
pub(crate) fn control_view(
    event: CongestionEvent,
    view: &CongestionView,
) -> [u8; CONTROL_VIEW_LEN] {
    let acked = match event {
        CongestionEvent::Acked(ack) => acked(&ack),
        CongestionEvent::Lost
        | CongestionEvent::Marked
        | CongestionEvent::TimedOut
        | CongestionEvent::Idle(_) => [0; 7],
    };
    let path = [
        view.window.cwnd as u64,
        view.window.ssthresh as u64,
        view.window.pacing_rate.unwrap_or(0),
        nanos(view.now.since(Instant::ZERO)),
        view.initial_window as u64,
        view.chunk_limit as u64,
        view.in_flight as u64,
        nanos(view.srtt.unwrap_or_default()),
        nanos(view.min_rtt.unwrap_or_default()),
    ];
    let all =
        [view.all.cwnd as u64, view.all.ssthresh as u64, view.all.rate, view.all.max_rate_per_rtt];
    let mut out = [0; CONTROL_VIEW_LEN];
    put(&mut out, &[&path[..], &acked, &all].concat());
    out
}

fn acked(ack: &AckView) -> [u64; 7] {
    [
        ack.bytes as u64,
        nanos(ack.rtt.unwrap_or_default()),
        ack.newest.unwrap_or(0),
        ack.sent,
        u64::from(ack.advanced),
        u64::from(ack.window_used),
        u64::from(ack.recovering),
    ]
}

/// What a congestion control has decided.
pub(crate) fn window(view: &[u8; CONTROL_VIEW_LEN]) -> CongestionWindow {
    let mut numbers = view
        .chunks_exact(8)
        .map(|bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    let mut next = || numbers.next().unwrap_or(0);
    let bytes = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (cwnd, ssthresh) = (bytes(next()), bytes(next()));
    CongestionWindow { cwnd, ssthresh, pacing_rate: Some(next()).filter(|rate| *rate > 0) }
}

fn put(room: &mut [u8], numbers: &[u64]) {
    for (room, number) in room.chunks_exact_mut(8).zip(numbers) {
        room.copy_from_slice(&number.to_le_bytes());
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
