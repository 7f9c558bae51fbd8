//! What a socket is to be like.

use super::common::{Descriptor, addresses, failure};
use super::{Kind, Listener, Socket, Stream};
use crate::calls;
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::*;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How packets to peers travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// Directly over IP. The process must have been started with `MANYPATH_SCTP_ENCAPSULATION=native`.
    Native,
    /// In UDP, to this port of the peer (RFC 6951).
    Udp(u16),
}

/// What a socket is to be like. What is not said is as with Linux.
///
/// ```
/// use manypath_sctp::{Kind, Options};
/// use std::time::Duration;
///
/// let options = Options::new()
///     .streams(16, 16)
///     .no_delay(true)
///     .rto(Duration::from_millis(500), Duration::from_millis(200), Duration::from_secs(5))
///     .notify(&[Kind::Association, Kind::Address]);
/// // options.listen("0.0.0.0:3868")?, options.connect("192.0.2.1:3868")?, options.socket("0.0.0.0:0")?
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Level, name and value of each option, in the order in which they are set.
    set: Vec<(i32, i32, Vec<u8>)>,
    bind: Vec<SocketAddr>,
}

impl Options {
    /// Those of Linux.
    pub fn new() -> Self {
        Self::default()
    }

    /// The addresses of this host and the port that a [`Stream`] is to have (`sctp_bindx`, RFC 6458 section 9.1).
    #[must_use]
    pub fn bind(mut self, addresses: &[SocketAddr]) -> Self {
        self.bind = addresses.to_vec();
        self
    }

    /// Streams that are asked for to the peer, and most of those from it (`SCTP_INITMSG`, RFC 6458 section 8.1.3).
    #[must_use]
    pub fn streams(self, outbound: u16, inbound: u16) -> Self {
        let init =
            sctp_initmsg { sinit_num_ostreams: outbound, sinit_max_instreams: inbound, ..zeroed() };
        self.option(SCTP_INITMSG, &init)
    }

    /// How often an INIT is sent, and after how long again at most (`SCTP_INITMSG`, RFC 6458 section 8.1.3).
    #[must_use]
    pub fn attempts(self, most: u16, timeout: Duration) -> Self {
        let timeout = u16::try_from(timeout.as_millis()).unwrap_or(u16::MAX);
        let init =
            sctp_initmsg { sinit_max_attempts: most, sinit_max_init_timeo: timeout, ..zeroed() };
        self.option(SCTP_INITMSG, &init)
    }

    /// Whether small messages leave at once, instead of waiting for others while something is under way
    /// (`SCTP_NODELAY`, RFC 6458 section 8.1.5).
    #[must_use]
    pub fn no_delay(self, on: bool) -> Self {
        self.number(SCTP_NODELAY, on.into())
    }

    /// Retransmission time-outs: the first one, the least and the most (`SCTP_RTOINFO`, RFC 6458 section 8.1.1).
    #[must_use]
    pub fn rto(self, initial: Duration, least: Duration, most: Duration) -> Self {
        let [srto_initial, srto_min, srto_max] = [initial, least, most].map(millis);
        self.option(SCTP_RTOINFO, &sctp_rtoinfo { srto_initial, srto_min, srto_max, ..zeroed() })
    }

    /// How often idle paths are probed, and after how many failures one is not used any more
    /// (`SCTP_PEER_ADDR_PARAMS`, RFC 6458 section 8.1.12).
    #[must_use]
    pub fn heartbeats(self, interval: Duration, failures: u16) -> Self {
        let parameters = sctp_paddrparams {
            spp_hbinterval: millis(interval),
            spp_pathmaxrxt: failures,
            spp_flags: SPP_HB_ENABLE.unsigned_abs().into(),
            ..zeroed()
        };
        self.option(SCTP_PEER_ADDR_PARAMS, &parameters)
    }

    /// After how many failures without an answer an association is given up (`SCTP_ASSOCINFO`, RFC 6458 section
    /// 8.1.2).
    #[must_use]
    pub fn failures(self, most: u16) -> Self {
        self.option(SCTP_ASSOCINFO, &sctp_assocparams { sasoc_asocmaxrxt: most, ..zeroed() })
    }

    /// What the socket wants to be told (`SCTP_EVENT`, RFC 6458 section 6.2.2).
    #[must_use]
    pub fn notify(self, kinds: &[Kind]) -> Self {
        kinds.iter().fold(self, |options, kind| {
            let se_type = u16::try_from(kind.number()).unwrap_or(0);
            options.option(SCTP_EVENT, &sctp_event { se_type, se_on: 1, ..zeroed() })
        })
    }

    /// What is spoken over the associations (`SCTP_ADAPTATION_LAYER`, RFC 6458 section 8.1.10).
    #[must_use]
    pub fn adaptation(self, indication: u32) -> Self {
        let value = sctp_setadaptation { ssb_adaptation_ind: indication };
        self.option(SCTP_ADAPTATION_LAYER, &value)
    }

    /// Whether peers may reset streams, ask for it, and add some (`SCTP_ENABLE_STREAM_RESET`, RFC 6525 section
    /// 6.3.1).
    #[must_use]
    pub fn stream_resets(self, allowed: bool) -> Self {
        let assoc_value = if allowed { 7 } else { 0 };
        self.option(SCTP_ENABLE_STREAM_RESET, &sctp_assoc_value { assoc_id: 0, assoc_value })
    }

