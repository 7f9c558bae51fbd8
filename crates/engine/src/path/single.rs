//! One path.

use super::arrivals::Arrivals;
use super::congestion::Congestion;
use super::flight::Flight;
use super::heartbeat::Heartbeat;
use super::regulation::PathRegime;
use super::sharing::Delays;
use super::{
    Burst, Health, MtuSearch, Pace, Pacer, PathAddr, PathCounters, PathEcn, PathId, PathState, Rtt,
    Timing,
};
use crate::config::{Config, EcnUse};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use manypath_wire::chunk::Data;
use manypath_wire::packet::CommonHeader;

/// UDP header of the encapsulation (RFC 6951).
const UDP_HEADER: usize = 8;

/// A path of an association.
#[derive(Debug)]
pub(crate) struct Path {
    pub(super) id: PathId,
    pub(super) addr: PathAddr,
    pub(super) health: Health,
    search: MtuSearch,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    /// What is under way, and what is known about it.
    pub(super) flight: Flight,
    pub(super) heartbeat: Heartbeat,
    pub(super) burst: Burst,
    pub(super) pacer: Pacer,
    /// The path to which it gives way because they share a bottleneck.
    pub(super) gives_way_to: Option<PathId>,
    /// What is measured to find such paths, while several carry data.
    pub(super) delays: Option<Box<Delays>>,
    pub(super) arrivals: Arrivals,
    /// Until when it takes no new data because a chunk was rescheduled.
    held_back: Option<Instant>,
    pub(super) ecn: PathEcn,
    /// What it has carried.
    pub(super) stats: PathCounters,
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
            id,
            addr,
            health: Health::new(state),
            search,
            rtt: Rtt::new(config),
            congestion,
            flight: Flight::default(),
            heartbeat: Heartbeat::default(),
            burst: Burst::new(config),
            pacer: Pacer::new(config.pacing),
            gives_way_to: None,
            delays: None,
            arrivals: Arrivals::default(),
            held_back: None,
            ecn: PathEcn::default(),
            stats: PathCounters::default(),
            regime: PathRegime::default(),
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Its addresses.
    pub(crate) fn addr(&self) -> PathAddr {
        self.addr
    }

    /// What is under way, and what is known about it.
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// As [`Self::flight`].
    pub(crate) fn flight_mut(&mut self) -> &mut Flight {
        &mut self.flight
    }

    /// Its round-trip time and RTO.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// As [`Self::rtt`].
    pub(crate) fn rtt_mut(&mut self) -> &mut Rtt {
        &mut self.rtt
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
        &self.ecn
    }

    /// As [`Self::ecn`].
    pub(crate) fn ecn_mut(&mut self) -> &mut PathEcn {
        &mut self.ecn
    }

