use super::{Application, Desk, Way, start};
use crate::scenario::{AppKind, AppSpec};
use manypath_engine::Instant;

/// All applications of a scenario, those that have begun and those that will.
#[derive(Debug)]
pub struct Applications<'a> {
    /// Start of the association.
    start: Instant,
    all: Vec<One<'a>>,
    /// Room in the send buffer when they last had a look at it.
    space: usize,
}

/// An application and, once it has begun, what it does.
#[derive(Debug)]
struct One<'a> {
    spec: &'a AppSpec,
    running: Option<Box<dyn Application>>,
}

impl<'a> Applications<'a> {
    /// None has begun. `start` is the start of the association, from which their times count.
    pub fn new(specs: &'a [AppSpec], start: Instant) -> Self {
        let all = specs.iter().filter(|spec| !is_above_the_engine(spec));
        let all = all.map(|spec| One { spec, running: None }).collect();
        Self { start, all, space: 0 }
    }

    /// Begins those whose time has come; to be called once the association is established.
    pub fn begin(&mut self, now: Instant) {
        for app in self.all.iter_mut().filter(|app| app.running.is_none()) {
            if self.start + app.spec.start <= now {
                app.running = start(app.spec, now);
                self.space = 0;
            }
        }
    }

    /// Lets them send when there is more room than they have left, and tells those whose time has
    /// come.
    pub fn work(&mut self, desk: &mut dyn Desk) {
        if desk.send_space() > self.space {
            self.running().for_each(|app| app.on_space(desk));
            self.space = desk.send_space();
        }
        let now = desk.now();
        let due = |app: &&mut Box<dyn Application>| app.next_timer().is_some_and(|at| at <= now);
        self.running().filter(due).for_each(|app| app.on_timer(desk));
    }

    /// A message of `stream` was delivered.
    pub fn on_delivered(&mut self, desk: &mut dyn Desk, way: Way, stream: u16) {
        let app = self.all.iter_mut().rev().find(|app| app.spec.first_stream <= stream);
        if let Some(app) = app.and_then(|app| app.running.as_mut()) {
            app.on_delivered(desk, way, stream);
        }
    }

    /// When `begin` or `work` has something to do, if nothing happens before.
    pub fn next_timer(&self, now: Instant) -> Option<Instant> {
        let next = |app: &One<'_>| match &app.running {
            Some(running) => running.next_timer(),
            None => Some(self.start + app.spec.start).filter(|at| *at > now),
        };
        self.all.iter().filter_map(next).min()
    }

    /// Bytes after whose delivery all of them are done; `None` if one never is, or has not begun, or if there are none.
    pub fn total(&self) -> Option<u64> {
        if self.all.is_empty() {
            return None;
        }
        self.all.iter().map(|app| app.running.as_ref()?.total()).sum()
    }

    fn running(&mut self) -> impl Iterator<Item = &mut Box<dyn Application>> {
        self.all.iter_mut().filter_map(|app| app.running.as_mut())
    }
}

/// Whether the application has flows between itself and the association: see [`Connections`](super::super::connections).
fn is_above_the_engine(spec: &AppSpec) -> bool {
    matches!(spec.kind, AppKind::Connection { .. })
}
