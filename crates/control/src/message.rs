//! What launcher, command line and stack say to each other.

use crate::path::PathEvent;
use crate::status::FallbackReason;
use crate::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// From a launcher or a command line tool to a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// First message of a connection.
    Hello {
        /// [`VERSION`](crate::VERSION) of the sender.
        version: u32,
        /// What the sender is.
        role: Role,
    },
    /// A program wants a connection. The stack answers at once with `Direct`, `Failed` or
    /// `Pending`; see [`Reply`].
    Open {
        /// Chosen by the launcher, never used twice on one control connection.
        id: u64,
        /// Where the program wants to go, as it said.
        destination: SocketAddr,
        /// The address the program's socket is bound to; absent when it is bound to none. The port
        /// is the program's socket's own and cannot be bound again; 0 when only the address is
        /// bound.
        source: Option<SocketAddr>,
        /// The program's thread waits and its socket is untouched, so `Direct` stays possible
        /// after `Pending`.
        blocking: bool,
    },
    /// As `Open`, for a socket that waits at the gate already and cannot go back: never answered by
    /// `Direct`. What SCTP cannot carry the stack relays as plain TCP; `Plain` may follow. Launchers say it where they
    /// expect no `Direct`.
    OpenWaiting {
        /// As in `Open`.
        id: u64,
        /// As in `Open`.
        destination: SocketAddr,
        /// As in `Open`.
        source: Option<SocketAddr>,
    },
    /// The program has given up on an open that was not attached yet.
    Cancel {
        /// The open's identity.
        id: u64,
    },
    /// The program's connect is complete. One file descriptor comes along: the stack's end of a
    /// connected loopback TCP pair, non-blocking, with `SO_LINGER {1, 0}` set so that the death of
    /// the stack resets the program's connection. The stack clears it before an orderly close.
    Attach {
        /// The open's identity.
        id: u64,
    },
    /// A program wants to send datagrams. The stack answers at once with `Direct` or `Pending`; after
    /// `Pending` follows `Direct` or `Accepted`.
    OpenDatagrams {
        /// Chosen by the launcher, of the same numbers as those of `Open`.
        id: u64,
        /// Where the program sends to.
        destination: SocketAddr,
        /// The address that the program's socket is bound to; the port is its own, the address
        /// unspecified if it is bound to none.
        source: SocketAddr,
    },
    /// One file descriptor comes along: the stack's end of the way to the program's socket, a UDP
    /// socket that is connected to it. Said again it takes the place of the one before.
    AttachDatagrams {
        /// The identity of the `OpenDatagrams`.
        id: u64,
        /// The address of the program's socket as the stack's end sees it.
        program: SocketAddr,
        /// The inode of the program's socket, by which the kernel's tables name it. Absent: what the program
        /// sends comes over the `DatagramLine`, `Cancel` tells of the socket's end, and its program is told of
        /// errors by the caller alone.
        inode: Option<u64>,
        /// Whether the program's socket is connected, and so hears of errors.
        connected: bool,
    },
    /// One file descriptor comes along: the end of a pair of unix datagram sockets over which datagrams of
    /// programs come from now on, each after the identity of its `OpenDatagrams` (eight bytes, little-endian).
    DatagramLine,
    /// Answer to `Unreachable`: the program's socket knows, as far as it can be told.
    Told {
        /// The identity of the `OpenDatagrams`.
        id: u64,
    },
    /// Options of an attached connection's socket, told when they mean something or have changed.
    Options {
        /// The open's identity.
        id: u64,
        /// All of them.
        options: SocketOptions,
    },
    /// Asks how the way of an attached connection is, answered by `Way`.
    Way {
        /// The open's identity.
        id: u64,
    },
    /// Asks how the way of a connection is that was led to a listener, answered by `WayFrom`.
    WayFrom {
        /// As in `Arriving`.
        from: SocketAddr,
        /// As in `Arriving`.
        to: SocketAddr,
    },
    /// A program's socket listens, and all its processes are under the launcher's trap: peers may
    /// reach it through this stack, as far as the rules say. Answered by `Offered` or `NotOffered`.
    Listen {
        /// Chosen by the launcher, never used twice on one control connection.
        id: u64,
        /// The socket.
        listener: Listener,
    },
    /// The launcher can no longer vouch for a listener: no connection may be led to it any more.
    Withdraw {
        /// The listener's identity.
        id: u64,
    },
    /// Programs may listen at any time: peers that come before are to find a stack, or they would remember
    /// that there is none. Said by a [`Role::Redirector`]; answered as `Listen`.
    Expect {
        /// As in `Listen`.
        id: u64,
    },
    /// Answer to `Look`: every socket that listens has been announced.
    Looked {
        /// The identity of the `Look`.
        id: u64,
    },
    /// A [`Role::Redirector`] is about to end, and its programs will not be told names any more: what was led to
    /// its listeners is reset, and nothing is led there from now on. Answered by `Resigned`.
    Resign,
    /// `Arriving` was taken note of: the connection may be made. Awaited only from a [`Role::Redirector`],
    /// whose programs do not ask it for names.
    Noted {
        /// As in `Arriving`.
        from: SocketAddr,
        /// As in `Arriving`.
        to: SocketAddr,
    },
    /// Connections that a listener's program has accepted so far from others than this stack.
    Tally {
        /// The listener's identity.
        id: u64,
        /// How many.
        plain: u64,
    },
    /// Asks what the stack has carried for the caller's programs, answered by `Traffic`. Only to a stack whose
    /// `Welcome` says that it counts that.
    Traffic,
    /// Asks for the stack's status, answered by `StatusPart`s.
    Status,
    /// Asks the stack to read its rules, settings and path policies again, answered by `Reloaded` or `Refused`.
    /// Connections that exist go on.
    Reload,
    /// Asks the stack to tell what happens to its paths from now on, answered by `Watching` and then by a
    /// `Path` for each event.
    Watch,
    /// Asks the stack to forget what it knows about a peer, about one of its services, or, without
    /// an address, about all; answered by `Forgotten`.
    ForgetPeers {
        /// The peer.
        addr: Option<IpAddr>,
        /// The service.
        port: Option<u16>,
    },
    /// Asks the stack to end: existing flows are drained first.
    Stop,
    /// A server of the same user is about to take over from this stack: answered by a `Lent` for each UDP socket, or by
    /// `Refused`. Nothing changes before `TakenOver`.
    TakeOver,
    /// One file descriptor comes along: the end of a line over which comes from now on what concerns associations of
    /// this stack (`crates/net/src/lent.rs`). The caller reads the socket itself.
    Line {
        /// The address to which the socket is bound.
        local: SocketAddr,
    },
    /// The caller takes everything new. This stack ends when its connections have.
    TakenOver,
}

