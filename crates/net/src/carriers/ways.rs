//! Which carrier gets the packets of a path through: the usual UDP port, or one of the carriers beside it.
//!
//! ```text
//! first packet ─▶ usual port ── answer ─▶ stays
//!                     └─ 100 ms of silence, or refused ─▶ the same packet by all carriers ─▶ what answers is chosen
//! chosen carrier ── silent for a second, and the path is in doubt ─▶ single packets by all carriers
//! another carrier than the usual one ── every minute or less often ─▶ a single packet by the usual one, too
//! ```
//!
//! The endpoint knows nothing of it: a path keeps its addresses, whatever carries it. Only packets with the tag of an
//! association count. They are no proof that ours get through where nothing passes in one direction: whether the path works,
//! the endpoint knows.

use super::{Carrier, Carriers};
use crate::socket::Unreachable;
use crate::waiting::Packets;
use manypath_engine::{Duration, Instant, PathAddr};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// How long the first packet of a path waits for an answer before the other carriers are tried.
const HEAD_START: Duration = Duration::from_millis(100);
/// How long a path that was heard may leave packets unanswered.
const SILENCE: Duration = Duration::from_secs(1);
/// The least time between two attempts with all carriers.
const AGAIN: Duration = Duration::from_millis(200);
/// How often the usual port is tried although another carrier works: less often each time that going back was wrong.
const RETURN: Duration = Duration::from_secs(60);
const MAX_RETURN: Duration = Duration::from_secs(3600);
/// How long what comes by the usual port may be the answer to that.
const TRIAL: Duration = Duration::from_secs(2);
/// Most paths that are known.
const MAX_WAYS: usize = 1024;
/// Most local addresses of which it is kept what gets through there.
const MAX_LEARNT: usize = 64;
/// Larger packets are not repeated by other carriers.
const MAX_COPY: usize = 1500;

/// The carriers of all paths to peers at the usual ports.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    carriers: Carriers,
    /// UDP ports at which peers are asked.
    usual: Vec<u16>,
    all: BTreeMap<PathAddr, Way>,
    /// What got through from a local address where the usual port was silent.
    learnt: BTreeMap<IpAddr, Carrier>,
    /// When the first copy is due.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Way {
    choice: Carrier,
    /// Whether the peer was ever heard.
    heard: bool,
    /// When the endpoint last had no doubt about the path, or the choice was made.
    sure: Instant,
    /// When all carriers, or the usual one beside the choice, were last tried.
    tried: Instant,
    /// Whether what comes by another carrier than the choice may be an answer to that.
    trial: bool,
    /// Whether the endpoint doubts that the choice works.
    doubted: bool,
    /// The pause until the usual port is tried again, and when the path last went back there.
    pause: Duration,
    returned: Option<Instant>,
    used: Instant,
    /// The first packet, until all carriers have been tried with it, and when that is due.
    first: Option<(Instant, Vec<u8>)>,
    /// Which carriers were refused since they were last tried.
    refused: Vec<Carrier>,
    /// What was said of the usual port, if others may still answer.
    report: Option<Unreachable>,
}

/// The first packet of a path, due to be sent by other carriers.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) path: PathAddr,
    pub(crate) by: Vec<Carrier>,
    pub(crate) bytes: Vec<u8>,
}

impl Ways {
    /// Tries `carriers` where peers at one of the `usual` ports are silent.
    pub(crate) fn new(carriers: Carriers, usual: Vec<u16>) -> Self {
        Self { carriers, usual, ..Self::default() }
    }

    /// Whether there is a choice on this path.
    pub(crate) fn covers(&self, path: &PathAddr) -> bool {
        !self.carriers.is_empty() && self.usual.contains(&path.remote.port())
    }

    /// Whether `carrier` may be that of this path.
    pub(crate) fn may_carry(&self, path: &PathAddr, carrier: Carrier) -> bool {
        self.covers(path) && self.candidates(path).contains(&carrier)
    }

    /// Whether peers may answer at `port` instead of the usual one.
    pub(crate) fn is_other_port(&self, port: u16) -> bool {
        !self.usual.contains(&port) && self.carriers.udp_ports().any(|other| other == port)
    }

