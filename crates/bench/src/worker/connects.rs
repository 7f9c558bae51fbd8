//! Connections that are closed as soon as they are there.
//!
//! The side that accepts closes first, so that the ports that wait for late packets are not those
//! that the connecting side needs again.

use super::counters::Counters;
use super::{Ready, sockets};
use crate::job::Part;
use std::io::{self, Read};
use std::net::Shutdown;
use std::thread;
use std::time::Instant;

/// Connects, `part.flows` at a time.
pub(super) fn connect(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    // The first connect may set up what later ones share.
    once(part)?;
    let _ = ready.send(());
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..part.flows).map(|_| scope.spawn(|| again_and_again(part, counters))).collect();
        let ends = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        ends.collect()
    })
}

fn again_and_again(part: &Part, counters: &Counters) -> io::Result<()> {
    loop {
        let begun = Instant::now();
        let mut flow = sockets::connect(part)?;
        counters.note(begun.elapsed());
        until_closed(&mut flow)?;
    }
}

fn once(part: &Part) -> io::Result<()> {
    until_closed(&mut sockets::connect(part)?)
}

fn until_closed(flow: &mut impl Read) -> io::Result<()> {
    match flow.read(&mut [0]) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}

/// Accepts and closes.
pub(super) fn accept(part: &Part, ready: &Ready) -> io::Result<()> {
    let listener = sockets::listen(part)?;
    let _ = ready.send(());
    loop {
        let (flow, _) = listener.accept()?;
        // Who has connected may have gone already.
        let _ = flow.shutdown(Shutdown::Both);
    }
}
