//! The grid of `bench/grid` in virtual time: the whole product over each of its set-ups, its association alone, and the
//! whole product over each path alone. It reads set-ups as `bench/grid --list` prints them, those with traces too.
//!
//! ```text
//! bench/grid --list --seed 12 --count 71 | cargo run --release -p manypath-sim --example grid_points -- [--seeds 3]
//! ```
//!
//! Each line of the result is a set-up, a direction and a seed of the losses, which also makes delays up to 3 % longer or
//! shorter if it is not 1; then Mbit/s over all paths, over the best
//! path alone and of the association, and the first as a part of the second and of the third. `--all` leaves out all but the first, `--only TEXT` takes
//! lines with that text, `--seconds N` makes files shorter or longer. `--one-address` leads all paths to one address of the
//! server, as uplinks of a client do. `--series DIR` keeps what the sender looked like every 10 ms. `--jobs N` uses so many
//! processors instead of all.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};
use manypath_sim::trace_models::Model;
use manypath_sim::{Duration, Rng};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seconds that a file takes at the rates of its paths, and its bytes, as `bench/grid` has them.
const SECONDS: f64 = 7.0;
const SECONDS_OF_SLOW_PATHS: f64 = 4.0;
/// The period of a trace, which a file lasts for.
const TRACE_SECONDS: u64 = 20;
const LEAST: f64 = 1e6;
const MOST: f64 = 1e8;

/// A path as one of the two directions sees it, with the words of a scenario.
#[derive(Clone, Debug)]
struct Path {
    /// In Mbit/s, with the data and against it.
    rates: [f64; 2],
    /// In ms.
    delay: f64,
    /// In packets.
    queues: [String; 2],
    loss: String,
    /// The file of a trace, whose mean is the rate of both directions.
    trace: Option<String>,
}

struct Point {
    name: String,
    download: bool,
    paths: Vec<Path>,
    seed: u64,
}

/// Without a slash both directions have the same.
fn both(word: &str) -> [&str; 2] {
    word.split_once('/').map_or([word; 2], |(down, up)| [down, up])
}

impl Path {
    /// For instance `43.3/3.99 Mbit/s 32 ms q570/53 1.77 %` or `5g (seed 5) 2.5 Mbit/s 5.5 ms q38`.
    fn parse(words: &str, download: bool) -> Self {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (trace, words) = match words[..] {
            [model, "(seed", seed, ref words @ ..] => (Some((model, seed)), words.to_vec()),
            _ => (None, words),
        };
        let trace = trace.map(|(model, seed)| trace_file(model, seed, words[0]));
        let [rate, "Mbit/s", delay, "ms", queue, ..] = words[..] else { panic!("{words:?}") };
        let mut rates = both(rate).map(|rate| rate.parse().unwrap());
        let mut queues = both(queue.trim_start_matches('q')).map(str::to_owned);
        if !download {
            rates.reverse();
            queues.reverse();
        }
        let loss = words.get(5).map_or("0", |loss| *loss);
        Self { rates, delay: delay.parse().unwrap(), queues, loss: format!("{loss}%"), trace }
    }

    /// Up to 3 % longer or shorter.
    fn vary(&mut self, rng: &mut Rng) {
        self.delay *= 0.97 + rng.below(601) as f64 / 10_000.0;
    }

    fn toml(&self, name: char) -> String {
        let Self { rates, delay, queues: [queue, queue_back], loss, trace } = self;
        let [rate, back] = rates.map(|mbit| match trace {
            Some(file) => format!("trace = \"{file}\""),
            None => format!("rate = \"{}kbit\"", (mbit * 1000.0).round()),
        });
        format!(
            "[[path]]\nname = \"{name}\"\n{rate}\ndelay = \"{delay:.4}ms\"\nqueue = {queue}\nloss = \"{loss}\"\n\
             back = {{ {back}, queue = {queue_back} }}\n"
        )
    }
}

/// Makes the trace, and returns its file.
fn trace_file(model: &str, seed: &str, mbit: &str) -> String {
    let seed = seed.trim_end_matches(')').parse().unwrap();
    let rate = (mbit.parse::<f64>().unwrap() * 1e6).round() as u64;
    let trace = Model::named(model).unwrap().generate(seed, TRACE_SECONDS, rate).unwrap();
    let file = std::env::temp_dir().join(format!("{model}-{seed}-{mbit}mbit.trace"));
    // Another process that makes the same one must not read half of it.
    let own = file.with_extension(std::process::id().to_string());
    std::fs::write(&own, trace.to_text()).unwrap();
    std::fs::rename(own, &file).unwrap();
    file.display().to_string()
}

