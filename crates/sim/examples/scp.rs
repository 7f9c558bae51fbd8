//! Draws what `bench/scp` has measured: the time of scp over a lossy path, by manypath and by TCP.
//!
//! ```text
//! cargo run --release -p manypath-sim --example scp -- [RESULTS [OUT]]
//! ```
//!
//! Reads `RESULTS` (target/scp/results.csv) and writes `scp.svg`, `scp.csv` (means with their 95 %
//! confidence intervals) and `scp.md` (the table, with medians and verdicts) to `OUT` (docs/results/scp).
#![allow(clippy::unwrap_used, reason = "a failing helper fails the run")]

use manypath_sim::campaign::{Summary, summarise};
use manypath_sim::figure::plot::{Chart, Curve, Panel, Point, to_svg};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const OURS: &str = "manypath";
const CUBIC: &str = "tcp-cubic";
const BBR: &str = "tcp-bbr";
const NAMES: [(&str, &str); 3] =
    [(OURS, "manypath, one path"), (CUBIC, "TCP (CUBIC)"), (BBR, "TCP (BBR)")];
const SIZES: [(u64, &str); 4] =
    [(50_000, "50 KB"), (500_000, "500 KB"), (5_000_000, "5 MB"), (25_000_000, "25 MB")];
const LOSSES: [u32; 5] = [0, 1, 3, 6, 10];
/// So many times as long as TCP with BBR may a copy take where much is lost.
const MOST_OF_BBR: f64 = 1.1;

/// One copy.
struct Copy {
    transport: String,
    bytes: u64,
    loss: u32,
    seconds: f64,
    fell_back: bool,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().unwrap_or_else(|| "target/scp/results.csv".to_owned());
    let out = arguments.next().unwrap_or_else(|| "docs/results/scp".to_owned());
    let text = fs::read_to_string(&source).expect("results: run bench/scp first");
    let copies: Vec<Copy> = text.lines().skip(1).map(parse).collect();
    let out = Path::new(&out);
    fs::create_dir_all(out).unwrap();
    let chart = chart(&copies);
    fs::write(out.join("scp.svg"), to_svg(&chart)).unwrap();
    fs::write(out.join("scp.csv"), table_csv(&copies)).unwrap();
    fs::write(out.join("scp.md"), page(&copies)).unwrap();
}

fn parse(line: &str) -> Copy {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| fields[at].parse::<f64>().expect("a number");
    Copy {
        transport: fields[0].to_owned(),
        bytes: number(1) as u64,
        loss: number(2) as u32,
        seconds: number(4),
        fell_back: fields[0] == OURS && fields[5] == "tcp",
    }
}

fn times(copies: &[Copy], transport: &str, bytes: u64, loss: u32) -> Vec<f64> {
    let fits =
        |copy: &&Copy| copy.transport == transport && (copy.bytes, copy.loss) == (bytes, loss);
    copies.iter().filter(fits).map(|copy| copy.seconds).collect()
}

fn summary(copies: &[Copy], transport: &str, bytes: u64, loss: u32) -> Option<Summary> {
    summarise(times(copies, transport, bytes, loss))
}

fn median(copies: &[Copy], transport: &str, bytes: u64, loss: u32) -> Option<f64> {
    let mut all = times(copies, transport, bytes, loss);
    all.sort_by(f64::total_cmp);
    let (middle, odd) = (all.len() / 2, all.len() % 2 == 1);
    let upper = all.get(middle)?;
    Some(if odd { *upper } else { (all[middle - 1] + upper) / 2.0 })
}

fn chart(copies: &[Copy]) -> Chart {
    let panels = SIZES.map(|(bytes, size)| Panel {
        title: size.into(),
        x_label: "Loss both ways [%]".into(),
        // A unit of its own, because the sizes differ by a factor of 500.
        y_label: format!("Time of scp, {size} [s]"),
        curves: curves(copies, bytes),
        ..Panel::default()
    });
    let title = "scp over 1.5 Mbit/s, 35 ms one way, a queue of 50 packets".into();
    Chart { title, panels: panels.into() }
}

fn curves(copies: &[Copy], bytes: u64) -> Vec<Curve> {
    let point = |transport: &str, loss: u32| {
        let Summary { count, mean: y, half_width: error, .. } =
            summary(copies, transport, bytes, loss)?;
        Some(Point { x: f64::from(loss), y, error, count })
    };
    let curve = |(number, (transport, name)): (usize, (&str, &str))| Curve {
        number,
        name: name.to_owned(),
        points: LOSSES.iter().filter_map(|loss| point(transport, *loss)).collect(),
    };
    (1..).zip(NAMES).map(curve).collect()
}

