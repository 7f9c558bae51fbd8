//! Standard streams, each with a thread of its own: they may be files, which cannot be waited for
//! together with sockets, and one that is blocked must not hold up the others.

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

/// Bytes per read, and how many reads are made ahead.
const PIECE: usize = 64 << 10;
const AHEAD: usize = 8;

/// A stream that is read.
pub(crate) struct Source {
    pieces: Receiver<Vec<u8>>,
}

/// What a source has.
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing now; the waker wakes when there is.
    Later,
    End,
}

impl Source {
    /// Reads the stream; errors are its end, as for most programs.
    pub(crate) fn new(stream: impl AsFd, waker: Arc<Waker>) -> std::io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let (sender, pieces) = sync_channel(AHEAD);
        std::thread::spawn(move || {
            read(file, &sender, &waker);
            // The end is seen by the missing sender.
            drop(sender);
            let _ = waker.wake();
        });
        Ok(Self { pieces })
    }

    pub(crate) fn next(&mut self) -> Piece {
        match self.pieces.try_recv() {
            Ok(bytes) => Piece::Bytes(bytes),
            Err(TryRecvError::Empty) => Piece::Later,
            Err(TryRecvError::Disconnected) => Piece::End,
        }
    }
}

/// A stream that may have been made non-blocking by whoever shares it, as rsync does.
struct Patient {
    file: File,
    poll: Option<Poll>,
    events: Events,
}

impl Patient {
    fn new(file: File) -> Self {
        Self { file, poll: None, events: Events::with_capacity(1) }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(Interest::READABLE)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(Interest::WRITABLE)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits for what the stream was not ready for. It is registered the first time; from then on nothing is missed.
    fn wait(&mut self, interest: Interest) -> std::io::Result<()> {
        let poll = match &mut self.poll {
            Some(poll) => poll,
            None => {
                let poll = self.poll.insert(Poll::new()?);
                let mut source = SourceFd(&self.file.as_raw_fd());
                poll.registry().register(&mut source, Token(0), interest)?;
                poll
            }
        };
        match poll.poll(&mut self.events, None) {
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }
}

fn read(file: File, sender: &SyncSender<Vec<u8>>, waker: &Waker) {
    let mut stream = Patient::new(file);
    loop {
        let mut piece = vec![0; PIECE];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => piece.truncate(bytes),
        }
        if sender.send(piece).is_err() {
            return;
        }
        let _ = waker.wake();
    }
}

/// A stream that is written.
pub(crate) struct Sink {
    pieces: Option<Sender<Vec<u8>>>,
    state: Arc<SinkState>,
    thread: Option<JoinHandle<()>>,
}

struct SinkState {
    /// Bytes written and not yet told of.
    taken: AtomicUsize,
    broken: AtomicBool,
    waker: Arc<Waker>,
}

impl Sink {
    /// Writes to the stream.
    pub(crate) fn new(stream: impl AsFd, waker: Arc<Waker>) -> std::io::Result<Self> {
        Ok(Self::of(stream.as_fd().try_clone_to_owned()?, waker))
    }

    fn of(stream: OwnedFd, waker: Arc<Waker>) -> Self {
        let (sender, pieces) = channel();
        let state = Arc::new(SinkState {
            taken: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            waker,
        });
        let of_thread = Arc::clone(&state);
        let thread = std::thread::spawn(move || write(File::from(stream), &pieces, &of_thread));
        Self { pieces: Some(sender), state, thread: Some(thread) }
    }

    /// Adds bytes. How many may wait is for the window to say.
    pub(crate) fn put(&self, bytes: Vec<u8>) {
        if let Some(pieces) = &self.pieces {
            let _ = pieces.send(bytes);
        }
    }

    /// Bytes taken since the last call.
    pub(crate) fn taken(&self) -> usize {
        self.state.taken.swap(0, Ordering::Relaxed)
    }

    /// Whether nobody reads the stream any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Relaxed)
    }

    /// Waits until everything is written.
    pub(crate) fn finish(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(file: File, pieces: &Receiver<Vec<u8>>, state: &SinkState) {
    let mut stream = Patient::new(file);
    for piece in pieces {
        if !state.broken.load(Ordering::Relaxed) && stream.write_all(&piece).is_err() {
            state.broken.store(true, Ordering::Relaxed);
        }
        state.taken.fetch_add(piece.len(), Ordering::Relaxed);
        let _ = state.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_does_not_block_is_written_whole_and_read_to_its_end() {
        let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        for stream in [&one, &other] {
            stream.set_nonblocking(true).expect("non-blocking");
        }
        let reader = std::thread::spawn(move || {
            let mut stream = Patient::new(File::from(OwnedFd::from(other)));
            let (mut buffer, mut total) = (vec![0; 10_000], 0);
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                total += bytes;
            }
            total
        });
        let mut stream = Patient::new(File::from(OwnedFd::from(one)));
        stream.write_all(&vec![7; 3_000_000]).expect("written");
        drop(stream);
        assert_eq!(reader.join().expect("a reader"), 3_000_000);
    }
}
