//! Connections that carry packets inside of something else, as TLS, for networks that let nothing else pass. What that is,
//! the user of this crate brings. It proves nothing about the other end: associations have keys of their own.

use std::fmt::Debug;
use std::io::{self, Read, Write};

/// Begins to wrap connections.
pub trait Wrapper: Debug + Send + Sync {
    /// For a connection that was made here.
    ///
    /// # Errors
    /// When that cannot be.
    fn dial(&self) -> io::Result<Box<dyn Wrap>>;

    /// For a connection that another host has made.
    ///
    /// # Errors
    /// When that cannot be.
    fn accept(&self) -> io::Result<Box<dyn Wrap>>;

    /// The name of this protocol in the ClientHello (ALPN, RFC 7301).
    fn protocol(&self) -> &[u8];
}

/// One wrapped connection. It holds a bounded number of bytes.
pub trait Wrap: Debug + Send {
    /// Takes bytes from the network, once. Their number; none at the end.
    ///
    /// # Errors
    /// Those of `wire`, and [`InvalidData`](io::ErrorKind::InvalidData) where the other end does not speak this protocol.
    fn read_wire(&mut self, wire: &mut dyn Read) -> io::Result<usize>;

    /// Hands out what was inside of that.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing more yet.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Takes bytes to be sent inside, and returns how many.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while it takes none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Gives the network what it takes. Whether that is all.
    ///
    /// # Errors
    /// Those of `wire`, but for [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn write_wire(&mut self, wire: &mut dyn Write) -> io::Result<bool>;
}
