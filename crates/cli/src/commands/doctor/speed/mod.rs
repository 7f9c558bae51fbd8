//! `manypath doctor --speed`: how fast each uplink is to a peer, and all of them together, and what limits them.

mod client;
mod limit;
mod render;

use super::args::DoctorArgs;
use super::findings::LinkState;
use super::probes::{name, scopes, uplinks};
use crate::commands::rules::print_json;
use crate::failure::Failure;
use client::{Look, Session};
use limit::{Facts, Limit};
use manypath_control::status::PathStatus;
use manypath_daemon::speed::{self, PathView, Report};
use manypath_rules::Network;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a test that runs.
const PAUSE: Duration = Duration::from_millis(100);
/// After these parts of the time both ends are asked how they stand.
const LOOKS: [f64; 3] = [0.5, 0.7, 0.9];

/// All that was measured.
#[derive(Debug, Serialize)]
struct SpeedReport {
    host: String,
    address: IpAddr,
    /// Seconds in each direction.
    seconds: u64,
    encrypted: bool,
    uplinks: Vec<Row>,
    /// All uplinks at once, if there are several that work.
    together: Option<Row>,
}

/// An uplink, or all.
#[derive(Debug, Default, Serialize)]
struct Row {
    name: String,
    /// The shortest that was seen on its paths.
    round_trip_ms: Option<f64>,
    download: Option<Way>,
    upload: Option<Way>,
    /// Why it could not be measured.
    error: Option<String>,
}

/// One direction.
#[derive(Debug, Serialize)]
struct Way {
    bits_per_s: u64,
    bytes: u64,
    /// Of the packets that were sent.
    lost_percent: Option<f64>,
    /// The part of the time for which the stack of this host has worked, and that of the peer; none of a peer with several
    /// loops.
    busy_percent: f64,
    peer_busy_percent: Option<f64>,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Direction {
    Download,
    Upload,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
        }
    }
}

/// Measures and shows. The exit status is 1 if an uplink could not be measured.
pub(super) fn speed(args: &DoctorArgs) -> Result<u8, Failure> {
    let Some(host) = &args.host else { return Err(Failure::usage("--speed needs a HOST")) };
    let named = name::resolve(host)?;
    if named.port.is_some() {
        let why = "--speed asks manypath itself, which has no port of TCP: give HOST alone";
        return Err(Failure::usage(why));
    }
    let Some(address) = named.addresses.first().copied() else {
        return Err(Failure::new(format!("{host} has no address")));
    };
    let mut report = SpeedReport {
        host: named.host,
        address,
        seconds: args.seconds,
        encrypted: false,
        uplinks: Vec::new(),
        together: None,
    };
    let meter = Measuring { args, tell: std::io::stderr().is_terminal() && !args.json };
    for (name, to) in ways(&named.addresses)? {
        let row = meter.row(&name, to, Some(&name), &mut report.encrypted);
        report.uplinks.push(row);
    }
    if report.uplinks.len() > 1 {
        report.together = Some(meter.row("together", address, None, &mut report.encrypted));
    }
    if let Some(file) = &args.svg {
        std::fs::write(file, render::svg(&report))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        crate::commands::print(render::text(&report).as_bytes())?;
    }
    Ok(u8::from(rows(&report).any(|row| row.error.is_some())))
}

fn rows(report: &SpeedReport) -> impl Iterator<Item = &Row> {
    report.uplinks.iter().chain(&report.together)
}

/// The interfaces over which a stack would reach the peer, in order, and at which of its addresses.
fn ways(peer: &[IpAddr]) -> Result<Vec<(String, IpAddr)>, Failure> {
    let mut found: Vec<(String, IpAddr)> = Vec::new();
    let mut all = uplinks::uplinks()?;
    // Those of tunnels and bridges of containers are used for what is routed into them alone.
    scopes::look(peer, &mut all)?;
    for uplink in all.into_iter().filter(|uplink| uplink.link == LinkState::Up) {
        let one = uplink.interface;
        let network = Network::around(one.addr, one.prefix_len);
        let leads = |to: &IpAddr| {
            one.addr.is_ipv4() == to.is_ipv4()
                && manypath_net::route_to(*to, Some(one.addr), Some(one.index)).is_ok()
        };
        let nearest = peer.iter().filter(|to| leads(to)).min_by_key(|to| !network.contains(**to));
        if let Some(to) = nearest.filter(|_| found.iter().all(|(name, _)| *name != one.name)) {
            found.push((one.name, *to));
        }
    }
    match (found.is_empty(), peer) {
        (true, [first, ..]) => Err(Failure::new(format!("no interface leads to {first}"))
            .hint(format!("`manypath doctor {first}` says why"))),
        _ => Ok(found),
    }
}

struct Measuring<'a> {
    args: &'a DoctorArgs,
    tell: bool,
}

