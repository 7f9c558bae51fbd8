//! Questions and answers over one connection, as people and remote procedure calls have them.

use super::counters::Counters;
use super::{Ready, sockets};
use crate::job::Part;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn run(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    let mut flow = sockets::connect(part)?;
    counters.add_flow();
    // Who waits for this has gone, and this process goes too.
    let _ = ready.send(());
    let question = vec![0x3F; part.length as usize];
    let mut answer = vec![0; question.len()];
    loop {
        let begun = Instant::now();
        flow.write_all(&question)?;
        flow.read_exact(&mut answer)?;
        counters.note(begun.elapsed());
        counters.add_sent(question.len());
        counters.add_received(answer.len());
        thread::sleep(PAUSE);
    }
}
