use super::*;

/// Bits per tenth of a second.
fn series(trace: &Trace) -> Vec<u64> {
    let mut bits = vec![0; (trace.period().as_millis() / 100) as usize];
    for time in trace.times() {
        bits[((time - 1) / 100) as usize] += 12_000;
    }
    bits
}

fn generate(name: &str, seconds: u64) -> Trace {
    Model::named(name).unwrap().generate(1, seconds, 12_000_000).unwrap()
}

#[test]
fn each_model_has_the_rate_and_the_length_asked_for_and_a_seed_of_its_own() {
    for model in &MODELS {
        let trace = model.generate(1, 30, 6_000_000).unwrap();
        assert_eq!(trace.mean_rate_bps(), 6_000_000, "{}", model.name);
        assert_eq!(trace.period().as_secs(), 30, "{}", model.name);
        assert_eq!(trace, model.generate(1, 30, 6_000_000).unwrap());
        assert_ne!(trace, model.generate(2, 30, 6_000_000).unwrap());
    }
}

#[test]
fn lengths_and_rates_out_of_bounds_are_refused() {
    let error = |seconds, rate| MODELS[0].generate(1, seconds, rate).unwrap_err();
    assert!(error(0, 1_000_000).contains("1 to 86400 seconds"));
    assert!(error(100_000, 1_000_000).contains("1 to 86400 seconds"));
    assert!(error(1, 11_999).contains("are 0 packets"));
    assert!(error(86_400, 1_000_000_000).contains("1 to 50000000"));
}

#[test]
fn an_outage_from_beginning_to_end_is_a_trace_too() {
    assert_eq!(times(&[0.0; 50], 3), [50, 50, 50]);
    assert_eq!(times(&[1.0, 0.0, 1.0, 2.0], 4), [1, 3, 4, 4]);
}

/// Longest run of tenths of a second without a packet, and the largest tenth relative to the mean.
fn extremes(name: &str) -> (usize, f64) {
    let series = series(&generate(name, 300));
    let gap = series.split(|bits| *bits > 0).map(<[u64]>::len).max().unwrap();
    (gap, *series.iter().max().unwrap() as f64 / 1_200_000.0)
}

#[test]
fn each_model_has_the_outages_and_peaks_that_it_is_there_for() {
    let (gap, peak) = extremes("lte-drive");
    assert!(gap >= 5 && peak > 1.8, "{gap} {peak}");
    for (name, max_gap) in [("lte", 2), ("5g", 0), ("geo", 0), ("dsl", 0), ("wifi", 3)] {
        assert!(extremes(name).0 <= max_gap, "{name}: {:?}", extremes(name));
    }
    let (gap, _) = extremes("leo");
    assert!((2..=20).contains(&gap), "{gap}");
}

#[test]
fn satellites_change_every_15_seconds() {
    let series = series(&generate("leo", 120));
    // Rates between two changes vary less than those of different assignments.
    let mean = |from: usize| series[from..from + 140].iter().sum::<u64>() / 140;
    let steps = [125, 275, 425, 575, 725, 875].map(mean);
    let different = steps.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 120_000).count();
    assert!(different >= 3, "{steps:?}");
    for change in [120, 270, 420, 570] {
        assert!(series[change] < steps.iter().sum::<u64>() / 6, "an interruption at {change}");
    }
}

#[test]
fn what_blocks_a_5g_signal_costs_most_of_its_rate() {
    let mut series = series(&generate("5g", 300));
    series.sort_unstable();
    let part = |share: usize| series[series.len() * share / 100];
    assert!(part(3) * 2 < part(50) && part(50) * 12 > part(99) * 8, "{} {}", part(3), part(50));
}