    /// Whether large messages leave room for those of other streams, where the peer can do that, too (I-DATA,
    /// RFC 8260 section 4.3.1).
    #[must_use]
    pub fn interleaving(self, on: bool) -> Self {
        let assoc_value = on.into();
        self.option(SCTP_INTERLEAVING_SUPPORTED, &sctp_assoc_value { assoc_id: 0, assoc_value })
    }

    /// Bytes of a message and more that are sent and not acknowledged, and that wait to be read (`SO_SNDBUF` and
    /// `SO_RCVBUF`), for each association.
    #[must_use]
    pub fn buffers(mut self, send: u32, receive: u32) -> Self {
        let level = libc::SOL_SOCKET;
        self.set.push((level, libc::SO_SNDBUF, send.to_ne_bytes().to_vec()));
        self.set.push((level, libc::SO_RCVBUF, receive.to_ne_bytes().to_vec()));
        self
    }

    /// Lets a port be had again while only accepted sockets have it (`SO_REUSEADDR`).
    #[must_use]
    pub fn reuse_address(mut self, on: bool) -> Self {
        let value = i32::from(on).to_ne_bytes().to_vec();
        self.set.push((libc::SOL_SOCKET, libc::SO_REUSEADDR, value));
        self
    }

    /// Ends an association within so long when its socket is closed, zero: by an ABORT (`SO_LINGER`, RFC 6458
    /// section 8.1.4).
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        let value = [1, seconds].map(i32::to_ne_bytes).concat();
        self.set.push((libc::SOL_SOCKET, libc::SO_LINGER, value));
        self
    }

    /// How packets travel to peers with which associations are begun (`SCTP_REMOTE_UDP_ENCAPS_PORT`, RFC 6951
    /// section 6.1).
    #[must_use]
    pub fn encapsulation(self, way: Encapsulation) -> Self {
        let sue_port = match way {
            Encapsulation::Native => 0,
            Encapsulation::Udp(port) => port.to_be(),
        };
        self.option(SCTP_REMOTE_UDP_ENCAPS_PORT, &sctp_udpencaps { sue_port, ..zeroed() })
    }

    /// Any option of the level of SCTP (RFC 6458 section 8).
    #[must_use]
    pub fn option<S: Structure>(mut self, name: i32, value: &S) -> Self {
        self.set.push((libc::IPPROTO_SCTP, name, value.encode()));
        self
    }

    /// Any option whose value is an int.
    #[must_use]
    pub fn number(mut self, name: i32, value: i32) -> Self {
        self.set.push((libc::IPPROTO_SCTP, name, value.to_ne_bytes().to_vec()));
        self
    }

    /// A socket that accepts associations at these addresses of the host, which have one port. Unspecified
    /// addresses stand for all.
    ///
    /// # Errors
    /// The port is taken, an address is not one of this host, or an option cannot be set.
    pub fn listen(&self, at: impl ToSocketAddrs) -> io::Result<Listener> {
        let at = addresses(at)?;
        let descriptor = self.open(libc::SOCK_STREAM, &at)?;
        descriptor.with_local(&at, |sockets, host, id| {
            sockets.bind_more(host, id, &at)?;
            sockets.listen(host, id, BACKLOG)
        })?;
        Ok(Listener(descriptor))
    }

    /// Begins an association with the peer that has these addresses, and waits until it is established. The others
    /// are for the case that the first one is not reached (`sctp_connectx`, RFC 6458 section 9.9).
    ///
    /// # Errors
    /// Nobody listens there ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), nobody answers
    /// ([`TimedOut`](io::ErrorKind::TimedOut)), or an option cannot be set.
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<Stream> {
        let to = addresses(to)?;
        let descriptor = self.open(libc::SOCK_STREAM, &to)?;
        if !self.bind.is_empty() {
            let own = &self.bind;
            descriptor.with_local(own, |sockets, host, id| sockets.bind_more(host, id, own))?;
        }
        calls::connect(descriptor.0, &to, &mut 0).map_err(failure)?;
        Ok(Stream(descriptor))
    }

    /// A socket for many associations at these addresses of the host. It accepts associations, too.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn socket(&self, at: impl ToSocketAddrs) -> io::Result<Socket> {
        let at = addresses(at)?;
        let descriptor = self.open(libc::SOCK_SEQPACKET, &at)?;
        descriptor.with_local(&at, |sockets, host, id| {
            sockets.bind_more(host, id, &at)?;
            sockets.listen(host, id, BACKLOG)
        })?;
        Ok(Socket(descriptor))
    }

    /// A socket of the family that these addresses need.
    fn open(&self, kind: i32, for_addresses: &[SocketAddr]) -> io::Result<Descriptor> {
        let ipv6 = for_addresses.iter().any(SocketAddr::is_ipv6);
        let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
        let flags = kind | libc::SOCK_CLOEXEC;
        let descriptor = Descriptor(calls::socket(family, flags).map_err(failure)?);
        let on = 1i32.to_ne_bytes();
        descriptor.set_bytes(libc::IPPROTO_SCTP, SCTP_RECVRCVINFO, &on)?;
        for (level, name, value) in &self.set {
            descriptor.set_bytes(*level, *name, value)?;
        }
        Ok(descriptor)
    }
}

/// Associations that may wait to be accepted.
const BACKLOG: i32 = 128;

fn zeroed<S: Default>() -> S {
    S::default()
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
