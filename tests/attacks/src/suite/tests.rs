//! Attacks of other users of a host: the tests of `crates/cli` make them against running stacks already.

use super::{Outcome, Say};
use crate::report::Bound::AtLeast;
use crate::report::Row;
use std::path::Path;
use std::process::Command;

/// Attack, file of tests, test.
const TESTS: &[(&str, &str, &str)] = &[
    (
        "a user who has UDP port 9899 answers for TCP port 80",
        "privileged_ports",
        "a_user_who_has_udp_9899_gets_no_connections_to_ports_below_1024",
    ),
    (
        "a user who has UDP port 9899 keeps root from serving",
        "privileged_ports",
        "root_serves_ports_below_1024_beside_a_user_who_has_udp_9899",
    ),
    (
        "another user asks and orders a stack",
        "security",
        "another_user_of_the_host_can_neither_ask_nor_order_a_stack",
    ),
    (
        "a peer at a service that trusts loopback",
        "security",
        "a_service_that_trusts_loopback_does_not_trust_peers",
    ),
    (
        "a local user takes the source port of a connection that is over, towards accept",
        "cgroup_servers",
        "a_local_user_is_not_taken_for_a_peer_whose_connection_is_over",
    ),
    (
        "a stack of root that an attacker has taken over",
        "unprivileged",
        "a_server_that_root_has_started_reads_packets_without_rights",
    ),
];

pub(super) fn run(_manypath: &Path, say: Say<'_>) -> Outcome<()> {
    for (attack, file, name) in TESTS {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command.args([
            "test",
            "--locked",
            "-p",
            "manypath-cli",
            "--test",
            "it",
            "--",
            "--exact",
            "--nocapture",
            &format!("{file}::{name}"),
        ]);
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        let said = |text: &[u8], what| String::from_utf8_lossy(text).contains(what);
        // A name that no test has would pass, too, and so does a test that was left out.
        let skipped = said(&output.stderr, "SKIPPED") || said(&output.stdout, "SKIPPED");
        let passed = said(&output.stdout, "1 passed") && !skipped;
        let passed = if passed { 1.0 } else { 0.0 };
        say(Row::new(attack, &format!("`{file}`: {name}"), passed, AtLeast(1.0)));
    }
    Ok(())
}
