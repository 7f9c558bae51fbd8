//! What [`jobs`](crate::jobs) waits with. `tests/loom` compiles that file with Loom's in its place.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
