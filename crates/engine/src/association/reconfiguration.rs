//! Re-configuration of streams: the requests that we make (RFC 6525 section 5.1), and what the peer
//! says to them (section 5.2.7). What the peer requests is in `reconfiguration_answer`.
//!
//! One RE-CONFIG with requests is under way at a time; it is repeated when the RTO has expired. Before
//! it is sent, messages that were queued before it leave and are acknowledged; those queued after it
//! wait until it is answered, for they belong to the new numbering. RFC 6525 lets the request go
//! before the acknowledgement, but a peer that lacks data then answers "In progress", which costs an
//! RTO. usrsctp (0.9.5) even repeats that answer for ever, unless further data arrive.

use super::context::Context;
use super::control::ControlQueue;
use super::state::Retry;
use super::tcb::{Association, Errors};
use crate::event::{AssociationId, Event, ReconfigurationOutcome, StreamDirection};
use crate::path::PathId;
use crate::recv::Receiver;
use crate::send::{Sender, Streams};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use manypath_wire::chunk::{Chunk, ReConfig, types};
use manypath_wire::packet::PacketWriter;
use manypath_wire::parameter::{
    AddStreams, IncomingSsnReset, OutgoingSsnReset, Parameter, ParameterWriter, Parameters,
    ReConfigResponse, ReConfigResult, StreamIds,
};
use manypath_wire::{StreamId, Tsn};

/// Most streams that are named in one request: it must fit into a packet.
pub(super) const MAX_NAMED: usize = 500;
/// Requests that wait for their turn: one of the user's, one that the peer asks for.
const MAX_WAITING: usize = 2;

/// Why a re-configuration was not requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconfigurationError {
    /// There is no such association, or it is not established.
    NotEstablished,
    /// It was not agreed on with the peer (`Config::reconfiguration`).
    NotSupported,
    /// Another one is not finished yet.
    InProgress,
    /// No such stream, none at all, or too many.
    InvalidStreams,
}

impl core::fmt::Display for ReconfigurationError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotEstablished => "no established association",
            Self::NotSupported => "the peer does not support re-configuration",
            Self::InProgress => "a re-configuration is in progress",
            Self::InvalidStreams => "invalid streams",
        })
    }
}

impl core::error::Error for ReconfigurationError {}

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Our streams begin anew; `answers` is the peer's request for it.
    Outgoing {
        streams: Vec<StreamId>,
        answers: Option<u32>,
    },
    /// The peer's streams are to begin anew.
    Incoming {
        streams: Vec<StreamId>,
    },
    /// All streams, and the TSNs.
    Association,
    AddOutgoing(u16),
    AddIncoming(u16),
}

/// Requests that are sent together.
#[derive(Debug)]
struct Wanted {
    requests: Vec<Request>,
    /// Messages are being held back for it.
    holds: bool,
    /// What was queued before it has been sent, and has TSNs before this one.
    until: Option<Tsn64>,
}

/// The requests under way.
#[derive(Debug)]
struct Running {
    /// With their sequence numbers; those that are answered have left.
    requests: Vec<(u32, Request)>,
    /// The RE-CONFIG.
    parameters: Vec<u8>,
    retry: Retry,
    /// The one that it took last.
    path: PathId,
    /// The peer is about to do it.
    in_progress: bool,
}

/// The re-configurations of an association.
#[derive(Debug, Default)]
pub(crate) struct Reconfiguration {
    agreed: bool,
    next_request: u32,
    waiting: VecDeque<Wanted>,
    running: Option<Running>,
    /// The next request number of the peer.
    pub(super) expected: u32,
    /// What the peer's last requests were answered with.
    pub(super) answers: Vec<ReConfigResponse>,
    /// Which of them waits for a deferred reset.
    pub(super) deferred: Option<u32>,
}

impl Reconfiguration {
    /// Numbers begin with those of the TSNs (section 4.1).
    pub(super) fn new(agreed: bool, own: Tsn, peers: Tsn) -> Self {
        Self { agreed, next_request: own.0, expected: peers.0, ..Self::default() }
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// When the RE-CONFIG under way is to be repeated.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.running.as_ref()?.retry.expiry()
    }

    /// The Re-configuration Timer (section 5.1.1, rule H2). Returns the path over which nothing was heard of the
    /// requests, unless the peer has said that it is about to do them.
    pub(super) fn expire(&mut self, now: Instant) -> Option<PathId> {
        let running = self.running.as_mut()?;
        let is_silent = running.retry.expire(now) && !running.in_progress;
        is_silent.then_some(running.path)
    }

