//! What is to be sent and received, and how far it is.

use crate::checksum::{Checksum, Random, seal};
use crate::options::Options;
use dcsctp::api::{DcSctpSocket, Message, PpId, SendError, SendOptions, SocketEvent, StreamId};
use serde_json::{Value, json};
use std::time::Instant;

/// Bytes of a message that is sent on a stream after its reset.
const AFTER_RESET: usize = 1000;

/// What is done at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Connecting,
    Sending,
    /// Until nothing waits to be sent before a reset.
    Draining,
    Resetting,
    /// One message on each stream from this one on.
    AfterReset(u16),
    /// Everything was sent.
    Receiving,
    /// The end is under way.
    Closing,
    Over,
}

pub(crate) struct End<'a> {
    options: &'a Options,
    phase: Phase,
    random: Random,
    sent: Checksum,
    received: Checksum,
    /// A message for which there was no room.
    waiting: Option<(u16, Vec<u8>)>,
    damaged: u64,
    resets: u64,
    refused: u64,
    restarts: u64,
    /// How it ended.
    end: &'static str,
    established: Option<Instant>,
}

impl<'a> End<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        let by_message = options.is_set("unordered") || options.is_set("by-message");
        Self {
            options,
            phase: Phase::Connecting,
            random: Random::new(options.number("seed")),
            sent: Checksum::new(by_message),
            received: Checksum::new(by_message),
            waiting: None,
            damaged: 0,
            resets: 0,
            refused: 0,
            restarts: 0,
            end: "none",
            established: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(crate) fn progress(&self) -> String {
        format!("{:?}: sent {}, received {}", self.phase, self.sent.bytes, self.received.bytes)
    }

    pub(crate) fn on_event(&mut self, event: SocketEvent) {
        match event {
            SocketEvent::OnConnected() => {
                self.established = self.established.or(Some(Instant::now()));
                if self.phase == Phase::Connecting {
                    self.phase = Phase::Sending;
                }
            }
            SocketEvent::OnClosed() => {
                self.over(if self.has_aborted() { "reset" } else { "shutdown" })
            }
            SocketEvent::OnAborted(kind, reason) => {
                eprintln!("peer: {kind:?}: {reason}");
                self.over("reset");
            }
            SocketEvent::OnError(kind, reason) => eprintln!("peer: {kind:?}: {reason}"),
            SocketEvent::OnConnectionRestarted() => self.restarts += 1,
            SocketEvent::OnStreamsResetPerformed(streams) => self.resets += streams.len() as u64,
            SocketEvent::OnStreamsResetFailed(_) => self.refused += 1,
            _ => {}
        }
    }

    fn over(&mut self, how: &'static str) {
        self.end = how;
        self.phase = Phase::Over;
    }

    /// Whether this end has ended it by an ABORT.
    fn has_aborted(&self) -> bool {
        self.phase == Phase::Closing && self.options.is_set("abort")
    }

    /// Takes what has arrived, and goes on with what is to be done.
    pub(crate) fn proceed(&mut self, sctp: &mut dyn DcSctpSocket) {
        while let Some(message) = sctp.get_next_message() {
            self.receive(&message);
        }
        match self.phase {
            Phase::Sending => self.send_all(sctp),
            Phase::Draining => self.reset(sctp),
            Phase::Resetting => self.wait_for_reset(),
            Phase::AfterReset(stream) => self.send_after_reset(sctp, stream),
            Phase::Receiving => self.end_if_complete(sctp),
            Phase::Connecting | Phase::Closing | Phase::Over => {}
        }
    }

    fn receive(&mut self, message: &Message) {
        let (before, mark) = (self.received.bytes, self.options.number("mark"));
        self.received.add(message.stream_id.0, &message.payload);
        if before < mark && self.received.bytes >= mark {
            eprintln!("mark");
        }
        if self.options.is_set("sealed") {
            let good = message.payload.split_first_chunk().map(|(sum, rest)| *sum == seal(rest));
            self.damaged += u64::from(good != Some(true));
        }
    }

    /// Whether there was room for it.
    fn send(&mut self, sctp: &mut dyn DcSctpSocket, stream: u16, data: Vec<u8>) -> bool {
        let how = SendOptions {
            unordered: self.options.is_set("unordered"),
            max_retransmissions: self.options.gives_up.then(|| self.options.number("value") as u16),
            ..SendOptions::default()
        };
        let message = Message::new(StreamId(stream), PpId(0), data.clone());
        match sctp.send(message, &how) {
            Ok(()) => {
                self.sent.add(stream, &data);
                true
            }
            Err(SendError::ResourceExhaustion) => {
                self.waiting = Some((stream, data));
                false
            }
            Err(error) => crate::fail(&format!("send: {error}")),
        }
    }

    fn next_message(&mut self) -> Option<(u16, Vec<u8>)> {
        let left = self.options.number("send").saturating_sub(self.sent.bytes);
        if self.waiting.is_some() || left == 0 {
            return self.waiting.take();
        }
        let stream = self.sent.messages % self.options.number("streams");
        let mut data = self.random.bytes(left.min(self.options.number("message")) as usize);
        if self.options.is_set("sealed")
            && let Some((sum, rest)) = data.split_first_chunk_mut()
        {
            *sum = seal(rest);
        }
        Some((stream as u16, data))
    }

    fn send_all(&mut self, sctp: &mut dyn DcSctpSocket) {
        while let Some((stream, data)) = self.next_message() {
            if !self.send(sctp, stream, data) {
                return;
            }
        }
        self.phase = if self.options.is_set("reset") { Phase::Draining } else { Phase::Receiving };
        if self.options.is_set("hang") {
            eprintln!("sent {}", self.sent.text());
            self.phase = Phase::Closing;
        }
    }

    /// Asks for a reset once nothing waits to be sent: dcsctp forgets what still does.
    fn reset(&mut self, sctp: &mut dyn DcSctpSocket) {
        if unsent(sctp) > 0 {
            return;
        }
        let streams = 0..self.options.number("streams") as u16;
        let streams: Vec<_> = streams.map(StreamId).collect();
        if let Err(error) = sctp.reset_streams(&streams) {
            crate::fail(&format!("reset: {error}"));
        }
        self.phase = Phase::Resetting;
    }

    fn wait_for_reset(&mut self) {
        if self.resets >= self.options.number("streams") || self.refused > 0 {
            self.phase = Phase::AfterReset(0);
        }
    }

    fn send_after_reset(&mut self, sctp: &mut dyn DcSctpSocket, stream: u16) {
        if u64::from(stream) == self.options.number("streams") {
            self.phase = Phase::Receiving;
            return;
        }
        let data =
            self.waiting.take().map_or_else(|| self.random.bytes(AFTER_RESET), |(_, data)| data);
        if self.send(sctp, stream, data) {
            self.phase = Phase::AfterReset(stream + 1);
        }
    }

    fn end_if_complete(&mut self, sctp: &mut dyn DcSctpSocket) {
        if self.received.bytes < self.options.number("receive") || self.options.is_set("wait") {
            return;
        }
        // Its shutdown looks at what is under way alone, and forgets what still waits to be sent.
        if unsent(sctp) > 0 && !self.options.is_set("abort") {
            return;
        }
        self.phase = Phase::Closing;
        if self.options.is_set("abort") {
            sctp.close();
        } else {
            sctp.shutdown();
        }
    }

    /// What it saw, as `peer.c` says it.
    pub(crate) fn result(&self) -> Value {
        let aborted = u64::from(self.end == "reset" && !self.options.is_set("abort"));
        json!({
            "sent": self.sent.bytes,
            "sent_digest": self.sent.text(),
            "sent_messages": self.sent.messages,
            "received": self.received.bytes,
            "received_digest": self.received.text(),
            "received_messages": self.received.messages,
            "damaged": self.damaged,
            "resets": self.resets,
            "refused": self.refused,
            "restarts": self.restarts,
            "aborted": aborted,
            "end": self.end,
            "seconds": self.established.map_or(0.0, |start| start.elapsed().as_secs_f64()),
        })
    }
}

/// Chunks that wait to be sent or acknowledged, about.
fn unsent(sctp: &dyn DcSctpSocket) -> usize {
    sctp.get_metrics().map_or(0, |metrics| metrics.unack_data_count)
}