impl Measuring<'_> {
    fn row(&self, name: &str, to: IpAddr, uplink: Option<&str>, encrypted: &mut bool) -> Row {
        let peer = SocketAddr::new(to, speed::PORT);
        let mut row = Row { name: name.to_owned(), ..Row::default() };
        match Session::new(peer, self.args.peer_port, uplink) {
            Ok(mut session) => {
                row.error = self.measure(&mut session, &mut row, encrypted).err();
                session.end();
            }
            Err(why) => row.error = Some(why),
        }
        self.clear();
        row
    }

    fn measure(
        &self,
        session: &mut Session,
        row: &mut Row,
        encrypted: &mut bool,
    ) -> Result<(), String> {
        for direction in [Direction::Download, Direction::Upload] {
            let (way, looks) = self.way(session, &row.name, direction)?;
            let paths = looks.iter().flat_map(|look| &look.paths);
            let seen =
                paths.filter_map(|path| path.round_trip.srtt_us).map(|us| us as f64 / 1000.0);
            row.round_trip_ms = seen.chain(row.round_trip_ms).reduce(f64::min);
            *encrypted = looks.last().map_or(*encrypted, |look| look.encrypted);
            match direction {
                Direction::Download => row.download = Some(way),
                Direction::Upload => row.upload = Some(way),
            }
        }
        Ok(())
    }

    fn way(
        &self,
        session: &mut Session,
        name: &str,
        direction: Direction,
    ) -> Result<(Way, Vec<Look>), String> {
        let time = Duration::from_secs(self.args.seconds);
        let request = match direction {
            Direction::Download => speed::Request::Download(time),
            Direction::Upload => speed::Request::Upload(time),
        };
        let stream = session.connect()?;
        let running = client::begin(stream, request);
        let (begun, mut looks) = (Instant::now(), LOOKS.iter());
        let (mut next, mut said) = (looks.next(), Said::default());
        while !running.thread.is_finished() {
            thread::sleep(PAUSE);
            session.turn();
            let part = begun.elapsed().as_secs_f64() / time.as_secs_f64();
            self.show(name, direction, running.bytes.load(Ordering::Relaxed), begun.elapsed());
            said.first(session);
            if next.is_some_and(|at| part >= *at) {
                next = looks.next();
                said.ask(session, direction);
            }
        }
        let done = running.thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let (measured, report) =
            done.map_err(|error| format!("{}: {}", direction.name(), client::why(&error)))?;
        let facts = said.facts(direction, &report);
        let percent = |part: f64| (part * 1000.0).round() / 10.0;
        let way = Way {
            bits_per_s: measured.bits_per_s,
            bytes: measured.bytes,
            lost_percent: facts.lost.map(percent),
            busy_percent: percent(facts.busy),
            peer_busy_percent: facts.peer_busy.map(percent),
            limit: facts.limit(),
        };
        Ok((way, said.looks.into_iter().map(|(_, look)| look).collect()))
    }

    fn show(&self, name: &str, direction: Direction, bytes: u64, since: Duration) {
        if self.tell {
            let rate = bytes as f64 * 8.0 / since.as_secs_f64().max(0.001);
            let (rate, way) = (render::rate(rate as u64), direction.name());
            eprint!("\r\x1b[K{name}: {way} {rate}, {:.0} s", since.as_secs_f64());
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.tell {
            eprint!("\r\x1b[K");
        }
    }
}

/// What both ends have said during a test.
#[derive(Default)]
struct Said {
    looks: Vec<(Instant, Look)>,
    peers: Vec<Report>,
}

impl Said {
    /// How things stand at the begin, as soon as that can be told.
    fn first(&mut self, session: &Session) {
        if self.looks.is_empty() {
            self.looks.extend(session.look().map(|look| (Instant::now(), look)));
        }
    }

    fn ask(&mut self, session: &mut Session, direction: Direction) {
        if matches!(direction, Direction::Download) {
            self.peers.extend(session.ask_peer());
        }
        self.looks.extend(session.look().map(|look| (Instant::now(), look)));
    }

    fn facts(&self, direction: Direction, report: &Report) -> Facts {
        let busy = match (self.looks.first(), self.looks.last()) {
            (Some((from, first)), Some((to, last))) if to > from => {
                (last.busy - first.busy) / (*to - *from).as_secs_f64()
            }
            _ => 0.0,
        };
        let peer_busy = report.busy_us.map(|us| us as f64 / report.time_us.max(1) as f64);
        let (lost, idle) = match direction {
            Direction::Download => {
                let last = self.peers.last().map(|peer| &peer.paths[..]);
                let lost =
                    last.and_then(|last| lost(sum_of_views(&report.paths), sum_of_views(last)));
                let views = self.peers.iter().flat_map(|peer| &peer.paths);
                (lost, views.filter_map(|view| view.idle).collect())
            }
            Direction::Upload => {
                let (first, last) = (self.looks.first(), self.looks.last());
                let sum = |look: &(Instant, Look)| sum_of_paths(&look.1.paths);
                let lost = first.zip(last).and_then(|(first, last)| lost(sum(first), sum(last)));
                // At the begin windows have only begun to grow.
                let paths = self.looks.iter().skip(1).flat_map(|(_, look)| &look.paths);
                (lost, paths.filter_map(|path| path.idle_reason).collect())
            }
        };
        Facts { busy, peer_busy, lost, idle }
    }
}

/// Packets that were sent, and how many chunks were sent again.
type Sent = (u64, u64);

/// The numbers may be a peer's, who may say anything.
const fn plus((sent, again): Sent, more: Sent) -> Sent {
    (sent.saturating_add(more.0), again.saturating_add(more.1))
}

fn sum_of_views(paths: &[PathView]) -> Sent {
    paths.iter().fold((0, 0), |sum, path| plus(sum, (path.packets_sent, path.retransmits)))
}

fn sum_of_paths(paths: &[PathStatus]) -> Sent {
    paths.iter().fold((0, 0), |sum, path| {
        plus(sum, (path.packets_sent, path.fast_retransmits + path.timeouts))
    })
}

fn lost(before: Sent, after: Sent) -> Option<f64> {
    let (sent, again) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    (sent > 0).then(|| again as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_exaggerates_ends_nothing() {
        let (remote, most) = (IpAddr::from([192, 0, 2, 1]), u64::MAX);
        let view = || PathView { remote, packets_sent: most, retransmits: most, idle: None };
        assert_eq!(sum_of_views(&[view(), view()]), (most, most));
        assert_eq!(lost((0, 0), (most, most)), Some(1.0));
    }
}