    /// Whether a RE-CONFIG with requests is to be sent.
    pub(super) fn is_due(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.retry.is_due())
    }

    /// Whether all of `streams` are being reset by the request under way.
    pub(super) fn is_resetting(&self, streams: &[StreamId]) -> bool {
        let requests = self.running.iter().flat_map(|running| &running.requests);
        requests.into_iter().any(|(_, request)| match request {
            Request::Outgoing { streams: own, .. } => {
                let all = streams.iter().all(|stream| own.contains(stream));
                own.is_empty() || (!streams.is_empty() && all)
            }
            Request::Incoming { .. }
            | Request::Association
            | Request::AddOutgoing(_)
            | Request::AddIncoming(_) => false,
        })
    }

    /// Whether a reset of the whole association is under way.
    pub(super) fn is_resetting_association(&self) -> bool {
        let running = self.running.iter().flat_map(|running| &running.requests);
        running.into_iter().any(|(_, request)| *request == Request::Association)
    }

    /// Queues requests. False if too many wait.
    pub(super) fn queue(&mut self, requests: Vec<Request>) -> bool {
        let fits = self.waiting.len() < MAX_WAITING;
        if fits {
            self.waiting.push_back(Wanted { requests, holds: false, until: None });
        }
        fits
    }

    /// Writes the RE-CONFIG with requests that is due, to leave on path `id`.
    pub(super) fn write(
        &mut self,
        now: Instant,
        (id, rto): (PathId, Duration),
        packet: &mut PacketWriter<'_>,
    ) {
        let Some(running) = &mut self.running else { return };
        let parameters = Parameters::from_bytes(&running.parameters);
        if packet.push(&Chunk::ReConfig(ReConfig { parameters })).is_ok() {
            running.retry.on_send(now, rto);
            running.path = id;
        }
    }
}

/// What the re-configuration of streams works on.
pub(crate) struct Reconfiguring<'a> {
    pub(super) id: AssociationId,
    pub(super) reconfiguration: &'a mut Reconfiguration,
    pub(super) sender: &'a mut Sender,
    pub(super) receiver: &'a mut Receiver,
    pub(super) control: &'a mut ControlQueue,
    pub(super) errors: &'a mut Errors,
}

impl Association {
    /// What re-configurations work on, once the peer is known.
    pub(super) fn reconfiguring(&mut self) -> Option<Reconfiguring<'_>> {
        Some(Reconfiguring {
            id: self.id,
            reconfiguration: &mut self.reconfiguration,
            sender: &mut self.sender,
            receiver: &mut self.peer.as_mut()?.receiver,
            control: &mut self.control,
            errors: &mut self.errors,
        })
    }

    /// The same for a request of the user.
    pub(crate) fn reconfigure(&mut self) -> Result<Reconfiguring<'_>, ReconfigurationError> {
        let established = self.state.accepts_messages() && !self.state.is_setting_up();
        let reconfiguring = self.reconfiguring().filter(|_| established);
        reconfiguring.ok_or(ReconfigurationError::NotEstablished)
    }
}

