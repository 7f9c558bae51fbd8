//! The machine was suspended: what was waited for is overdue, and peers may have given paths up.
//!
//! The clock of the stack has gone on meanwhile ([`manypath_net::Clock`]), so every timer that is due fires once, which is at
//! most one error for each path. Errors that were counted before say nothing about the peer any more, and all paths are
//! asked at once, so that the associations go on as soon as there is a link.

use crate::base::Base;
use crate::relays::Relays;
use manypath_net::SuspendWatch;

/// Before anything that time does.
pub(crate) fn notice(watch: &mut SuspendWatch, base: &mut Base, relays: &mut Relays) {
    if let Some(time) = watch.take() {
        let seconds = time.as_secs();
        let line = format_args!("the machine was suspended for {seconds} s: all peers are asked");
        base.core.config.say_once(line);
        base.core.count("suspensions");
        relays.resume_after_suspension(base);
    }
}
