//! Packets from the script to the stack.

use super::World;
use super::network::PORT;
use crate::language::Why;
use crate::language::ast::{Body, EcnBits, Header, Icmp, Item, Packet, Value};
use crate::packet::{Class, build};
use manypath_engine::Ecn;
use manypath_wire::checksum::crc32c;
use manypath_wire::packet::CommonHeader;

impl World {
    /// Hands a packet to the stack.
    pub(crate) fn inject(&mut self, packet: &Packet) -> Result<(), Why> {
        match &packet.body {
            Body::Chunks(header, chunks) => {
                self.learn_from_peer(chunks)?;
                let bytes = self.bytes_of(chunks)?;
                let tag = self.tag_of(header, chunks, &bytes);
                self.deliver(packet, header, tag, bytes)
            }
            Body::Bytes(header, bytes) => {
                let tag =
                    header.tag.map_or(self.numbers.live_tag, |tag| self.numbers.tag_to_live(tag));
                let tag = if bytes.first() == Some(&1) && header.tag.is_none() { 0 } else { tag };
                self.learn_from_bytes(bytes);
                self.deliver(packet, header, tag, bytes.clone())
            }
            Body::Icmp(icmp) => self.inject_icmp(packet, icmp),
        }
    }

    fn bytes_of(&self, chunks: &[Item]) -> Result<Vec<u8>, Why> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            bytes.extend(build(chunk, Class::Chunk, &self.numbers)?);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        Ok(bytes)
    }

    /// What the peer says of itself in its INIT or INIT ACK.
    fn learn_from_peer(&mut self, chunks: &[Item]) -> Result<(), Why> {
        let is_setup = |chunk: &&Item| matches!(chunk.name.as_str(), "INIT" | "INIT_ACK");
        let Some(Value::Int(tag)) = chunks.iter().find(is_setup).and_then(|chunk| chunk.get("tag"))
        else {
            return Ok(());
        };
        if !self.is_established() {
            let bad = |_| Why::syntax(format!("tag {tag} is out of range"));
            self.numbers.peer_tag = u32::try_from(*tag).map_err(bad)?;
        }
        Ok(())
    }

    fn learn_from_bytes(&mut self, bytes: &[u8]) {
        if let (Some(1 | 2), Some(tag)) = (bytes.first(), bytes.get(4..8))
            && !self.is_established()
        {
            self.numbers.peer_tag = tag.iter().fold(0, |tag, byte| tag << 8 | u32::from(*byte));
        }
    }

    pub(super) fn is_established(&self) -> bool {
        let mut links = self.stacks.iter().flat_map(|stack| stack.links.values());
        links.any(|link| link.streams.is_some() && link.closed.is_none())
    }

    /// The verification tag: that of the script, or the one that the chunks ask for.
    fn tag_of(&self, header: &Header, chunks: &[Item], bytes: &[u8]) -> u32 {
        let reflected = |chunk: &Item| match (chunk.name.as_str(), chunk.get("flgs")) {
            ("ABORT" | "SHUTDOWN_COMPLETE", Some(Value::Word(flags))) => flags.contains('T'),
            ("ABORT" | "SHUTDOWN_COMPLETE", Some(Value::Int(flags))) => flags & 1 == 1,
            _ => false,
        };
        let reflected = chunks.iter().any(reflected);
        match header.tag {
            Some(tag) if reflected => tag,
            Some(tag) => self.numbers.tag_to_live(tag),
            None if chunks.iter().any(|chunk| chunk.name == "INIT") => 0,
            None if bytes.first() == Some(&1) => 0,
            None if reflected => self.numbers.peer_tag,
            None if bytes.first() == Some(&10) && self.numbers.cookie.is_some() => {
                self.numbers.cookie_tag
            }
            // Without an association any tag will do but 0, which is for INIT.
            None => self.numbers.live_tag.max(1),
        }
    }

    fn deliver(
        &mut self,
        packet: &Packet,
        header: &Header,
        tag: u32,
        chunks: Vec<u8>,
    ) -> Result<(), Why> {
        let local_port = PORT;
        let ports = [PORT.to_be_bytes(), local_port.to_be_bytes()].concat();
        let mut bytes = [ports, tag.to_be_bytes().to_vec(), vec![0; 4], chunks].concat();
        let checksum = if header.zero_checksum { 0 } else { crc32c(&[&bytes]) };
        let checksum = checksum ^ u32::from(header.bad_checksum);
        bytes[8..CommonHeader::LEN].copy_from_slice(&checksum.to_le_bytes());
        let path = self.network.path(packet.addresses, packet.udp);
        let now = self.now;
        if self.trace {
            super::words::trace(now, '<', path, &bytes);
        }
        let stack = self.receiver()?;
        let ecn = match packet.ecn {
            Some(EcnBits::Exactly(ecn)) => ecn,
            Some(EcnBits::Capable) => Ecn::Ect0,
            None => Ecn::NotEct,
        };
        stack.endpoint.handle_marked_packet(now, path, &mut bytes, ecn);
        self.drain();
        Ok(())
    }

    /// The stack that packets go to: the last one that was made.
    fn receiver(&mut self) -> Result<&mut super::Stack, Why> {
        if self.stacks.is_empty() {
            self.add_stack(self.config.clone())?;
        }
        self.stacks.last_mut().ok_or_else(|| Why::gap("no stack"))
    }

    fn inject_icmp(&mut self, packet: &Packet, icmp: &Icmp) -> Result<(), Why> {
        let ports = [PORT.to_be_bytes(), PORT.to_be_bytes()].concat();
        let quote = [ports, self.numbers.peer_tag.to_be_bytes().to_vec(), vec![0; 4]].concat();
        let path = self.network.path(packet.addresses, packet.udp);
        let (now, is_native) = (self.now, self.network.udp == (0, 0));
        let code = icmp.code.as_deref().unwrap_or_default();
        let endpoint = &mut self.receiver()?.endpoint;
        match (icmp.kind.as_str(), code, icmp.mtu) {
            ("unreachable", "frag_needed", Some(mtu)) | ("packet_too_big", _, Some(mtu)) => {
                endpoint.handle_icmp_too_big(now, path, mtu, &quote);
            }
            ("unreachable", "protocol_unreachable", None)
            | ("parameter_problem", "unknown_next_header", None)
                if is_native =>
            {
                endpoint.handle_icmp_no_protocol(now, &quote);
            }
            // RFC 9260 section 10 rules ICMP1 to ICMP4: not looked at.
            ("unreachable", "port_unreachable", None) if is_native => {}
            ("parameter_problem" | "time_exceeded" | "source_quench", _, None) => {}
            ("unreachable", _, None) => {
                endpoint.handle_icmp_unreachable(now, path, &quote);
            }
            (kind, ..) => return Err(Why::gap(format!("ICMP {kind} {code} is not simulated"))),
        }
        self.drain();
        Ok(())
    }
}
