//! What one of several loops has got and does not know, on its way to the others.

use crate::carriers::Link;
use crate::error_queue::{ErrorKind, Quote};
use manypath_engine::Ecn;
use std::net::SocketAddr;

/// Something that concerns no association of a loop.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) local: SocketAddr,
    /// Loops that have not seen it.
    pub(crate) left: usize,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Packet {
        from: SocketAddr,
        ecn: Ecn,
        bytes: Vec<u8>,
    },
    Report(Report),
    /// A connection that carries packets of an association of the loop `to`, and those that have come.
    Stream {
        to: usize,
        link: Box<Link>,
        packets: Vec<Vec<u8>>,
    },
}

/// What the network has said of a packet of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) kind: ErrorKind,
    pub(crate) remote: SocketAddr,
    pub(crate) mtu: u16,
    pub(crate) quote: Quote,
}