impl Reconfiguring<'_> {
    /// The user wants streams to begin anew (`SCTP_RESET_STREAMS`); no streams mean all.
    pub(crate) fn reset_streams(
        &mut self,
        directions: &[StreamDirection],
        streams: &[StreamId],
    ) -> Result<(), ReconfigurationError> {
        let mut requests = Vec::new();
        for direction in directions {
            let (count, request) = match direction {
                StreamDirection::Outgoing => {
                    let request = Request::Outgoing { streams: streams.to_vec(), answers: None };
                    (self.sender.queue().stream_count(), request)
                }
                StreamDirection::Incoming => {
                    let request = Request::Incoming { streams: streams.to_vec() };
                    (self.receiver.inbound_streams(), request)
                }
            };
            if streams.len() > MAX_NAMED || streams.iter().any(|stream| stream.0 >= count) {
                return Err(ReconfigurationError::InvalidStreams);
            }
            if !requests.contains(&request) {
                requests.push(request);
            }
        }
        self.request(requests)
    }

    /// The user wants all streams and the TSNs to begin anew (`SCTP_RESET_ASSOC`).
    pub(crate) fn reset_association(&mut self) -> Result<(), ReconfigurationError> {
        self.request(alloc::vec![Request::Association])
    }

    /// The user wants more streams (`SCTP_ADD_STREAMS`).
    pub(crate) fn request_streams(
        &mut self,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigurationError> {
        let (out, inb) = (self.sender.queue().stream_count(), self.receiver.inbound_streams());
        if out.checked_add(outgoing).is_none() || inb.checked_add(incoming).is_none() {
            return Err(ReconfigurationError::InvalidStreams);
        }
        let out = (outgoing > 0).then_some(Request::AddOutgoing(outgoing));
        let inb = (incoming > 0).then_some(Request::AddIncoming(incoming));
        self.request(out.into_iter().chain(inb).collect())
    }

    fn request(&mut self, requests: Vec<Request>) -> Result<(), ReconfigurationError> {
        let state = &self.reconfiguration;
        if !state.agreed {
            return Err(ReconfigurationError::NotSupported);
        }
        if requests.is_empty() {
            return Err(ReconfigurationError::InvalidStreams);
        }
        if state.running.is_some() || !state.waiting.is_empty() {
            return Err(ReconfigurationError::InProgress);
        }
        self.reconfiguration.queue(requests);
        self.start();
        Ok(())
    }

    /// Sends the next request as soon as what was queued before it has arrived.
    pub(super) fn start(&mut self) {
        if self.reconfiguration.running.is_some() {
            return;
        }
        let Some(wanted) = self.reconfiguration.waiting.front_mut() else { return };
        if let Some(streams) = held_back(&wanted.requests) {
            if !wanted.holds {
                self.sender.queue_mut().hold_back(streams);
                wanted.holds = true;
            }
            if !self.sender.queue().has_sent_before_reset() {
                return;
            }
            let until = *wanted.until.get_or_insert(self.sender.outstanding().next_tsn());
            if !self.sender.outstanding().has_delivered_before(until) {
                return;
            }
        }
        let wanted = self.reconfiguration.waiting.pop_front();
        self.run(wanted.map_or_else(Vec::new, |wanted| wanted.requests));
    }

    fn run(&mut self, requests: Vec<Request>) {
        let last_tsn = Tsn(self.sender.outstanding().next_tsn().wire().0.wrapping_sub(1));
        let state = &mut self.reconfiguration;
        let first = state.next_request;
        let requests: Vec<_> = (0..).map(|n| first.wrapping_add(n)).zip(requests).collect();
        state.next_request = first.wrapping_add(u32::try_from(requests.len()).unwrap_or(0));
        let last_received = state.expected.wrapping_sub(1);
        let parameters = encode(&requests, last_received, last_tsn);
        let (retry, path, in_progress) = (Retry::new(), PathId(0), false);
        state.running = Some(Running { requests, parameters, retry, path, in_progress });
        self.await_association_reset();
    }

    /// Until the answer is here nobody knows whether new chunks of the peer have been sent before or
    /// after it began anew.
    fn await_association_reset(&mut self) {
        let awaited = self.reconfiguration.is_resetting_association();
        self.receiver.await_restart(awaited);
    }

    /// A request of ours was answered.
    pub(super) fn handle_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &ReConfigResponse,
        rto: Duration,
    ) {
        let Some(running) = &mut self.reconfiguration.running else { return };
        let numbered = |(number, _): &(u32, Request)| *number == response.response;
        let Some(at) = running.requests.iter().position(numbered) else { return };
        self.errors.clear();
        if response.result == ReConfigResult::IN_PROGRESS {
            running.in_progress = true;
            running.retry.wait(cx.now + rto);
            return;
        }
        let (_, request) = running.requests.remove(at);
        self.await_association_reset();
        self.conclude(cx, request, response);
        self.finish_running();
    }

    /// The peer has answered request `number` of ours by one of its own (rule E1, section 5.2.6).
    pub(super) fn acknowledge_request(&mut self, is: impl Fn(u32, &Request) -> bool) {
        if let Some(running) = &mut self.reconfiguration.running {
            running.requests.retain(|(number, request)| !is(*number, request));
            self.finish_running();
        }
    }

    fn finish_running(&mut self) {
        let state = &mut self.reconfiguration;
        if state.running.as_ref().is_some_and(|running| running.requests.is_empty()) {
            state.running = None;
            self.sender.queue_mut().let_go();
            self.start();
        }
    }

    /// Rules H3 to H6.
    fn conclude(&mut self, cx: &mut Context<'_>, request: Request, response: &ReConfigResponse) {
        let outcome = outcome(response.result);
        let performed = outcome == ReconfigurationOutcome::Performed;
        match request {
            Request::Outgoing { streams, .. } => {
                if performed {
                    self.sender.queue_mut().reset_streams(&as_set(&streams));
                }
                let direction = StreamDirection::Outgoing;
                cx.emit(self.id, Event::StreamsReset { direction, streams, outcome });
            }
            // If it was performed, the peer's own request tells.
            Request::Incoming { streams } => {
                if response.result != ReConfigResult::PERFORMED {
                    let direction = StreamDirection::Incoming;
                    cx.emit(self.id, Event::StreamsReset { direction, streams, outcome });
                }
            }
            Request::Association => self.conclude_association(cx, outcome, response.next_tsns),
            Request::AddOutgoing(count) => {
                if performed {
                    self.sender.queue_mut().add_streams(count);
                }
                self.announce_streams(cx, outcome);
            }
            Request::AddIncoming(_) => {
                if !performed {
                    self.announce_streams(cx, outcome);
                }
            }
        }
    }

    /// Rule H5.
    fn conclude_association(
        &mut self,
        cx: &mut Context<'_>,
        outcome: ReconfigurationOutcome,
        next_tsns: Option<(Tsn, Tsn)>,
    ) {
        let performed = outcome == ReconfigurationOutcome::Performed;
        let outcome = match next_tsns {
            Some((peers, own)) if performed => {
                self.sender.outstanding_mut().jump_to(own);
                self.sender.queue_mut().reset_streams(&None);
                self.receiver.restart(peers);
                outcome
            }
            None if performed => ReconfigurationOutcome::Failed,
            Some(_) | None => outcome,
        };
        self.announce_association_reset(cx, outcome);
    }

    pub(super) fn announce_association_reset(
        &self,
        cx: &mut Context<'_>,
        outcome: ReconfigurationOutcome,
    ) {
        let (local_tsn, peer_tsn) =
            (self.sender.outstanding().next_tsn().wire(), self.receiver.next_tsn());
        cx.emit(self.id, Event::AssociationReset { outcome, local_tsn, peer_tsn });
    }

    /// Tells the user how many streams there are now.
    pub(super) fn announce_streams(&self, cx: &mut Context<'_>, outcome: ReconfigurationOutcome) {
        let outbound_streams = self.sender.queue().stream_count();
        let inbound_streams = self.receiver.inbound_streams();
        cx.emit(self.id, Event::StreamsAdded { outcome, outbound_streams, inbound_streams });
    }
}