fn rate(paths: &[Path]) -> f64 {
    paths.iter().map(|path| path.rates[0]).sum()
}

fn has_flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

fn bytes(mbit: f64, seconds: f64) -> f64 {
    let given = std::env::args().skip_while(|arg| arg != "--seconds").nth(1);
    let seconds = given.map_or(seconds, |text| text.parse().unwrap());
    (mbit * seconds * 125_000.0).clamp(LEAST, MOST)
}

/// Goodput in Mbit/s.
fn transfer(point: &Point, paths: &[Path], app: &str, bytes: f64, series: Option<&str>) -> f64 {
    let mut text = format!(
        "measure = \"300s\"\nsingle_homed_server = {}\n[engine]\nsend_buffer_max = \"64MiB\"\n\
         receive_buffer_max = \"64MiB\"\n",
        has_flag("--one-address")
    );
    paths.iter().zip('A'..).for_each(|(path, name)| text += &path.toml(name));
    text += &format!("[[app]]\n{app}\nbytes = {bytes:.0}\n");
    let plan = Plan::parse(&text, "grid", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options =
        RunOptions { series: series.map(|_| Duration::from_millis(10)), ..RunOptions::default() };
    let outcome = run(&plan.runs[0].scenario, point.seed, options);
    if let Some((folder, csv)) = series.zip(outcome.series.as_ref()) {
        let way = if point.download { "down" } else { "up" };
        let kind = app.split('"').nth(1).unwrap();
        let alone = point.paths.iter().position(|path| std::ptr::eq(path, paths.as_ptr()));
        let alone = alone.filter(|_| paths.len() < point.paths.len());
        let which = alone.map_or(paths.len().to_string(), |path| format!("alone{path}"));
        let file = format!("{folder}/{}-{way}-{}-{kind}-{which}.csv", point.name, point.seed);
        std::fs::write(file, csv).unwrap();
    }
    outcome.figure("throughput_mbps").unwrap()
}

fn measure(point: &Point, series: Option<&str>, only_all: bool) -> String {
    let Point { name, download, paths, seed } = point;
    let connection = format!("kind = \"connection\"\ndownload = {download}");
    let is_traced = paths.iter().any(|path| path.trace.is_some());
    let lasts = if is_traced { TRACE_SECONDS as f64 } else { SECONDS };
    let size = bytes(rate(paths), lasts);
    let way = if *download { "down" } else { "up" };
    let all = transfer(point, paths, &connection, size, series);
    if only_all {
        return format!("{name}\t{way}\t{seed}\t{all:.2}");
    }
    // In messages of the size that `manypath-lab bench` sends.
    let association = transfer(point, paths, "kind = \"file\"\nmessage = 16384", size, series);
    let most = paths.iter().map(|path| path.rates[0]).fold(0.0, f64::max);
    let alone = paths.iter().map(|path| {
        let own = path.rates[0];
        let seconds = if own < most / 2.0 { SECONDS_OF_SLOW_PATHS } else { lasts };
        transfer(
            point,
            std::slice::from_ref(path),
            &connection,
            bytes(own, seconds).min(size),
            series,
        )
    });
    let best = alone.fold(0.0, f64::max);
    let (to_best, to_association) = (all / best, all / association);
    format!(
        "{name}\t{way}\t{seed}\t{all:.2}\t{best:.2}\t{association:.2}\t{to_best:.3}\t{to_association:.3}"
    )
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let seeds = value("--seeds").map_or(3, |text| text.parse().unwrap());
    let (only, series) = (value("--only").unwrap_or_default(), value("--series"));
    let only_all = has_flag("--all");
    let mut points = Vec::new();
    for line in std::io::stdin().lines().map(Result::unwrap) {
        let (name, words) = line.split_once(' ').unwrap_or((&line, ""));
        if !line.contains(&only) {
            continue;
        }
        for download in [true, false] {
            let paths: Vec<Path> =
                words.split(" + ").map(|words| Path::parse(words, download)).collect();
            points.extend((1..=seeds).map(|seed| {
                let (mut paths, mut rng) = (paths.clone(), Rng::new(seed));
                if seed > 1 {
                    paths.iter_mut().for_each(|path| path.vary(&mut rng));
                }
                Point { name: name.to_owned(), download, paths, seed }
            }));
        }
    }
    println!("set-up\tway\tseed\tall\tbest\tassociation\tto best\tto association");
    let (next, out) = (AtomicUsize::new(0), Mutex::new(()));
    let work = || {
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let line = measure(point, series.as_deref(), only_all);
            let _one_at_a_time = out.lock().unwrap();
            println!("{line}");
        }
    };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = value("--jobs").map_or(all, |text| text.parse().unwrap());
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
}
