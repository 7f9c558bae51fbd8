//! Paths whose packets go another way than from their socket to the peer's usual port.

use super::stream::Over;
use super::streams::Streams;
use super::ways::{Ways, is_init};
use super::{Carrier, STREAM_PORT};
use crate::bound::Bound;
use crate::counters::Counters;
use crate::exchange::Exchange;
use crate::send::Packets;
use crate::socket::Unreachable;
use manypath_engine::{Delivery, Ecn, Endpoint, Instant, PathAddr};
use mio::Token;
use mio::event::Event;
use std::net::SocketAddr;

/// Bytes read from all connections in one turn.
const READ_PER_TURN: usize = 1 << 20;
/// Where the tag of a packet is.
const TAG: std::ops::Range<usize> = 4..8;

/// The carriers of paths, and connections that carry.
#[derive(Debug, Default)]
pub(crate) struct Carriage {
    pub(crate) ways: Ways,
    pub(crate) streams: Streams,
    /// How often another carrier was chosen.
    pub(crate) switches: u64,
    /// Packets dropped that came by a carrier and are of no association here, or begin one that another process is to have.
    pub(crate) strays: u64,
}

impl Carriage {
    /// Sends packets over a path from the socket `bound`, by the carriers of the path.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        endpoint: &Endpoint,
        bound: &mut Bound,
        packets: Packets<'_>,
    ) {
        let path = PathAddr { local: bound.path.local, remote: packets.remote };
        let in_doubt = || endpoint.is_path_in_doubt(&path);
        let carriers = self.ways.on_send(now, path, &packets, in_doubt);
        for carrier in carriers {
            self.send_by(now, carrier, bound, packets);
        }
    }

    fn send_by(&mut self, now: Instant, carrier: Carrier, bound: &mut Bound, packets: Packets<'_>) {
        let remote = SocketAddr::new(packets.remote.ip(), carrier.port());
        if matches!(carrier, Carrier::Udp(_)) {
            return bound.path.send(now, Packets { remote, ..packets });
        }
        let ends = PathAddr { local: bound.path.local, remote };
        match self.streams.dial(now, ends, carrier, bound.device()) {
            Some(id) => self.streams.send(now, id, packets.bytes, packets.segment_size),
            None => self.refuse(now, bound, ends, carrier, None),
        }
    }

    /// A carrier has failed: the endpoint hears of it if no other is left.
    fn refuse(
        &mut self,
        now: Instant,
        bound: &mut Bound,
        ends: PathAddr,
        carrier: Carrier,
        report: Option<Unreachable>,
    ) {
        let told = self.ways.on_refused(now, (ends.local, ends.remote.ip()), carrier, report);
        told.into_iter().for_each(|report| bound.path.settle_report(report));
    }

    /// Of what the network says about packets from `local`, what the endpoint is to hear.
    pub(crate) fn heard_report(
        &mut self,
        now: Instant,
        local: SocketAddr,
        report: Unreachable,
    ) -> Vec<Unreachable> {
        let path = PathAddr { local, remote: report.remote };
        if !self.ways.covers(&path) && !self.ways.is_other_port(report.remote.port()) {
            return vec![report];
        }
        let carrier = Carrier::Udp(report.remote.port());
        self.ways.on_refused(now, (local, report.remote.ip()), carrier, Some(report))
    }

    /// Packets from `local` to `remote` are those of these peers' addresses.
    pub(crate) fn remotes(&self, local: SocketAddr, remote: SocketAddr) -> Vec<SocketAddr> {
        if !self.ways.is_other_port(remote.port()) {
            return vec![remote];
        }
        self.ways.carried(local, remote).iter().map(|path| path.remote).collect()
    }

    /// A packet has come over `path`, as addresses go, by `carrier`: the path that it belongs to, if that has a choice of
    /// carriers and an association here knows the packet.
    pub(crate) fn path_of(
        &mut self,
        now: Instant,
        endpoint: &Endpoint,
        path: PathAddr,
        packet: &[u8],
        carrier: Carrier,
    ) -> Option<PathAddr> {
        let other =
            self.ways.is_other_port(path.remote.port()) || !matches!(carrier, Carrier::Udp(_));
        if !other && !self.ways.covers(&path) {
            return None;
        }
        let (asked, _) = asked_at(endpoint, packet, &path)?;
        let remote = SocketAddr::new(path.remote.ip(), asked.port());
        let belongs = PathAddr { remote, ..path };
        if !self.ways.may_carry(&belongs, carrier) {
            return None;
        }
        self.switches += u64::from(self.ways.on_heard(now, belongs, carrier));
        Some(belongs)
    }
}

impl Carriage {
    /// Adds what was counted here.
    pub(crate) fn count(&self, sum: &mut Counters) {
        sum.add(&self.streams.counters);
        sum.carrier_switches += self.switches;
        sum.carrier_strays += self.strays;
    }
}

/// Where the peer of the association was asked whose packet this is, and whether `path` is one of its paths.
fn asked_at(endpoint: &Endpoint, packet: &[u8], path: &PathAddr) -> Option<(SocketAddr, bool)> {
    let tag = <[u8; 4]>::try_from(packet.get(TAG)?).ok()?;
    endpoint.asked_at(u32::from_be_bytes(tag), path)
}

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
