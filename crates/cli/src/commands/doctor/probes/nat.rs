//! How long a NAT keeps a mapping that is not used.
//!
//! An association is made over each path behind a NAT and shut down at once, but the last word (SHUTDOWN COMPLETE) is
//! kept back. So the peer repeats its SHUTDOWN ACK after pauses that double, up to a minute (RFC 9260 section 9.2),
//! while nothing leaves here: the longest pause after which one still comes in is what the mapping
//! outlives.

use super::super::findings::{PathFinding, Rebinding};
use super::exchange::{Ask, Asker, Form, Outcome};
use super::init::{Answer, header};
use super::uplinks::{Uplink, uplinks};
use manypath_wire::chunk::{Chunk, CookieEcho, Shutdown, ShutdownComplete};
use manypath_wire::{Packet, PacketWriter, Tsn};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long an association may take to be made and shut down.
const SETUP: Duration = Duration::from_secs(3);
/// The longest pause that the peer makes.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest first pause, which follows from a timeout that is not known here.
const FIRST: Duration = Duration::from_millis(3500);
/// How much later than that a packet may come.
const SLACK: Duration = Duration::from_secs(1);
/// The end of it all.
const LIMIT: Duration = Duration::from_secs(130);
/// Between two looks at the clock.
const TURN: Duration = Duration::from_millis(100);
/// Room for a packet with a cookie.
const PACKET: usize = 4096;

