//! From a packet to who must handle it (RFC 9260 sections 8.4 and 8.5).

use super::api::context;
use super::index::AddressKey;
use super::{AssociationId, Endpoint};
use crate::allowance::Allowance;
use crate::association::{Association, Authenticity, Context, Ports};
use crate::delivery::Delivery;
use crate::event::Event;
use crate::path::{PathAddr, pairing};
use crate::recv::Receiver;
use crate::time::Instant;
use alloc::boxed::Box;
use core::net::IpAddr;
use core::ops::Range;
use manypath_wire::VerificationTag;
use manypath_wire::chunk::{Chunk, Dtls, types};
use manypath_wire::error::ParseError;
use manypath_wire::packet::{CommonHeader, Packet};

impl Endpoint {
    pub(super) fn demultiplex(
        &mut self,
        now: Instant,
        addr: PathAddr,
        bytes: &[u8],
        delivery: Delivery,
    ) {
        let frame = (bytes.len(), delivery);
        self.replies.allowance = Allowance::of(self.config.amplification_limit, &addr, bytes.len());
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.count_malformed(error),
        };
        let header = packet.header();
        let has_ports = header.source_port != 0 && header.destination_port != 0;
        if !(is_unicast(&addr) && has_ports) {
            self.counters.malformed_packets += 1;
            return;
        }
        let mut chunks = packet.chunks();
        match chunks.next() {
            None => self.counters.malformed_packets += 1,
            Some(Err(_)) => self.counters.malformed_chunks += 1,
            Some(Ok(Chunk::CookieEcho(echo))) => {
                self.handle_cookie_echo(now, addr, packet, (echo.cookie, None), delivery);
            }
            Some(Ok(Chunk::Auth(auth))) if self.config.authenticates() => match chunks.next() {
                Some(Ok(Chunk::CookieEcho(echo))) => {
                    let auth = Some((auth, packet.chunks().rest()));
                    self.handle_cookie_echo(now, addr, packet, (echo.cookie, auth), delivery);
                }
                Some(_) | None => self.dispatch(now, addr, packet, Chunk::Auth(auth), frame),
            },
            Some(Ok(first)) => self.dispatch(now, addr, packet, first, frame),
        }
    }

    fn dispatch(
        &mut self,
        now: Instant,
        addr: PathAddr,
        packet: Packet<'_>,
        first: Chunk<'_>,
        frame: (usize, Delivery),
    ) {
        let header = packet.header();
        if header.tag == VerificationTag(0) {
            // "it SHOULD verify that the packet contains only an INIT chunk"
            let alone = packet.chunks().nth(1).is_none();
            if let (Chunk::Init(init), true) = (first, alone) {
                self.handle_init(now, addr, header, &init);
            } else {
                self.counters.bad_tag += 1;
            }
            return;
        }
        match self.by_tag(header) {
            Some(id) => self.with(now, id, |association, cx| {
                association.handle_packet(cx, addr, packet, frame, Authenticity::None);
            }),
            None => self.handle_stranger(now, addr, packet),
        }
    }

    /// The association that `header` belongs to by our tag and both ports.
    fn by_tag(&self, header: CommonHeader) -> Option<AssociationId> {
        let id = self.registry.index.by_tag(header.tag)?;
        let association = self.registry.get(id)?;
        (association.ports == ports_of(header)).then_some(id)
    }

    /// The association with the peer at `remote`.
    pub(super) fn by_address(&self, remote: IpAddr, header: CommonHeader) -> Option<AssociationId> {
        self.registry.index.by_address(&AddressKey { remote, ports: ports_of(header) })
    }

    /// Runs `call` on association `id` and brings the endpoint up to date with what it changed.
    pub(super) fn with<R>(
        &mut self,
        now: Instant,
        id: AssociationId,
        call: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> R
    where
        R: Default,
    {
        let (left, share) = self.memory();
        let visited = self.registry.visit(id, |association| {
            let parameters = association.parameters.clone();
            let mut cx = context!(self, now, parameters);
            if let Some(peer) = &mut association.peer {
                peer.receiver.allow(left, share);
            }
            call(association, &mut cx)
        });
        let Some((result, over)) = visited else { return R::default() };
        keep_unread(self, id, over);
        result
    }

    /// See [`super::registry::Registry::settle`].
    pub(super) fn settle(&mut self, id: AssociationId) {
        let over = self.registry.settle(id);
        keep_unread(self, id, over);
    }

    /// What all associations may still hold, and the part that each may have in any case. What is
    /// left of associations that are over counts as well.
    fn memory(&self) -> (usize, usize) {
        let budget = self.config.receive_memory;
        let left = budget.saturating_sub(self.registry.charged() + self.unread.charged());
        (left, budget / self.registry.len().max(1))
    }

    fn count_malformed(&mut self, error: ParseError) {
        if error == ParseError::BadChecksum {
            self.counters.bad_checksum += 1;
        } else {
            self.counters.malformed_packets += 1;
        }
    }
}

