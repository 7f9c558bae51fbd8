//! A source and a sink of TCP that know of nothing else: what a user's programs are.

use crate::options::Options;
use crate::{Report, Span, await_line, say};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// What one end has moved over one connection.
type Moved = io::Result<(u64, Span)>;

pub(crate) fn receive(options: &Options) -> io::Result<Report> {
    let listener = TcpListener::bind(options.address)?;
    say(&format!("ready {}", listener.local_addr()?));
    let mut sinks = Vec::new();
    for _ in 0..options.flows {
        let (stream, _) = listener.accept()?;
        let size = options.message;
        sinks.push(thread::Builder::new().stack_size(1 << 17).spawn(move || sink(stream, size))?);
    }
    gather(sinks)
}

pub(crate) fn send(options: &Options) -> io::Result<Report> {
    let streams: io::Result<Vec<_>> =
        (0..options.flows).map(|_| TcpStream::connect(options.address)).collect();
    let streams = streams?;
    say(&format!("ready {}", streams[0].local_addr()?));
    await_line();
    let mut sources = Vec::new();
    for stream in streams {
        let options = options.clone();
        let builder = thread::Builder::new().stack_size(1 << 17);
        sources.push(builder.spawn(move || source(stream, &options))?);
    }
    gather(sources)
}

fn gather(threads: Vec<thread::JoinHandle<Moved>>) -> io::Result<Report> {
    let (mut bytes, mut all) = (0, Span::default());
    for thread in threads {
        let (moved, span) = thread.join().map_err(|_| io::ErrorKind::Other)??;
        bytes += moved;
        all.first = [all.first, span.first].into_iter().flatten().min();
        all.last = all.last.max(span.last);
    }
    Ok(Report { bytes, seconds: all.seconds(), ..Report::default() })
}

/// Ends when the sink has everything.
fn source(mut stream: TcpStream, options: &Options) -> Moved {
    let payload = vec![0x55; options.message];
    let (began, mut bytes, mut span) = (Instant::now(), 0, Span::default());
    span.touch();
    while began.elapsed() < options.time && bytes < options.bytes {
        stream.write_all(&payload)?;
        bytes += payload.len() as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    span.touch();
    Ok((bytes, span))
}

fn sink(mut stream: TcpStream, size: usize) -> Moved {
    let mut buffer = vec![0; size];
    let (mut bytes, mut span) = (0, Span::default());
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, span));
        }
        span.touch();
        bytes += read as u64;
    }
}
