//! Paths whose packets go another way than from their socket to the peer's usual port.

use crate::bound::Bound;
use crate::carriers::{Carrier, Streams, Ways};
use crate::counters::Counters;
use crate::socket::Unreachable;
use crate::waiting::Packets;
use manypath_engine::{Endpoint, Instant, PathAddr};
use std::net::SocketAddr;

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

    pub(crate) fn send_by(
        &mut self,
        now: Instant,
        carrier: Carrier,
        bound: &mut Bound,
        packets: Packets<'_>,
    ) {
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
    pub(crate) fn refuse(
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

    /// Adds what was counted here.
    pub(crate) fn count(&self, sum: &mut Counters) {
        sum.add(&self.streams.counters);
        sum.carrier_switches += self.switches;
        sum.carrier_strays += self.strays;
    }
}

/// Where the peer of the association was asked whose packet this is, and whether `path` is one of its paths.
pub(crate) fn asked_at(
    endpoint: &Endpoint,
    packet: &[u8],
    path: &PathAddr,
) -> Option<(SocketAddr, bool)> {
    let tag = <[u8; 4]>::try_from(packet.get(TAG)?).ok()?;
    endpoint.asked_at(u32::from_be_bytes(tag), path)
}
