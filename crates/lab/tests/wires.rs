//! Hosts joined by veth pairs.

use manypath_lab::{Host, LabError, Wires};
use std::process::Command;

/// Both hosts, or the reason why there can be none: only without root.
fn wires(count: usize, mtu: u32) -> Option<Wires> {
    match Wires::start(count, mtu) {
        Ok(wires) => Some(wires),
        Err(error) => {
            assert_ne!(uid(), 0, "{error}");
            println!("SKIPPED: {error}");
            None
        }
    }
}

fn uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_wire_joins_both_hosts_and_has_the_size_that_was_asked_for() {
    let Some(wires) = wires(2, 9000) else { return };
    for index in 0..2 {
        let to = wires.address(Host::Right, index).to_string();
        let mut command = wires.command(Host::Left, "ping");
        // Not fragmented: 8972 bytes and headers are 9000.
        command.args(["-c", "1", "-W", "5", "-M", "do", "-s", "8972", &to]);
        assert!(said(command).contains(" 1 received"));
    }
    let mut command = wires.command(Host::Right, "cat");
    command.arg("/proc/net/dev");
    let devices = said(command);
    assert!(devices.contains("pathA:") && devices.contains("pathB:"), "{devices}");
    assert_eq!(wires.count(), 2);
}

#[test]
fn what_makes_no_sense_is_told() {
    for (count, mtu) in [(0, 1500), (27, 1500), (1, 100)] {
        assert!(matches!(Wires::start(count, mtu), Err(LabError::Invalid(_))));
    }
}
