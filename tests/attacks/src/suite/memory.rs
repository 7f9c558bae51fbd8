//! What attackers can make the server keep (docs/defences.md, "Memory").

use super::{Say, demand, failed_connects, number, row};
use crate::report::Bound::AtMost;
use crate::report::Row;
use crate::site::{ATTACKER, Outcome, Site, WEB};
use std::path::Path;

/// `max_associations_per_address`.
const OF_ONE_ADDRESS: f64 = 1024.0;
/// Receive buffer of an association in MiB; it may hold as much again in accounts, and as much to fill gaps.
const RECEIVE_BUFFER: f64 = 8.0;

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let site = Site::start(manypath, "", "")?;
    for (kind, name) in [("init", "half-open: INITs"), ("cookie", "forged COOKIE ECHOs")] {
        let attack = format!("{name}, 100,000");
        row(say, &attack, left_behind(&site, kind, &attack));
    }
    drop(site);
    let buffers = 3.0 * RECEIVE_BUFFER;
    for (attack, name, words, bound) in [
        ("hoarding: 64 MB behind a hole", "hoard", format!("1 64000000 {ATTACKER}"), buffers),
        (
            "hoarding: 20 associations, 16 MB each",
            "hoard",
            format!("20 16000000 {ATTACKER}"),
            20.0 * buffers,
        ),
        (
            "40 downloads, nothing acknowledged",
            "never-ack",
            format!("40 {WEB} {ATTACKER}"),
            40.0 * RECEIVE_BUFFER,
        ),
    ] {
        let site = Site::start(manypath, "", "")?;
        kept(&site, say, attack, name, &words, bound);
    }
    for (addresses, attack) in
        [(1, "1,100 associations from one address"), (4, "4,400 associations from four addresses")]
    {
        let site = Site::start(manypath, "", "")?;
        taken(&site, say, attack, addresses)?;
    }
    Ok(())
}

/// What a flood without associations leaves in memory. Buffers that any traffic would enlarge do not count.
fn left_behind(site: &Site, kind: &str, attack: &str) -> Outcome<Row> {
    site.attacked("flood", &format!("{kind} 20000 1 {ATTACKER}"))?;
    let before = site.memory()?;
    let report = site.attacked("flood", &format!("{kind} 20000 5 {ATTACKER}"))?;
    demand(number(&report, "sent")? > 70_000.0, "few were sent", &report)?;
    let grown = site.memory()? - before;
    Ok(Row::new(attack, "memory grown, MiB", grown, AtMost(1.0)))
}

/// What an attacker's associations hold while they last.
fn kept(site: &Site, say: Say<'_>, attack: &str, name: &str, words: &str, bound: f64) {
    let measured = || -> Outcome<(f64, f64)> {
        failed_connects(site, 1)?;
        let before = site.memory()?;
        let mut under_way = site.attack(name, words)?;
        let report = under_way.report()?;
        demand(number(&report, "kept")? > 0.0, "no association", &report)?;
        if name == "never-ack" {
            demand(number(&report, "served")? > 0.0, "no download began", &report)?;
        }
        Ok((site.memory()? - before, failed_connects(site, 3)?))
    };
    match measured() {
        Ok((grown, failed)) => {
            say(Row::new(attack, "memory grown, MiB", grown, AtMost(bound)));
            say(Row::new(attack, "connects of others that fail, of 3", failed, AtMost(0.0)));
        }
        Err(error) => say(Row::failed(attack, error)),
    }
}

fn taken(site: &Site, say: Say<'_>, attack: &str, addresses: u32) -> Outcome<()> {
    let before = site.memory()?;
    let mut under_way = site.attack("associations", &format!("1100 {addresses}"))?;
    let report = under_way.report()?;
    let (count, refused) = (number(&report, "kept")?, number(&report, "refused")?);
    demand(
        count > 1000.0 * f64::from(addresses) && refused > 0.0,
        "the limit was not reached",
        &report,
    )?;
    let each = count / f64::from(addresses);
    say(Row::new(attack, "associations of each address", each, AtMost(OF_ONE_ADDRESS)));
    let grown = (site.memory()? - before) * 1024.0 / count;
    say(Row::new(attack, "memory of each, KiB", grown, AtMost(64.0)));
    // Where all are taken, others use plain TCP.
    let failed = failed_connects(site, 3)?;
    say(Row::new(attack, "connects of others that fail, of 3", failed, AtMost(0.0)));
    Ok(())
}
