//! Sources, sinks and answerers over any number of connections: one loop, as in a server.

use super::counters::Counters;
use super::flow::{After, Flow};
use super::{Ready, sockets};
use crate::job::{Part, Task};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;

const LISTENER: Token = Token(usize::MAX);

pub(super) fn run(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    // Not every system lets it be raised, and few flows need that.
    let _ = manypath_net::raise_descriptor_limit();
    let mut work = Work {
        part,
        counters,
        poll: Poll::new()?,
        flows: Vec::new(),
        busy: VecDeque::new(),
        buffer: vec![0x55; part.length.max(1) as usize],
    };
    let listener = if part.listen { Some(work.listen()?) } else { None };
    if listener.is_none() {
        for _ in 0..part.flows {
            let stream = sockets::connect(part)?;
            stream.set_nonblocking(true)?;
            work.add(TcpStream::from_std(stream))?;
        }
    }
    // Who waits for this has gone, and this process goes too.
    let _ = ready.send(());
    work.go_on(listener.as_ref())
}

struct Work<'a> {
    part: &'a Part,
    counters: &'a Counters,
    poll: Poll,
    /// By token; those that are over leave their places.
    flows: Vec<Option<Slot>>,
    /// Flows that can do something at once.
    busy: VecDeque<usize>,
    buffer: Vec<u8>,
}

struct Slot {
    flow: Flow,
    queued: bool,
}

impl Work<'_> {
    fn listen(&self) -> io::Result<TcpListener> {
        let listener = sockets::listen(self.part)?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(listener)
    }

    fn go_on(&mut self, listener: Option<&TcpListener>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = (!self.busy.is_empty()).then_some(Duration::ZERO);
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Ok(()) | Err(_) => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(listener)?,
                    Token(index) => self.wake(index, event),
                }
            }
            for _ in 0..self.busy.len() {
                self.turn()?;
            }
        }
    }

    fn accept(&mut self, listener: Option<&TcpListener>) -> io::Result<()> {
        while let Some(listener) = listener {
            match listener.accept() {
                Ok((stream, _)) => {
                    // Only MPTCP of old kernels has no such option.
                    let _ = stream.set_nodelay(true);
                    self.add(stream)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&mut self, stream: TcpStream) -> io::Result<()> {
        let index = self.flows.len();
        let mut flow = Flow::new(stream, self.part.task);
        let both = Interest::READABLE | Interest::WRITABLE;
        let interest = if self.part.task == Task::Receive { Interest::READABLE } else { both };
        self.poll.registry().register(flow.stream(), Token(index), interest)?;
        self.flows.push(Some(Slot { flow, queued: true }));
        self.busy.push_back(index);
        self.counters.add_flow();
        Ok(())
    }

    fn wake(&mut self, index: usize, event: &mio::event::Event) {
        let Some(Some(slot)) = self.flows.get_mut(index) else { return };
        slot.flow.wake(event);
        if !std::mem::replace(&mut slot.queued, true) {
            self.busy.push_back(index);
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let Some(index) = self.busy.pop_front() else { return Ok(()) };
        let Some(Some(slot)) = self.flows.get_mut(index) else { return Ok(()) };
        match slot.flow.turn(self.counters, &mut self.buffer, self.part.limit) {
            Ok(After::Busy) => self.busy.push_back(index),
            Ok(After::Waits) => slot.queued = false,
            Ok(After::Over) => self.remove(index),
            // The other side is being ended: there is nothing more to measure.
            Err(error) if self.part.listen && is_end(&error) => self.remove(index),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remove(&mut self, index: usize) {
        if self.flows[index].take().is_some() {
            self.counters.remove_flow();
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
