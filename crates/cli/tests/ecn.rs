//! The ECN bits on their whole way: a program's download through queues that mark.

use crate::common;

use common::Site;
use std::io::Read;
use std::process::Stdio;

/// Marks early, as BBR leaves a short queue; a full one would take half a second.
const MARKING: &[&str] = &["20mbit,10ms,queue=800,red=1:20:50%"];
const FILE: u64 = 6_000_000;

#[test]
fn a_download_answers_the_marks_of_queues_on_its_way() {
    let mut site = Site::with_paths(MARKING);
    site.web();
    let content = site.random_file("file", FILE);
    site.serve("8080");
    let url = format!("http://{}:8080/file", site.server());
    let mut command = site.through_command(&[], "curl", &["-sS", "-f", "-N", &url]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("curl");
    let mut stream = child.stdout.take().expect("its output");
    let mut received = vec![0; FILE as usize * 3 / 4];
    stream.read_exact(&mut received).expect("three quarters of the file");
    let status = site.server_status();
    let path = &status["associations"][0]["paths"][0];
    stream.read_to_end(&mut received).expect("the rest of the file");
    assert!(child.wait().expect("its end").success());
    assert!(received == content, "damaged");
    assert_eq!(path["ecn"], "on", "{path:#}");
    let count = |name: &str| path[name].as_u64().expect("a number");
    assert!(count("ecne_received") > 0 && count("ecn_reductions") > 0, "{path:#}");
    assert_eq!((count("fast_retransmits"), count("timeouts")), (0, 0), "{path:#}");
}
