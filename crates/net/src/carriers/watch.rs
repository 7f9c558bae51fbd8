//! Sockets of carriers in the poll.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;

/// How the poll names what is watched here.
pub(crate) type Tokens = fn(u64) -> Token;

/// The poll, and the names that are taken.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    poll: Option<(Registry, Tokens)>,
    last: u64,
}

impl Watch {
    pub(crate) fn begin(&mut self, registry: &Registry, tokens: Tokens) -> io::Result<()> {
        self.poll = Some((registry.try_clone()?, tokens));
        Ok(())
    }

    pub(crate) fn register(&mut self, fd: i32, interest: Interest) -> io::Result<Token> {
        let Some((registry, tokens)) = &self.poll else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.last += 1;
        let token = tokens(self.last);
        registry.register(&mut SourceFd(&fd), token, interest)?;
        Ok(token)
    }

    pub(crate) fn deregister(&self, fd: i32) {
        if let Some((registry, _)) = &self.poll {
            // Closing does the same, as long as nobody has a copy of the descriptor.
            let _ = registry.deregister(&mut SourceFd(&fd));
        }
    }
}
