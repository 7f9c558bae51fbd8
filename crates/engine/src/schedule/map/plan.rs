//! Which path each stream should use, from what paths carry and streams need: the decision of the
//! dynamic stream-to-path scheduler (named as future work by Dreibholz et al. 2010), without state.
//!
//! 1. Pinned streams use the path that they are pinned to.
//! 2. Interactive streams, the tightest bound on their delay first: of the paths that keep the bound
//!    and have room for their demand, the one with the least delay.
//! 3. Bulk streams that do not fill what they get, the largest demand first: the tightest path with
//!    room for it, so that large paths stay free; else the one with most room.
//! 4. Saturated streams: every path gets one as long as there are any, then each goes where it
//!    gets most in proportion to its weight.

use crate::config::{StreamClass, StreamOptions};
use crate::path::PathId;
use crate::time::Duration;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use manypath_wire::StreamId;

/// What is known about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    pub(crate) id: PathId,
    /// Bytes per second that it carries.
    pub(crate) capacity: u64,
    /// How long a packet takes to the peer.
    pub(crate) delay: Duration,
}

/// What is known about a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamView {
    pub(crate) id: StreamId,
    pub(crate) options: StreamOptions,
    /// Bytes per second that the user gives; `None`: more than is sent.
    pub(crate) demand: Option<u64>,
}

/// The path of each stream.
pub(crate) type Homes = BTreeMap<StreamId, PathId>;

/// A path while streams are placed on it.
#[derive(Debug)]
struct Load {
    path: PathView,
    /// Bytes per second that are not taken by streams with a known demand.
    residual: u64,
    /// Weights of the saturated streams.
    weight: u64,
}

/// Places all streams. Empty without paths.
pub(crate) fn plan(paths: &[PathView], streams: &[StreamView]) -> Homes {
    let load = |path: &PathView| Load { path: *path, residual: path.capacity / 20 * 19, weight: 0 };
    let mut loads: Vec<Load> = paths.iter().map(load).collect();
    let mut order: Vec<&StreamView> = streams.iter().collect();
    order.sort_by_key(|stream| urgency(stream));
    let mut homes = Homes::new();
    for stream in order {
        let Some(index) = place(&loads, stream) else { continue };
        let load = &mut loads[index];
        match stream.demand {
            Some(demand) => load.residual = load.residual.saturating_sub(demand),
            None => load.weight += weight(stream),
        }
        homes.insert(stream.id, load.path.id);
    }
    homes
}

/// What the saturated stream that is worst off gets for each unit of its weight, and what all
/// streams get together, in bytes per second.
pub(crate) fn value(paths: &[PathView], streams: &[StreamView], homes: &Homes) -> (u64, u64) {
    let (mut least, mut sum) = (u64::MAX, 0);
    for path in paths {
        let here = || streams.iter().filter(|stream| homes.get(&stream.id) == Some(&path.id));
        let known: u64 = here().filter_map(|stream| stream.demand).sum();
        let weight: u64 = here().filter(|stream| stream.demand.is_none()).map(weight).sum();
        match path.capacity.saturating_sub(known).checked_div(weight) {
            Some(share) => {
                least = least.min(share);
                sum += path.capacity;
            }
            None => sum += path.capacity.min(known),
        }
    }
    (least, sum)
}

fn weight(stream: &StreamView) -> u64 {
    stream.options.weight.max(1).into()
}

/// Who is placed first: the smallest.
fn urgency(stream: &StreamView) -> (u8, Duration, Reverse<u64>, StreamId) {
    let StreamOptions { class, max_delay, pinned, .. } = stream.options;
    let bound = max_delay.unwrap_or(Duration::MAX);
    let (step, bound, size) = match (pinned, class, stream.demand) {
        (Some(_), ..) => (0, Duration::ZERO, 0),
        (None, StreamClass::Interactive | StreamClass::Realtime, _) => (1, bound, 0),
        (None, StreamClass::Bulk, Some(demand)) => (2, Duration::ZERO, demand),
        (None, StreamClass::Bulk, None) => (3, Duration::ZERO, weight(stream)),
    };
    (step, bound, Reverse(size), stream.id)
}