    /// What pacing holds back.
    pub(crate) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// As [`Self::pacer`].
    pub(crate) fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
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
        &self.stats
    }

    /// As [`Self::stats`].
    pub(crate) fn stats_mut(&mut self) -> &mut PathCounters {
        &mut self.stats
    }

    /// Largest IP packet in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.search.mtu()
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
        let before = self.packet_size();
        if accepted || (addr.local.port() == 0) != (self.addr.local.port() == 0) {
            self.addr.local = addr.local;
        }
        self.addr.remote = addr.remote;
        if self.packet_size() != before {
            self.congestion.set_chunk_limit(self.packet_size() - CommonHeader::LEN);
        }
    }

    pub(super) fn fresh_ecn(&self, agreed: EcnUse) -> PathEcn {
        PathEcn::new(match agreed {
            EcnUse::Off => false,
            EcnUse::WhereSeen => self.addr.remote.port() == 0,
            EcnUse::On => true,
        })
    }

    /// The search for its MTU.
    pub(crate) fn search(&self) -> &MtuSearch {
        &self.search
    }

    /// Lets the search go on; everything follows what comes of it.
    pub(crate) fn change_mtu<R>(&mut self, change: impl FnOnce(&mut MtuSearch) -> R) -> R {
        let before = self.packet_size();
        let result = change(&mut self.search);
        if self.packet_size() != before {
            self.congestion.set_chunk_limit(self.packet_size() - CommonHeader::LEN);
        }
        result
    }

    /// How long things take on it.
    pub(crate) fn timing(&self) -> Timing {
        Timing { round_trip: self.rtt.smoothed().unwrap_or_default(), rto: self.rtt.rto() }
    }

    /// Whether it may not take an SCTP packet of `len` bytes although it did.
    pub(crate) fn is_large(&self, len: usize) -> bool {
        self.search.is_large(len + headers(&self.addr))
    }

    /// A packet was lost that [`Self::is_large`].
    pub(crate) fn on_large_lost(&mut self) {
        self.search.on_large_lost();
    }

    /// A packet has arrived.
    pub(crate) fn on_passed(&mut self, large: bool) {
        self.search.on_passed(large);
    }

    /// Largest SCTP packet in bytes, a multiple of four.
    pub(crate) fn packet_size(&self) -> usize {
        packet_size(&self.addr, self.mtu())
    }

    /// Largest payload of a DATA chunk in bytes.
    pub(crate) fn fragment_size(&self) -> usize {
        self.packet_size() - CommonHeader::LEN - Data::HEADER_LEN
    }

    /// The path to which it gives way because they share a bottleneck.
    pub(crate) fn gives_way_to(&self) -> Option<PathId> {
        self.gives_way_to
    }

    /// It takes no new data until then.
    pub(super) fn hold_back(&mut self, until: Instant) {
        self.held_back = Some(until);
    }

    /// Until when it takes no new data, if so.
    pub(crate) fn held_back(&self) -> Option<Instant> {
        self.held_back
    }

    /// Whether it takes no new data for a while.
    pub(crate) fn is_held_back(&self, now: Instant) -> bool {
        self.held_back.is_some_and(|until| now < until)
    }

    /// It takes new data again, if its time has come.
    pub(crate) fn end_hold(&mut self, now: Instant) {
        self.held_back = self.held_back.filter(|until| now < *until);
    }

    /// What it carries while its window is full, in bytes per second, once a round trip is known.
    pub(crate) fn window_rate(&self) -> Option<u64> {
        if let Some(bandwidth) = self.congestion.bandwidth() {
            return Some(bandwidth);
        }
        let srtt = self.rtt.smoothed()?.max(Duration::from_nanos(1)).as_nanos();
        let rate = (self.congestion.window() as u128 * 1_000_000_000) / srtt;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Whether another chunk may leave now without making a burst.
    pub(crate) fn may_follow(&self, now: Instant) -> bool {
        if self.is_paced() {
            self.pacer.allows(now)
        } else {
            self.burst.allows(now, self.in_flight())
        }
    }

    /// A packet with `bytes` of DATA chunks has left.
    pub(super) fn on_packet(&mut self, now: Instant, bytes: usize) {
        self.burst.on_packet(now, bytes);
        if let Some(pace) = self.pace() {
            if self.in_flight() <= bytes {
                self.pacer.begin(now, self.congestion.initial_window(), pace);
            }
            self.pacer.on_packet(now, bytes, pace);
        }
    }

    fn is_paced(&self) -> bool {
        let by_window = self.pacer.is_on() && self.rtt.smoothed().is_some();
        by_window || self.congestion.pace().is_some()
    }

    fn pace(&self) -> Option<Pace> {
        if let Some((rate, burst)) = self.congestion.pace() {
            return Some(Pace::of_rate(rate, (self.congestion.chunk_limit(), burst)));
        }
        let rtt = self.rtt.current().filter(|_| self.pacer.is_on())?;
        let (cwnd, is_starting) = (self.congestion.window(), self.congestion.is_starting());
        Some(Pace::of_window(cwnd, is_starting, rtt))
    }

    /// See [`Rtt::forward_delay`].
    pub(crate) fn forward_delay(&self) -> Duration {
        self.rtt.forward_delay()
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
