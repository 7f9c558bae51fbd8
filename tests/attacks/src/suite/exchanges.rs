//! Key exchanges that are not completed, and what is left of a client's connections meanwhile
//! (docs/key-management.md).

use super::{Say, demand, failed_connects, number};
use crate::report::Bound::{AtLeast, AtMost};
use crate::report::Row;
use crate::site::{Outcome, Site};
use std::path::Path;
use std::time::{Duration, Instant};

/// Associations of each address, addresses, and the first of them: many from one, and few from each of many.
const PARTS: [(u32, u32, u32); 2] = [(1000, 1, 1), (75, 40, 2)];
/// What an association with a key exchange under way may take, in KiB.
const MEMORY: f64 = 64.0;
/// The part of its goodput that a download keeps. The attacker's processor time counts against it, too.
const SHARE: f64 = 0.5;
/// How long the server waits for a key exchange to be complete, and a margin.
const PATIENCE: Duration = Duration::from_secs(30 + 10);
/// Length of a download in seconds.
const DOWNLOAD: f64 = 3.0;

pub(super) fn run(manypath: &Path, say: Say<'_>) -> Outcome<()> {
    let site = Site::start(manypath, "tcp_race = off\nencrypt = require\n", "")?;
    let all: u32 = PARTS.iter().map(|(count, addresses, _)| count * addresses).sum();
    let attack = format!("{all} unfinished key exchanges, 1,000 of them from one address");
    failed_connects(&site, 1)?;
    let quiet = goodput(&site)?;
    let before = site.memory()?;
    let begun = Instant::now();
    let begin = |(count, addresses, first)| {
        site.attack("exchanges", &format!("{count} {addresses} {first}"))
    };
    let mut under_way = PARTS.map(begin).into_iter().collect::<Outcome<Vec<_>>>()?;
    let during = goodput(&site)?;
    let failed = failed_connects(&site, 3)?;
    let mut count = 0.0;
    for one in &mut under_way {
        let report = one.report()?;
        demand(report["answered"] == true, "no key exchange", &report)?;
        count += number(&report, "kept")?;
    }
    demand(count > 0.9 * f64::from(all), "few associations", &count.into())?;
    let grown = (site.memory()? - before) * 1024.0 / count;
    say(Row::new(&attack, "memory of each, KiB", grown, AtMost(MEMORY)));
    let what = format!("part of a client's goodput that is left, of {:.1} Mbit/s", quiet * 8e-6);
    say(Row::new(&attack, &what, during / quiet, AtLeast(SHARE)));
    say(Row::new(&attack, "connects of others that fail, of 3", failed, AtMost(0.0)));
    let left = loop {
        let left = associations(&site)?;
        if left == 0.0 || begun.elapsed() > PATIENCE {
            break left;
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let what = format!("associations that are left after {} s", PATIENCE.as_secs());
    say(Row::new(&attack, &what, left, AtMost(0.0)));
    Ok(())
}

/// Associations of peers that have shown no key.
fn associations(site: &Site) -> Outcome<f64> {
    let status = site.status()?;
    let all = status["associations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let open = all.iter().filter(|one| one["encryption"]["state"] != "encrypted");
    Ok(open.count() as f64)
}

fn goodput(site: &Site) -> Outcome<f64> {
    let fetched = site.fetch("large", DOWNLOAD, true)?;
    match fetched.carried {
        true => Ok(fetched.goodput),
        false => Err("the download was not carried".into()),
    }
}
