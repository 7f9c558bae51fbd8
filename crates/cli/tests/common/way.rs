//! What programs hear of their connections' ways, whatever takes them to their stack (`programs/way.py`).

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use super::clients::Run;
use super::{Site, finish};
use manypath_lab::Host;
use serde_json::Value;

pub(crate) const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/way.py");

/// Two hosts, 40 ms apart, with a web server whose file takes a few round trips. Nobody serves yet.
pub(crate) fn site() -> Site {
    let mut site = Site::with_paths(&["100mbit,20ms,queue=200", "50mbit,20ms,queue=200"]);
    site.web();
    site.random_file("big", 1 << 20);
    site
}

/// The right host's address of a family.
pub(crate) fn server(site: &Site, v6: bool) -> String {
    if v6 { site.lab.address_v6(Host::Right, 0).to_string() } else { site.server() }
}

/// What a program of the left host hears that fetches the file.
pub(crate) fn ask(site: &Site, v6: bool, run: Run) -> Value {
    let done = finish(run("python3", &[PROGRAM, "connect", &server(site, v6), "8080"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// Asserts that one answer is of a connection that takes 40 ms. A stack that waits for its turn between looking at the
/// clock and at the socket takes what came meanwhile for earlier than it was; over loopback it would be far below a
/// millisecond.
pub(crate) fn of_way(told: &Value) {
    let number = |name: &str| told[name].as_u64().unwrap();
    assert!((20_000..1_000_000).contains(&number("rtt_us")), "{told}");
    assert!((20_000..1_000_000).contains(&number("least_rtt_us")), "{told}");
    assert!((1000..1500).contains(&number("mss")), "{told}");
    assert!((1..100_000).contains(&number("cwnd")), "{told}");
    assert_eq!(told["state"], 1, "{told}");
}

/// Asserts that two answers are of the association: at once, and when it has found the size of packets.
pub(crate) fn of_association(told: &Value) {
    for answer in [&told["first"], &told["later"]] {
        of_way(answer);
    }
    assert_eq!(told["first"]["receive_buffer"], 8 << 20, "{told}");
    let later = &told["later"];
    // The window of the connection has grown with what was read.
    assert!(later["receive_buffer"].as_u64().unwrap() >= 8 << 20, "{told}");
    assert!((1400..1440).contains(&later["mss"].as_u64().unwrap()), "{told}");
    assert_eq!(later["maxseg"], later["mss"], "{told}");
    is_cut(told);
}

/// Asserts all of what a program hears whose connections are carried.
pub(crate) fn carried(told: &Value) {
    of_association(told);
    assert_eq!(told["chosen"], 100_000, "{told}");
    assert_eq!(told["left_again"], 8 << 20, "{told}");
}

/// Asserts that who has little room gets the beginning.
pub(crate) fn is_cut(told: &Value) {
    let short = serde_json::json!({"info": 19, "mss_begins": true, "maxseg": true});
    assert_eq!(told["short"], short, "{told}");
}
