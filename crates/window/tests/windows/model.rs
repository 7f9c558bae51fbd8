//! Any course of calls, beside a model that keeps the whole history and computes all from it.

use core::time::Duration;
use manypath_window::{Budget, Window, WindowConfig};
use proptest::prelude::*;

const WINDOWS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Drop(usize),
    /// This part of the credit (of 256) comes.
    Receive(usize, u8),
    /// This part of the buffered is consumed.
    Consume(usize, u8),
    Grant(usize),
    /// This part of the credit is returned.
    Return(usize, u8),
    Sample(usize, u64),
    Transport(usize, u64),
    End(usize),
    FallBack(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..WINDOWS;
    prop_oneof![
        1 => which.clone().prop_map(Step::Open),
        1 => which.clone().prop_map(Step::Drop),
        8 => (which.clone(), any::<u8>()).prop_map(|(w, part)| Step::Receive(w, part)),
        8 => (which.clone(), any::<u8>()).prop_map(|(w, part)| Step::Consume(w, part)),
        6 => which.clone().prop_map(Step::Grant),
        1 => (which.clone(), any::<u8>()).prop_map(|(w, part)| Step::Return(w, part)),
        2 => (which.clone(), 0_u64..400).prop_map(|(w, millis)| Step::Sample(w, millis)),
        1 => (which.clone(), 0_u64..(8 << 20)).prop_map(|(w, bytes)| Step::Transport(w, bytes)),
        1 => which.clone().prop_map(Step::End),
        1 => which.prop_map(Step::FallBack),
        6 => (0_u64..200).prop_map(Step::Wait),
    ]
}

/// The history of one window, from which the model knows what its size may be.
#[derive(Clone, Default)]
struct History {
    granted: u64,
    returned: u64,
    received: u64,
    consumed: u64,
    ended: bool,
    /// What was consumed when, since round trips are known.
    taken: Vec<(u64, u64)>,
    samples: Vec<(u64, u64)>,
}

impl History {
    fn credit(&self) -> u64 {
        if self.ended { 0 } else { self.granted - self.returned - self.received }
    }

    /// The most that was ever consumed between two moments that are a round trip apart, with what
    /// was consumed at both: the window has no reason to be larger than 4 times that.
    fn most_in_a_round_trip(&self) -> u64 {
        let longest = self.samples.iter().map(|(_, sample)| *sample).max().unwrap_or(u64::MAX);
        let from = |first: usize| {
            let (begun, _) = self.taken[first];
            let mut sum = 0;
            for (at, bytes) in &self.taken[first..] {
                sum += bytes;
                if at.saturating_sub(begun) > longest.max(2) {
                    break;
                }
            }
            sum
        };
        (0..self.taken.len()).map(from).max().unwrap_or(0)
    }

    /// `bytes` of the shortest round trip as bytes of the longest one, which data on the slowest path takes.
    fn stretched(&self, bytes: u64) -> u64 {
        let samples = || self.samples.iter().map(|(_, sample)| (*sample).max(2));
        let (least, most) = (samples().min().unwrap_or(1), samples().max().unwrap_or(1));
        u64::try_from(u128::from(bytes) * u128::from(most) / u128::from(least)).unwrap_or(u64::MAX)
    }
}

struct Course {
    config: WindowConfig,
    budget: Budget,
    now: u64,
    all: Vec<Option<(Window, History)>>,
}

impl Course {
    fn new(limit: u64) -> Self {
        Self {
            config: WindowConfig { cap: 6 << 20, ..WindowConfig::default() },
            budget: Budget::new(limit),
            now: 0,
            all: (0..WINDOWS).map(|_| None).collect(),
        }
    }

