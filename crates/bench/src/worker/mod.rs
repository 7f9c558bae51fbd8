//! The programs whose connections are measured: sources, sinks, askers. Each is a process of its own
//! that knows nothing of manypath.
//!
//! A worker gets its [`Job`] as an argument, says when it is ready, answers questions on its standard
//! input, and ends when that does: nothing outlives the program that has started it.

mod ask;
mod association;
mod connects;
mod counters;
mod datagrams;
mod flow;
mod sockets;
mod stream;

use crate::job::{Answer, Carrier, Job, Part, Question, Task};
use counters::Counters;
use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Tells that a part listens, or that its flows are open.
type Ready = Sender<()>;

/// Does the job until standard input ends. Returns only with an error.
///
/// # Errors
/// The job cannot be read, or a part of it failed.
pub fn work(job: &str) -> io::Error {
    match serde_json::from_str(job) {
        Ok(job) => begin(&job),
        Err(error) => io::Error::new(io::ErrorKind::InvalidInput, error),
    }
}

fn begin(job: &Job) -> io::Error {
    let counters: Vec<_> = job.parts.iter().map(|_| Arc::new(Counters::new())).collect();
    let (failed, failure) = mpsc::channel();
    let (ready, all_ready) = mpsc::channel();
    for (part, counters) in job.parts.iter().cloned().zip(&counters) {
        let (counters, failed, ready) = (Arc::clone(counters), failed.clone(), ready.clone());
        thread::spawn(move || {
            let done = run(&part, &counters, &ready);
            // The receiver lives as long as the process.
            let _ = failed.send(done.err());
        });
    }
    let parts = job.parts.len();
    thread::spawn(move || {
        let ready = (0..parts).all(|_| all_ready.recv().is_ok());
        let talked = if ready { talk(&counters) } else { Ok(()) };
        process::exit(i32::from(talked.is_err()));
    });
    // A part that is done, as a sender of so many bytes, leaves the others to go on.
    failure.iter().flatten().next().unwrap_or_else(|| io::ErrorKind::Other.into())
}

fn run(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    match (part.carrier, part.task) {
        (Carrier::Association | Carrier::EncryptedAssociation, _) => {
            association::run(part, counters, ready)
        }
        (Carrier::Datagrams, _) => datagrams::run(part, counters, ready),
        (Carrier::Tcp | Carrier::Mptcp, Task::Ask) => ask::run(part, counters, ready),
        (Carrier::Tcp | Carrier::Mptcp, Task::Connect) => connects::connect(part, counters, ready),
        (Carrier::Tcp | Carrier::Mptcp, Task::Accept) => connects::accept(part, ready),
        (Carrier::Tcp | Carrier::Mptcp, Task::Send | Task::Receive | Task::Both | Task::Answer) => {
            stream::run(part, counters, ready)
        }
    }
}

/// Answers questions until there are no more.
fn talk(counters: &[Arc<Counters>]) -> io::Result<()> {
    say(&Answer::Ready)?;
    for line in io::stdin().lock().lines() {
        match serde_json::from_str(&line?)? {
            Question::Progress => {
                say(&Answer::Progress(counters.iter().map(|one| one.progress()).collect()))?;
            }
            Question::Times => {
                say(&Answer::Times(counters.iter().map(|one| one.take_times()).collect()))?;
            }
        }
    }
    Ok(())
}

fn say(answer: &Answer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    out.flush()
}
