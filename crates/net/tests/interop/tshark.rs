//! What tshark says about a capture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Expert severity "warning" of Wireshark (`PI_WARN`); notes are below it.
const WARNING: u64 = 0x0060_0000;

/// What tshark takes for a warning although it is none: a chunk is sent again although the capture has
/// its SACK already, which is still under way to the sender, or lost behind the capture. From us that
/// must be rare; usrsctp, when it has not had the processor for some milliseconds, sends whole windows
/// again before it has read what waits for it.
const CROSSED: &str = "This TSN was acked prior to this retransmission (reneged ack?).";

/// How many chunks of each type there were, by the packets' source address; `ours` is the address of
/// our end. Panics at the first packet with a wrong checksum, or of which tshark complains.
pub(crate) fn chunks_without_complaint(
    capture: &Path,
    ours: &str,
) -> BTreeMap<String, BTreeMap<u8, u64>> {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(capture)
        .args(["-o", "sctp.checksum:crc-32c", "-o", "udp.check_checksum:TRUE", "-T", "fields"])
        .args(["-E", "aggregator=;"])
        .args(["-e", "sctp.chunk_type", "-e", "sctp.checksum.status", "-e", "udp.checksum.status"])
        .args(["-e", "_ws.malformed", "-e", "_ws.expert.severity", "-e", "_ws.expert.message"])
        .args(["-e", "ip.src", "-e", "ipv6.src", "-Y", "udp.port == 9899"])
        .output()
        .expect("tshark runs: apt install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut chunks = BTreeMap::<String, BTreeMap<u8, u64>>::new();
    let mut crossings = 0;
    for (number, line) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [types, sctp_checksum, udp_checksum, malformed, severity, message, v4, v6] = fields[..]
        else {
            panic!("packet {number}: {line}")
        };
        assert_eq!(
            (sctp_checksum, udp_checksum),
            ("1", "1"),
            "checksums of packet {number}: {line}"
        );
        assert_eq!(malformed, "", "packet {number} is malformed: {line}");
        let warns = |text: &str| text.parse::<u64>().is_ok_and(|severity| severity >= WARNING);
        for (severity, message) in severity.split(';').zip(message.split(';')) {
            crossings += u64::from(message == CROSSED && (v4 == ours || v6 == ours));
            assert!(message == CROSSED || !warns(severity), "packet {number}: {message}: {line}");
        }
        for kind in types.split(';').filter(|text| !text.is_empty()) {
            let chunks = chunks.entry(format!("{v4}{v6}")).or_default();
            *chunks.entry(kind.parse().expect("a chunk type")).or_default() += 1;
        }
    }
    let sent = chunks.get(ours).map_or(0, |kinds| kinds.values().sum::<u64>());
    assert!(crossings * 50 <= sent, "{crossings} of {sent} sent again after their SACK");
    chunks
}
