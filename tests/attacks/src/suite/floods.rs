//! Floods, and what is left of a client's download and of its connects meanwhile.

use super::{Say, number, row};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{
    ATTACKER, Attack, CLIENT, INNER, OUTER, Outcome, SINK, STACK, Site, processor_time,
};
use std::path::Path;
use std::time::Duration;

const RATES: [u32; 2] = [20_000, 50_000];
/// Kind, what it is, the server's address to which it goes, and the source that it has or is about. Forged ICMP has to
/// come by the path that it is about, because sockets are bound to interfaces.
const FLOODS: &[(&str, &str, &str, &str)] = &[
    ("garbage", "garbage", OUTER, ATTACKER),
    ("ootb", "SHUTDOWN ACK out of the blue", OUTER, ATTACKER),
    ("cookie", "forged COOKIE ECHO", OUTER, ATTACKER),
    ("init", "INIT", OUTER, ATTACKER),
    ("icmp", "forged ICMP about the client", INNER, CLIENT),
    ("abort", "ABORT with guessed tags, its source forged as the client's", OUTER, CLIENT),
];
/// Length of a flood in seconds, and how long before it a download begins.
const DOWNLOAD: f64 = 2.0;
const HEAD_START: Duration = Duration::from_millis(400);
/// Length of a flood during which processor time is counted, in seconds.
const COST: f64 = 1.0;
/// With and without a flood, over manypath and plain TCP, in turn: the machine may have other work.
const TURNS: u32 = 2;
const CONNECTS: u32 = 3;
/// What manypath keeps of its goodput, of what plain TCP keeps of its own beside a plain receiver of the same flood,
/// and of what it keeps itself beside that: the machine's processors carry all of it, whoever reads.
const SHARE: f64 = 0.8;
/// What the stack may take of a processor for each packet, in microseconds, answers included.
const MICROSECONDS: f64 = 8.0;
/// An attacker that sends less than this part of its rate shows nothing.
const REACHED: f64 = 0.7;

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    // Plain TCP where the client's stack is late would say nothing about the server.
    let mut site = Site::start(manypath, "tcp_race = off\n", "")?;
    if let Err(error) = site.join_path_by_icmp() {
        say(Row::failed("forged ICMP by the client's path", error));
    }
    for (kind, name, address, source) in FLOODS {
        for rate in &RATES {
            let attack = format!("flood of {name}, {rate} packets/s");
            let flood = Flood { site: &site, kind, source, address, rate: *rate };
            match flood.left() {
                Ok(left) => left.rows(&attack, say),
                Err(error) => say(Row::failed(&attack, error)),
            }
        }
    }
    let dropped = site.counter("sctp_unproven_reports").map(|count| count as f64);
    let what = "reports that prove nothing, ignored";
    row(say, "forged ICMP", dropped.map(|n| Row::new("forged ICMP", what, n, AtLeast(1000.0))));
    let lost = packets_lost(&site).map(|lost| {
        let what = "packets to the client that no network has lost";
        Row::new("forged ICMP", what, lost, AtMost(0.0))
    });
    row(say, "forged ICMP", lost);
    let lives = if site.server_lives() { 1.0 } else { 0.0 };
    say(Row::new("all floods", "server that lives", lives, AtLeast(1.0)));
    Ok(())
}

/// Packets that the server dropped because sending failed: reports about other packets must not do that.
fn packets_lost(site: &Site) -> Outcome<f64> {
    let names = ["udp_dropped_no_route", "udp_dropped_too_big", "udp_dropped_send_error"];
    let counts: Vec<_> = names.iter().map(|name| site.counter(name)).collect::<Outcome<_>>()?;
    Ok(counts.iter().sum::<u64>() as f64)
}

/// What is left under a flood.
struct Left {
    /// Parts of their goodputs that are left: of manypath's where its stack reads the flood and where a plain receiver
    /// does, and of plain TCP's where the receiver does.
    manypath: f64,
    beside: f64,
    tcp: f64,
    /// Processor time of the stack and of the receiver for each packet, in microseconds.
    stack: f64,
    receiver: f64,
    /// Connects of the client, of [`CONNECTS`].
    failed: u32,
    carried: u32,
    /// The lowest part of the rate that the attacker reached.
    reached: f64,
}