/// Opens the record in `bytes` where it is and hands it to its association, if a packet is nothing else and there
/// is a key. False if not: nothing has changed. A damaged one is counted.
pub(super) fn take_record(
    endpoint: &mut Endpoint,
    now: Instant,
    addr: PathAddr,
    bytes: &mut [u8],
    delivery: Delivery,
) -> bool {
    let Some((header, record)) = lone_record(bytes).filter(|_| is_unicast(&addr)) else {
        return false;
    };
    let known = endpoint.by_tag(header).and_then(|id| Some((id, endpoint.registry.get(id)?)));
    let known = known.map(|(id, association)| (id, &association.security));
    let Some((id, security)) = known.filter(|(_, security)| security.opens_records()) else {
        return false;
    };
    // Its record then has to be good (RFC 9653 section 5.3).
    let unchecked = Packet::without_checksum(bytes).filter(|_| security.takes_zero_checksum());
    let has_checksum = unchecked.is_none();
    if let Err(error) = unchecked.map_or_else(|| Packet::parse(bytes), Ok) {
        endpoint.count_malformed(error);
        return true;
    }
    let frame = (bytes.len(), delivery);
    endpoint.replies.allowance =
        Allowance::of(endpoint.config.amplification_limit, &addr, bytes.len());
    let Some(record) = bytes.get_mut(record) else { return true };
    endpoint.with(now, id, |association, cx| {
        association.handle_record(cx, addr, (header, has_checksum), record, frame);
    });
    true
}

fn is_unicast(addr: &PathAddr) -> bool {
    pairing::is_unicast(addr.local.ip()) && pairing::is_unicast(addr.remote.ip())
}

/// Whether [`take_record`] may take the packet: its first chunk is a DTLS chunk.
pub(super) fn begins_with_record(bytes: &[u8]) -> bool {
    bytes.get(CommonHeader::LEN) == Some(&types::DTLS)
}

/// The header of a packet that is a record and nothing else, and where the record is.
fn lone_record(bytes: &[u8]) -> Option<(CommonHeader, Range<usize>)> {
    const BEGIN: usize = CommonHeader::LEN + Dtls::HEADER_LEN;
    let packet = Packet::parse_unchecked(bytes).ok()?;
    let mut chunks = packet.chunks();
    match (chunks.next(), chunks.next()) {
        (Some(Ok(Chunk::Dtls(Dtls { restart: false, record }))), None) => {
            Some((packet.header(), BEGIN..BEGIN + record.len()))
        }
        _ => None,
    }
}

/// What is unread when an association ends gracefully stays readable.
fn keep_unread(endpoint: &mut Endpoint, id: AssociationId, over: Option<Box<Association>>) {
    let unread = over.and_then(|association| association.peer).map(|peer| peer.receiver);
    if let Some(unread) = unread.filter(Receiver::is_readable) {
        endpoint.unread.insert(id, unread);
    }
    let is_too_much = endpoint.unread.len() > endpoint.config.max_associations.max(1);
    if let Some(oldest) = endpoint.unread.oldest().filter(|_| is_too_much) {
        forget_unread(endpoint, oldest);
        endpoint.counters.unread_drops += 1;
    }
}

/// Discards what an association that is over has left.
pub(super) fn forget_unread(endpoint: &mut Endpoint, id: AssociationId) {
    for message in endpoint.unread.remove(id) {
        endpoint.counters.partial_deliveries_aborted += 1;
        endpoint.events.push_back((id, Event::PartialDeliveryAborted(message)));
    }
}

/// The ports of a received packet, from our point of view.
pub(super) fn ports_of(header: CommonHeader) -> Ports {
    Ports { local: header.destination_port, peer: header.source_port }
}

/// The header of a packet that answers one with `header`, with `tag`.
pub(super) fn answer_header(header: CommonHeader, tag: VerificationTag) -> CommonHeader {
    CommonHeader { source_port: header.destination_port, destination_port: header.source_port, tag }
}
