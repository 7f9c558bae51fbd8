//! Re-configuration of streams: what the peer requests (RFC 6525 sections 5.1.7 and 5.2).

use super::context::Context;
use super::control::Control;
use super::reconfiguration::{MAX_NAMED, Reconfiguring, Request, as_set};
use super::tcb::Association;
use crate::event::{Event, ReconfigurationOutcome, StreamDirection};
use crate::path::PathId;
use alloc::vec::Vec;
use manypath_wire::cause::Cause;
use manypath_wire::chunk::ReConfig;
use manypath_wire::parameter::{
    AddStreams, IncomingSsnReset, OutgoingSsnReset, Parameter, ParameterWriter, ReConfigResponse,
    ReConfigResult, StreamIds,
};
use manypath_wire::{StreamId, Tsn};

/// A response is never larger than this.
const RESPONSE_LEN: usize = 20;

impl Association {
    /// A RE-CONFIG chunk arrived over `via`.
    pub(super) fn handle_re_config(
        &mut self,
        cx: &mut Context<'_>,
        via: PathId,
        chunk: &ReConfig<'_>,
    ) {
        if !self.state.takes_data() {
            cx.counters.unexpected_chunks += 1;
            return;
        }
        let parameters: Result<Vec<_>, _> = chunk.parameters.iter().collect();
        let Some(parameters) = parameters.ok().filter(|all| is_allowed(all)) else {
            cx.counters.malformed_chunks += 1;
            let cause = Cause::ProtocolViolation(b"RE-CONFIG with unsupported parameters");
            return self.control.report(cx, via, &cause);
        };
        let rto = self.paths.control_rto();
        let Some(mut reconfiguring) = self.reconfiguring() else { return };
        for parameter in &parameters {
            if let Parameter::ReConfigResponse(response) = parameter {
                reconfiguring.handle_response(cx, response, rto);
            }
        }
        let requests = parameters.iter().filter_map(|p| Some((request_number(p)?, p)));
        let requests: Vec<_> = requests.collect();
        if !requests.is_empty()
            && let Err(text) = reconfiguring.handle_requests(cx, via, &requests)
        {
            self.ending().violation(cx, text);
        }
    }

    /// Data has come: a reset of the peer's streams that waited for it may be due.
    pub(super) fn finish_deferred_reset(&mut self, cx: &mut Context<'_>) {
        if self.reconfiguration.deferred.is_none() {
            return;
        }
        let via = self.paths.control_path();
        let done = self.reconfiguring().map_or(Ok(()), |mut it| it.finish_deferred(cx, via));
        if let Err(text) = done {
            self.ending().violation(cx, text);
        }
    }
}

