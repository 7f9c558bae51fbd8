//! Clients that are at work all the time, until they are told to pause or to end.

use crate::soak::dice::Dice;
use crate::soak::hosts::Hosts;
use crate::soak::ledger::{Ledger, Outcome};
use crate::soak::transfers::{LONGEST, Transfer};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Between transfers.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Order {
    #[default]
    Work,
    Pause,
    End,
}

/// Tells the workers what to do, and knows how many are at work.
#[derive(Default, Debug)]
pub(crate) struct Foreman {
    state: Mutex<(Order, usize)>,
    changed: Condvar,
}

impl Foreman {
    /// Waits until all are at rest.
    pub(crate) fn pause(&self) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.0 = Order::Pause;
        while state.1 > 0 {
            state = self.changed.wait(state).expect("nobody panics with it");
        }
    }

    pub(crate) fn go_on(&self) {
        self.order(Order::Work);
    }

    pub(crate) fn end(&self) {
        self.order(Order::End);
    }

    fn order(&self, order: Order) {
        self.state.lock().expect("nobody panics with it").0 = order;
        self.changed.notify_all();
    }

    /// Waits until there is work; whether there is.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock().expect("nobody panics with it");
        while state.0 == Order::Pause {
            state = self.changed.wait(state).expect("nobody panics with it");
        }
        state.1 += usize::from(state.0 == Order::Work);
        state.0 == Order::Work
    }

    pub(crate) fn finish(&self) {
        self.state.lock().expect("nobody panics with it").1 -= 1;
        self.changed.notify_all();
    }
}

/// One of them.
pub(crate) fn work(hosts: &Hosts, ledger: &Ledger, foreman: &Foreman, worker: usize, seed: u64) {
    let mut dice = Dice::new(seed, worker as u64 + 1);
    let dir = hosts.site.dir.join(format!("worker-{worker}"));
    std::fs::create_dir_all(&dir).expect("a folder");
    let carriers = hosts.carriers();
    while foreman.begin() {
        let carrier = *dice.pick(&carriers);
        let mut transfer = {
            let (dir, dice) = (&*dir, &mut dice);
            Transfer { hosts, worker, carrier, dir, dice, longest: LONGEST }
        };
        let begun = Instant::now();
        let (kind, what, result) = transfer.any();
        let ended = Instant::now();
        ledger.enter(Outcome { worker, carrier, kind, what, begun, ended, result });
        foreman.finish();
        std::thread::sleep(BREATH);
    }
}

/// Ends the workers when the test ends in whatever way: their threads are waited for.
pub(crate) struct Whistle<'a>(pub(crate) &'a Foreman);

impl Drop for Whistle<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
