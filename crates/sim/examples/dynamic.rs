//! The dynamic stream-to-path scheduler beside the others: goodput in Mbit/s, one row per setup.
//!
//! ```text
//! cargo run --release -p manypath-sim --example dynamic [GROUP...] [mode=NAME,NAME] [seconds=N] [seeds=N] [points=N]
//! ```
//!
//! Groups: the setups of Dreibholz et al. 2010 (`fig4`, `fig6`, `fig7`, their parameters), `one` stream
//! over those, rates of two paths exchanged (`swap`), and random points of a `grid` of paths, buffers,
//! streams and changes (production profile).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_sim::Rng;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A setup: what is simulated, and the rates of its paths.
struct Setup {
    name: String,
    group: &'static str,
    /// What comes before the paths.
    head: String,
    paths: Vec<String>,
    /// What the paths carry at most, in Mbit/s of payload.
    ceiling: f64,
    /// The fixed mapping, if the setup has one.
    fixed: Option<&'static str>,
}

/// Bottleneck of a path: Mbit/s, ms, percent of loss.
type Link = (f64, u64, f64);

fn path(name: usize, (rate, delay, loss): Link, extra: &str) -> String {
    let rate = (rate * 1e6) as u64;
    let access = "{ rate = \"1gbit\", delay = \"0.4ms\", jitter = \"200us\" }";
    format!(
        "[[path]]\nname = \"{name}\"\nrate = \"{rate}bit\"\ndelay = \"{delay}ms\"\nloss = \"{loss}%\"\n\
         queue = 100\nframing = 7\naccess = {access}\n{extra}"
    )
}

/// In the manner of the paper.
fn paper(
    group: &'static str,
    links: &[Link],
    streams: u16,
    api: bool,
    kib: u32,
    fixed: Option<&'static str>,
) -> Setup {
    let head = format!(
        "name = \"x\"\nwarmup = \"19s\"\nmeasure = \"30s\"\nstart = {{ min = \"0.9s\", max = \"1.1s\" }}\n\
         udp = false\n[engine]\nprofile = \"paper\"\nbuffer = \"{kib}KiB\"\n\
         [[app]]\nkind = \"saturated\"\nmessage = 1452\nstreams = {streams}\nqueue_info = {api}\n"
    );
    let paths = links.iter().enumerate().map(|(name, link)| path(name, *link, "")).collect();
    let shown: Vec<_> = links.iter().map(|(rate, delay, _)| format!("{rate}/{delay}")).collect();
    let api = if api { " api" } else { "" };
    let name = format!("{group} {} {streams}s{api} {kib}K", shown.join(" "));
    let ceiling = links.iter().map(|(rate, ..)| rate).sum::<f64>() * 1452.0 / 1507.0;
    Setup { name, group, head, paths, ceiling, fixed }
}

fn figures() -> Vec<Setup> {
    let mut setups = Vec::new();
    let a = (10.0, 10, 0.0);
    for delay in [10, 50, 75] {
        for kib in [32, 64, 96, 128, 160, 192, 224, 256, 352] {
            let links = [a, (10.0, delay, 0.0)];
            setups.push(paper("fig4", &links, 2, false, kib, Some("0,1")));
        }
    }
    for (rate, sizes) in [(25.0, [64, 96, 128, 160, 512]), (50.0, [64, 160, 256, 288, 1280])] {
        for (kib, api) in sizes.iter().flat_map(|kib| [(*kib, false), (*kib, true)]) {
            let links = [a, (rate, 10, 0.0)];
            setups.push(paper("fig6", &links, 2, api, kib, Some("0,1")));
        }
    }
    for (api, nr) in [(true, true), (true, false), (false, true)] {
        for kib in [32, 64, 96, 128, 192, 256] {
            let links = [a, a, (1.0, 50, 0.0)];
            let mut setup = paper("fig7", &links, 7, api, kib, Some("2,0,1,0,1,0,1"));
            if !nr {
                setup.name += " nu0";
                setup.head = setup.head.replacen("[engine]\n", "[engine]\nnr_sack = \"off\"\n", 1);
            }
            setups.push(setup);
        }
    }
    let one: [(&[Link], [u32; 3]); 3] = [
        (&[a, (10.0, 75, 0.0)], [128, 224, 416]),
        (&[a, (50.0, 10, 0.0)], [128, 256, 488]),
        (&[a, a, (1.0, 50, 0.0)], [96, 146, 256]),
    ];
    for (links, sizes) in one {
        setups.extend(sizes.map(|kib| paper("one", links, 1, false, kib, None)));
    }
    setups
}

