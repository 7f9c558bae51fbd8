//! The stack under test in a world without time and network of its own.
//!
//! ```text
//! clock.rs    when events are due, and what the stack does until then
//! inbound.rs  packets to the stack          outbound.rs  packets from the stack
//! stack.rs    one engine endpoint           sysctl.rs    commands as engine options
//! ```
//!
//! The engine works off everything that it has been given before the next thing happens, as a kernel
//! does: there is nothing to wait for but timers.

mod clock;
mod inbound;
mod network;
mod outbound;
mod stack;
mod sysctl;
pub(crate) mod words;

use crate::api::descriptor::{Descriptors, LinkId};
use crate::language::Why;
use crate::packet::Numbers;
use manypath_engine::{Config, Ecn, Instant, PathAddr};
pub(crate) use network::{Network, PORT};
pub(crate) use stack::{Link, Stack};
use std::collections::VecDeque;

/// A packet that the stack has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// When.
    pub at: Instant,
    /// From where to where.
    pub path: PathAddr,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// Common header and chunks.
    pub bytes: Vec<u8>,
}

/// Everything that a script acts on.
pub(crate) struct World {
    /// The time since the script began.
    pub now: Instant,
    /// Addresses and ports.
    pub network: Network,
    /// What new sockets start with.
    pub config: Config,
    /// One engine endpoint for each socket that has one.
    pub stacks: Vec<Stack>,
    /// What the stack has sent and the script has not looked at.
    pub sent: VecDeque<Sent>,
    /// Tags and TSNs.
    pub numbers: Numbers,
    /// The open sockets.
    pub sockets: Descriptors,
    /// Whether a script has switched the search for the path MTU on or off for all.
    pub pmtud: Option<bool>,
    /// How many timers in a row have expired at one instant.
    stalls: u32,
    /// Whether packets are printed as they pass.
    pub trace: bool,
}

impl World {
    /// A world in which nothing has happened.
    pub(crate) fn new(network: Network) -> Self {
        Self {
            now: Instant::ZERO,
            config: network.config(),
            network,
            stacks: Vec::new(),
            sent: VecDeque::new(),
            numbers: Numbers::default(),
            sockets: Descriptors::default(),
            pmtud: None,
            stalls: 0,
            trace: false,
        }
    }

    /// Takes everything out of the stacks that is ready to go.
    pub(crate) fn drain(&mut self) {
        let known = self.sent.len();
        for stack in &mut self.stacks {
            stack.drain(self.now, &mut self.sent);
        }
        self.forget_unwanted();
        for sent in self.sent.iter().skip(known).filter(|_| self.trace) {
            words::trace(sent.at, '>', sent.path, &sent.bytes);
        }
    }

    /// Drops what nobody has subscribed to when it happened. An association that nobody has accepted has
    /// the subscriptions of its listener.
    fn forget_unwanted(&mut self) {
        for (number, stack) in self.stacks.iter_mut().enumerate() {
            for (association, link) in &mut stack.links {
                let id = LinkId { stack: number, association: *association };
                let Some(subscriptions) = self.sockets.subscriptions(id) else { continue };
                link.notifications.retain(|it| it.is_wanted(subscriptions));
            }
        }
    }

    /// A new stack with these options. Its index.
    pub(crate) fn add_stack(&mut self, config: Config) -> Result<usize, Why> {
        let number = u8::try_from(self.stacks.len()).map_err(|_| Why::gap("too many sockets"))?;
        self.stacks.push(Stack::new(config, &self.network, number));
        Ok(self.stacks.len() - 1)
    }

    /// The association `id` as its user sees it.
    pub(crate) fn link(&mut self, id: LinkId) -> Result<&mut Link, Why> {
        let stack = self.stacks.get_mut(id.stack);
        let link = stack.and_then(|stack| stack.links.get_mut(&id.association));
        link.ok_or_else(|| Why::gap("the association is not known"))
    }
}
