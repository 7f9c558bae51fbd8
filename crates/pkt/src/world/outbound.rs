//! Packets from the stack, which must be those of the script, in order and in time.

use super::clock::Window;
use super::words::{self, seconds};
use super::{Sent, World};
use crate::language::Why;
use crate::language::ast::{Body, EcnBits, Header, Item, Packet, Value};
use crate::packet::{Class, Tlvs, check};
use manypath_engine::{Duration, Ecn, Instant};
use manypath_wire::checksum::crc32c;
use manypath_wire::packet::CommonHeader;

/// How long after its time a packet is still waited for, to be able to say when it came.
const GRACE: Duration = Duration::from_secs(120);

impl World {
    /// Waits for the next packet of the stack and compares it.
    pub(crate) fn expect(&mut self, packet: &Packet, window: Window) -> Result<(), Why> {
        let Body::Chunks(header, chunks) = &packet.body else {
            return Err(Why::gap("outbound packets are described by their chunks"));
        };
        let Some(sent) = self.next_packet(window.to + GRACE, packet.addresses.is_some()) else {
            let text = format!("{} was expected, but nothing was sent", names(chunks));
            return Err(Why::mismatch(text));
        };
        self.learn(chunks, &sent);
        self.compare(packet, header, chunks, &sent)?;
        if sent.at < window.from || window.to < sent.at {
            return Err(Why::mismatch(format!(
                "{} was sent at {:.3} s and not at {:.3} s{}",
                names(chunks),
                seconds(sent.at),
                seconds(window.from + self.network.tolerance),
                tolerance(self.network.tolerance),
            )));
        }
        Ok(())
    }

    /// The oldest packet not looked at, or the next one that timers make the stack send. Unless the
    /// script names addresses it sees only the path that it began with.
    fn next_packet(&mut self, until: Instant, all: bool) -> Option<Sent> {
        let main = (self.network.local, self.network.remote);
        loop {
            while let Some(sent) = self.sent.pop_front() {
                if all || (sent.path.local.ip(), sent.path.remote.ip()) == main {
                    return Some(sent);
                }
            }
            if !self.advance_to_timer(until) {
                return None;
            }
        }
    }

    fn compare(
        &self,
        packet: &Packet,
        header: &Header,
        chunks: &[Item],
        sent: &Sent,
    ) -> Result<(), Why> {
        let (common, body) = sent
            .bytes
            .split_at_checked(CommonHeader::LEN)
            .ok_or_else(|| Why::mismatch("the packet has no common header"))?;
        checksum(header, &sent.bytes)?;
        if let Some(tag) = header.tag {
            let found = u32::from_be_bytes([common[4], common[5], common[6], common[7]]);
            if found != tag && found != self.numbers.tag_to_live(tag) {
                return Err(Why::mismatch(format!(
                    "the verification tag is {found} and not {tag}"
                )));
            }
        }
        compare_ecn(packet, sent)?;
        self.compare_addresses(packet, sent)?;
        let found = Tlvs(body).collect::<Result<Vec<_>, _>>().map_err(Why::mismatch)?;
        for (item, chunk) in chunks.iter().zip(&found) {
            check(item, Class::Chunk, chunk, &self.numbers).map_err(|why| match why {
                Why::Mismatch(text) => {
                    Why::mismatch(format!("{text} (sent at {})", words::sent(sent)))
                }
                Why::Syntax(_) | Why::Gap(_) => why,
            })?;
        }
        if chunks.len() == found.len() {
            return Ok(());
        }
        let text = format!("{} was expected, sent was at {}", names(chunks), words::sent(sent));
        Err(Why::mismatch(text))
    }

    fn compare_addresses(&self, packet: &Packet, sent: &Sent) -> Result<(), Why> {
        let swapped = packet.addresses.map(|(from, to)| (to, from));
        let udp = packet.udp.map(|(from, to)| (to, from));
        let expected = self.network.path(swapped, udp);
        let found = sent.path;
        let ports = (packet.udp.is_some() || self.network.udp != (0, 0))
            && (found.local.port(), found.remote.port())
                != (expected.local.port(), expected.remote.port());
        let ips = packet.addresses.is_some()
            && (found.local.ip(), found.remote.ip()) != (expected.local.ip(), expected.remote.ip());
        if ports || ips {
            let text = format!("sent from {} to {}", found.local, found.remote);
            return Err(Why::mismatch(text));
        }
        Ok(())
    }