/// Rates exchanged at 30 s, measured from 35 s on.
fn swaps() -> Vec<Setup> {
    let mut setups = Vec::new();
    for (a, b, kib) in [(10, 50, 288), (10, 50, 512), (10, 25, 160), (2, 10, 256)] {
        for (streams, api) in [(2, true), (2, false), (6, true)] {
            let links = [(f64::from(a), 10, 0.0), (f64::from(b), 10, 0.0)];
            let mut setup = paper("swap", &links, streams, api, kib, None);
            let change = |rate| format!("[[path.change]]\nat = \"30s\"\nrate = \"{rate}mbit\"\n");
            setup.head = setup.head.replace("\"19s\"", "\"35s\"").replace("\"30s\"", "\"15s\"");
            setup.paths = vec![path(0, links[0], &change(b)), path(1, links[1], &change(a))];
            setups.push(setup);
        }
    }
    setups
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// A random point of the grid.
fn point(number: u64) -> Setup {
    let mut rng = Rng::new(1000 + number);
    let count = 2 + rng.below(3) as usize;
    let mut link = || {
        let rate = pick(&mut rng, &[1.0, 3.0, 10.0, 30.0, 100.0]);
        let delay = pick(&mut rng, &[5, 20, 75, 150, 300]);
        (rate, delay, pick(&mut rng, &[0.0, 0.0, 0.1, 2.0]))
    };
    let links: Vec<Link> = (0..count).map(|_| link()).collect();
    let eq1: f64 = links.iter().map(|(rate, delay, _)| rate * 125.0 * 2.0 * *delay as f64).sum();
    let times = pick(&mut rng, &[0.5, 1.0, 2.0, 4.0]);
    let kib = ((eq1 * times / 1024.0) as u32).max(16);
    let streams = pick(&mut rng, &[1, 2, 4, 8, 32]);
    let api = rng.ppm(500_000) && streams > 1;
    let change = pick(&mut rng, &["", "", "rate", "cut"]);
    let mut name =
        format!("g{number} {streams}s{} {times}x {kib}K {change}", if api { " api" } else { "" });
    let head = format!(
        "name = \"x\"\nwarmup = \"10s\"\nmeasure = \"20s\"\n[engine]\nprofile = \"production\"\n\
         buffer = \"{kib}KiB\"\n[[app]]\nkind = \"saturated\"\nmessage = 1444\nstreams = {streams}\n\
         queue_info = {api}\n"
    );
    let mut paths = Vec::new();
    for (at, link) in links.iter().enumerate() {
        let extra = match (change, at) {
            ("rate", 0) => format!("[[path.change]]\nat = \"15s\"\nrate = \"{}bit\"\n", (link.0 * 3e5) as u64),
            ("cut", 0) => "[[path.change]]\nat = \"14s\"\nup = false\n[[path.change]]\nat = \"20s\"\nup = true\n".into(),
            _ => String::new(),
        };
        paths.push(path(at, *link, &extra));
        let _ = write!(name, " {}/{}/{}", link.0, link.1, link.2);
    }
    let ceiling = links.iter().map(|(rate, ..)| rate).sum::<f64>() * 1444.0 / 1507.0;
    Setup { name, group: "grid", head, paths, ceiling, fixed: None }
}

/// Keys that make a mode of a setup; `None` if the setup does not have it.
fn overrides(mode: &str, setup: &Setup) -> Option<Vec<(String, String)>> {
    let set = |key: &str, value: &str| (format!("engine.{key}"), format!("\"{value}\""));
    Some(match mode {
        "dynamic" => vec![set("stream_mapping", "dynamic")],
        "dynamic3" => vec![set("stream_mapping", "dynamic"), set("nr_sack", "case-3")],
        "fixed" => vec![set("stream_mapping", setup.fixed?)],
        "rr" => vec![
            set("stream_scheduling", "round-robin"),
            set("path_scheduling", "least-recently-used"),
        ],
        "ecf" | "blest" | "smallest-srtt" | "earliest-completion" => {
            vec![set("path_scheduling", mode)]
        }
        _ => Vec::new(),
    })
}

fn goodput(setup: &Setup, mode: &str, seconds: Option<u64>, seeds: u64) -> Option<(f64, f64, f64)> {
    let mut overrides = overrides(mode, setup)?;
    let only = mode.strip_prefix("only").and_then(|at| at.parse::<usize>().ok());
    let paths = match only {
        Some(at) => setup.paths.get(at)?.clone(),
        None => setup.paths.concat(),
    };
    let toml = setup.head.clone() + &paths;
    if let Some(seconds) = seconds {
        overrides.push(("measure".into(), format!("\"{seconds}s\"")));
    }
    let plan = Plan::parse(&toml, &setup.name, &overrides);
    let plan = plan.unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let mut sums = [0.0; 3];
    for seed in 1..=seeds {
        let outcome = run(&plan.runs[0].scenario, seed, RunOptions::default());
        for (sum, figure) in
            sums.iter_mut().zip(["throughput_mbps", "stream_delay_ms", "rwnd_blocked"])
        {
            *sum += outcome.figure(figure).unwrap() / seeds as f64;
        }
    }
    let [mbps, delay, blocked] = sums;
    Some((mbps, delay, blocked))
}

fn main() {
    let (options, groups): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.contains('='));
    let option = |name: &str| {
        options.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('=')).map(String::from)
    };
    let number = |name: &str| option(name).map(|text| text.parse::<u64>().unwrap());
    let modes = option("mode").unwrap_or_else(|| "fixed,rr,dynamic".into());
    let modes: Vec<_> = modes.split(',').collect();
    let first = number("first").unwrap_or(0);
    let mut setups = figures();
    setups.extend(swaps());
    setups.extend((first..first + number("points").unwrap_or(24)).map(point));
    let only = option("only").unwrap_or_default();
    setups.retain(|s| {
        (groups.is_empty() || groups.iter().any(|g| g == s.group)) && s.name.contains(&only)
    });
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(()));
    let work = || {
        while let Some(setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut line = format!("{:44} {:6.2} |", setup.name, setup.ceiling);
            for mode in &modes {
                match goodput(setup, mode, number("seconds"), number("seeds").unwrap_or(1)) {
                    Some((mbps, delay, blocked)) => {
                        let _ = write!(line, " {mode} {mbps:6.2} {delay:4.0}ms {blocked:.2} |");
                    }
                    None => line += &format!(" {mode} - |"),
                }
            }
            let _guard = lines.lock().unwrap();
            println!("{line}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..number("jobs").unwrap_or(2) {
            scope.spawn(work);
        }
    });
}