    /// All carriers of a path, the usual one first. What may stand for a port below 1024 of its host is at one itself.
    fn candidates(&self, path: &PathAddr) -> Vec<Carrier> {
        let port = path.remote.port();
        let fits = |one: &Carrier| port >= 1024 || one.port() < 1024;
        let others = self.carriers.iter().filter(fits);
        std::iter::once(Carrier::Udp(port)).chain(others).collect()
    }

    /// Packets leave over `path`: by which carriers. `in_doubt` says whether the endpoint doubts the path.
    pub(crate) fn on_send(
        &mut self,
        now: Instant,
        path: PathAddr,
        packets: &Packets<'_>,
        in_doubt: impl FnOnce() -> bool,
    ) -> Vec<Carrier> {
        let all = self.candidates(&path);
        if !self.all.contains_key(&path) {
            return self.begin(now, path, packets);
        }
        let Some(way) = self.all.get_mut(&path) else { return all };
        way.used = now;
        let single = packets.count() == 1 && packets.bytes.len() <= MAX_COPY;
        if !single || now.since(way.tried) < AGAIN {
            return vec![way.choice];
        }
        if way.heard && now.since(way.sure) >= SILENCE {
            way.doubted = in_doubt();
            way.sure = if way.doubted { way.sure } else { now };
        }
        let returns = way.choice != all[0] && now.since(way.tried) >= way.pause;
        match (!way.heard || way.doubted, returns) {
            (true, _) => {
                way.try_others(now);
                way.refused.clear();
                all
            }
            (false, true) => {
                (way.tried, way.trial) = (now, true);
                vec![way.choice, all[0]]
            }
            (false, false) => vec![way.choice],
        }
    }

    fn begin(&mut self, now: Instant, path: PathAddr, packets: &Packets<'_>) -> Vec<Carrier> {
        let usual = Carrier::Udp(path.remote.port());
        let learnt = self.learnt.get(&path.local.ip()).copied();
        let learnt = learnt.filter(|one| self.candidates(&path).contains(one));
        let choice = learnt.unwrap_or(usual);
        let first = (now + HEAD_START, packets.bytes.to_vec());
        let first = Some(first).filter(|_| packets.count() == 1 && packets.bytes.len() <= MAX_COPY);
        self.make_room();
        self.hasten(first.as_ref().map(|(due, _)| *due));
        let (heard, doubted, returned, refused, report) = Default::default();
        let way = Way {
            choice,
            heard,
            sure: now,
            tried: now,
            trial: learnt.is_some(),
            doubted,
            pause: RETURN,
            returned,
            used: now,
            first,
            refused,
            report,
        };
        self.all.insert(path, way);
        learnt.map_or_else(|| vec![usual], |learnt| vec![learnt, usual])
    }

    fn make_room(&mut self) {
        if self.all.len() < MAX_WAYS {
            return;
        }
        let oldest = self.all.iter().min_by_key(|(_, way)| way.used).map(|(path, _)| *path);
        oldest.map(|path| self.all.remove(&path));
    }

    fn hasten(&mut self, due: Option<Instant>) {
        self.due = [self.due, due].into_iter().flatten().min();
    }

