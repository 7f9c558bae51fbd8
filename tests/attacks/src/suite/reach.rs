//! Services that an attacker is not to reach, and whom it says it is (docs/security.md).

use super::{Say, demand, number, row};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{ATTACKER, INNER, Outcome, Site, WEB};
use std::path::Path;

/// An address that the attacker says it has: it is in the network of the client.
const FORGED: &str = "10.77.1.99";
const CLOSED: &[(&str, &[&str])] = &[
    ("a port that is not allowed", &["203.0.113.1:8022"]),
    ("a service at an inner address", &["10.77.1.2:8003", "203.0.113.1:8003"]),
    ("a service at an inner address, by a foreign name", &["198.51.100.9:8003", "192.0.2.1:8003"]),
    (
        "a service on loopback",
        &[
            "127.0.0.1:8004",
            "127.9.9.9:8004",
            "0.0.0.0:8004",
            "203.0.113.1:8004",
            "[::1]:8004",
            "[::]:8004",
            "[::ffff:127.0.0.1]:8004",
            "[::127.0.0.1]:8004",
            "[64:ff9b::7f00:1]:8004",
        ],
    ),
];

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let mut site = Site::start(manypath, "", "local enable port 8002 proxy=on\n")?;
    let open = format!("203.0.113.1:{WEB}");
    let control = site.attacked("open", &format!("{ATTACKER} 0.0.0.0 {open}"))?;
    let accepted =
        |text: &serde_json::Value| text.as_str().is_some_and(|said| said.starts_with("accepted"));
    demand(accepted(&control[&open]), "an open service is not reached", &control)?;
    for (attack, targets) in CLOSED {
        let report = site.attacked("open", &format!("{ATTACKER} 0.0.0.0 {}", targets.join(" ")));
        let made = report.map(|report| {
            let reached = targets.iter().filter(|target| accepted(&report[**target])).count();
            Row::new(attack, "connections that reach it", reached as f64, AtMost(0.0))
        });
        row(say, attack, made);
    }
    for listed in [FORGED, INNER] {
        let attack = format!("PROXY client forged: {listed} listed and not owned");
        row(say, &attack, forged(&site, &attack, listed));
    }
    let attack = "malformed flow messages";
    match site.attacked("malformed", &format!("{WEB} {ATTACKER}")) {
        Ok(report) => {
            let (all, aborted) = (number(&report, "breaches")?, number(&report, "aborted")?);
            say(Row::new(attack, "breaches that end their association", aborted, AtLeast(all)));
            let good = if report["good"] == "accepted" { 1.0 } else { 0.0 };
            say(Row::new(attack, "association beside them that serves", good, AtLeast(1.0)));
        }
        Err(error) => say(Row::failed(attack, error)),
    }
    let lives = if site.server_lives() { 1.0 } else { 0.0 };
    say(Row::new("all of this group", "server that lives", lives, AtLeast(1.0)));
    Ok(())
}

/// How often the service or the log is told the address that was only listed.
fn forged(site: &Site, attack: &str, listed: &str) -> Outcome<Row> {
    let to = "203.0.113.1:8002";
    let report = site.attacked("open", &format!("{ATTACKER} {listed} {to}"))?;
    let said = report[to].as_str().unwrap_or_default();
    demand(said == format!("accepted {ATTACKER}") || said.ends_with(listed), "no page", &report)?;
    let in_log = site.log().matches(&format!("connection from {listed}:")).count();
    let told = in_log + usize::from(said.ends_with(listed));
    Ok(Row::new(attack, "times the service or the log is told it", told as f64, AtMost(0.0)))
}
