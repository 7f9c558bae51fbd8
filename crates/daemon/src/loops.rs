//! A server with several engine loops: each is a [`Stack`] of its own in a thread of its own, with its own associations.
//!
//! The first is the server as others see it: it hears signals, speaks with the service manager, carries programs of this host and
//! keeps what is known about peers. The others only serve associations of peers. When one is told to end, all end.

use crate::config::StackConfig;
use crate::stack::Stack;
use manypath_keys::TicketIssuer;
use manypath_net::{Loops, Seat};
use std::io;
use std::sync::Arc;
use std::thread;

/// The loops of a server, or the only one.
#[derive(Debug)]
pub struct Server {
    first: Stack,
    others: Vec<(Stack, Seat)>,
}

impl Server {
    /// Opens the sockets of all loops, one for each of the configurations, which differ in nothing.
    ///
    /// # Errors
    /// What could not be opened and what to do about it.
    pub fn new(first: StackConfig, others: Vec<StackConfig>) -> io::Result<Self> {
        let first = Stack::new(first)?;
        let other = |mut config: StackConfig| {
            config.leave_to_the_first();
            let seat = config.process.seat.clone().ok_or(io::ErrorKind::InvalidInput)?;
            Ok((Stack::new(config)?, seat))
        };
        let others = others.into_iter().map(other).collect::<io::Result<_>>()?;
        Ok(Self { first, others })
    }

    /// Gives each of several configurations its place among the loops.
    ///
    /// # Errors
    /// When the kernel does not let several loops share an address.
    pub fn seat(configs: &mut [StackConfig]) -> io::Result<()> {
        if configs.len() > 1 {
            Loops::check()?;
            let seats = Loops::seats(configs.len());
            let tickets = Arc::new(TicketIssuer::default());
            let quotas = configs[0].process.quotas.clone();
            let pings = configs[0].process.pings.clone();
            let certificate = configs[0].carrying.tls.shown()?;
            for (config, seat) in configs.iter_mut().zip(seats) {
                config.process.seat = Some(seat);
                config.process.tickets = tickets.clone();
                config.process.quotas = quotas.clone();
                config.process.pings = pings.clone();
                // Whichever loop takes a connection, the server looks the same.
                config.carrying.tls.certificate = Some(certificate.clone());
            }
        }
        Ok(())
    }

    /// Gives up the rights of root for good, as [`Stack::confine`] does.
    pub fn confine(&mut self) {
        self.first.confine();
        let done = &self.first.confinement;
        self.others.iter_mut().for_each(|(stack, _)| stack.confinement.clone_from(done));
    }

    /// Works until every loop has ended.
    ///
    /// # Errors
    /// That a thread does not start, or what has ended a loop before its time.
    pub fn run(self) -> io::Result<()> {
        let first = self.first.base.core.config.process.seat.clone();
        let mut threads = Vec::new();
        for (stack, seat) in self.others {
            let thread = thread::Builder::new().name(format!("loop-{}", seat.index()));
            threads.push(thread.spawn(move || run(stack, seat))?);
        }
        let ended = self.first.run();
        if let (Err(_), Some(seat)) = (&ended, first) {
            seat.stop_others();
        }
        let others = threads.into_iter().map(thread::JoinHandle::join);
        let panicked = |_| Err(io::Error::other("an engine loop has failed"));
        others.fold(ended, |ended, other| ended.and(other.unwrap_or_else(panicked)))
    }
}

fn run(stack: Stack, seat: Seat) -> io::Result<()> {
    let leaves = Leaves(seat);
    let ended = stack.run();
    if ended.is_err() {
        leaves.0.stop_others();
    }
    ended
}

/// The others do not wait for a loop that has ended, and end with one that has failed.
struct Leaves(Seat);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave();
        if thread::panicking() {
            self.0.stop_others();
        }
    }
}