/// Measures on all paths with a NAT at the same time.
pub(super) fn measure(paths: &mut [PathFinding]) {
    // What follows is said without keys.
    let Ok(mut asker) = Asker::new(false) else { return };
    let uplinks = uplinks().unwrap_or_default();
    let mut trials = Vec::new();
    for path in paths.iter_mut().filter(|path| path.udp.is_answered()) {
        match path.nat {
            Some(true) => match Trial::begin(&mut asker, path, &uplinks) {
                Ok(trial) => trials.push((trial, path)),
                Err(why) => path.rebinding = Some(Rebinding::Unknown { why }),
            },
            Some(false) => {}
            None => {
                let why = "the peer does not tell which address it sees".to_owned();
                path.rebinding = Some(Rebinding::Unknown { why });
            }
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < LIMIT && trials.iter().any(|(trial, _)| !trial.is_over()) {
        if asker.wait(TURN).is_err() {
            break;
        }
        trials.iter_mut().for_each(|(trial, _)| trial.hear(&mut asker));
    }
    for (trial, path) in trials {
        path.rebinding = Some(trial.end(&mut asker));
    }
}

/// One association that is never quite over.
struct Trial {
    uplink: Uplink,
    socket: usize,
    remote: SocketAddr,
    peer: Answer,
    /// The last TSN that has come.
    cum_tsn: u32,
    /// When something came last, and the longest pause before something came.
    heard: Instant,
    pause: Duration,
    is_shut_down: bool,
}

impl Trial {
    fn begin(asker: &mut Asker, path: &PathFinding, uplinks: &[Uplink]) -> Result<Self, String> {
        let uplink = uplinks.iter().find(|uplink| uplink.interface.addr == path.local);
        let uplink = uplink.ok_or("the address has gone")?;
        let socket = asker.open(uplink).map_err(|error| error.to_string())?;
        let mut asks = [Ask::new(socket, path.remote, Form::Plain)];
        asker.ask(&mut asks).map_err(|error| error.to_string())?;
        let [ask] = asks;
        let Outcome::Answered(_, peer) = ask.outcome else {
            return Err("the peer no longer answers".to_owned());
        };
        let cum_tsn = peer.initial_tsn.wrapping_sub(1);
        let (heard, pause) = (Instant::now(), Duration::ZERO);
        let (peer, remote) = (*peer, path.remote);
        let uplink = uplink.clone();
        let mut trial =
            Self { uplink, socket, remote, peer, cum_tsn, heard, pause, is_shut_down: false };
        trial.set_up(asker);
        if trial.is_shut_down {
            trial.pause = Duration::ZERO;
            return Ok(trial);
        }
        Err("no association with the peer could be set up".to_owned())
    }

    /// Makes the association and shuts it down, up to the peer's SHUTDOWN ACK.
    fn set_up(&mut self, asker: &mut Asker) {
        let (begun, mut next) = (Instant::now(), Instant::now());
        while begun.elapsed() < SETUP && !self.is_shut_down {
            if next <= Instant::now() {
                // The second is lost on a peer that has not taken the first; both are repeated.
                self.send(asker, &Chunk::CookieEcho(CookieEcho { cookie: &self.peer.cookie }));
                self.send(asker, &Chunk::Shutdown(Shutdown { cum_tsn: Tsn(self.cum_tsn) }));
                next = Instant::now() + Duration::from_millis(300);
            }
            if asker.wait(TURN).is_err() {
                return;
            }
            self.hear(asker);
        }
    }

    fn send(&self, asker: &mut Asker, chunk: &Chunk<'_>) {
        let port = asker.probes.local(self.socket).port();
        let mut packet = [0; PACKET];
        let mut writer = PacketWriter::new(&mut packet, header(port, self.peer.tag));
        // What does not fit or leave is missed as if it was lost.
        let _ = writer.push(chunk);
        let length = writer.finish();
        let bytes = (&packet[..length], length);
        let _ = asker.probes.send(self.socket, self.remote, bytes, manypath_engine::Ecn::NotEct);
    }

    /// Takes what has come.
    fn hear(&mut self, asker: &mut Asker) {
        let (mut came, mut tsn) = (false, self.cum_tsn);
        asker.probes.receive(self.socket, |_, bytes| {
            let Ok(packet) = Packet::parse(bytes) else { return };
            came = true;
            for chunk in packet.chunks().flatten() {
                self.is_shut_down |= matches!(chunk, Chunk::ShutdownAck);
                if let Chunk::Data(data) = chunk {
                    tsn = data.tsn.0;
                } else if let Chunk::IData(data) = chunk {
                    tsn = data.tsn.0;
                }
            }
        });
        if came {
            self.pause = self.pause.max(self.heard.elapsed());
            self.heard = Instant::now();
        }
        // The peer does not end before its data is acknowledged.
        if tsn != self.cum_tsn && !self.is_shut_down {
            self.cum_tsn = tsn;
            self.send(asker, &Chunk::Shutdown(Shutdown { cum_tsn: Tsn(tsn) }));
        }
    }

    /// Whether nothing more is to be learnt.
    fn is_over(&self) -> bool {
        let next = (self.pause * 2).min(LONGEST);
        let next = if next.is_zero() { FIRST } else { next };
        let silent = self.heard.elapsed() > next + next / 4 + SLACK;
        silent || self.pause >= LONGEST
    }

    /// What was learnt. The peer can forget the association.
    fn end(&self, asker: &mut Asker) -> Rebinding {
        let silence = self.heard.elapsed();
        let next = (self.pause * 2).min(LONGEST);
        let complete = ShutdownComplete { tag_reflected: false };
        self.send(asker, &Chunk::ShutdownComplete(complete));
        if !self.pause.is_zero() && silence <= next {
            return Rebinding::Longer { than_s: seconds(self.pause) };
        }
        if !self.is_peer_alive(asker) {
            return Rebinding::Unknown { why: "the peer was lost meanwhile".to_owned() };
        }
        let lost = if self.pause.is_zero() { silence } else { next };
        Rebinding::Between { kept_s: seconds(self.pause), lost_s: seconds(lost) }
    }

    /// Asked from another port: from this one an INIT would be about the association, and would get no INIT ACK
    /// (RFC 9260 section 9.2).
    fn is_peer_alive(&self, asker: &mut Asker) -> bool {
        let Ok(socket) = asker.open(&self.uplink) else { return false };
        let mut asks = [Ask::new(socket, self.remote, Form::Plain)];
        asker.ask(&mut asks).is_ok() && asks[0].is_answered()
    }
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}
