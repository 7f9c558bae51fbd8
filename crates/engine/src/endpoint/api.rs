//! The endpoint and the calls that it offers.

use super::demux::{begins_with_record, forget_unread, take_record};
use super::parameters::{Listener, derive_parameters};
use super::registry::Registry;
use super::unread::Unread;
use crate::association::Association;
use crate::association::abort_reasons::AbortReasons;
use crate::association::addresses::realm;
use crate::association::cookie::CookieKeys;
use crate::association::reconfiguration::ReconfigurationError;
use crate::association::status::status;
use crate::association::user::round_trips;
use crate::authentication::SharedKeys;
use crate::config::{Config, LocalAddress, Reliability, StreamOptions};
use crate::delivery::Delivery;
use crate::ecn::Ecn;
use crate::event::{AssociationId, EndpointEvent, Event, Message, StreamDirection};
use crate::path::{PathAddr, PathRule, Scope};
use crate::protection::Resumptions;
use crate::rng::Rng;
use crate::send::{
    Abandoned, MessageEnd, Outgoing, ReliabilityPolicy, SendError, queue_info, wanted,
};
use crate::status::{
    AssociationStatistics, AssociationStatus, Counters, RoundTrips, SenderQueueInfo,
};
use crate::time::Instant;
use crate::transmit::{PacketBatch, Replies, Transmit};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use manypath_wire::StreamId;

/// Why a connect was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No local address of the remote's family.
    NoLocalAddress,
    /// `Config::max_associations` are in use.
    TooMany,
    /// An association between the same addresses and ports exists.
    AlreadyConnected,
    /// The peer's port is 0, which no endpoint has (RFC 9260 section 3.1).
    InvalidPort,
}

/// An SCTP endpoint (RFC 9260), sans-IO.
///
/// Calls are of three kinds. `handle_*` bring in what the outside knows: packets, the clock, ICMP.
/// Commands (`connect`, `send`, `shutdown`, ...) change state and never transmit. `poll_*` hand out
/// what has come of it. After one mutation the driver drains all outputs: `poll_transmit` until
/// `None`, `poll_event` until `None`, and then sleeps until `poll_timeout`.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) config: Config,
    /// Ports with parameters of their own, besides `Config::port`.
    pub(super) listeners: Vec<Listener>,
    /// Those that were made last, for others that are like them.
    pub(super) last_parameters: Option<Arc<Config>>,
    pub(super) locals: Vec<LocalAddress>,
    /// For which peers they are there.
    pub(super) scopes: Vec<(IpAddr, Scope)>,
    /// Local addresses whose sockets take no more packets for now.
    pub(super) blocked: Vec<SocketAddr>,
    /// What is wanted of paths.
    pub(super) policies: Vec<PathRule>,
    pub(super) rng: Rng,
    pub(super) keys: CookieKeys,
    /// For associations to come.
    pub(super) shared_keys: SharedKeys,
    pub(super) registry: Registry,
    pub(super) events: VecDeque<EndpointEvent>,
    pub(super) replies: Replies,
    pub(super) counters: Counters,
    /// Messages of associations that are over, until they have been read.
    pub(super) unread: Unread,
    /// What peers gave as the reason of their users' aborts, until it has been asked for.
    pub(super) abort_reasons: AbortReasons,
    pub(super) strays: Strays,
    pub(super) tags: TagShare,
    pub(super) resumptions: Resumptions,
    last_id: u64,
}

/// The verification tags of an endpoint among several with the same local addresses: those that leave `index` when they
/// are divided by `of`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagShare {
    index: u32,
    of: u32,
}

impl TagShare {
    const ALL: Self = Self { index: 0, of: 1 };

    /// The tag of this share that is next to a random number; none at the ends of the numbers.
    pub(super) fn nearest(self, drawn: u32) -> Option<u32> {
        (drawn - drawn % self.of).checked_add(self.index).filter(|tag| *tag != 0)
    }
}

/// How packets are handled that belong to no association here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strays {
    /// Another endpoint gets them.
    left: bool,
    /// The packet that was handled last is one.
    found: bool,
}

impl Strays {
    /// A packet is of no association here. Whether it is left to another endpoint.
    pub(super) const fn leave(&mut self) -> bool {
        self.found = self.left;
        self.found
    }
}

