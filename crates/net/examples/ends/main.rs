//! One end of a transfer in one direction, for measurements: an association in UDP, plain UDP in
//! runs that the kernel segments and puts together, or TCP. `bench/association` joins two of them.
//!
//! ```text
//! cargo run --release -p manypath-net --example ends -- receive TRANSPORT ADDRESS [OPTION...]
//! cargo run --release -p manypath-net --example ends -- send    TRANSPORT ADDRESS [OPTION...]
//!
//! TRANSPORT           association, udp or tcp
//! ADDRESS             IP:PORT of the receiver; port 0: the receiver chooses it, and says which
//! own=IP              address of the sender
//! seconds=2           how long to send
//! bytes=N             how much to send instead, by TCP
//! message=16384       bytes of one message, or of one write
//! mtu=1500            of the interface, for the association
//! path-mtu=search     where the size of packets comes from; or interface
//! flows=1             TCP connections at a time
//! encrypt=off         or on: the association has keys of a handshake, AES-128-GCM
//! handshakes=N        begin and end N associations, 16 at a time, in place of a transfer; for both ends
//! ```
//!
//! Either end prints `ready ADDRESS` when it can begin; the sender begins when a line comes in. When
//! the transfer is over each prints a line of JSON, and ends when its standard input does, so that
//! what it has used can be looked at before.

mod association;
mod handshakes;
mod keys;
mod options;
mod tcp;
mod udp;

use options::{Options, Role, Transport};
use std::io::{self, BufRead, Write};
use std::time::Instant;

/// What one end has seen.
#[derive(Clone, Debug, Default)]
struct Report {
    bytes: u64,
    /// From the first byte to the last.
    seconds: f64,
    packets: u64,
    /// Calls of the kernel that have moved packets.
    calls: u64,
    /// What else is worth knowing, as fields of JSON.
    more: String,
}

impl Report {
    fn print(&self) {
        let Self { bytes, seconds, packets, calls, more } = self;
        say(&format!(
            r#"{{"bytes":{bytes},"seconds":{seconds:.6},"packets":{packets},"calls":{calls}{more}}}"#
        ));
    }
}

/// The time from the first byte to the last.
#[derive(Debug, Default)]
struct Span {
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Span {
    fn touch(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn seconds(&self) -> f64 {
        let length = self.first.zip(self.last).map(|(first, last)| last - first);
        length.unwrap_or_default().as_secs_f64()
    }
}

fn main() {
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("ends: {error}");
        std::process::exit(2);
    });
    let end = match (options.transport, options.role) {
        (Transport::Association, Role::Receive) if options.handshakes > 0 => handshakes::serve,
        (Transport::Association, Role::Send) if options.handshakes > 0 => handshakes::begin,
        (Transport::Association, Role::Receive) => association::receive,
        (Transport::Association, Role::Send) => association::send,
        (Transport::Udp, Role::Receive) => udp::receive,
        (Transport::Udp, Role::Send) => udp::send,
        (Transport::Tcp, Role::Receive) => tcp::receive,
        (Transport::Tcp, Role::Send) => tcp::send,
    };
    match end(&options) {
        Ok(report) => report.print(),
        Err(error) => {
            eprintln!("ends: {error}");
            std::process::exit(1);
        }
    }
    await_end_of_input();
}

fn say(line: &str) {
    let mut out = io::stdout().lock();
    // Nobody reads any more: then nobody misses it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Waits for the word to begin.
fn await_line() {
    let _ = io::stdin().lock().read_line(&mut String::new());
}

fn await_end_of_input() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}
