//! Tests that fork, and those whose sockets must end when they are closed: a child holds a copy for a moment.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static FORKS: RwLock<()> = RwLock::new(());

/// Held by a test that forks.
pub(crate) fn forks() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that needs its sockets for itself.
pub(crate) fn no_forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}