impl Reconfiguring<'_> {
    fn handle_requests(
        &mut self,
        cx: &mut Context<'_>,
        via: PathId,
        requests: &[(u32, &Parameter<'_>)],
    ) -> Result<(), &'static str> {
        let state = &mut self.reconfiguration;
        let repeated = |(number, _): &(u32, &Parameter<'_>)| {
            state.answers.iter().any(|answer| answer.response == *number)
        };
        if requests.iter().all(repeated) {
            let answers = state.answers.clone();
            self.send_answers(cx, via, &answers);
            return Ok(());
        }
        let expected = (0..).map(|n| state.expected.wrapping_add(n));
        if !requests.iter().map(|(number, _)| *number).eq(expected.take(requests.len())) {
            let bad = |(number, _): &(u32, _)| answer(*number, ReConfigResult::BAD_SEQUENCE_NUMBER);
            let answers: Vec<_> = requests.iter().map(bad).collect();
            self.send_answers(cx, via, &answers);
            return Ok(());
        }
        let count = u32::try_from(requests.len()).unwrap_or(0);
        state.expected = state.expected.wrapping_add(count);
        let answers = requests.iter().map(|(_, p)| self.process_request(cx, p));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        self.reconfiguration.answers.clone_from(&answers);
        self.send_answers(cx, via, &answers);
        self.start();
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other parameter is refused alike")]
    fn process_request(
        &mut self,
        cx: &mut Context<'_>,
        parameter: &Parameter<'_>,
    ) -> Result<Answer, &'static str> {
        Ok(match parameter {
            Parameter::OutgoingSsnReset(reset) => {
                self.acknowledge_request(|number, request| {
                    number == reset.response && matches!(request, Request::Incoming { .. })
                });
                answer(reset.request, self.process_outgoing(cx, reset)?)
            }
            Parameter::IncomingSsnReset(reset) => {
                answer(reset.request, self.process_incoming(cx, reset))
            }
            Parameter::SsnTsnReset { request } => self.process_association_reset(cx, *request),
            Parameter::AddOutgoingStreams(add) => {
                self.acknowledge_request(|_, own| *own == Request::AddIncoming(add.count));
                answer(add.request, self.process_added(cx, *add))
            }
            Parameter::AddIncomingStreams(add) => answer(add.request, self.process_asked(cx, *add)),
            other => answer(request_number(other).unwrap_or(0), ReConfigResult::DENIED),
        })
    }

    /// The peer's streams begin anew (section 5.2.2).
    fn process_outgoing(
        &mut self,
        cx: &mut Context<'_>,
        reset: &OutgoingSsnReset<'_>,
    ) -> Result<ReConfigResult, &'static str> {
        if !cx.config.accept_stream_resets {
            return Ok(ReConfigResult::DENIED);
        }
        if exceeds(reset.streams, self.receiver.inbound_streams()) {
            return Ok(ReConfigResult::WRONG_SSN);
        }
        if self.receiver.has_deferred_reset() {
            return Ok(ReConfigResult::ALREADY_IN_PROGRESS);
        }
        let streams: Vec<_> = reset.streams.iter().collect();
        if self.receiver.reset_after(as_set(&streams), reset.last_tsn)? {
            self.announce_incoming_reset(cx, streams);
            return Ok(ReConfigResult::PERFORMED);
        }
        self.reconfiguration.deferred = Some(reset.request);
        Ok(ReConfigResult::IN_PROGRESS)
    }

    /// A reset that waited for what was sent before it may be due now (rules E3 to E6).
    pub(super) fn finish_deferred(
        &mut self,
        cx: &mut Context<'_>,
        via: PathId,
    ) -> Result<(), &'static str> {
        let Some(number) = self.reconfiguration.deferred else { return Ok(()) };
        let Some(streams) = self.receiver.finish_reset()? else { return Ok(()) };
        self.reconfiguration.deferred = None;
        let done = answer(number, ReConfigResult::PERFORMED);
        let answers = &mut self.reconfiguration.answers;
        answers.iter_mut().filter(|answer| answer.response == number).for_each(|it| *it = done);
        self.send_answers(cx, via, &[done]);
        self.announce_incoming_reset(cx, streams.into_iter().flatten().collect());
        Ok(())
    }

    fn announce_incoming_reset(&self, cx: &mut Context<'_>, streams: Vec<StreamId>) {
        let (direction, outcome) = (StreamDirection::Incoming, ReconfigurationOutcome::Performed);
        cx.emit(self.id, Event::StreamsReset { direction, streams, outcome });
    }

    /// The peer wants our streams to begin anew (section 5.2.3).
    fn process_incoming(
        &mut self,
        cx: &Context<'_>,
        reset: &IncomingSsnReset<'_>,
    ) -> ReConfigResult {
        if !cx.config.accept_stream_resets || reset.streams.len() > MAX_NAMED {
            return ReConfigResult::DENIED;
        }
        if exceeds(reset.streams, self.sender.queue().stream_count()) {
            return ReConfigResult::WRONG_SSN;
        }
        let streams: Vec<_> = reset.streams.iter().collect();
        let fresh = self.sender.queue().are_fresh(&as_set(&streams));
        if fresh || self.reconfiguration.is_resetting(&streams) {
            return ReConfigResult::NOTHING_TO_DO;
        }
        let request = Request::Outgoing { streams, answers: Some(reset.request) };
        if self.reconfiguration.queue(alloc::vec![request]) {
            ReConfigResult::IN_PROGRESS
        } else {
            ReConfigResult::ALREADY_IN_PROGRESS
        }
    }

    /// All begins anew (section 5.2.4). What of ours is outstanding would be lost by it, so nothing
    /// may be, and no message may be half sent. Nor may we wait for the answer to the same request of
    /// ours: each end would tell the other the TSNs that it is about to leave.
    fn process_association_reset(&mut self, cx: &mut Context<'_>, request: u32) -> Answer {
        if self.reconfiguration.is_resetting_association() {
            return answer(request, ReConfigResult::ALREADY_IN_PROGRESS);
        }
        if !cx.config.accept_association_resets || !self.sender.is_between_messages() {
            return answer(request, ReConfigResult::DENIED);
        }
        let (own, peers): (Tsn, Tsn) =
            (self.sender.outstanding().next_tsn().wire(), self.receiver.distant_tsn());
        self.receiver.restart(peers);
        self.sender.queue_mut().reset_streams(&None);
        self.announce_association_reset(cx, ReconfigurationOutcome::Performed);
        let next_tsns = Some((own, peers));
        ReConfigResponse { response: request, result: ReConfigResult::PERFORMED, next_tsns }
    }

    /// The peer has more streams (section 5.2.5).
    fn process_added(&mut self, cx: &mut Context<'_>, add: AddStreams) -> ReConfigResult {
        let sum = self.receiver.inbound_streams().checked_add(add.count);
        let allowed = cx.config.accept_added_streams;
        if !allowed || sum.is_none_or(|sum| sum > cx.config.max_streams) {
            return ReConfigResult::DENIED;
        }
        self.receiver.add_streams(add.count);
        self.announce_streams(cx, ReconfigurationOutcome::Performed);
        ReConfigResult::PERFORMED
    }

    /// The peer wants us to have more streams (section 5.2.6).
    fn process_asked(&mut self, cx: &Context<'_>, add: AddStreams) -> ReConfigResult {
        let sum = self.sender.queue().stream_count().checked_add(add.count);
        let allowed = cx.config.accept_added_streams && add.count > 0;
        if !allowed || sum.is_none_or(|sum| sum > cx.config.max_streams) {
            return ReConfigResult::DENIED;
        }
        if self.reconfiguration.queue(alloc::vec![Request::AddOutgoing(add.count)]) {
            ReConfigResult::PERFORMED
        } else {
            ReConfigResult::ALREADY_IN_PROGRESS
        }
    }

    /// Queues responses, with a SACK that helps the peer to repeat what is missing (section 5.2.1).
    fn send_answers(&mut self, cx: &mut Context<'_>, via: PathId, answers: &[Answer]) {
        let mut bytes = [0; 2 * RESPONSE_LEN];
        let mut writer = ParameterWriter::new(&mut bytes);
        for answer in answers {
            // At most two.
            let _no_room = writer.push(&Parameter::ReConfigResponse(*answer)).is_err();
        }
        let used = writer.finish();
        if self.control.push(via, Control::ReConfig(bytes[..used].to_vec())).is_err() {
            cx.counters.control_drops += 1;
        }
        self.receiver.force_sack();
    }
}