fn table_csv(copies: &[Copy]) -> String {
    let mut out = String::from("transport,bytes,loss_percent,runs,mean_s,half_width_s,median_s\n");
    for (transport, _) in NAMES {
        for (bytes, loss) in cells() {
            let Some(all) = summary(copies, transport, bytes, loss) else { continue };
            let median = median(copies, transport, bytes, loss).unwrap_or(f64::NAN);
            let (count, mean, width) = (all.count, all.mean, all.half_width);
            let _ = writeln!(
                out,
                "{transport},{bytes},{loss},{count},{mean:.3},{width:.3},{median:.3}"
            );
        }
    }
    out
}

fn cells() -> impl Iterator<Item = (u64, u32)> {
    SIZES.into_iter().flat_map(|(bytes, _)| LOSSES.map(|loss| (bytes, loss)))
}

fn page(copies: &[Copy]) -> String {
    let mut out = format!(
        "# scp over a lossy path\n\n\
         The experiment of Bickhart (2005), chapter 3, on real sockets: one path of 1.5 Mbit/s and 35 ms one way with a queue of 50\n\
         packets and random loss both ways; OpenSSH's scp through `manypath run` to a server with `manypath serve`, and the same scp\n\
         over the kernel's TCP. Seconds, mean with 95 % confidence interval, of so many runs. Where hardly anything is lost, a copy is to\n\
         take no longer than over TCP with the better of its controllers; where much is lost, at most {MOST_OF_BBR} times as long as with BBR.\n\n\
         ```\nbench/scp --runs 6 && cargo run --release -p manypath-sim --example scp\n```\n\n\
         Compilers ran beside it on both processors: what ssh computes makes small files vary.\n\n\
         ![times](scp.svg)\n\n\
         | file | loss | manypath | TCP (CUBIC) | TCP (BBR) | manypath/BBR | manypath/better | asked for | met |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for (bytes, loss) in cells() {
        row(&mut out, copies, bytes, loss);
    }
    let fallbacks = copies.iter().filter(|copy| copy.fell_back).count();
    let ours = copies.iter().filter(|copy| copy.transport == OURS).count();
    let _ = writeln!(
        out,
        "\nCopies through manypath that went over plain TCP because the first packets were lost: {fallbacks} of {ours}; they are counted\n\
         with the others.\n\n\
         Without loss a large file takes as long as over TCP with BBR, and 2 % longer than with CUBIC: BBR paces 1 % below what it has\n\
         measured (draft-ietf-ccwg-bbr), and a packet of 1500 bytes has 56 of headers (IP, UDP, SCTP, DATA) where TCP has 52 with its\n\
         timestamps. Without UDP (IP protocol 132) they would be 48."
    );
    out
}

fn row(out: &mut String, copies: &[Copy], bytes: u64, loss: u32) {
    let size = SIZES.iter().find(|(known, _)| *known == bytes).map_or("", |(_, name)| *name);
    let _ = write!(out, "| {size} | {loss} % |");
    for (transport, _) in NAMES {
        let _ = match summary(copies, transport, bytes, loss) {
            Some(all) => write!(out, " {:.2} ± {:.2} ({}) |", all.mean, all.half_width, all.count),
            None => write!(out, " – |"),
        };
    }
    let mean = |transport| summary(copies, transport, bytes, loss).map_or(f64::NAN, |all| all.mean);
    let (ours, bbr) = (mean(OURS), mean(BBR));
    let better = bbr.min(mean(CUBIC));
    let (asked, met) = verdict(loss, ours, bbr, better);
    let (to_bbr, to_better) = (ours / bbr, ours / better);
    let _ = writeln!(out, " {to_bbr:.3} | {to_better:.3} | {asked} | {met} |");
}

/// What is asked for, and whether the means meet it.
fn verdict(loss: u32, ours: f64, bbr: f64, better: f64) -> (&'static str, &'static str) {
    let say = |met| if met { "yes" } else { "no" };
    match loss {
        0 | 1 => ("not slower than the better", say(ours <= better)),
        3 => ("–", "–"),
        _ => ("at most 1.1 x BBR", say(ours <= MOST_OF_BBR * bbr)),
    }
}