    /// When [`take_copies`](Self::take_copies) is due.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// First packets that have waited in vain for an answer, for the carriers by which they have not been sent.
    /// `in_doubt` says whether the endpoint doubts a path.
    pub(crate) fn take_copies(
        &mut self,
        now: Instant,
        in_doubt: impl Fn(&PathAddr) -> bool,
    ) -> Vec<Copy> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let is_due = |way: &Way| way.first.as_ref().is_some_and(|(due, _)| *due <= now);
        let due = self.all.iter().filter(|(_, way)| is_due(way)).map(|(path, _)| *path);
        let mut copies = Vec::new();
        for path in due.collect::<Vec<_>>() {
            let mut by = self.candidates(&path);
            let Some(way) = self.all.get_mut(&path) else { continue };
            let Some((_, bytes)) = way.first.take() else { continue };
            if way.heard && !in_doubt(&path) {
                continue;
            }
            by.retain(|one| *one != by_usual(&path) && *one != way.choice);
            way.doubted = way.heard;
            way.try_others(now);
            copies.push(Copy { path, by, bytes });
        }
        let waiting = self.all.values().filter_map(|way| way.first.as_ref());
        self.due = waiting.map(|(due, _)| *due).min();
        copies
    }

    /// The peer was heard over `path` by `carrier`. Whether that is chosen now, and was not before.
    pub(crate) fn on_heard(&mut self, now: Instant, path: PathAddr, carrier: Carrier) -> bool {
        let all = self.candidates(&path);
        let Some(way) = self.all.get_mut(&path) else { return false };
        way.report = None;
        // Nobody knows our tag before the INIT; a HEARTBEAT may cross one of the peer.
        way.first.take_if(|(_, bytes)| is_init(bytes));
        let rank = |one| all.iter().position(|other| *other == one);
        let better = rank(carrier) < rank(way.choice) && now.since(way.tried) < TRIAL;
        let changes = carrier != way.choice && (!way.heard || way.trial && (way.doubted || better));
        if changes {
            way.note_return(now, carrier == all[0]);
            // What the peer says by itself over the choice of before is no answer.
            way.trial &= !way.doubted;
            (way.choice, way.sure, way.doubted) = (carrier, now, false);
        }
        if way.choice == carrier {
            way.heard = true;
            self.learn(path, carrier);
        }
        changes
    }

    fn learn(&mut self, path: PathAddr, carrier: Carrier) {
        let local = path.local.ip();
        if carrier == by_usual(&path) {
            self.learnt.remove(&local);
        } else if self.learnt.len() < MAX_LEARNT || self.learnt.contains_key(&local) {
            self.learnt.insert(local, carrier);
        }
    }

    /// The network, or this host, has refused packets to `remote`, which are those of `carrier`. What the endpoint is to
    /// be told: nothing while another carrier works or may still answer.
    pub(crate) fn on_refused(
        &mut self,
        now: Instant,
        (local, remote): (SocketAddr, IpAddr),
        carrier: Carrier,
        report: Option<Unreachable>,
    ) -> Vec<Unreachable> {
        let of = |path: &PathAddr| path.local == local && path.remote.ip() == remote;
        let mut told = Vec::new();
        let paths: Vec<_> = self.all.keys().filter(|path| of(path)).copied().collect();
        for path in paths {
            let all = self.candidates(&path);
            if !all.contains(&carrier) {
                continue;
            }
            let Some(way) = self.all.get_mut(&path) else { continue };
            let said = report.map(|report| Unreachable { remote: path.remote, ..report });
            if way.heard {
                told.extend(said.filter(|_| way.choice == carrier));
                continue;
            }
            if !way.refused.contains(&carrier) {
                way.refused.push(carrier);
            }
            way.report = way.report.or(said);
            if all.iter().all(|one| way.refused.contains(one)) {
                way.first = None;
                told.extend(way.report.take());
            } else if let Some((due, _)) = &mut way.first {
                *due = now;
                self.hasten(Some(now));
            }
        }
        told
    }

    /// The paths from `local` that are carried to `port` of a host instead of the usual one.
    pub(crate) fn carried(&self, local: SocketAddr, to: SocketAddr) -> Vec<PathAddr> {
        let fits = |(path, way): &(&PathAddr, &Way)| {
            let there = path.local == local && path.remote.ip() == to.ip();
            there && way.choice == Carrier::Udp(to.port())
        };
        self.all.iter().filter(fits).map(|(path, _)| *path).collect()
    }

    /// What carries a path, if there is a choice and the peer was heard there.
    pub(crate) fn choice(&self, path: &PathAddr) -> Option<Carrier> {
        self.all.get(path).filter(|way| way.heard).map(|way| way.choice)
    }

    /// A local address has gone.
    pub(crate) fn forget_local(&mut self, local: SocketAddr) {
        self.all.retain(|path, _| path.local != local);
        self.learnt.remove(&local.ip());
    }
}

impl Way {
    /// Another carrier is chosen: the usual one, or one beside it.
    fn note_return(&mut self, now: Instant, is_usual: bool) {
        if is_usual {
            self.returned = Some(now).filter(|_| self.heard);
        } else if let Some(returned) = self.returned.take() {
            let was_wrong = now.since(returned) < RETURN;
            self.pause = if was_wrong { (self.pause * 2).min(MAX_RETURN) } else { RETURN };
        }
    }

