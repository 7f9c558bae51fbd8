//! Many windows of one budget.

use crate::path::{KIB, MIB, Path};
use manypath_window::{Adjustment, Budget, Refresh, Window, WindowConfig};

fn paths(budget: &Budget, count: usize) -> Vec<Path> {
    let open = |_| Window::open(WindowConfig::default(), budget).map(|w| Path::new(w, 2_000, 300));
    (0..count).filter_map(open).collect()
}

/// Lets all paths run, and holds what must hold at any time.
fn run(budget: &Budget, paths: &mut [Path], millis: u64) {
    for _ in 0..millis {
        for path in &mut *paths {
            path.step();
        }
        let held: u64 = paths.iter().map(|path| path.window.held()).sum();
        let charged: u64 = paths.iter().map(|path| path.window.charge()).sum();
        assert!(held <= charged, "memory that was not accounted for");
        assert_eq!(charged, budget.promised());
        assert!(charged <= budget.limit(), "more was promised than there is");
    }
}

#[test]
fn one_window_alone_has_half_of_the_budget() {
    let budget = Budget::new(64 * MIB);
    let mut paths = paths(&budget, 1);
    run(&budget, &mut paths, 20_000);
    assert_eq!(paths[0].largest, 32 * MIB);
    assert!(paths[0].adjustments.contains(&Adjustment::Denied));
}

#[test]
fn windows_that_want_more_than_there_is_come_to_equal_sizes() {
    let budget = Budget::new(64 * MIB);
    let mut paths = paths(&budget, 5);
    run(&budget, &mut paths, 40_000);
    let sizes: Vec<u64> = paths.iter().map(|path| path.window.size()).collect();
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(least * 10 >= most * 9, "{sizes:?}");
    assert!(sizes.iter().sum::<u64>() >= 40 * MIB, "{sizes:?}");
}

#[test]
fn a_window_gives_way_when_others_come() {
    let budget = Budget::new(64 * MIB);
    let mut all = paths(&budget, 1);
    run(&budget, &mut all, 20_000);
    all.extend(paths(&budget, 3));
    assert_eq!(all.len(), 4);
    run(&budget, &mut all, 40_000);
    let first = all[0].window.size();
    assert!(first <= 14 * MIB, "{first}");
    assert!(all[0].adjustments.contains(&Adjustment::GaveWay));
    for path in &all[1..] {
        assert!(path.window.size() >= 10 * MIB, "{}", path.window.size());
    }
}

#[test]
fn stopped_readers_take_nothing_from_the_others() {
    let budget = Budget::new(64 * MIB);
    let mut all = paths(&budget, 20);
    for path in &mut all[1..] {
        path.reader = 0;
    }
    run(&budget, &mut all, 20_000);
    assert!(all[0].largest >= 28 * MIB, "{}", all[0].largest);
    for path in &all[1..] {
        assert_eq!((path.largest, path.window.held()), (256 * KIB, 256 * KIB));
    }
}

#[test]
fn as_many_windows_begin_as_have_the_least() {
    let budget = Budget::new(4 * MIB);
    let all = paths(&budget, 1_000);
    // 3 MiB in windows of 256 KiB, and the rest in windows of 64 KiB.
    assert_eq!(all.len(), 12 + 16);
    assert!(!budget.has_room(64 * KIB) && budget.is_tight());
    drop(all);
    assert_eq!(budget.promised(), 0);
    assert!(budget.has_room(4 * MIB) && !budget.is_tight());
}

#[test]
fn a_window_that_was_opened_small_can_be_raised() {
    let budget = Budget::new(MIB);
    let mut window = Window::open_least(WindowConfig::default(), &budget).unwrap();
    assert_eq!((window.granted(), budget.promised()), (64 * KIB, 64 * KIB));
    assert!(window.raise_to_first());
    assert_eq!((window.granted(), budget.promised()), (256 * KIB, 256 * KIB));
    let fixed = WindowConfig::fixed(512 * KIB, Refresh::Fine);
    let _other = Window::open(fixed, &budget).unwrap();
    let mut third = Window::open_least(WindowConfig::default(), &budget).unwrap();
    assert!(!third.raise_to_first(), "that part is kept for windows to come");
    assert_eq!(third.granted(), 64 * KIB);
}

#[test]
fn returned_credit_is_free_for_others() {
    let budget = Budget::new(64 * MIB);
    let mut all = paths(&budget, 1);
    run(&budget, &mut all, 20_000);
    let window = &mut all[0].window;
    window.fall_back();
    assert_eq!(window.size(), 256 * KIB);
    assert_eq!(window.charge(), window.held(), "the peer still has its credit");
    let unused = window.credit() - 256 * KIB;
    assert!(unused > MIB && window.on_returned(unused));
    assert_eq!(window.charge(), window.held());
    assert_eq!(window.returned(), unused);
}

#[test]
fn a_budget_that_becomes_smaller_is_kept_as_soon_as_readers_go_on() {
    let budget = Budget::new(64 * MIB);
    let mut all = paths(&budget, 4);
    run(&budget, &mut all, 20_000);
    budget.set_limit(8 * MIB);
    assert!(Window::open(WindowConfig::default(), &budget).is_none());
    for _ in 0..5_000 {
        all.iter_mut().for_each(Path::step);
    }
    assert!(budget.promised() <= 6 * MIB, "{}", budget.promised());
}

#[test]
fn budgets_are_shared_between_threads() {
    let budget = Budget::new(100 * MIB);
    let work = |_| {
        let budget = budget.clone();
        std::thread::spawn(move || {
            for _ in 0..200 {
                let windows = paths(&budget, 400);
                assert!(budget.promised() <= budget.limit());
                drop(windows);
            }
        })
    };
    let threads: Vec<_> = (0..4).map(work).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(budget.promised(), 0);
}
