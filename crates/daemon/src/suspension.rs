//! The machine was suspended: what was waited for is overdue, and peers may have given paths up.
//!
//! The clock of the stack has gone on meanwhile ([`manypath_net::Clock`]), so every timer that is due fires once, which is at
//! most one error for each path. Errors that were counted before say nothing about the peer any more, and all paths are
//! asked at once, so that the associations go on as soon as there is a link.

use crate::log;
use crate::stack::Stack;

impl Stack {
    /// Before anything that time does.
    pub(crate) fn notice_suspension(&mut self) {
        if let Some(time) = self.suspend_watch.take() {
            let seconds = time.as_secs();
            let line =
                format_args!("the machine was suspended for {seconds} s: all peers are asked");
            log::say_once(&self.base.core.config, line);
            self.base.core.count("suspensions");
            self.relays.resume_after_suspension(&mut self.base);
        }
    }
}
