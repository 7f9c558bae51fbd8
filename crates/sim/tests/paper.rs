//! The engine in the profile `paper` against the numbers of Dreibholz et al. (2010): the knees of
//! Figure 4 and the stated points of Figure 7, with one seed and a short measurement each, and what
//! switching an algorithm off does to them.

use manypath_engine::{
    BufferSplit, Config, CwndUpdate, Experiment, NrSack, PathScheduling, SplitFastRetransmit,
    SplitMeasure,
};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};

/// Paths as (Mbit/s, ms), with the access networks of the simulation model.
fn scenario(paths: &[(u32, u32)], streams: u16, queue_info: bool) -> String {
    let mut text = String::from(
        "name = \"paper\"\nwarmup = \"19s\"\nmeasure = \"25s\"\nudp = false\n\
         start = { min = \"0.9s\", max = \"1.1s\" }\n",
    );
    for (number, (rate, delay)) in paths.iter().enumerate() {
        text += &format!(
            "[[path]]\nname = \"P{number}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n\
             queue = 100\nframing = 7\n\
             access = {{ rate = \"1gbit\", delay = \"0.4ms\", jitter = \"200us\" }}\n"
        );
    }
    text + &format!(
        "[[app]]\nkind = \"saturated\"\nstreams = {streams}\nmessage = 1452\nqueue_info = {queue_info}\n"
    )
}

