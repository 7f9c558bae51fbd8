//! Names of hosts, looked up by threads of their own: a look-up may take seconds, and the loop must not wait.

use mio::Waker;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Look-ups at the same time.
const THREADS: usize = 8;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// What came of a look-up, by the number of who has asked; no addresses when there is no such name.
pub(super) type Found = (u64, Vec<IpAddr>);

/// The threads, which begin with the first name: by then the process has given up its rights.
#[derive(Debug)]
pub(super) struct Names {
    waker: Arc<Waker>,
    asked: Option<Sender<(u64, String)>>,
    answers: (Sender<Found>, Receiver<Found>),
}

impl Names {
    /// Threads that wake the poll of `waker` for each answer.
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Self { waker, asked: None, answers: mpsc::channel() }
    }

    /// Begins to look a name up.
    ///
    /// # Errors
    /// When there can be no threads.
    pub(super) fn look_up(&mut self, id: u64, name: String) -> io::Result<()> {
        let asked = match self.asked.take() {
            Some(asked) => asked,
            None => self.begin()?,
        };
        // The threads live as long as the queue does.
        let _ = asked.send((id, name));
        self.asked = Some(asked);
        Ok(())
    }

    /// One that has been looked up.
    pub(super) fn next(&self) -> Option<Found> {
        self.answers.1.try_recv().ok()
    }

    fn begin(&self) -> io::Result<Sender<(u64, String)>> {
        let (asked, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, answers) = (Arc::clone(&queue), self.answers.0.clone());
            let waker = Arc::clone(&self.waker);
            thread::Builder::new()
                .name("names".to_owned())
                .spawn(move || answer(&queue, &answers, &waker))?;
        }
        Ok(asked)
    }
}

fn answer(queue: &Mutex<Receiver<(u64, String)>>, answers: &Sender<Found>, waker: &Waker) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((id, name)) = next else { return };
        let mut found: Vec<IpAddr> = Vec::new();
        for address in (name.as_str(), 0).to_socket_addrs().into_iter().flatten() {
            let address = address.ip().to_canonical();
            if !found.contains(&address) && found.len() < MAX_ADDRESSES {
                found.push(address);
            }
        }
        if answers.send((id, found)).is_err() || waker.wake().is_err() {
            return;
        }
    }
}
