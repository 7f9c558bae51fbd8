//! The thread that writes what is known about peers (see [`jobs`](crate::jobs)): another process may hold the file's
//! lock, and a home may lie on a server that does not answer.

use super::{PeerCache, PeerRecord};
use crate::jobs::{self, Offered};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Jobs that may wait. What comes then is not kept.
const MAX_JOBS: usize = 16;
/// How long the end waits for jobs that are still to be done.
const MAX_END: Duration = Duration::from_secs(1);

/// Something to write.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Entries that take the place of those about the same peers and services.
    Put(Vec<PeerRecord>),
    /// Forget a peer, a service of all peers or of one, or everything.
    Forget(Option<IpAddr>, Option<u16>),
}

/// The thread. Dropping it lets it finish, and waits a moment for that.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: jobs::Queue<Job>,
    /// Of a job that has failed, until somebody is told.
    failure: Arc<Mutex<Option<String>>>,
}

impl Writer {
    /// Begins to write.
    ///
    /// # Errors
    /// When there are no threads left.
    pub(crate) fn start(cache: PeerCache) -> io::Result<Self> {
        let failure = Arc::default();
        let told: Arc<Mutex<Option<String>>> = Arc::clone(&failure);
        let jobs = jobs::worker("peers", MAX_JOBS, move |job| {
            // A disk that is full has room again later.
            if let Err(why) = work(&cache, job) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        })?;
        Ok(Self { jobs, failure })
    }

    /// Takes a job; false when too many wait.
    ///
    /// # Errors
    /// What went wrong with an earlier one, once; or the thread has ended.
    pub(crate) fn take(&self, job: Job) -> Result<bool, String> {
        let offered = self.jobs.offer(job);
        if let Some(why) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(why);
        }
        match offered {
            Offered::Taken => Ok(true),
            Offered::Full => Ok(false),
            Offered::Gone => Err("the thread that writes has ended".to_owned()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It is left behind when the file cannot be written even now.
        self.jobs.finish(MAX_END);
    }
}

fn work(cache: &PeerCache, job: Job) -> Result<(), String> {
    let done = match job {
        Job::Put(records) => cache.put(records),
        Job::Forget(addr, port) => cache.forget(addr, port),
    };
    done.map_err(|error| format!("{}: {}", error.path.display(), error.error))
}

#[cfg(test)]
mod tests {
    use super::super::unix_now;
    use super::*;
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::thread;
    use std::time::Instant;

    fn place(name: &str) -> PathBuf {
        let name = format!("manypath-writer-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder.join("peers")
    }

    fn put(port: u16) -> Job {
        let (addr, expires) = ([192, 0, 2, 1].into(), unix_now() + 100);
        Job::Put(vec![PeerRecord {
            addr,
            port: Some(port),
            privileged: false,
            reason: None,
            expires,
            lifetime: 0,
            network: 0,
            namespace: 7,
        }])
    }

    #[test]
    fn a_lock_that_another_process_holds_stops_nobody_but_the_writer() {
        let path = place("lock");
        let lock = File::create(path.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let (writer, begun) =
            (Writer::start(PeerCache::named(path.clone())).unwrap(), Instant::now());
        let taken = (0..100).filter(|port| writer.take(put(*port)).unwrap()).count();
        assert!((MAX_JOBS..=MAX_JOBS + 1).contains(&taken), "{taken}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop(lock);
        drop(writer);
        let kept = PeerCache::named(path.clone()).read().unwrap();
        assert_eq!(kept.len(), taken, "the end has not waited");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_forgotten_after_it_was_learnt_is_not_kept() {
        let path = place("forget");
        let cache = PeerCache::named(path.clone());
        let writer = Writer::start(cache.clone()).unwrap();
        for job in [put(22), put(80), Job::Forget(None, Some(80))] {
            assert!(writer.take(job).unwrap());
        }
        drop(writer);
        let ports: Vec<_> = cache.read().unwrap().iter().map(|record| record.port).collect();
        assert_eq!(ports, [Some(22)]);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_learnt_after_a_failure_is_kept() {
        let path = place("room");
        let (folder, writer) = (path.join("below"), PeerCache::named(path.join("below/peers")));
        fs::write(&path, "").unwrap();
        let writer = Writer::start(writer).unwrap();
        let begun = Instant::now();
        while writer.take(put(22)).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            thread::yield_now();
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(&folder).unwrap();
        while writer.take(put(80)) != Ok(true) {
            assert!(begun.elapsed() < Duration::from_secs(20));
            thread::yield_now();
        }
        drop(writer);
        let kept = PeerCache::named(folder.join("peers")).read().unwrap();
        assert!(kept.iter().any(|record| record.port == Some(80)), "{kept:?}");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        let path = place("failure");
        fs::write(&path, "").unwrap();
        let writer = Writer::start(PeerCache::named(path.join("below"))).unwrap();
        assert!(writer.take(put(22)).unwrap());
        let begun = Instant::now();
        let why = loop {
            match writer.take(put(22)) {
                Err(why) => break why,
                Ok(_) => assert!(begun.elapsed() < Duration::from_secs(20)),
            }
            thread::yield_now();
        };
        assert!(why.contains("below: Not a directory"), "{why}");
        // It would make the folder anew.
        drop(writer);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
