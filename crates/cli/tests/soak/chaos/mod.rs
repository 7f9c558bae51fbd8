//! Faults of the network and of processes, with plain TCP beside manypath: the same transfers at the same moment.
//! `docs/soak.md` has what is demanded.

mod faults;
mod pairs;

use crate::dice::Dice;
use crate::hosts::{Daemons, Hosts};
use crate::ledger::Carrier;
use crate::workers::{Foreman, Whistle};
use crate::{clock_seed, number, vitals};
use faults::Fault;
use manypath_lab::{Change, Host};
use pairs::Pairs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bits per second of the three paths: low, so that a busy machine does not matter.
const RATES: [(&str, u64); 3] = [("A", 8_000_000), ("B", 4_000_000), ("C", 3_000_000)];
const PAIRS_AT_ONCE: usize = 3;

/// A few faults: nothing is damaged, and nothing hangs.
#[test]
#[ignore = "half a minute of faults: make test-full"]
fn a_short_chaos_loses_nothing() {
    let piece = run(Duration::from_secs(12), 1, 0);
    assert_eq!(piece["corruptions"], json!([]), "{piece:#}");
    assert_eq!(piece["hangs"], json!([]), "{piece:#}");
    assert!(piece["pairs"].as_u64() > Some(0), "{piece:#}");
}

/// `MANYPATH_CHAOS_SECONDS` (600), `MANYPATH_CHAOS_SEED`, and `MANYPATH_CHAOS_STATE`: a file to which each piece
/// is added, so that the next run goes on with other faults of the same seed.
#[test]
#[ignore = "takes minutes to hours: make soak"]
fn chaos() {
    let state = std::env::var_os("MANYPATH_CHAOS_STATE").map(PathBuf::from);
    let text = state.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let mut pieces: Vec<Value> =
        text.map_or_else(Vec::new, |text| serde_json::from_str(&text).expect("pieces"));
    let seed = pieces.first().and_then(|piece| piece["seed"].as_u64());
    let seed = seed.unwrap_or_else(|| number("MANYPATH_CHAOS_SEED", clock_seed()));
    let time = Duration::from_secs(number("MANYPATH_CHAOS_SECONDS", 600));
    let last = run(time, seed, pieces.len() as u64);
    println!("{last:#}");
    pieces.push(last.clone());
    println!("chaos: all pieces: {:#}", total(&pieces));
    if let Some(file) = state {
        std::fs::write(file, format!("{:#}\n", Value::from(pieces))).expect("the file");
    }
    for kind in ["corruptions", "hangs", "survived_by_tcp_alone"] {
        assert_eq!(last[kind], json!([]), "{kind}");
    }
}

fn total(pieces: &[Value]) -> Value {
    let sum = |name: &str| pieces.iter().filter_map(|one| one[name].as_u64()).sum::<u64>();
    let lines = |name: &str| -> usize {
        pieces.iter().filter_map(|one| one[name].as_array()).map(Vec::len).sum()
    };
    json!({
        "pieces": pieces.len(), "seconds": sum("seconds"), "pairs": sum("pairs"), "bytes": sum("bytes"),
        "both_failed": sum("both_failed"), "tcp_alone_failed": sum("tcp_alone_failed"),
        "failed_with_a_killed_process": sum("failed_with_a_killed_process"),
        "corruptions": lines("corruptions"), "hangs": lines("hangs"),
        "survived_by_tcp_alone": lines("survived_by_tcp_alone"),
    })
}

fn run(time: Duration, seed: u64, piece: u64) -> Value {
    println!("chaos: {time:?}, MANYPATH_CHAOS_SEED={seed}, piece {piece}");
    let (hosts, group) = Hosts::start();
    for (path, rate) in RATES {
        let path = hosts.site.lab.path(path).expect("a path");
        path.set(&[Change::Rate(Some(rate))]).expect("a rate");
    }
    let mut daemons = Daemons::start(&hosts, group);
    let pairs = Pairs::default();
    let before = vitals::take(&daemons);
    let begun = Instant::now();
    disturb(&mut daemons, &pairs, [seed, piece * 100], begun + time);
    let settled = vitals::settle(&daemons).err();
    let after = vitals::take(&daemons);
    let unwilling = daemons.end();
    let mut summary = pairs.summary(begun);
    summary["seconds"] = time.as_secs().into();
    summary["seed"] = seed.into();
    summary["piece"] = piece.into();
    summary["open_at_the_end"] = json!(settled);
    summary["would_not_end"] = json!(unwilling);
    summary["use"] = vitals::as_json(&[before, after]);
    summary
}

/// Transfers and faults until `end`.
fn disturb(daemons: &mut Daemons, pairs: &Pairs, [seed, first]: [u64; 2], end: Instant) {
    let (hosts, foreman, begun) = (daemons.hosts, Foreman::default(), Instant::now());
    let mut carriers = hosts.carriers();
    carriers.retain(|carrier| *carrier != Carrier::Door);
    std::thread::scope(|scope| {
        let _whistle = Whistle(&foreman);
        for worker in 0..PAIRS_AT_ONCE {
            let (foreman, carriers) = (&foreman, &carriers);
            let dice = Dice::new(seed, first + worker as u64 + 1);
            scope.spawn(move || pairs.work(hosts, foreman, worker, dice, carriers));
        }
        let mut dice = Dice::new(seed, first + 50);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(dice.range(500, 4_000)));
            if let Some(fault) = faults::any(daemons, &mut dice) {
                one(daemons, pairs, &fault, begun);
            }
        }
        foreman.pause();
    });
}

fn one(daemons: &mut Daemons, pairs: &Pairs, fault: &Fault, begun: Instant) {
    println!("chaos: {:.1} s: {}; {}", begun.elapsed().as_secs_f64(), fault.what, pairs.progress());
    pairs.begin(fault);
    fault.begin(daemons.hosts);
    std::thread::sleep(fault.lasts);
    fault.mend(daemons.hosts);
    if fault.kills {
        revive(daemons);
    }
    pairs.mended();
}

/// Starts what has died.
fn revive(daemons: &mut Daemons) {
    if matches!(daemons.serve.try_wait(), Ok(Some(_))) {
        daemons.start_serve();
    }
    let hosts = daemons.hosts;
    if let Some(group) = &mut daemons.group {
        let _ = group.end(&hosts.site, Host::Left, "-TERM");
        daemons.attach();
    }
}
