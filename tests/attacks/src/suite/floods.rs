//! Floods, and what is left of a client's download and of its connects meanwhile.

use super::{Say, number, row};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{ATTACKER, CLIENT, From, Outcome, Site};
use std::path::Path;
use std::time::Duration;

const RATES: [u32; 2] = [20_000, 50_000];
/// Kind, what it is, where it is made, and the source that it has or is about. Forged ICMP has to come by the path
/// that it is about, because sockets are bound to interfaces; so it shares the emulated link with the client's
/// acknowledgements.
const FLOODS: &[(&str, &str, From, &str)] = &[
    ("garbage", "garbage", From::Outside, ATTACKER),
    ("ootb", "SHUTDOWN ACK out of the blue", From::Outside, ATTACKER),
    ("cookie", "forged COOKIE ECHO", From::Outside, ATTACKER),
    ("init", "INIT", From::Outside, ATTACKER),
    ("icmp", "forged ICMP about the client", From::Client, CLIENT),
    ("abort", "ABORT with guessed tags, its source forged as the client's", From::Outside, CLIENT),
];
/// Length of a flood in seconds, and how long before it a download begins.
const DOWNLOAD: f64 = 2.0;
const HEAD_START: Duration = Duration::from_millis(400);
/// With and without a flood, over manypath and plain TCP, in turn: the machine may have other work.
const TURNS: u32 = 2;
const CONNECTS: u32 = 3;
/// What manypath keeps of its goodput, of what plain TCP keeps of its own under the same flood.
const SHARE: f64 = 0.8;
/// An attacker that sends less than this part of its rate shows nothing.
const REACHED: f64 = 0.7;

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let mut site = Site::start(manypath, "", "")?;
    for (kind, name, from, source) in FLOODS {
        for rate in RATES {
            let attack = format!("flood of {name}, {rate} packets/s");
            match flooded(&site, (kind, source), *from, rate) {
                Ok(left) => {
                    let what = "goodput kept, as a part of what plain TCP keeps";
                    say(Row::new(&attack, what, left.kept, AtLeast(SHARE)));
                    let what = "connects of others that fail, of 3";
                    say(Row::new(&attack, what, left.failed.into(), AtMost(0.0)));
                    let what = "connects of others carried over SCTP, of 3";
                    say(Row::new(&attack, what, left.carried.into(), AtLeast(CONNECTS.into())));
                }
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
    /// Part of its goodput that manypath keeps, of the part that plain TCP keeps.
    kept: f64,
    /// Connects of the client, of [`CONNECTS`].
    failed: u32,
    carried: u32,
}

fn flooded(site: &Site, (kind, source): (&str, &str), from: From, rate: u32) -> Outcome<Left> {
    let flood =
        |seconds: f64| site.attack(from, "flood", &format!("{kind} {rate} {seconds} {source}"));
    let (mut quiet, mut under) = ([0.0; 2], [0.0; 2]);
    for _ in 0..TURNS {
        for (of, over_manypath) in [(0, true), (1, false)] {
            quiet[of] += download(site, over_manypath)?;
            under[of] += std::thread::scope(|scope| {
                let downloading = scope.spawn(|| download(site, over_manypath));
                std::thread::sleep(HEAD_START);
                let report = flood(DOWNLOAD)?.report()?;
                let reached = number(&report, "rate")? / f64::from(rate);
                if reached < REACHED {
                    return Err(format!("only {:.0} % of the rate was sent", reached * 100.0));
                }
                downloading.join().map_err(|_| "the download panicked".to_owned())?
            })?;
        }
    }
    let mut left =
        Left { kept: under[0] / quiet[0] / (under[1] / quiet[1]), failed: 0, carried: 0 };
    let _flood = flood(30.0)?;
    std::thread::sleep(HEAD_START);
    for _ in 0..CONNECTS {
        site.forget_peers();
        let fetched = site.fetch("small", 10.0, true)?;
        left.failed += u32::from(!fetched.whole);
        left.carried += u32::from(fetched.carried);
    }
    Ok(left)
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
