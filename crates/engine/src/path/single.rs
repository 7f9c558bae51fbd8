//! One path.

use super::arrivals::Arrivals;
use super::congestion::Congestion;
use super::flight::Flight;
use super::heartbeat::Heartbeat;
use super::regulation::PathRegime;
use super::sharing::Delays;
use super::{
    Health, MtuSearch, Pacer, PathAddr, PathCounters, PathEcn, PathId, PathState, Rtt, Subflow,
};
use crate::config::Config;
use alloc::boxed::Box;
use manypath_wire::packet::CommonHeader;

/// UDP header of the encapsulation (RFC 6951).
const UDP_HEADER: usize = 8;

/// A path of an association.
#[derive(Debug)]
pub(crate) struct Path {
    pub(super) addr: PathAddr,
    pub(super) health: Health,
    pub(super) search: MtuSearch,
    /// The data that it carries.
    pub(super) subflow: Subflow,
    pub(super) heartbeat: Heartbeat,
    /// The path to which it gives way because they share a bottleneck.
    pub(super) gives_way_to: Option<PathId>,
    /// What is measured to find such paths, while several carry data.
    pub(super) delays: Option<Box<Delays>>,
    pub(super) arrivals: Arrivals,
    /// What is wanted of it, if anything ever was.
    pub(super) regime: PathRegime,
}

impl Path {
    pub(super) fn new(
        id: PathId,
        addr: PathAddr,
        mtu: u16,
        state: PathState,
        config: &Config,
    ) -> Self {
        let search = MtuSearch::new(&addr, mtu, config);
        let mtu = search.mtu();
        let limit = packet_size(&addr, mtu) - CommonHeader::LEN;
        let is_ipv6 = addr.remote.is_ipv6();
        let mut congestion = Congestion::new(config.congestion, limit, is_ipv6, config.hystart);
        congestion.set_start(config, mtu);
        congestion.set_custom(config);
        Self {
            addr,
            health: Health::new(state),
            search,
            subflow: Subflow::new(id, congestion, config),
            heartbeat: Heartbeat::default(),
            gives_way_to: None,
            delays: None,
            arrivals: Arrivals::default(),
            regime: PathRegime::default(),
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> PathId {
        self.subflow.id
    }

    /// Its addresses.
    pub(crate) fn addr(&self) -> PathAddr {
        self.addr
    }

    /// The data that it carries.
    pub(crate) fn subflow(&self) -> &Subflow {
        &self.subflow
    }

    /// As [`Self::subflow`].
    pub(crate) fn subflow_mut(&mut self) -> &mut Subflow {
        &mut self.subflow
    }

    /// What is under way, and what is known about it.
    pub(crate) fn flight(&self) -> &Flight {
        &self.subflow.flight
    }

    /// As [`Self::flight`].
    pub(crate) fn flight_mut(&mut self) -> &mut Flight {
        &mut self.subflow.flight
    }

    /// Bytes in flight: DATA chunks with header and padding, neither acknowledged nor marked for
    /// retransmission.
    pub(crate) fn in_flight(&self) -> usize {
        self.subflow.flight.bytes
    }

    /// Its congestion window and what moves it.
    pub(crate) fn congestion(&self) -> &Congestion {
        &self.subflow.congestion
    }

    /// Its round-trip time and RTO.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.subflow.rtt
    }

    /// As [`Self::rtt`].
    pub(crate) fn rtt_mut(&mut self) -> &mut Rtt {
        &mut self.subflow.rtt
    }

    /// The state of its HEARTBEATs.
    pub(crate) fn heartbeat(&self) -> &Heartbeat {
        &self.heartbeat
    }

    /// As [`Self::heartbeat`].
    pub(crate) fn heartbeat_mut(&mut self) -> &mut Heartbeat {
        &mut self.heartbeat
    }

    /// What is wanted of it.
    pub(crate) fn regime(&self) -> &PathRegime {
        &self.regime
    }

    /// As [`Self::regime`].
    pub(crate) fn regime_mut(&mut self) -> &mut PathRegime {
        &mut self.regime
    }

    /// What ECN does on it.
    pub(crate) fn ecn(&self) -> &PathEcn {
        &self.subflow.ecn
    }

    /// As [`Self::ecn`].
    pub(crate) fn ecn_mut(&mut self) -> &mut PathEcn {
        &mut self.subflow.ecn
    }

    /// What pacing holds back.
    pub(crate) fn pacer(&self) -> &Pacer {
        &self.subflow.pacer
    }

    /// As [`Self::pacer`].
    pub(crate) fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.subflow.pacer
    }

    /// What has come over it.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// As [`Self::arrivals`].
    pub(crate) fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// What it has carried.
    pub(crate) fn stats(&self) -> &PathCounters {
        &self.subflow.stats
    }

    /// As [`Self::stats`].
    pub(crate) fn stats_mut(&mut self) -> &mut PathCounters {
        &mut self.subflow.stats
    }

    /// The path has got other addresses, behind a link that takes IP packets of `link` bytes.
    pub(crate) fn readdress(&mut self, addr: PathAddr, link: u16) {
        self.addr = addr;
        self.change_mtu(|search| search.readdress(&addr, link));
    }

    /// The peer sends from another port, or with or without encapsulation other than before. If we have `accepted` the
    /// association, it hears us from where it has reached us, whatever stands in between; otherwise our own port is for
    /// us to choose. What UDP takes of a packet is room for SCTP without it (RFC 6951 section 5.6).
    pub(crate) fn follow(&mut self, addr: PathAddr, accepted: bool) {
        self.resize(|path| {
            if accepted || (addr.local.port() == 0) != (path.addr.local.port() == 0) {
                path.addr.local = addr.local;
            }
            path.addr.remote = addr.remote;
        });
    }

    /// The search for its MTU.
    pub(crate) fn search(&self) -> &MtuSearch {
        &self.search
    }

    /// Lets the search go on; everything follows what comes of it.
    pub(crate) fn change_mtu<R>(&mut self, change: impl FnOnce(&mut MtuSearch) -> R) -> R {
        self.resize(|path| change(&mut path.search))
    }

    /// After a change that may be one of the packet size the window follows.
    fn resize<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.packet_size();
        let result = change(self);
        if self.packet_size() != before {
            self.subflow.congestion.set_chunk_limit(self.packet_size() - CommonHeader::LEN);
        }
        result
    }

    /// Largest SCTP packet in bytes, a multiple of four.
    pub(crate) fn packet_size(&self) -> usize {
        packet_size(&self.addr, self.search.mtu())
    }

    /// The path to which it gives way because they share a bottleneck.
    pub(crate) fn gives_way_to(&self) -> Option<PathId> {
        self.gives_way_to
    }

    /// Nothing is under way: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.subflow.release_memory();
        self.delays = None;
    }
}

/// What an IP packet of `mtu` bytes leaves for SCTP. Never less than what the smallest MTU of IPv4
/// hosts (576) leaves, so that absurd values cannot stop the association.
pub(crate) fn packet_size(addr: &PathAddr, mtu: u16) -> usize {
    (usize::from(mtu.max(576)) - headers(addr)) & !3
}

/// Size of the IP packet around an SCTP packet of `len` bytes.
pub(crate) fn ip_len(addr: &PathAddr, len: usize) -> usize {
    headers(addr) + len
}

/// Bytes in front of an SCTP packet.
pub(super) fn headers(addr: &PathAddr) -> usize {
    let ip = if addr.remote.is_ipv6() { 40 } else { 20 };
    let udp = if addr.remote.port() == 0 { 0 } else { UDP_HEADER };
    ip + udp
}
