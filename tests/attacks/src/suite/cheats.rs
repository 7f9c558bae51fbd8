//! Peers with an association and no good intentions.

use super::{Say, demand, number, row};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{ATTACKER, Outcome, Site, WEB};
use std::path::Path;

const STORMS: &[(&str, &str)] = &[
    ("resets", "storm of 20,000 stream resets"),
    ("adds", "storm of 20,000 requests for streams"),
    ("heartbeats", "storm of 20,000 HEARTBEATs"),
];
/// Round trips of a receiver that lies: enough to open a window, too few to fill the network.
const ROUNDS: u32 = 8;
/// Honest and lying receivers in turn: what comes within so few round trips differs by more than a lie gains where the
/// machine has other work.
const TURNS: u32 = 30;
/// What lies may gain.
const GAIN: f64 = 1.2;

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let mut site = Site::start(manypath, "", "")?;
    let attack = "optimistic acknowledgements";
    row(say, attack, optimistic(&site, attack));
    for (manner, honest, attack) in
        [("divide", "honest", "acknowledgements divided by 8"), ("renege", "once", "SACKs reneged")]
    {
        row(say, attack, lying(&site, manner, honest, attack));
    }
    for (kind, attack) in STORMS {
        storm(&site, say, kind, attack);
    }
    let lives = if site.server_lives() { 1.0 } else { 0.0 };
    say(Row::new("all of this group", "server that lives", lives, AtLeast(1.0)));
    Ok(())
}

fn optimistic(site: &Site, attack: &str) -> Outcome<Row> {
    let report = site.attacked("optimistic", &format!("{WEB} {ATTACKER}"))?;
    demand(number(&report, "data")? > 0.0, "nothing was sent", &report)?;
    let ended = if report["ended"] == true { 1.0 } else { 0.0 };
    Ok(Row::new(attack, "association aborted", ended, AtLeast(1.0)))
}

/// What a receiver gains by lying.
fn lying(site: &Site, manner: &str, honest: &str, attack: &str) -> Outcome<Row> {
    let (mut honestly, mut lying) = (0.0, 0.0);
    for _ in 0..TURNS {
        let report = paced(site, honest)?;
        demand(number(&report, "data")? > 10_000.0, "the honest download did not begin", &report)?;
        honestly += number(&report, "data")?;
        lying += number(&paced(site, manner)?, "data")?;
    }
    let gain = lying / honestly;
    Ok(Row::new(attack, "bytes as a part of an honest receiver's", gain, AtMost(GAIN)))
}

fn paced(site: &Site, manner: &str) -> Outcome<serde_json::Value> {
    site.attacked("paced", &format!("{WEB} {ATTACKER} {manner} {ROUNDS}"))
}

fn storm(site: &Site, say: Say<'_>, kind: &str, attack: &str) {
    let measured = || -> Outcome<f64> {
        let report = site.attacked("storm", &format!("{WEB} {ATTACKER} {kind} 20000"))?;
        let is_over = report["served"] == true || report["ended"] == true;
        demand(is_over, "the association neither served nor ended", &report)?;
        Ok(number(&report, "received")? / number(&report, "sent")?)
    };
    let figure =
        measured().map(|ratio| Row::new(attack, "bytes back per byte", ratio, AtMost(1.0)));
    row(say, attack, figure);
    let others = super::failed_connects(site, 3);
    let what = "connects of others that fail, of 3";
    row(say, attack, others.map(|failed| Row::new(attack, what, failed, AtMost(0.0))));
}