fn place(loads: &[Load], stream: &StreamView) -> Option<usize> {
    let pinned = stream.options.pinned;
    if let Some(at) = loads.iter().position(|load| Some(load.path.id) == pinned) {
        return Some(at);
    }
    let find = |key: &dyn Fn(&Load) -> (bool, u64)| {
        let keyed = loads.iter().enumerate().map(|(at, load)| (key(load), at));
        keyed.min().map(|(_, at)| at)
    };
    match (stream.options.class, stream.demand) {
        (StreamClass::Interactive | StreamClass::Realtime, demand) => {
            let needed =
                demand.unwrap_or_default().min(stream.options.min_rate.unwrap_or(u64::MAX));
            let bound = stream.options.max_delay.unwrap_or(Duration::MAX);
            find(&|load| {
                let good = load.path.delay <= bound && load.residual >= needed;
                (!good, u64::try_from(load.path.delay.as_nanos()).unwrap_or(u64::MAX))
            })
        }
        (StreamClass::Bulk, Some(demand)) => find(&|load| {
            let fits = load.residual >= demand;
            (!fits, if fits { load.residual } else { u64::MAX - load.residual })
        }),
        (StreamClass::Bulk, None) => find(&|load| {
            let share = load.residual / (load.weight + weight(stream));
            (load.weight > 0, u64::MAX - share)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Homes, PathView, StreamView, plan, value};
    use crate::config::{StreamClass, StreamOptions};
    use crate::path::PathId;
    use crate::time::Duration;
    use alloc::vec::Vec;
    use manypath_wire::StreamId;

    fn paths(of: &[(u64, u64)]) -> Vec<PathView> {
        let view = |(id, (capacity, delay)): (u8, &(u64, u64))| PathView {
            id: PathId(id),
            capacity: *capacity,
            delay: Duration::from_millis(*delay),
        };
        (0..).zip(of).map(view).collect()
    }

    fn bulk(id: u16, demand: Option<u64>) -> StreamView {
        StreamView { id: StreamId(id), options: StreamOptions::default(), demand }
    }

    fn homes(homes: &Homes) -> Vec<u8> {
        homes.values().map(|path| path.0).collect()
    }

    /// The setup of the paper's last figure: two paths of 10 Mbit/s, one of 1 Mbit/s, 7 streams.
    #[test]
    fn saturated_streams_use_every_path_in_proportion() {
        let paths = paths(&[(1_250_000, 10), (1_250_000, 10), (125_000, 50)]);
        let streams: Vec<_> = (0..7).map(|id| bulk(id, None)).collect();
        let mut homes = homes(&plan(&paths, &streams));
        homes.sort_unstable();
        assert_eq!(homes, [0, 0, 0, 1, 1, 1, 2]);
    }

    #[test]
    fn weights_count() {
        let paths = paths(&[(3_000_000, 10), (1_000_000, 10)]);
        let mut streams: Vec<_> = (0..3).map(|id| bulk(id, None)).collect();
        streams[2].options.weight = 3;
        assert_eq!(homes(&plan(&paths, &streams)), [1, 0, 0]);
        streams[2].options.weight = 1;
        assert_eq!(homes(&plan(&paths, &streams)), [0, 1, 0]);
    }

    #[test]
    fn known_demands_leave_large_paths_free() {
        let paths = paths(&[(1_250_000, 10), (250_000, 10)]);
        let streams = [bulk(0, Some(200_000)), bulk(1, Some(100_000)), bulk(2, Some(1_000_000))];
        assert_eq!(homes(&plan(&paths, &streams)), [1, 0, 0]);
    }

    #[test]
    fn interactive_streams_get_the_least_delay_that_has_room() {
        let paths = paths(&[(1_000_000, 80), (100_000, 5), (1_000_000, 20)]);
        let options = StreamOptions { class: StreamClass::Interactive, ..StreamOptions::default() };
        let realtime = StreamOptions { class: StreamClass::Realtime, ..options };
        let small = StreamView { options: realtime, ..bulk(0, Some(50_000)) };
        let large = StreamView { options, ..bulk(1, Some(500_000)) };
        assert_eq!(homes(&plan(&paths, &[small, large])), [1, 2]);
        // A stream that needs no more than a part of what it wants is content with that.
        let modest = StreamOptions { min_rate: Some(20_000), ..options };
        assert_eq!(homes(&plan(&paths, &[StreamView { options: modest, ..large }])), [1]);
        // The one with a bound goes first.
        let bound = StreamOptions { max_delay: Some(Duration::from_millis(10)), ..options };
        let bounded = StreamView { options: bound, ..bulk(2, Some(90_000)) };
        assert_eq!(homes(&plan(&paths, &[small, bounded])), [2, 1]);
    }

    #[test]
    fn pinned_streams_stay_where_they_are_wanted() {
        let paths = paths(&[(1_000_000, 5), (1_000, 500)]);
        let options = StreamOptions { pinned: Some(PathId(1)), ..StreamOptions::default() };
        let pinned = StreamView { options, ..bulk(0, None) };
        assert_eq!(homes(&plan(&paths, &[pinned, bulk(1, None)])), [1, 0]);
        assert!(plan(&[], &[pinned]).is_empty());
    }

    #[test]
    fn the_value_of_a_map_is_its_least_share_and_what_it_carries() {
        let paths = paths(&[(1000, 5), (400, 5)]);
        let streams = [bulk(0, None), bulk(1, None), bulk(2, Some(100))];
        let map = |homes: [u8; 3]| -> Homes {
            (0..).zip(homes).map(|(id, path)| (StreamId(id), PathId(path))).collect()
        };
        assert_eq!(value(&paths, &streams, &map([0, 1, 0])), (400, 1400));
        assert_eq!(value(&paths, &streams, &map([0, 0, 1])), (500, 1100));
    }
}
