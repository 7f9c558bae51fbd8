//! How fast an unlimited path is. A measurement, not a check of correctness: it needs an idle
//! machine and an optimised build, and is therefore asked for by name:
//! `cargo test --release -p manypath-lab --test it -- --ignored --nocapture throughput::`.

use crate::support;

use manypath_lab::{Host, LabSpec};
use support::{Server, isolations, run, specs, start};

#[test]
#[ignore = "a measurement, for an idle machine"]
fn an_unlimited_path_carries_500_mbit_per_second() {
    for isolation in isolations() {
        for path in ["rate=unlimited,queue=1000", "rate=1gbit,delay=5ms,queue=5000"] {
            let spec = LabSpec { isolation, ..LabSpec::new(specs(&[path])) };
            let Some(lab) = start(spec) else { return };
            let mut sink = Server::start(&lab, Host::Right, "tcp-sink", &["10.77.1.2:9"]);
            run(&lab, Host::Left, "tcp-send", &["10.77.1.2:9", "300000000"]);
            let answer = sink.answer("received ");
            let numbers: Vec<f64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
            let status = lab.status().unwrap();
            let mbps = status.paths[0].towards_right.bytes_out as f64 * 8.0 / numbers[1];
            println!("{isolation:?}, {path}: {mbps:.0} Mbit/s of 1500-byte packets\n{status}");
            assert!(mbps >= 500.0, "{mbps}");
        }
    }
}