/// From a stack to a launcher or a command line tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Answer to `Hello`. Sent also when the stack does not speak that version, so that the caller can say which.
    Welcome {
        /// The version that the stack speaks here: that of the `Hello`, or its own [`VERSION`](crate::VERSION) where it
        /// does not know the other.
        version: u32,
        /// Process id of the stack.
        pid: u32,
        /// Network namespace of the stack, as [`crate::runtime::network_namespace`] tells it.
        namespace: u64,
        /// Whether the stack answers `Request::Traffic`.
        #[serde(default)]
        counts_traffic: bool,
    },
    /// An attempt has begun. For a blocking open `Direct`, `Accepted` or `Failed` follows, for a
    /// non-blocking one `Accepted` or `Failed`.
    Pending {
        /// The open's identity.
        id: u64,
    },
    /// Use plain TCP on the program's own socket. The stack has forgotten the open.
    Direct {
        /// The open's identity.
        id: u64,
        /// Why not SCTP.
        reason: FallbackReason,
    },
    /// The destination has accepted: the launcher completes the program's connect and sends
    /// `Attach`, or `Cancel` when the program is gone.
    Accepted {
        /// The open's identity.
        id: u64,
        /// What carries the bytes.
        transport: Transport,
        /// What `getsockname` shall tell the program. Port 0: the socket's own port.
        local: SocketAddr,
        /// What `getpeername` shall tell the program.
        peer: SocketAddr,
    },
    /// The destination refused or cannot be reached; this is authoritative. The stack has
    /// forgotten the open.
    Failed {
        /// The open's identity.
        id: u64,
        /// Linux error number.
        errno: i32,
    },
    /// Connects to the destination of an `OpenWaiting` need not be asked about: they would be plain TCP. To a launcher:
    /// an `Open` would have been answered by `Direct`.
    Plain {
        /// The service.
        destination: SocketAddr,
        /// How long that holds, in milliseconds, unless `Changed` comes before.
        for_ms: u64,
    },
    /// Rules or what is known of peers have changed: what `Plain` has said holds no longer. Told to
    /// a [`Role::Redirector`].
    Changed,
    /// An attached connection is over in both directions; datagrams of a program are not carried any
    /// more.
    Closed {
        /// The open's identity.
        id: u64,
    },
    /// Datagrams that came over the `DatagramLine` have had a long pause: what follows is to be asked about
    /// anew.
    Idle {
        /// The identity of the `OpenDatagrams`.
        id: u64,
    },
    /// The destination's host has answered a datagram with an error. Until `Told` the kernel refuses what
    /// the program sends, so that one more datagram from its socket lets it hear of that.
    Unreachable {
        /// The identity of the `OpenDatagrams`.
        id: u64,
    },
    /// How the way of a connection to its destination is now. Told unasked before the `Accepted` of an
    /// `OpenWaiting`, whose program may ask as soon as it is connected.
    Way {
        /// The open's identity.
        id: u64,
        /// Absent when there is no such connection any more.
        way: Option<Way>,
    },
    /// How the way to the client of a connection is now that was led to a listener. Told unasked to a
    /// [`Role::Redirector`], before `Arriving`.
    WayFrom {
        /// As in `Arriving`.
        from: SocketAddr,
        /// As in `Arriving`.
        to: SocketAddr,
        /// Absent when there is no such connection any more.
        way: Option<Way>,
    },
    /// A listener is known; peers reach it as far as the rules say.
    Offered {
        /// The listener's identity.
        id: u64,
    },
    /// A listener is not offered to peers.
    NotOffered {
        /// The listener's identity.
        id: u64,
        /// Why.
        why: String,
        /// The stack itself cannot serve: another one, or this one later, may.
        retry: bool,
    },
    /// A peer asks for a socket that listens and that nobody has announced: the listening sockets are to be
    /// looked at now. Told to a [`Role::Redirector`], which hears of `listen` afterwards; answered by
    /// `Looked`.
    Look {
        /// Chosen by the stack, never used twice.
        id: u64,
    },
    /// Answer to `Resign`: no connection of a peer is left at the listeners.
    Resigned,
    /// A peer's connection is being led to a listener: the socket that connects `from` to `to` is
    /// the stack's and stands for `client`. Said before the connection is made.
    Arriving {
        /// The stack's end, at an address of this host.
        from: SocketAddr,
        /// The address that the peer used.
        to: SocketAddr,
        /// What `accept` and `getpeername` shall tell.
        client: SocketAddr,
    },
    /// A connection that was announced by `Arriving` is over in both directions.
    Left {
        /// The stack's end.
        from: SocketAddr,
        /// The address that the peer used.
        to: SocketAddr,
    },
    /// Nobody listens at a listener's socket any more; it is forgotten.
    Gone {
        /// The listener's identity.
        id: u64,
    },
    /// What the stack has carried for the caller's programs.
    Traffic(Traffic),
    /// One piece of a status report.
    StatusPart(StatusPart),
    /// Events of paths are told from now on.
    Watching,
    /// Something has happened to a path.
    Path(PathEvent),
    /// Rules, settings and path policies were read again and hold from now on.
    Reloaded {
        /// How many rules there are.
        rules: usize,
    },
    /// The stack has forgotten so many entries.
    Forgotten {
        /// How many.
        count: usize,
    },
    /// Answer to `TakeOver`. One file descriptor comes along: a UDP socket of the stack.
    Lent {
        /// The address to which it is bound.
        local: SocketAddr,
        /// How many more follow.
        left: usize,
    },
    /// What was asked for was not done; nothing has changed.
    Refused {
        /// Why.
        why: String,
    },
}

