//! The line to the stack that serves: the one that owns this host's UDP port, or one of our own.

use crate::choice::{ServerChoice, StackChoice};
use crate::stack_link::StackLink;
use libc::pollfd;
use manypath_control::{Reply, Request, Role};
use std::time::{Duration, Instant};

/// The first pause before a door is looked for again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Failures after which the user is told: two launchers that start at once, or a door that is just
/// ending, take less.
const PATIENCE: u32 = 4;

/// How long a service of this host that is started anew may take to be there again. Who begins a door of
/// his own before keeps it from its port for good.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked for meanwhile.
const GRACE_PAUSE: Duration = Duration::from_millis(200);

/// The line to the door, found or started again when it is lost.
#[derive(Debug)]
pub struct Door {
    /// Absent: listeners are left alone.
    choice: Option<ServerChoice>,
    /// Whether another process offers the listeners.
    retired: bool,
    role: Role,
    link: StackLink,
    /// Lines that are closed, whose processes have not ended yet.
    ending: Vec<StackLink>,
    failures: u32,
    /// When to look again.
    next: Option<Instant>,
    /// From when on a door is started that is not found.
    start_from: Option<Instant>,
    told: bool,
    notice: Option<String>,
}

impl Door {
    /// Nothing is looked for before [`Door::open`]; without a choice nothing ever is.
    #[must_use]
    pub fn new(choice: Option<ServerChoice>, role: Role) -> Self {
        let link = StackLink::default();
        let (retired, ending, failures, next) = Default::default();
        let (start_from, told, notice) = Default::default();
        Self { choice, retired, role, link, ending, failures, next, start_from, told, notice }
    }

    /// Whether listeners are offered at all.
    pub const fn is_wanted(&self) -> bool {
        self.choice.is_some() && !self.retired
    }

    /// No other one is looked for, and nothing more is offered.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    /// Ends the retirement: listeners are offered again.
    pub fn resume(&mut self) {
        (self.retired, self.next) = (false, None);
    }

    /// Whether it is there.
    pub fn is_open(&self) -> bool {
        self.link.is_usable()
    }

    /// Whether it has not said its first word yet.
    pub fn is_starting(&self) -> bool {
        self.link.is_starting()
    }

    /// Finds the door of this host, or starts one; true when there is a new one.
    pub fn open(&mut self, now: Instant) -> bool {
        let Some(choice) = self.choice.as_ref().filter(|_| !self.retired) else { return false };
        if self.link.is_usable() || self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.next = None;
        let found = StackChoice::System { socket: choice.name.clone() };
        let open = |choice| StackLink::new(choice, self.role);
        let opened = open(&found);
        if opened.is_err() && self.start_from.is_some_and(|from| now < from) {
            self.next = Some(now + GRACE_PAUSE);
            return false;
        }
        match opened.or_else(|_| open(&choice.start)) {
            Ok(link) => {
                (self.link, self.start_from) = (link, None);
                true
            }
            Err(error) => {
                self.fail(now, &error.to_string());
                false
            }
        }
    }

    /// Whether it has ended, and somebody else may start it anew. A launcher's programs wait in `listen`.
    fn may_come_back(&self) -> bool {
        let ended = !self.link.is_usable() && !self.link.is_starting();
        self.role == Role::Redirector && ended && !self.link.has_process()
    }

    /// The door does not serve; another one is looked for, later and later.
    pub fn fail(&mut self, now: Instant, why: &str) {
        if self.may_come_back() {
            self.start_from = Some(now + GRACE);
        }
        let mut old = std::mem::take(&mut self.link);
        old.close();
        self.ending.push(old);
        self.reap();
        self.failures += 1;
        let pause = FIRST_PAUSE * (1 << (self.failures - 1).min(10));
        self.next = Some(now + pause.min(LONGEST_PAUSE));
        if self.failures >= PATIENCE {
            self.tell(format!("peers reach the program by plain TCP only: {why}"));
        }
    }

    /// The door has taken a listener.
    pub fn succeed(&mut self) {
        self.failures = 0;
        self.told = false;
    }

    /// Whether it was looked for in vain for so long that nobody should wait for it.
    pub const fn is_hopeless(&self) -> bool {
        self.failures >= PATIENCE
    }

    fn tell(&mut self, text: String) {
        if !std::mem::replace(&mut self.told, true) {
            self.notice = Some(text);
        }
    }

    /// Why the door was lost, or why nothing is offered, once.
    pub fn take_notice(&mut self) -> Option<String> {
        if let Some(fault) = self.link.take_fault() {
            self.tell(format!("{fault}; peers reach the program by plain TCP only"));
        }
        self.notice.take()
    }

    /// Sends, or queues while the door is slow.
    pub fn send(&mut self, request: Request) {
        self.link.send(request, None);
    }

    /// Asks what the door has carried for us. False where it does not count that, or there is none.
    pub fn ask_traffic(&mut self) -> bool {
        self.link.ask_traffic()
    }

    /// The next reply, if there is one.
    pub fn receive(&mut self) -> Option<Reply> {
        self.link.receive()
    }

    /// Sends what waits. True once after the door was lost.
    pub fn flush_and_is_lost(&mut self) -> bool {
        self.link.flush_and_is_lost()
    }

    /// Collects the door's process if it has ended.
    pub fn reap(&mut self) {
        self.link.reap();
        self.ending.retain_mut(|link| {
            link.reap();
            link.has_process()
        });
    }

    /// What to poll for.
    pub fn interest(&self) -> pollfd {
        self.link.interest()
    }

    /// When a door is to be looked for, if one is `needed`.
    pub fn deadline(&self, needed: bool) -> Option<Instant> {
        self.next.filter(|_| needed && self.is_wanted() && !self.link.is_usable())
    }
}
