//! The thread that keeps the sums (see [`jobs`](crate::jobs)): another process may hold the file's lock.

use super::{Usage, UsageFile};
use crate::jobs::{self, Offered};
use crate::log;
use std::io;
use std::time::Duration;
use tracing::warn;

/// Sums that may wait.
const MAX_JOBS: usize = 4;
/// How long the end waits for what is still to be written.
const MAX_END: Duration = Duration::from_secs(1);

/// The thread. Dropping it lets it finish, and waits a moment for that.
#[derive(Debug)]
pub(crate) struct Writer(jobs::Queue<Vec<Usage>>);

impl Writer {
    /// # Errors
    /// When there are no threads left.
    pub(crate) fn start(file: UsageFile) -> io::Result<Self> {
        let mut failing = false;
        jobs::worker("budgets", MAX_JOBS, move |usages: Vec<Usage>| {
            let failed = file.put(&usages).err();
            let news = failed.as_ref().filter(|_| !failing);
            news.inspect(
                |error| warn!(target: log::PATH, "what counts for budgets and quotas is not kept: {}: {}", error.path.display(), error.error),
            );
            failing = failed.is_some();
        })
        .map(Self)
    }

    /// Takes sums; false when too many wait.
    pub(crate) fn take(&self, usages: Vec<Usage>) -> bool {
        self.0.offer(usages) == Offered::Taken
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.finish(MAX_END);
    }
}
