//! Trapped calls with the memory that they name.

use crate::memory::Memory;
use crate::seccomp::Notification;
use std::rc::Rc;

/// One trapped call, and what it names.
#[derive(Debug, Clone)]
pub(crate) struct Trap {
    /// The notification's identity.
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) thread: libc::pid_t,
    /// The architecture whose numbers and convention the call has, as `AUDIT_ARCH_*`.
    pub(crate) arch: u32,
    /// System call number.
    pub(crate) call: u32,
    /// The call's arguments.
    pub(crate) args: [u64; 6],
    pub(crate) memory: Rc<Memory>,
}

impl Trap {
    pub(crate) fn new(call: Notification, memory: Memory) -> Self {
        let Notification { id, thread, arch, call, args } = call;
        Self { id, thread, arch, call, args, memory: Rc::new(memory) }
    }

    /// As the kernel has told of it.
    pub(crate) const fn notification(&self) -> Notification {
        let Self { id, thread, arch, call, args, .. } = *self;
        Notification { id, thread, arch, call, args }
    }
}