/// Goodput in Mbit/s and mean delay of a message in ms.
fn simulate(scenario: &str, sigma_kib: u32, config: Config) -> (f64, f64) {
    let plan = Plan::parse(scenario, "paper.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut one = plan.runs[0].scenario.clone();
    let buffer = sigma_kib << 10;
    one.config = Config { send_buffer: buffer, receive_buffer: buffer, ..config };
    let outcome = run(&one, 1, RunOptions::default());
    let figure = |name: &str| outcome.figure(name).unwrap();
    (figure("throughput_mbps"), figure("delay_ms"))
}

/// Figure 4: A 10 Mbit/s 10 ms, B 10 Mbit/s and this delay; two streams.
fn figure_4(delay_b: u32, fixed: bool, sigma_kib: u32, config: Config) -> f64 {
    let mapping = if fixed { "0,1" } else { "any" };
    let config = Config { stream_mapping: mapping.parse().unwrap(), ..config };
    simulate(&scenario(&[(10, 10), (10, delay_b)], 2, false), sigma_kib, config).0
}

/// Figure 7: A and B 10 Mbit/s 10 ms, C 1 Mbit/s 50 ms; seven streams, #0 on C.
fn figure_7(fixed: bool, nr_sack: NrSack, sigma_kib: u32, config: Config) -> (f64, f64) {
    let mapping = if fixed { "2,0,1,0,1,0,1" } else { "any" };
    let config = Config { stream_mapping: mapping.parse().unwrap(), nr_sack, ..config };
    simulate(&scenario(&[(10, 10), (10, 10), (1, 50)], 7, true), sigma_kib, config)
}

#[test]
fn figure_4_is_full_where_the_paper_says() {
    let paper = Config::paper;
    for (delay_b, fixed, sigma, least, most) in [
        (10, true, 64, 18.9, 19.3),
        (10, false, 64, 18.9, 19.3),
        (75, true, 192, 0.0, 16.0),
        (75, true, 224, 18.9, 19.3),
        (75, false, 224, 0.0, 16.0),
        (75, false, 256, 0.0, 18.5),
        (75, false, 288, 18.9, 19.3),
    ] {
        let mbps = figure_4(delay_b, fixed, sigma, paper());
        println!("dB {delay_b} ms, fixed {fixed}, {sigma} KiB: {mbps:.2} Mbit/s");
        assert!((least..=most).contains(&mbps), "{delay_b} {fixed} {sigma}: {mbps}");
    }
}

#[test]
fn figure_7_has_the_stated_points() {
    let show = |name: &str, (mbps, ms): (f64, f64)| {
        println!("{name}: {mbps:.2} Mbit/s, {ms:.1} ms");
        (mbps, ms)
    };
    let at = |fixed, nr_sack, sigma| figure_7(fixed, nr_sack, sigma, Config::paper());
    let (mbps, _) = show("fixed, NR-SACK, 128 KiB", at(true, NrSack::Case2, 128));
    assert!(mbps >= 19.8, "{mbps}");
    let (mbps, ms) = show("fixed, 256 KiB", at(true, NrSack::Off, 256));
    assert!((5.0..=6.0).contains(&mbps) && (130.0..=175.0).contains(&ms), "{mbps} {ms}");
    let (slow, ms) = show("round robin, 256 KiB", at(false, NrSack::Off, 256));
    assert!(slow < 3.0 && ms > 600.0, "{slow} {ms}");
    let (mbps, _) = show("round robin, NR-SACK, 256 KiB", at(false, NrSack::Case2, 256));
    assert!(mbps >= slow && mbps < 1.15 * slow, "{mbps} {slow}");
}

/// The profile with another choice.
fn paper_but(change: impl FnOnce(&mut Experiment)) -> Config {
    let mut config = Config::paper();
    change(&mut config.experiment);
    config
}

#[test]
fn without_its_algorithms_the_profile_gives_something_else() {
    let paper = Config::paper;
    let off = paper_but(|it| it.split_fast_retransmit = SplitFastRetransmit::Off);
    let mbps = figure_4(75, true, 224, off);
    println!("without split fast retransmit: {mbps:.2} Mbit/s");
    assert!(mbps < 6.0, "{mbps}");
    // Windows that grow with the cumulative TSN alone recover slowly from losses.
    let lossy = |cwnd_update| {
        let text = scenario(&[(10, 10), (10, 75)], 2, false)
            .replace("queue = 100", "queue = 100\nloss = \"0.1%\"");
        let stream_mapping = "0,1".parse().unwrap();
        let config = paper_but(|it| it.cwnd_update = cwnd_update);
        simulate(&text, 224, Config { stream_mapping, ..config }).0
    };
    let (none, v2) = (lossy(CwndUpdate::None), lossy(CwndUpdate::V2));
    println!("0.1 % lost, congestion window update none: {none:.2}, v2: {v2:.2} Mbit/s");
    assert!(none < 0.8 * v2, "{none} {v2}");
    // Split by what is outstanding, round robin is full as early as the fixed mapping.
    let outstanding =
        BufferSplit { measure: SplitMeasure::Outstanding, ..paper().experiment.buffer_split };
    for fixed in [true, false] {
        let mbps = figure_4(75, fixed, 224, paper_but(|it| it.buffer_split = outstanding));
        println!("split by outstanding, fixed {fixed}, 224 KiB: {mbps:.2} Mbit/s");
        assert!(mbps >= 18.9, "{mbps}");
    }
}

/// Without a split one of two things happens, and neither fills the paths at 288 KiB: the slow path
/// takes the whole buffer and keeps it, because what it acknowledges comes back over it and the path
/// of the last SACK goes first; or, with another path order, both paths wait for each other now and then.
#[test]
fn without_a_split_the_slow_path_keeps_the_buffer_or_hinders_the_fast_one() {
    let mut whole = paper_but(|it| it.buffer_split = BufferSplit::NONE);
    let captured = figure_4(75, false, 288, whole.clone());
    whole.experiment.path_scheduling = PathScheduling::SmallestSrtt;
    let shared = figure_4(75, false, 288, whole);
    println!("not split, round robin, 288 KiB: {captured:.2} and {shared:.2} Mbit/s");
    assert!((captured / (10.0 * 1452.0 / 1507.0) - 1.0).abs() < 0.01, "{captured}");
    assert!((16.0..18.9).contains(&shared), "{shared}");
}