/// The parts of the endpoint that a handler may use beside its association.
/// `parameters`: those that hold instead of the endpoint's, if any.
macro_rules! context {
    ($endpoint:ident, $now:expr) => {
        $crate::endpoint::api::context!(
            $endpoint,
            $now,
            None::<alloc::sync::Arc<crate::config::Config>>
        )
    };
    ($endpoint:ident, $now:expr, $parameters:expr) => {
        $crate::association::Context {
            now: $now,
            config: $parameters.as_deref().unwrap_or(&$endpoint.config),
            locals: &$endpoint.locals,
            scopes: &$endpoint.scopes,
            blocked: &$endpoint.blocked,
            policies: &$endpoint.policies,
            rng: &mut $endpoint.rng,
            keys: &mut $endpoint.keys,
            shared_keys: &$endpoint.shared_keys,
            counters: &mut $endpoint.counters,
            events: &mut $endpoint.events,
            abort_reasons: &mut $endpoint.abort_reasons,
            replies: &mut $endpoint.replies,
        }
    };
}
pub(super) use context;

impl Endpoint {
    /// An endpoint without associations. `seed` feeds tags, initial TSNs and the cookie key: random
    /// in production, fixed in a simulation.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            config: config.in_bounds(),
            listeners: Vec::new(),
            last_parameters: None,
            locals: Vec::new(),
            scopes: Vec::new(),
            blocked: Vec::new(),
            policies: Vec::new(),
            keys: CookieKeys::new(&mut rng),
            shared_keys: SharedKeys::default(),
            rng,
            registry: Registry::default(),
            events: VecDeque::new(),
            replies: Replies::new(seed),
            counters: Counters::default(),
            unread: Unread::default(),
            abort_reasons: AbortReasons::default(),
            strays: Strays::default(),
            tags: TagShare::ALL,
            resumptions: Resumptions::default(),
            last_id: 0,
        }
    }

    /// Changes parameters. Associations that exist follow where they look at them anew (timeouts of
    /// the handshake, HEARTBEATs, limits of failures), unless they were begun with parameters of their own;
    /// windows, buffers, the bounds of the RTO and what was agreed on with the peer stay as they began. `hmac_algorithms` never change (RFC 4895
    /// section 6.1).
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        let algorithms = self.config.hmac_algorithms;
        change(&mut self.config);
        self.config.hmac_algorithms = algorithms;
        self.config = core::mem::take(&mut self.config).in_bounds();
        for id in self.registry.followers.clone() {
            let like = self.parameters_of(id);
            like.iter().for_each(|like| derive_parameters(self, id, like));
        }
    }

    /// Makes a local address usable for associations to come.
    pub fn add_local_address(&mut self, address: LocalAddress) {
        self.locals.retain(|local| local.addr.ip() != address.addr.ip());
        self.locals.push(address);
    }

    /// Says for which peers local addresses are there; those that are not named are there for all. It holds for
    /// associations to come, and for addresses that come to those that exist.
    pub fn set_local_scopes(&mut self, scopes: Vec<(IpAddr, Scope)>) {
        self.scopes = scopes;
    }

    /// The realm of an association; none outside of all realms, or if there is no such association.
    pub fn realm(&self, id: AssociationId) -> Option<u32> {
        let association = self.registry.get(id)?;
        realm(association.addresses.as_deref(), &association.handshake, &self.scopes)
    }

    /// Starts an association with the peer at `remote` and its SCTP port `port`. The port of `remote` is
    /// the one for UDP encapsulation; 0 stands for SCTP directly over IP. With
    /// `Config::port` 0 the association gets a port of its own from the dynamic range.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        port: u16,
    ) -> Result<AssociationId, ConnectError> {
        self.begin(now, remote, (self.config.port, port), None, None)
    }

    /// A packet (without IP and UDP headers) has arrived. Its ECN bits are not known. As
    /// [`Self::handle_marked_packet`] on a copy of `bytes`.
    pub fn handle_packet(&mut self, now: Instant, path: PathAddr, bytes: &[u8]) {
        self.handle_marked_packet(now, path, &mut bytes.to_vec(), Ecn::NotEct);
    }

    /// A packet has arrived in an IP packet with these ECN bits, or as `delivery` says. False if it is a stray
    /// ([`leave_strays`](Self::leave_strays)), of which nothing was taken. A record in `bytes` is opened where it is.
    pub fn handle_marked_packet(
        &mut self,
        now: Instant,
        path: PathAddr,
        bytes: &mut [u8],
        delivery: impl Into<Delivery>,
    ) -> bool {
        let delivery = delivery.into();
        self.strays.found = false;
        if !(begins_with_record(bytes) && take_record(self, now, path, bytes, delivery)) {
            self.demultiplex(now, path, bytes, delivery);
        }
        !self.strays.found
    }

    /// Whether strays are left to another endpoint with the same local addresses: packets with a verification tag
    /// that is none of ours, and COOKIE ECHOs with cookies that we have not made. Without, they are answered as
    /// out of the blue, or dropped.
    pub const fn leave_strays(&mut self, leave: bool) {
        self.strays.left = leave;
    }

    /// Associations to come get verification tags and ids that leave `index` when they are divided by `of`, which is at
    /// least 1: of several endpoints with the same local addresses, the tag of a packet then names the one that it is for,
    /// and no two associations have the same id. Before the first association.
    pub fn share_tags(&mut self, index: u32, of: u32) {
        self.tags = TagShare { index, of };
        self.last_id = index.into();
    }

    /// The time given by `poll_timeout` has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for id in self.registry.expired(now) {
            self.with(now, id, Association::handle_timeout);
        }
    }

    /// Fills `batch` with the next run of packets. Associations take turns, run by run.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut PacketBatch) -> Option<Transmit> {
        if let Some(reply) = self.replies.poll(batch) {
            return Some(reply);
        }
        while let Some(id) = self.registry.next_sender() {
            let transmit = next_run(self, now, id, batch);
            if transmit.is_some() {
                return transmit;
            }
            self.registry.on_silent(id);
        }
        None
    }

    /// The next notification.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        let (id, event) = self.events.pop_front()?;
        if event == Event::Readable
            && let Some(association) = self.registry.get_mut(id)
        {
            association.notices.on_readable_polled();
        }
        Some((id, event))
    }

    /// When `handle_timeout` must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.registry.next_deadline()
    }

    /// Queues a message. Data may be queued before the association is established; the first of it
    /// travels with the COOKIE ECHO.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Outgoing,
    ) -> Result<(), SendError> {
        self.with(now, id, |it, cx| Some(it.upper_layer().send(cx, message, None)))
            .unwrap_or(Err(SendError::UnknownAssociation))
    }

    /// Queues a message of which more or less is to be done than for others of its stream (RFC 3758,
    /// RFC 7496). If it is given up, [`Event::SendFailed`] tells.
    pub fn send_with(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Outgoing,
        reliability: Reliability,
    ) -> Result<(), SendError> {
        self.with(now, id, |it, cx| Some(it.upper_layer().send(cx, message, Some(reliability))))
            .unwrap_or(Err(SendError::UnknownAssociation))
    }

    /// Queues a part of a message, the last one or not, so that a message may be larger than the send buffer
    /// (`SCTP_EXPLICIT_EOR`, RFC 6458 section 8.1.26). It is reliable, and sent as its first part says. Until the last
    /// part was given the stream takes no other message, and nothing of other streams leaves once a part has left,
    /// unless messages are interleaved (RFC 8260). [`Self::shutdown`] does not wait for the last part.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_part(
        &mut self,
        now: Instant,
        id: AssociationId,
        part: Outgoing,
        end: MessageEnd,
    ) -> Result<(), SendError> {
        self.with(now, id, |it, _| Some(it.upper_layer().send_part(part, end)))
            .unwrap_or(Err(SendError::UnknownAssociation))
    }

    /// Whether the last part of a message was not given yet: of one on `stream`, or of any.
    pub fn is_unfinished(&self, id: AssociationId, stream: Option<StreamId>) -> bool {
        self.registry
            .get(id)
            .is_some_and(|association| association.sender.queue().is_unfinished(stream))
    }

    /// Says what is to be done for messages that come by [`Self::send`] from now on: for those of one
    /// stream, or for those of all streams of which that was not said (`SCTP_DEFAULT_PRINFO`, RFC 6458
    /// section 8.1.32).
    pub fn set_reliability(
        &mut self,
        id: AssociationId,
        stream: Option<StreamId>,
        reliability: Reliability,
    ) {
        if let Some(association) = self.registry.get_mut(id) {
            association.sender.abandonment_mut().set_reliability(stream, reliability);
        }
    }

    /// How many messages were given up, on one stream or all, by one policy or any
    /// (`SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS`, RFC 7496 section 4). Nothing for an
    /// association that does not exist.
    pub fn abandoned(
        &self,
        id: AssociationId,
        stream: Option<StreamId>,
        policy: Option<ReliabilityPolicy>,
    ) -> Abandoned {
        let association = self.registry.get(id);
        association
            .map_or_else(Abandoned::default, |it| it.sender.abandonment().count(stream, policy))
    }

    /// Says how a stream is to be treated by the stream scheduler (`SCTP_STREAM_SCHEDULER_VALUE`, RFC
    /// 8260 section 4.3.3). False if there is no such association or outbound stream.
    pub fn set_stream_options(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: StreamId,
        options: StreamOptions,
    ) -> bool {
        self.with(now, id, |association, _| {
            association.sender.queue_mut().set_stream_options(stream, options)
        })
    }

    /// Requests that streams begin anew with the numbers of their messages, in one or both directions;
    /// no streams stand for all (`SCTP_RESET_STREAMS`, RFC 6525 section 6.3.2). Messages queued before
    /// are sent before, those queued from now on wait. [`Event::StreamsReset`] tells the outcome.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        directions: &[StreamDirection],
        streams: &[StreamId],
    ) -> Result<(), ReconfigurationError> {
        self.with(now, id, |association, _| {
            Some(association.reconfigure().and_then(|mut it| it.reset_streams(directions, streams)))
        })
        .unwrap_or(Err(ReconfigurationError::NotEstablished))
    }

    /// Requests that all streams and the TSNs of both directions begin anew (`SCTP_RESET_ASSOC`, RFC
    /// 6525 section 6.3.3), as soon as nothing is outstanding here. [`Event::AssociationReset`] tells
    /// the outcome; requests of both ends that cross fail both.
    pub fn reset_association(
        &mut self,
        now: Instant,
        id: AssociationId,
    ) -> Result<(), ReconfigurationError> {
        self.with(now, id, |association, _| {
            Some(association.reconfigure().and_then(|mut it| it.reset_association()))
        })
        .unwrap_or(Err(ReconfigurationError::NotEstablished))
    }

    /// Requests more streams (`SCTP_ADD_STREAMS`, RFC 6525 section 6.3.4). [`Event::StreamsAdded`]
    /// tells the outcome.
    pub fn add_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigurationError> {
        self.with(now, id, |association, _| {
            Some(
                association.reconfigure().and_then(|mut it| it.request_streams(outgoing, incoming)),
            )
        })
        .unwrap_or(Err(ReconfigurationError::NotEstablished))
    }

    /// Whether [`read`](Self::read) has something to give. What is not read yet stays in the receive window.
    pub fn is_readable(&self, id: AssociationId) -> bool {
        match self.registry.get(id) {
            Some(association) => {
                association.peer.as_ref().is_some_and(|peer| peer.receiver.is_readable())
            }
            None => self.unread.holds(id),
        }
    }

    /// Takes the next message, or the next part of one that is larger than can be held
    /// (`Config::partial_delivery_point`, [`Message::more`]). What had arrived before a graceful end can still be read
    /// after [`Event::Closed`].
    pub fn read(&mut self, id: AssociationId) -> Option<Message> {
        let Some(association) = self.registry.get_mut(id) else { return self.unread.read(id) };
        let receiver = &mut association.peer.as_mut()?.receiver;
        let message = receiver.read()?;
        // Reading may open the receive window, which the peer must learn.
        if receiver.acks().is_due() {
            self.settle(id);
        } else {
            self.registry.recharge(id);
        }
        Some(message)
    }

    /// Bytes that `send` would accept now.
    pub fn send_space(&self, id: AssociationId) -> usize {
        let open = self.registry.get(id).filter(|it| it.accepts_messages());
        open.map_or(0, |association| association.sender.space())
    }

    /// Bytes that were accepted and not sent yet; 0 for an association that does not exist.
    pub fn unsent(&self, id: AssociationId) -> usize {
        self.registry.get(id).map_or(0, |it| it.sender.queue().bytes())
    }

    /// Bytes that need to be [`Self::unsent`] so that no path waits for the user: what may leave now,
    /// and a few milliseconds of data at the rate of the paths. What is queued beyond that only makes
    /// other data wait.
    pub fn wanted(&self, id: AssociationId) -> usize {
        self.registry.get(id).map_or(0, |it| wanted(&it.sender, &it.paths))
    }

    /// How long round trips take; nothing is known of an association that does not exist.
    pub fn round_trips(&self, id: AssociationId) -> RoundTrips {
        self.registry.get(id).map(|it| round_trips(&it.sender, &it.paths)).unwrap_or_default()
    }

    /// Tells how many bytes the user holds back beyond those that it has queued, to keep its own queue short;
    /// `usize::MAX` if it does not know the end. Path schedulers count them as waiting: the end of a transfer is not near
    /// while there are many, however few bytes are [`Self::unsent`], and slow paths go on to carry their share.
    pub fn set_backlog(&mut self, id: AssociationId, bytes: usize) {
        if let Some(association) = self.registry.get_mut(id) {
            association.sender.set_backlog(bytes);
        }
    }

    /// Says whether a message that does not fill a packet is to wait while anything is in flight
    /// (`SCTP_NODELAY`, RFC 6458 section 8.1.5, the other way round). `Config::nagle` is the default.
    pub fn set_nagle(&mut self, now: Instant, id: AssociationId, nagle: bool) {
        self.with(now, id, |association, _| association.sender.nagle_mut().set(nagle));
    }

    /// What an association holds to be sent, per stream: unsent, in flight, and on which path.
    pub fn sender_queue_info(&self, id: AssociationId) -> Option<SenderQueueInfo> {
        self.registry.get(id).map(|it| queue_info(&it.sender, &it.paths))
    }

    /// Asks for [`Event::SenderDry`], once: now if nothing is to be sent, else when all of it has been
    /// delivered.
    pub fn tell_when_dry(&mut self, now: Instant, id: AssociationId) {
        self.with(now, id, |association, cx| association.upper_layer().tell_when_dry(cx));
    }

    /// Whether everything that was accepted has been delivered or given up; true for an association that does not exist.
    pub fn is_dry(&self, id: AssociationId) -> bool {
        self.registry.get(id).is_none_or(|it| it.sender.buffer().is_empty())
    }

    /// Bytes of one stream that were accepted and not acknowledged for good (`queued_on_stream` of
    /// `SCTP_SQINFO`); 0 for an association that does not exist.
    pub fn queued_on_stream(&self, id: AssociationId, stream: StreamId) -> usize {
        self.registry.get(id).map_or(0, |it| it.sender.queue().queued_on(stream))
    }

    /// Largest payload that travels as one unfragmented DATA chunk on every path, in bytes.
    pub fn fragment_size(&self, id: AssociationId) -> usize {
        self.registry.get(id).map_or(0, |it| it.sender.fragment_size(&it.paths))
    }

    /// What the association has sent and received, and the longest RTO since the last call.
    pub fn take_statistics(&mut self, id: AssociationId) -> Option<AssociationStatistics> {
        self.registry.get_mut(id).map(|it| it.statistics.take(&it.sender, &mut it.paths))
    }

    /// Graceful shutdown: everything queued is delivered first (RFC 9260 section 9.2).
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) {
        self.with(now, id, Association::shutdown);
    }

    /// Ends the association at once with an ABORT carrying `reason` (RFC 9260 section 9.1). What is
    /// still unread is discarded.
    pub fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        self.with(now, id, |association, cx| association.ending().abort(cx, reason));
        forget_unread(self, id);
    }

    /// The Upper Layer Abort Reason (RFC 9260 section 3.3.10.12) of an association that the peer's user
    /// has aborted, once. Those of the last 64 aborts are kept.
    pub fn take_abort_reason(&mut self, id: AssociationId) -> Option<Bytes> {
        self.abort_reasons.take(id)
    }

    /// The associations that exist now.
    pub fn associations(&self) -> Vec<AssociationId> {
        self.registry.ids()
    }

    /// A snapshot of one association for people and tools.
    pub fn status(&self, now: Instant, id: AssociationId) -> Option<AssociationStatus> {
        let it = self.registry.get(id)?;
        status(now, (&it.state, &it.security), it.peer.as_ref(), (&it.paths, &it.sender))
    }

    /// What was dropped, refused and answered by the endpoint as a whole.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn next_id(&mut self) -> AssociationId {
        self.last_id += u64::from(self.tags.of);
        AssociationId(self.last_id)
    }
}

/// The next run of an association. Not inlined: packets of strangers, for whom no association has anything to send, do
/// not pay for it.
#[inline(never)]
fn next_run(
    endpoint: &mut Endpoint,
    now: Instant,
    id: AssociationId,
    batch: &mut PacketBatch,
) -> Option<Transmit> {
    endpoint.with(now, id, |association, cx| association.poll_transmit(cx, batch))
}