type Answer = ReConfigResponse;

fn answer(response: u32, result: ReConfigResult) -> Answer {
    ReConfigResponse { response, result, next_tsns: None }
}

fn exceeds(streams: StreamIds<'_>, count: u16) -> bool {
    streams.iter().any(|stream| stream.0 >= count)
}

/// The Re-configuration Request Sequence Number of a request.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other parameter has no such number")]
fn request_number(parameter: &Parameter<'_>) -> Option<u32> {
    match parameter {
        Parameter::OutgoingSsnReset(OutgoingSsnReset { request, .. })
        | Parameter::IncomingSsnReset(IncomingSsnReset { request, .. })
        | Parameter::SsnTsnReset { request }
        | Parameter::AddOutgoingStreams(AddStreams { request, .. })
        | Parameter::AddIncomingStreams(AddStreams { request, .. }) => Some(*request),
        _ => None,
    }
}

/// The combinations of section 3.1, in either order.
fn is_allowed(parameters: &[Parameter<'_>]) -> bool {
    use Parameter::{
        AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, OutgoingSsnReset,
        ReConfigResponse,
    };
    let single = |parameter: &Parameter<'_>| {
        request_number(parameter).is_some() || matches!(parameter, ReConfigResponse(_))
    };
    match parameters {
        [one] => single(one),
        [a, b] => matches!(
            (a, b),
            (OutgoingSsnReset(_), IncomingSsnReset(_) | ReConfigResponse(_))
                | (IncomingSsnReset(_), OutgoingSsnReset(_))
                | (ReConfigResponse(_), OutgoingSsnReset(_) | ReConfigResponse(_))
                | (AddOutgoingStreams(_), AddIncomingStreams(_))
                | (AddIncomingStreams(_), AddOutgoingStreams(_))
        ),
        _ => false,
    }
}
