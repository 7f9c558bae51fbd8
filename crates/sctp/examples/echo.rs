//! One-to-one sockets: a server that sends messages back, and a client that checks them.
//!
//! ```text
//! echo server ADDRESS:PORT...            serves for ever, says "ready" first
//! echo client ADDRESS:PORT... MESSAGES   sends so many, on all streams in turn
//! ```

use manypath_sctp::{Listener, Options, Outgoing, Received, Stream};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((what, rest)) if what == "server" => serve(&addresses(rest)?),
        Some((what, rest)) if what == "client" && rest.len() > 1 => {
            let (last, rest) = rest.split_last().unwrap_or((what, &[]));
            ask(&addresses(rest)?, last.parse().map_err(io::Error::other)?)
        }
        _ => Err(io::Error::other("usage: echo server|client ADDRESS:PORT... [MESSAGES]")),
    }
}

fn addresses(words: &[String]) -> io::Result<Vec<SocketAddr>> {
    words.iter().map(|word| word.parse().map_err(io::Error::other)).collect()
}

fn serve(at: &[SocketAddr]) -> io::Result<()> {
    let listener = Listener::bind(at)?;
    println!("ready");
    loop {
        let (stream, _peer) = listener.accept()?;
        std::thread::spawn(move || answer(&stream));
    }
}

fn answer(stream: &Stream) -> io::Result<()> {
    while let Some(received) = stream.recv()? {
        if let Received::Message(message) = received {
            let (data, stream_number, ppid) = (message.data, message.stream, message.ppid);
            stream.send(&Outgoing { stream: stream_number, ppid, ..Outgoing::new(data) })?;
        }
    }
    Ok(())
}

fn ask(to: &[SocketAddr], messages: u32) -> io::Result<()> {
    let stream = Options::new().streams(8, 8).no_delay(true).connect(to)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let streams = stream.status()?.sstat_outstrms;
    for number in 0..messages {
        let text = format!("message {number}");
        let message = Outgoing {
            stream: u16::try_from(number).unwrap_or(0) % streams,
            ppid: number,
            ..Outgoing::new(text)
        };
        stream.send(&message)?;
        match stream.recv()? {
            Some(Received::Message(back))
                if (&back.data, back.stream, back.ppid)
                    == (&message.data, message.stream, message.ppid) => {}
            other => return Err(io::Error::new(ErrorKind::InvalidData, format!("{other:?}"))),
        }
    }
    let peers = stream.peer_addresses()?.len();
    println!("{messages} messages came back over {streams} streams from {peers} addresses");
    Ok(())
}
