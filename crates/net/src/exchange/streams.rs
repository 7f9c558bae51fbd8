//! Packets over connections, between these and the endpoint.

use super::Exchange;
use crate::bound::Bound;
use crate::carriage::{Carriage, asked_at};
use crate::carriers::{Over, STREAM_PORT, is_init};
use crate::waiting::Packets;
use manypath_engine::{Delivery, Ecn, Instant, PathAddr};
use mio::Token;
use mio::event::Event;
use std::net::SocketAddr;

/// Bytes read from all connections in one turn.
const READ_PER_TURN: usize = 1 << 20;

impl Exchange {
    /// Reads packets from connections, up to a bound for each and for all.
    pub(crate) fn read_streams(&mut self, now: Instant) {
        let mut inbox = std::mem::take(&mut self.carriage.streams.inbox);
        let mut left = READ_PER_TURN;
        while left > 0
            && let Some(id) = self.carriage.streams.next_unread()
        {
            let locals = match self.carriage.streams.is_unknown(id) {
                true => self.local_ips(),
                false => Vec::new(),
            };
            let received = self.carriage.streams.receive(now, id, &mut inbox, &locals);
            left = left.saturating_sub(inbox.packets.len());
            let is_foreign = received == Err(Over::Foreign);
            if !is_foreign && self.hand_stream_on(id, &mut inbox.packets) {
                continue;
            }
            let mut packets = inbox.packets.iter_mut();
            let taken = packets.all(|packet| self.take_from_stream(now, id, packet));
            match (received, taken) {
                (Err(over), _) => self.carriage.streams.end(now, id, over),
                (Ok(()), false) => self.carriage.streams.end(now, id, Over::Foreign),
                (Ok(()), true) => {}
            }
        }
        self.carriage.streams.inbox = inbox;
        self.carriage.streams.pass(now);
        self.settle_ended(now);
    }

    /// False if the connection is to end.
    pub(crate) fn take_from_stream(&mut self, now: Instant, id: Token, packet: &mut [u8]) -> bool {
        let Some((ends, by)) = self.carriage.streams.ends(id) else { return false };
        if by.is_none() && is_init(packet) && self.carriage.streams.leaves() {
            self.carriage.strays += 1;
            // The client connects anew, to whoever listens now.
            return !self.carriage.streams.is_unproven(id);
        }
        self.told = self.told.max(now);
        // Nobody calls over a connection that was made here.
        let path = match by {
            Some(by) => self.carriage.path_of(now, &self.endpoint, ends, packet, by),
            None => Some(ends),
        };
        match path {
            Some(path) => {
                self.endpoint.handle_marked_packet(self.told, path, packet, Delivery::IN_ORDER);
            }
            None => self.carriage.strays += 1,
        }
        // Whoever has an association knows its tag; the connection counts as proven once it is a path of that.
        let known = asked_at(&self.endpoint, packet, &ends);
        let proven = if by.is_some() { path.is_some() } else { known.is_some_and(|(_, has)| has) };
        self.count_unanswered(now, packet.len());
        self.carriage.streams.note_packet(now, id, proven, known.is_some())
    }

    /// Tells the endpoint of connections that are over.
    fn settle_ended(&mut self, now: Instant) {
        for ended in self.carriage.streams.take_ended() {
            let Some(carrier) = ended.by else {
                self.endpoint.handle_unreachable(now, ended.ends);
                continue;
            };
            let of = |bound: &&mut Bound| bound.path.local == ended.ends.local;
            if let Some(bound) = self.sockets.iter_mut().find(of).filter(|_| ended.failed) {
                self.carriage.refuse(now, bound, ended.ends, carrier, None);
            }
        }
    }

    /// Sends packets of the endpoint over the connection that is their path. False if they are for a socket.
    pub(crate) fn transmit_by_stream(&mut self, now: Instant, path: PathAddr, size: usize) -> bool {
        let is_socket = |bound: &Bound| bound.path.local == path.local;
        if path.local.port() != STREAM_PORT || self.sockets.iter().any(is_socket) {
            return false;
        }
        let bytes = self.batch.bytes();
        match self.carriage.streams.between(&path) {
            Some(id) => self.carriage.streams.send(now, id, bytes, size),
            None => {
                self.counters.dropped_no_socket += bytes.len().div_ceil(size.max(1)) as u64;
                self.endpoint.handle_unreachable(now, path);
            }
        }
        true
    }

    /// Handles an event of a connection; false if it is of something else.
    pub(crate) fn handle_stream_event(&mut self, now: Instant, event: &Event) -> bool {
        if !self.carriage.streams.has(event.token()) {
            return false;
        }
        let locals = self.local_ips();
        self.carriage.streams.handle_event(now, event, &locals);
        true
    }

    /// A local address has gone.
    pub(crate) fn forget_local(&mut self, now: Instant, local: SocketAddr) {
        self.carriage.ways.forget_local(local);
        self.carriage.streams.forget_local(now, local);
    }

    /// When [`tend_carriers`](Self::tend_carriers) is due; the origin, at once, if a turn has left work over.
    pub(crate) fn carriers_due(&self) -> Option<Instant> {
        let Carriage { ways, streams, .. } = &self.carriage;
        let work = streams.has_work().then_some(Instant::ZERO);
        [work, ways.due(), streams.due()].into_iter().flatten().min()
    }

    /// Does what is due for carriers.
    pub(crate) fn tend_carriers(&mut self, now: Instant) {
        let endpoint = &self.endpoint;
        let in_doubt = |path: &PathAddr| endpoint.is_path_in_doubt(path);
        for copy in self.carriage.ways.take_copies(now, in_doubt) {
            let of = |bound: &Bound| bound.path.local == copy.path.local;
            let Some(index) = self.sockets.iter().position(of) else { continue };
            let (remote, segment_size) = (copy.path.remote, copy.bytes.len());
            let (bytes, ecn) = (&copy.bytes[..], Ecn::NotEct);
            let packets = Packets { remote, segment_size, bytes, may_fragment: false, ecn };
            for carrier in copy.by {
                self.carriage.send_by(now, carrier, &mut self.sockets[index], packets);
            }
            self.after_send(now, index);
        }
        if self.carriage.streams.due().is_some_and(|due| due <= now) {
            let locals = self.local_ips();
            self.carriage.streams.look(now, &locals);
        }
        self.settle_ended(now);
    }

    /// The addresses with sockets.
    pub(crate) fn local_ips(&self) -> Vec<std::net::IpAddr> {
        self.sockets.iter().map(|socket| socket.path.local.ip()).collect()
    }
}
