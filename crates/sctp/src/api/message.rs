//! Messages.

use super::Notification;
use bytes::Bytes;
use manypath_engine::Reliability;
use manypath_sockets::constants::*;
use manypath_sockets::structures::{sctp_assoc_t, sctp_rcvinfo, sctp_sndinfo};
use manypath_sockets::{Received as Raw, SendInfo};
use std::net::{Ipv4Addr, SocketAddr};

/// Names an association of a socket (`sctp_assoc_t`). Never used again while the program runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Association(pub sctp_assoc_t);

/// To whom a message of a one-to-many socket goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// The peer of an association.
    Association(Association),
    /// The peer that has this address and port. If there is no association with it, the message begins one
    /// (RFC 6458 section 3.1.4).
    Address(SocketAddr),
}

/// A message to be sent (`sctp_sndinfo` and `sctp_prinfo`, RFC 6458 sections 5.3.4 and 5.3.7).
///
/// ```
/// use manypath_sctp::{Outgoing, Reliability};
/// use std::time::Duration;
///
/// let sample = Outgoing {
///     stream: 7,
///     unordered: true,
///     reliability: Some(Reliability::Lifetime(Duration::from_millis(200))),
///     ..Outgoing::new(vec![1, 2, 3])
/// };
/// assert_eq!(sample.ppid, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outgoing {
    /// At least one byte, and no more than the send buffer holds.
    pub data: Bytes,
    /// The stream, counted from 0.
    pub stream: u16,
    /// Payload protocol identifier, which the peer gets as it is.
    pub ppid: u32,
    /// Whether it is delivered without regard to the order of its stream.
    pub unordered: bool,
    /// What is to be done until it has arrived; none: everything, or what `SCTP_DEFAULT_PRINFO` says. Anything
    /// else needs a peer with the extension (RFC 3758).
    pub reliability: Option<Reliability>,
}

impl Outgoing {
    /// On stream 0, in order, reliably.
    pub fn new(data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    pub(super) fn info(&self, to: Option<Association>) -> SendInfo {
        let flags = if self.unordered { SCTP_UNORDERED } else { 0 };
        let info = sctp_sndinfo {
            snd_sid: self.stream,
            snd_flags: u16::try_from(flags).unwrap_or(0),
            snd_ppid: self.ppid.to_be(),
            snd_assoc_id: to.map_or(0, |to| to.0),
            ..Default::default()
        };
        SendInfo { info, reliability: self.reliability, ..SendInfo::default() }
    }
}

/// What has been received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// A message, or a part of one.
    Message(Message),
    /// Something has happened of which the socket wanted to be told.
    Notification(Notification),
}

/// A message that has come, or a part of one (`sctp_rcvinfo`, RFC 6458 section 5.3.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it holds.
    pub data: Bytes,
    /// Whether the message is complete with it (`MSG_EOR`). Messages come in parts if they are larger than the
    /// receive buffer or than `SCTP_PARTIAL_DELIVERY_POINT`.
    pub end: bool,
    /// An address of the sender, and its port.
    pub from: SocketAddr,
    /// The association over which it came.
    pub association: Association,
    /// The stream.
    pub stream: u16,
    /// Stream sequence number, modulo 2^16. 0 for unordered messages.
    pub number: u16,
    /// Payload protocol identifier as the peer gave it.
    pub ppid: u32,
    /// Whether it was sent without regard to the order of its stream.
    pub unordered: bool,
    /// TSN of its first chunk.
    pub tsn: u32,
}

impl Received {
    /// None at the end of the association.
    pub(super) fn of(raw: Raw) -> Option<Self> {
        if raw.flags & MSG_NOTIFICATION != 0 {
            return Some(Self::Notification(Notification::decode(&raw.data)));
        }
        let from = raw.from?;
        let info = raw.about.info.unwrap_or_default();
        Some(Self::Message(Message::of(raw.data, raw.flags, from, &info)))
    }
}

impl Message {
    fn of(data: Bytes, flags: i32, from: SocketAddr, info: &sctp_rcvinfo) -> Self {
        Self {
            data,
            end: flags & libc::MSG_EOR != 0,
            from,
            association: Association(info.rcv_assoc_id),
            stream: info.rcv_sid,
            number: info.rcv_ssn,
            ppid: u32::from_be(info.rcv_ppid),
            unordered: i32::from(info.rcv_flags) & SCTP_UNORDERED != 0,
            tsn: info.rcv_tsn,
        }
    }
}

/// The address where there is none.
pub(super) const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