impl Left {
    fn rows(&self, attack: &str, say: Say<'_>) {
        let mut row = |what: &str, figure, bound| say(Row::new(attack, what, figure, bound));
        let Self { manypath, beside, tcp, stack, receiver, .. } = self;
        let what = format!(
            "goodput kept ({manypath:.2}), as a part of what plain TCP keeps beside a plain receiver ({tcp:.2})"
        );
        row(&what, manypath / tcp, AtLeast(SHARE));
        let what =
            format!("the same, of what manypath keeps beside a plain receiver ({beside:.2})");
        row(&what, manypath / beside, AtLeast(SHARE));
        let what = format!(
            "processor time of the stack for a packet, µs (of a plain receiver {receiver:.1})"
        );
        row(&what, *stack, AtMost(MICROSECONDS));
        let what = "part of the rate that the attacker reached on this machine";
        row(what, self.reached, AtLeast(REACHED));
        row("connects of others that fail, of 3", self.failed.into(), AtMost(0.0));
        let what = "connects of others carried over SCTP, of 3";
        row(what, self.carried.into(), AtLeast(CONNECTS.into()));
    }
}

struct Flood<'a> {
    site: &'a Site,
    kind: &'a str,
    source: &'a str,
    address: &'a str,
    rate: u32,
}

impl Flood<'_> {
    fn left(&self) -> Outcome<Left> {
        let sink = self.site.sink()?;
        let (mut quiet, mut under, mut beside, mut reached) = ([0.0; 2], 0.0, [0.0; 2], 1.0_f64);
        let mut flooded = |port, over_manypath| -> Outcome<f64> {
            let (goodput, part) = self.download(port, over_manypath)?;
            reached = reached.min(part);
            Ok(goodput)
        };
        for _ in 0..TURNS {
            quiet[0] += download(self.site, true)?;
            under += flooded(STACK, true)?;
            beside[0] += flooded(SINK, true)?;
            quiet[1] += download(self.site, false)?;
            beside[1] += flooded(SINK, false)?;
        }
        let receiver = self.cost(SINK, sink.pid())?;
        drop(sink);
        let stack = self.cost(STACK, self.site.stack()?)?;
        let (failed, carried) = self.connects()?;
        let [beside, tcp] = [beside[0] / quiet[0], beside[1] / quiet[1]];
        let manypath = under / quiet[0];
        Ok(Left { manypath, beside, tcp, stack, receiver, failed, carried, reached })
    }

    /// A flood of this length that goes to a UDP port of the server.
    fn begin(&self, port: u16, seconds: f64) -> Outcome<Attack> {
        let Self { kind, rate, source, .. } = self;
        let words = format!("{kind} {rate} {seconds} {source}");
        self.site.attack_at(self.address, port, "flood", &words)
    }

    /// The goodput of a download under the flood, and the part of its rate that the attacker reached.
    fn download(&self, port: u16, over_manypath: bool) -> Outcome<(f64, f64)> {
        std::thread::scope(|scope| {
            let downloading = scope.spawn(|| download(self.site, over_manypath));
            std::thread::sleep(HEAD_START);
            let report = self.begin(port, DOWNLOAD)?.report()?;
            let reached = number(&report, "rate")? / f64::from(self.rate);
            let goodput = downloading.join().map_err(|_| "the download panicked".to_owned())??;
            Ok((goodput, reached))
        })
    }

    /// Processor time that a process takes for each packet, in microseconds, while nothing else is to be done.
    fn cost(&self, port: u16, pid: u32) -> Outcome<f64> {
        let before = processor_time(pid)?;
        let report = self.begin(port, COST)?.report()?;
        Ok((processor_time(pid)? - before) * 1e6 / number(&report, "sent")?)
    }

    /// Connects during the flood: how many fail, and how many are carried.
    fn connects(&self) -> Outcome<(u32, u32)> {
        let _flood = self.begin(STACK, 30.0)?;
        std::thread::sleep(HEAD_START);
        let (mut failed, mut carried) = (0, 0);
        for _ in 0..CONNECTS {
            self.site.forget_peers();
            let fetched = self.site.fetch("small", 10.0, true)?;
            failed += u32::from(!fetched.whole);
            carried += u32::from(fetched.carried);
        }
        Ok((failed, carried))
    }
}

/// The goodput of a download that begins before the flood.
fn download(site: &Site, over_manypath: bool) -> Outcome<f64> {
    site.forget_peers();
    let fetched = site.fetch("large", DOWNLOAD + HEAD_START.as_secs_f64(), over_manypath)?;
    if over_manypath && !fetched.carried {
        return Err("the download was not carried".into());
    }
    Ok(fetched.goodput)
}
