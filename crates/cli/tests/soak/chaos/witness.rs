//! A program that connects by plain TCP all the time: what a connect meets at any moment. The transfers of a pair do
//! not connect at exactly the same one.

use crate::soak::hosts::{Hosts, SOAK};
use crate::soak::ledger::Carrier;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long before its end a program may have met what it says.
const SHORTLY: Duration = Duration::from_secs(1);

pub(super) struct Witness {
    child: Child,
    /// Errors of its connects.
    refusals: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Witness {
    pub(super) fn start(hosts: &Hosts) -> Self {
        let args = [SOAK, "witness", &hosts.server, "7000"];
        let mut command = hosts.client(Carrier::Plain, usize::MAX, "python3", &args);
        let command = command.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().expect("a witness");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&refusals);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                noted.lock().expect("nobody panics with it").push((Instant::now(), line));
            }
        });
        Self { child, refusals }
    }

    /// Whether a connect has met, shortly before `end`, the error of which a program speaks.
    pub(super) fn has_met(&self, said: &str, end: Instant) -> bool {
        let refusals = self.refusals.lock().expect("nobody panics with it");
        let recent = refusals.iter().filter(|(at, _)| *at + SHORTLY >= end);
        recent.into_iter().any(|(_, error)| said.contains(error.as_str()))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