/// The streams whose new messages must wait for these requests, if any must.
fn held_back(requests: &[Request]) -> Option<Streams> {
    requests.iter().find_map(|request| match request {
        Request::Outgoing { streams, .. } => Some(as_set(streams)),
        Request::Association => Some(None),
        Request::Incoming { .. } | Request::AddOutgoing(_) | Request::AddIncoming(_) => None,
    })
}

/// Named streams; none stand for all.
pub(super) fn as_set(streams: &[StreamId]) -> Streams {
    (!streams.is_empty()).then(|| streams.iter().copied().collect())
}

fn outcome(result: ReConfigResult) -> ReconfigurationOutcome {
    match result {
        ReConfigResult::PERFORMED | ReConfigResult::NOTHING_TO_DO => {
            ReconfigurationOutcome::Performed
        }
        ReConfigResult::DENIED => ReconfigurationOutcome::Denied,
        _ => ReconfigurationOutcome::Failed,
    }
}

fn encode(requests: &[(u32, Request)], last_received: u32, last_tsn: Tsn) -> Vec<u8> {
    let mut bytes = alloc::vec![0; 2 * (20 + 2 * MAX_NAMED)];
    let mut writer = ParameterWriter::new(&mut bytes);
    for (request, what) in requests {
        let request = *request;
        let parameter = match what {
            Request::Outgoing { streams, answers } => {
                Parameter::OutgoingSsnReset(OutgoingSsnReset {
                    request,
                    response: answers.unwrap_or(last_received),
                    last_tsn,
                    streams: StreamIds::from_slice(streams),
                })
            }
            Request::Incoming { streams } => Parameter::IncomingSsnReset(IncomingSsnReset {
                request,
                streams: StreamIds::from_slice(streams),
            }),
            Request::Association => Parameter::SsnTsnReset { request },
            Request::AddOutgoing(count) => {
                Parameter::AddOutgoingStreams(AddStreams { request, count: *count })
            }
            Request::AddIncoming(count) => {
                Parameter::AddIncomingStreams(AddStreams { request, count: *count })
            }
        };
        // Two requests with as many streams as may be named fit.
        let _no_room = writer.push(&parameter).is_err();
    }
    let used = writer.finish();
    bytes.truncate(used);
    bytes
}

/// Whether both ends support RE-CONFIG (section 5.1.1).
pub(super) fn is_agreed(config: &crate::config::Config, extensions: &[u8]) -> bool {
    config.reconfiguration && extensions.contains(&types::RE_CONFIG)
}