    fn apply(&mut self, step: &Step) {
        let now = Duration::from_millis(self.now);
        match *step {
            Step::Wait(millis) => self.now += millis,
            Step::Open(which) => self.open(which),
            Step::Drop(which) => self.all[which] = None,
            Step::Receive(which, part) => self.with(which, |window, history| {
                let bytes = history.credit() * u64::from(part) / 255;
                assert!(window.on_received(bytes), "what was granted may come");
                assert!(!window.on_received(history.credit() - bytes + 1), "and no more");
                history.received += bytes;
            }),
            Step::Consume(which, part) => self.consume(which, part),
            Step::Grant(which) => self.with(which, |window, history| {
                let due = window.is_grant_due();
                let grant = window.take_grant();
                assert!(!due || grant > 0, "a grant that is due is one");
                history.granted += grant;
            }),
            Step::Return(which, part) => self.with(which, |window, history| {
                let bytes = history.credit() * u64::from(part) / 255;
                assert!(window.on_returned(bytes));
                history.returned += bytes;
            }),
            Step::Sample(which, millis) => {
                let at = self.now;
                self.with(which, |window, history| {
                    window.on_round_trip(now, Duration::from_millis(millis));
                    if history.samples.is_empty() {
                        history.taken.clear();
                    }
                    history.samples.push((at, millis));
                });
            }
            Step::Transport(which, bytes) => {
                self.with(which, |window, _| window.set_transport_window(bytes));
            }
            Step::End(which) => self.with(which, |window, history| {
                window.on_end();
                history.ended = true;
            }),
            Step::FallBack(which) => self.with(which, |window, _| window.fall_back()),
        }
    }

    fn open(&mut self, which: usize) {
        self.all[which] = None;
        let room = self.budget.has_room(self.config.least);
        let window = Window::open(self.config, &self.budget);
        assert_eq!(window.is_some(), room, "it begins exactly if there is memory");
        let history = |w: &Window| History { granted: w.granted(), ..History::default() };
        self.all[which] = window.map(|window| {
            let history = history(&window);
            (window, history)
        });
    }

    fn consume(&mut self, which: usize, part: u8) {
        let at = self.now;
        let share = self.all[which].as_ref().map_or(0, |(w, _)| self.budget.share(w.charge()));
        let config = self.config;
        self.with(which, |window, history| {
            let bytes = (history.received - history.consumed) * u64::from(part) / 255;
            let before = window.size();
            window.on_consumed(Duration::from_millis(at), bytes);
            history.consumed += bytes;
            history.taken.push((at, bytes));
            let most = history.most_in_a_round_trip().saturating_mul(4);
            let reason = history.stretched(most).max(config.first);
            let grew = window.size() > before;
            assert!(!grew || window.size() <= reason, "it grows for a reason");
            assert!(!grew || window.size() <= share, "it grows within its share");
            assert!(window.size() <= 2 * before.max(config.first), "it doubles at most");
            assert!(window.size() <= config.cap);
        });
    }

    fn with(&mut self, which: usize, act: impl FnOnce(&mut Window, &mut History)) {
        if let Some((window, history)) = &mut self.all[which] {
            act(window, history);
        }
    }

    fn check(&self) {
        let mut charged = 0;
        for (window, history) in self.all.iter().flatten() {
            assert_eq!(window.granted(), history.granted);
            assert_eq!(window.credit(), history.credit());
            assert_eq!(window.buffered(), history.received - history.consumed);
            assert!(window.held() <= window.charge(), "memory that was not accounted for");
            assert!(window.size() >= self.config.least);
            let idle = window.held() == 0 && !history.ended;
            assert!(!idle || window.is_grant_due(), "a sender without credit is stuck");
            let sampled = history.samples.is_empty();
            assert_eq!(window.round_trip().is_none(), sampled);
            charged += window.charge();
        }
        assert_eq!(charged, self.budget.promised());
        assert!(charged <= self.budget.limit(), "more was promised than there is");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_course_keeps_to_the_model(
        limit in (1_u64 << 18)..(24 << 20),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut course = Course::new(limit);
        for step in &steps {
            course.apply(step);
            course.check();
        }
    }
}
