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

/// A matter of the size of windows alone.
const MANY: &str = "More than 100 TSNs were gap-acknowledged in this SACK.";

/// Types and lengths of the chunks in a packet that has nothing but a HEARTBEAT without its mandatory Heartbeat Info
/// (RFC 9260 section 3.3.5), as pion sends them now and then.
const EMPTY_HEARTBEAT: (&str, &str) = ("4", "4");

const FIELDS: [&str; 10] = [
    "frame.comment",
    "sctp.chunk_type",
    "sctp.chunk_length",
    "sctp.checksum.status",
    "udp.checksum.status",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
    "ip.src",
    "ipv6.src",
];

/// How the lab begins its comment on a packet that it has not passed on.
const DROPPED: &str = "dropped by the lab";

/// Types of chunks, as they are named in the checks.
pub(crate) const DATA: u8 = 0;
pub(crate) const ABORT: u8 = 6;
pub(crate) const I_DATA: u8 = 64;
pub(crate) const RE_CONFIG: u8 = 130;
pub(crate) const FORWARD_TSN: u8 = 192;

/// A capture in which tshark found nothing wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    /// Packets with SCTP, all of them with verified checksums.
    pub(crate) packets: u64,
    /// How many chunks of each type there were, by the packets' source address.
    pub(crate) chunks: BTreeMap<String, BTreeMap<u8, u64>>,
    /// How many of those were in packets that the lab has not passed on.
    pub(crate) dropped: BTreeMap<String, BTreeMap<u8, u64>>,
    crossings: u64,
    large_window: bool,
}

impl Captured {
    /// How many chunks of this type came from these addresses.
    pub(crate) fn count(&self, from: &[String], kind: u8) -> u64 {
        count(&self.chunks, from, kind)
    }

    /// How many of those the lab has not passed on.
    pub(crate) fn count_dropped(&self, from: &[String], kind: u8) -> u64 {
        count(&self.dropped, from, kind)
    }

    fn add(&mut self, line: &str, ours: &[String]) -> Result<(), String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [comment, types, lengths, sctp, udp, malformed, severity, message, v4, v6] = fields[..]
        else {
            return Err("tshark's line is not understood".to_owned());
        };
        if sctp != "1" || !(udp.is_empty() || udp == "1") {
            return Err(format!("checksums: SCTP {sctp}, UDP {udp} (1 is good)"));
        }
        let from_us = ours.iter().any(|address| address == v4 || address == v6);
        let is_empty_heartbeat = (types, lengths) == EMPTY_HEARTBEAT && !from_us;
        if !malformed.is_empty() && !is_empty_heartbeat {
            return Err("malformed".to_owned());
        }
        for (severity, message) in severity.split(';').zip(message.split(';')) {
            self.crossings += u64::from(message == CROSSED && from_us);
            let warns = severity.parse::<u64>().is_ok_and(|severity| severity >= WARNING);
            let is_known = message == CROSSED || self.large_window && message == MANY;
            if warns && !is_known && !is_empty_heartbeat {
                return Err(message.to_owned());
            }
        }
        for kind in types.split(';').filter_map(|kind| kind.parse().ok()) {
            let is_dropped = comment.starts_with(DROPPED);
            for counted in
                [&mut self.chunks].into_iter().chain(is_dropped.then_some(&mut self.dropped))
            {
                let chunks = counted.entry(format!("{v4}{v6}")).or_default();
                *chunks.entry(kind).or_default() += 1;
            }
        }
        self.packets += 1;
        Ok(())
    }
}

fn count(all: &BTreeMap<String, BTreeMap<u8, u64>>, from: &[String], kind: u8) -> u64 {
    let chunks = from.iter().filter_map(|address| all.get(address));
    chunks.filter_map(|chunks| chunks.get(&kind)).sum()
}

/// Reads a capture; the error is the first packet of which tshark complains. `ours`: our addresses;
/// `large_window`: there may be many packets under way.
pub(crate) fn read(
    capture: &Path,
    ours: &[String],
    large_window: bool,
) -> Result<Captured, String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture);
    tshark.args(["-o", "sctp.checksum:crc-32c", "-o", "udp.check_checksum:TRUE", "-T", "fields"]);
    tshark.args(["-E", "aggregator=;", "-Y", "!icmp && !icmpv6 && (sctp || udp.port == 9899)"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().map_err(|error| format!("tshark: {error}"))?;
    if !output.status.success() {
        return Err(format!("tshark: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut captured = Captured { large_window, ..Captured::default() };
    for (number, line) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
        let added = captured.add(line, ours);
        added.map_err(|complaint| format!("tshark, packet {}: {complaint}: {line}", number + 1))?;
    }
    if captured.packets == 0 {
        return Err("there is nothing in the capture".to_owned());
    }
    let chunks = captured.chunks.iter().filter(|(source, _)| ours.contains(source));
    let sent: u64 = chunks.flat_map(|(_, chunks)| chunks.values()).sum();
    if captured.crossings * 50 > sent {
        return Err(format!("{} of {sent} sent again after their SACK", captured.crossings));
    }
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::Captured;

    #[test]
    fn a_heartbeat_without_its_info_is_the_peers_alone() {
        let line = |source| {
            format!("\t4\t4\t1\t1\t[Malformed Packet: SCTP]\t8388608\tMalformed Packet\t{source}\t")
        };
        let ours = ["10.77.1.1".to_owned()];
        let mut captured = Captured::default();
        assert_eq!(captured.add(&line("10.77.1.2"), &ours), Ok(()));
        assert_eq!(captured.add(&line("10.77.1.1"), &ours), Err("malformed".to_owned()));
        let truncated = line("10.77.1.2").replacen("4\t4", "4\t40", 1);
        assert_eq!(captured.add(&truncated, &ours), Err("malformed".to_owned()));
    }

    #[test]
    fn what_the_lab_has_dropped_is_counted_by_its_comment() {
        let line = |comment| format!("{comment}\t192;0\t8;20\t1\t1\t\t\t\t10.77.1.1\t");
        let ours = ["10.77.1.1".to_owned()];
        let mut captured = Captured::default();
        assert_eq!(captured.add(&line(""), &ours), Ok(()));
        assert_eq!(captured.add(&line("dropped by the lab: queue full"), &ours), Ok(()));
        assert_eq!((captured.count(&ours, 0), captured.count_dropped(&ours, 0)), (2, 1));
    }
}
