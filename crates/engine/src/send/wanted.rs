//! How much a user should have queued: what waits here passes nothing that comes later, so a user who
//! has a say in what goes first keeps it short, but not so short that a path waits.

use super::Sender;
use crate::path::{Path, Paths};
use crate::time::Duration;

/// What waits lasts for so long at the rate of the path, which is a window per round trip.
const LASTS: Duration = Duration::from_millis(4);
/// Packets that are always worth having.
const LEAST: usize = 2;

/// Bytes that need to wait in `sender` so that no path waits for the user.
pub(crate) fn wanted(sender: &Sender, paths: &Paths) -> usize {
    let usable = sender.choice.usable(paths);
    let all = paths.among(usable).map(of_path);
    all.fold(0, usize::saturating_add).max(LEAST * sender.fragment_size(paths))
}

fn of_path(path: &Path) -> usize {
    let window = path.congestion().window();
    let round_trip = path.rtt().smoothed().map_or(LASTS, |srtt| srtt.max(Duration::from_nanos(1)));
    let ahead = window as u128 * LASTS.as_nanos() / round_trip.as_nanos();
    let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
    window.saturating_sub(path.in_flight()).saturating_add(ahead)
}