/// A listening socket of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Where it is bound; an IPv4 address is never in its IPv6 coat.
    pub addr: SocketAddr,
    /// Whether an IPv6 socket refuses IPv4.
    pub v6_only: bool,
    /// The socket's inode, by which the kernel's tables name it.
    pub inode: u64,
    /// The program, for people.
    pub program: String,
}

/// What the caller of a stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Answers a program's socket calls; its end may end the stack.
    Launcher,
    /// Tells the kernel beforehand what becomes of the calls of programs; otherwise as a launcher.
    Redirector,
    /// Asks and goes.
    Cli,
}

/// What carries a program's bytes to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A flow in an SCTP association.
    Sctp,
    /// The stack's own TCP connection, because the program's socket was already committed.
    TcpRelay,
}

/// Options of a program's socket that mean something to the way of its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOptions {
    /// `IP_TOS` or `IPV6_TCLASS`.
    pub traffic_class: u8,
    /// `TCP_USER_TIMEOUT` in milliseconds; 0: none.
    pub user_timeout_ms: u32,
}

/// How a connection's way to its destination is: what a program asks of its own socket (`SO_RCVBUF`,
/// `TCP_INFO`), which here only knows the way to the stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Bytes that the peer may have on their way to us, at most.
    pub window_bytes: u64,
    /// Smoothed round-trip time of the slowest path in use, in microseconds; 0 while unknown. So are
    /// the other times.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rtt_variation_us: u32,
    /// Smallest round-trip time of any path.
    pub least_rtt_us: u32,
    /// Largest retransmission timeout of a path in use.
    pub rto_us: u32,
    /// Bytes of a program's data in a packet.
    pub mss: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Congestion windows of all paths in use together, in bytes.
    pub cwnd_bytes: u64,
    /// Slow start thresholds of all paths in use together, in bytes.
    pub ssthresh_bytes: u64,
    /// Bytes in flight, of all connections of the association.
    pub in_flight_bytes: u64,
    /// Bytes that the peer lets us have on their way, in all connections of the association.
    pub peer_window_bytes: u64,
}

/// One piece of a status report: the report's JSON text, cut so that each piece fits a packet.
/// Made by [`crate::parts`], joined by [`crate::Assembler`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusPart {
    /// 0 for the first piece.
    pub index: u32,
    /// No piece follows.
    pub last: bool,
    /// The piece.
    pub text: String,
}