    fn try_others(&mut self, now: Instant) {
        (self.tried, self.trial) = (now, true);
        self.first = None;
    }
}

/// Whether a packet is without a tag.
pub(crate) fn is_init(packet: &[u8]) -> bool {
    packet.get(4..8) == Some(&[0; 4])
}

const fn by_usual(path: &PathAddr) -> Carrier {
    Carrier::Udp(path.remote.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Lacks;
    use manypath_engine::Ecn;

    const UDP: Carrier = Carrier::Udp(443);
    const TCP: Carrier = Carrier::Tcp(443);
    const USUAL: Carrier = Carrier::Udp(9899);

    fn ways() -> Ways {
        Ways::new("udp:443,tcp:443".parse().unwrap(), vec![9899, 899])
    }

    fn path(remote: &str) -> PathAddr {
        PathAddr { local: "192.0.2.1:4000".parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn ms(at: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(at)
    }

    fn send(ways: &mut Ways, at: u64, path: PathAddr, in_doubt: bool) -> Vec<Carrier> {
        send_bytes(ways, at, path, in_doubt, &[0; 100])
    }

    fn send_bytes(
        ways: &mut Ways,
        at: u64,
        path: PathAddr,
        in_doubt: bool,
        bytes: &[u8],
    ) -> Vec<Carrier> {
        let ecn = Ecn::NotEct;
        let packets =
            Packets { remote: path.remote, segment_size: 100, bytes, may_fragment: false, ecn };
        ways.on_send(ms(at), path, &packets, || in_doubt)
    }

    fn copies(ways: &mut Ways, at: u64) -> Vec<Copy> {
        ways.take_copies(ms(at), |_| true)
    }

    fn refused(remote: &str) -> Unreachable {
        Unreachable { remote: remote.parse().unwrap(), quote: None, lacks: Lacks::Port }
    }

    #[test]
    fn the_usual_port_comes_first_and_the_others_when_it_is_silent() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        assert!(ways.covers(&peer) && !ways.covers(&path("198.51.100.1:5000")));
        assert_eq!(send(&mut ways, 0, peer, true), [USUAL]);
        assert_eq!((ways.due(), copies(&mut ways, 99).len()), (Some(ms(100)), 0));
        let copies = copies(&mut ways, 100);
        assert_eq!((copies.len(), ways.due()), (1, None));
        assert_eq!((&copies[0].by[..], copies[0].bytes.len()), (&[UDP, TCP][..], 100));
        assert!(ways.on_heard(ms(130), peer, TCP));
        assert_eq!(send(&mut ways, 140, peer, true), [TCP]);
        assert!(ways.on_heard(ms(150), peer, UDP), "a better one");
        assert!(!ways.on_heard(ms(160), peer, TCP), "a late answer");
        assert_eq!(ways.choice(&peer), Some(UDP));
        let next = path("198.51.100.2:9899");
        assert_eq!(send(&mut ways, 200, next, true), [UDP, USUAL], "what was learnt");
    }

    #[test]
    fn a_silent_choice_is_left_only_when_the_endpoint_doubts_the_path() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        send(&mut ways, 0, peer, true);
        ways.on_heard(ms(10), peer, USUAL);
        assert_eq!(send(&mut ways, 5_000, peer, false), [USUAL]);
        assert_eq!(send(&mut ways, 5_900, peer, true), [USUAL], "it was not in doubt lately");
        assert_eq!(send(&mut ways, 6_000, peer, true), [USUAL, UDP, TCP]);
        assert_eq!(send(&mut ways, 6_100, peer, true), [USUAL], "not with each packet");
        assert!(ways.on_heard(ms(6_200), peer, TCP));
        assert!(!ways.on_heard(ms(6_300), peer, USUAL), "the peer says something by itself");
        assert_eq!(send(&mut ways, 7_000, peer, true), [TCP]);
        assert_eq!(send(&mut ways, 66_100, peer, false), [TCP, USUAL], "does it work again?");
        assert!(ways.on_heard(ms(66_200), peer, USUAL));
    }

    #[test]
    fn the_usual_port_is_tried_less_often_after_it_was_no_good() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        send(&mut ways, 0, peer, true);
        ways.on_heard(ms(10), peer, TCP);
        send(&mut ways, 60_000, peer, false);
        assert!(!ways.on_heard(ms(62_000), peer, USUAL), "the trial is over");
        let mut at = 0;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            at += 60_000;
            assert_eq!(send(&mut ways, at + minutes * 60_000 - 1, peer, false), [TCP]);
            at += minutes * 60_000;
            assert_eq!(send(&mut ways, at, peer, false), [TCP, USUAL], "{minutes}");
            assert!(ways.on_heard(ms(at), peer, USUAL), "what comes is no proof that ours arrives");
            assert_eq!(send(&mut ways, at + 60_000 - 1, peer, true), [USUAL, UDP, TCP]);
            assert!(ways.on_heard(ms(at + 60_000 - 1), peer, TCP));
            at -= 1;
        }
    }

    #[test]
    fn only_carriers_of_a_path_are_chosen_and_what_was_learnt_goes_with_the_address() {
        let mut ways = Ways::new("udp:8443,tcp:443".parse().unwrap(), vec![9899, 899]);
        let peer = path("198.51.100.1:899");
        let others = [Carrier::Udp(8443), USUAL];
        assert!(
            ways.may_carry(&peer, TCP) && !others.iter().any(|one| ways.may_carry(&peer, *one))
        );
        send(&mut ways, 0, peer, true);
        assert!(ways.on_heard(ms(10), peer, TCP));
        ways.forget_local(peer.local);
        assert_eq!(send(&mut ways, 20, peer, true), [Carrier::Udp(899)]);
    }

    #[test]
    fn only_a_single_first_packet_is_repeated() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        send_bytes(&mut ways, 0, peer, true, &[9; 200]);
        assert_eq!((ways.due(), copies(&mut ways, 200).len()), (None, 0));
    }

    #[test]
    fn what_the_peer_says_by_itself_is_no_answer() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        assert_eq!(send_bytes(&mut ways, 0, peer, true, &[9; 100]), [USUAL]);
        assert!(!ways.on_heard(ms(20), peer, USUAL), "its HEARTBEAT");
        assert_eq!(copies(&mut ways, 100).len(), 1);
        assert!(ways.on_heard(ms(130), peer, TCP));
        let other = path("198.51.100.2:9899");
        ways.learnt.clear();
        send_bytes(&mut ways, 200, other, true, &[9; 100]);
        ways.on_heard(ms(220), other, USUAL);
        assert_eq!(ways.take_copies(ms(300), |_| false).len(), 0, "the path works");
    }

    #[test]
    fn a_refusal_hurries_on_and_counts_when_all_have_refused() {
        let (mut ways, peer) = (ways(), path("198.51.100.1:9899"));
        let (local, ip) = (peer.local, peer.remote.ip());
        send(&mut ways, 0, peer, true);
        let report = refused("198.51.100.1:9899");
        assert_eq!(ways.on_refused(ms(1), (local, ip), USUAL, Some(report)), []);
        assert_eq!(copies(&mut ways, 1).len(), 1, "at once");
        assert_eq!(ways.on_refused(ms(2), (local, ip), UDP, Some(refused("198.51.100.1:443"))), []);
        assert_eq!(ways.on_refused(ms(3), (local, ip), TCP, None), [report]);
    }

    #[test]
    fn what_stands_for_privileged_ports_is_privileged() {
        let mut ways = Ways::new("udp:8443,tcp:443".parse().unwrap(), vec![9899, 899]);
        let peer = path("198.51.100.1:899");
        send(&mut ways, 0, peer, true);
        assert_eq!(send(&mut ways, 300, peer, true), [Carrier::Udp(899), TCP]);
    }

    #[test]
    fn paths_are_bounded() {
        let mut ways = ways();
        for host in 0..=MAX_WAYS {
            let remote = format!("10.0.{}.{}:9899", host / 256, host % 256);
            send(&mut ways, host as u64, path(&remote), true);
        }
        assert_eq!(ways.all.len(), MAX_WAYS);
        assert!(!ways.all.contains_key(&path("10.0.0.0:9899")));
    }
}