    /// Takes the numbers of the stack out of its INIT or INIT ACK, and what it wants to have back.
    fn learn(&mut self, chunks: &[Item], sent: &Sent) {
        let Some(body) = sent.bytes.get(CommonHeader::LEN..) else { return };
        for chunk in Tlvs(body).map_while(Result::ok) {
            let number = |at: usize| {
                chunk.get(at..at + 4).map_or(0, |n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]))
            };
            let setup =
                chunks.iter().find(|item| matches!(item.name.as_str(), "INIT" | "INIT_ACK"));
            match (chunk[0], setup) {
                (1 | 2, Some(item)) if self.is_first_setup(chunk[0], item) => {
                    let expected = |key| match item.get(key) {
                        Some(Value::Int(number)) => u32::try_from(*number).ok(),
                        _ => None,
                    };
                    self.numbers.live_tag = number(4);
                    self.numbers.live_tsn = number(16);
                    self.numbers.script_tag = expected("tag").unwrap_or(number(4));
                    self.numbers.script_tsn = expected("tsn").unwrap_or(number(16));
                }
                (4, _) => self.numbers.heartbeat = chunk.get(4..).map(<[u8]>::to_vec),
                _ => {}
            }
            if chunk[0] == 2 {
                self.learn_cookie(chunk);
            }
        }
    }

    /// Whether the numbers in an INIT or INIT ACK are to be learnt. When this side connects, they
    /// are those of its first INIT; when it listens, those of its last INIT ACK, unless the script
    /// shows by `tag=...` that it has no use for them.
    fn is_first_setup(&mut self, chunk_type: u8, item: &Item) -> bool {
        if chunk_type == 2 {
            let named = item.get("tag") != Some(&Value::Any);
            return !self.sockets.is_connecting() && (named || !self.is_established());
        }
        !std::mem::replace(&mut self.sockets.init_seen, true)
    }

    fn learn_cookie(&mut self, init_ack: &[u8]) {
        let parameters = init_ack.get(20..).unwrap_or_default();
        let mut parameters = Tlvs(parameters).map_while(Result::ok);
        if let Some(cookie) = parameters.find(|parameter| parameter[..2] == [0, 7]) {
            self.numbers.cookie = Some(cookie[4..].to_vec());
            self.numbers.cookie_tag = init_ack
                .get(4..8)
                .map_or(0, |tag| u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]));
        }
    }
}

fn compare_ecn(packet: &Packet, sent: &Sent) -> Result<(), Why> {
    let fits = match packet.ecn {
        Some(EcnBits::Exactly(ecn)) => sent.ecn == ecn,
        Some(EcnBits::Capable) => matches!(sent.ecn, Ecn::Ect0 | Ecn::Ect1),
        None => true,
    };
    let text = || format!("the ECN bits are {:?} (sent at {})", sent.ecn, words::sent(sent));
    if fits { Ok(()) } else { Err(Why::mismatch(text())) }
}

fn checksum(header: &Header, bytes: &[u8]) -> Result<(), Why> {
    let mut zeroed = bytes.to_vec();
    let found = zeroed[8..CommonHeader::LEN].to_vec();
    zeroed[8..CommonHeader::LEN].fill(0);
    let expected = if header.zero_checksum { 0 } else { crc32c(&[&zeroed]) };
    if found == expected.to_le_bytes() {
        return Ok(());
    }
    Err(Why::mismatch("the checksum is wrong"))
}

/// The chunks of a packet in words.
fn names(chunks: &[Item]) -> String {
    let names: Vec<_> = chunks.iter().map(|chunk| chunk.name.as_str()).collect();
    names.join("; ")
}

fn tolerance(tolerance: Duration) -> String {
    format!(" (+- {} ms)", tolerance.as_secs_f64() * 1000.0)
}
