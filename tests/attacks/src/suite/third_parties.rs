//! What the server sends to hosts that have asked for nothing (RFC 5062 section 2; docs/defences.md, "Third parties").

use super::{Say, demand, number, row};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{ATTACKER, CLIENT, Outcome, Site, WEB};
use serde_json::Value;
use std::path::Path;

/// Bytes to addresses that are not verified, for each byte that came.
const LIMIT: f64 = 3.0;
/// Packets with a source address that is a victim's: what they are, whether they are always answered, and bytes
/// for each byte.
const BAITS: &[(&str, &str, bool, f64)] = &[
    ("init", "INIT without parameters from forged sources", true, LIMIT),
    ("init-of-manypath", "INIT with extensions from forged sources", true, LIMIT),
    ("data", "DATA out of the blue from forged sources", true, 1.0),
    ("shutdown", "SHUTDOWN out of the blue from forged sources", true, 1.0),
    ("shutdown-ack", "SHUTDOWN ACK out of the blue from forged sources", true, 1.0),
    ("cookie", "forged COOKIE ECHO from forged sources", false, 0.0),
    ("unknown", "unknown chunk out of the blue from forged sources", false, 1.0),
];

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let mut site = Site::start(manypath, "", "")?;
    for (kind, attack, answered, limit) in BAITS {
        row(say, attack, reflected(&site, kind, attack, *answered, *limit));
    }
    let attack = "16 victims listed in INIT, 15 s";
    row(say, attack, listed(&site, attack));
    let attack = "bombing: 16 victims listed, then a download";
    row(say, attack, bombed(&site, attack));
    let attack = "ASCONF that deletes and adds 8 victims, over and over";
    match site.attacked("asconf", &format!("{ATTACKER} 4")) {
        Ok(report) => {
            row(
                say,
                attack,
                renewed(attack, &report, "bytes to victims per byte", "bytes", "sent"),
            );
            let what = "packets to victims per request";
            row(say, attack, renewed(attack, &report, what, "packets", "asked"));
        }
        Err(error) => say(Row::failed(attack, error)),
    }
    let attack = "address camping: the client's address in 100 other associations";
    row(say, attack, camped(&site, attack));
    let lives = if site.server_lives() { 1.0 } else { 0.0 };
    say(Row::new("all of this group", "server that lives", lives, AtLeast(1.0)));
    Ok(())
}

fn reflected(site: &Site, kind: &str, attack: &str, answered: bool, limit: f64) -> Outcome<Row> {
    let report = site.attacked("reflect", &format!("{kind} 1000"))?;
    let (bytes, sent) = (number(&report, "bytes")?, number(&report, "sent")?);
    demand(sent > 0.0 && (bytes > 0.0 || !answered), "nothing was answered", &report)?;
    Ok(Row::new(attack, "bytes to victims per byte", bytes / sent, AtMost(limit)))
}

fn listed(site: &Site, attack: &str) -> Outcome<Row> {
    let report = site.attacked("listed", &format!("{ATTACKER} 15 0"))?;
    let (bytes, sent) = (number(&report, "bytes")?, number(&report, "sent")?);
    demand(bytes > 0.0, "the server did not probe", &report)?;
    Ok(Row::new(attack, "bytes to victims per byte", bytes / sent, AtMost(LIMIT)))
}

fn bombed(site: &Site, attack: &str) -> Outcome<Row> {
    let report = site.attacked("listed", &format!("{ATTACKER} 3 {WEB}"))?;
    demand(number(&report, "downloaded")? > 1e6, "there was no download", &report)?;
    let data = number(&report, "data")?;
    Ok(Row::new(attack, "packets with data to victims", data, AtMost(0.0)))
}

fn renewed(attack: &str, report: &Value, what: &str, of: &str, to: &str) -> Outcome<Row> {
    demand(number(report, "answered")? > 100.0, "few requests were answered", report)?;
    demand(number(report, "packets")? > 0.0, "no victim was probed", report)?;
    let limit = if of == "bytes" { LIMIT } else { 1.0 };
    Ok(Row::new(attack, what, number(report, of)? / number(report, to)?, AtMost(limit)))
}

fn camped(site: &Site, attack: &str) -> Outcome<Row> {
    let mut attack_under_way = site.attack("camp", &format!("{ATTACKER} {CLIENT}"))?;
    let report = attack_under_way.report()?;
    demand(number(&report, "kept")? >= 90.0, "few associations were made", &report)?;
    let mut carried = 0;
    for _ in 0..3 {
        carried += u32::from(site.fetch("small", 10.0, true)?.carried);
    }
    Ok(Row::new(attack, "connects of the client carried, of 3", carried.into(), AtLeast(3.0)))
}
