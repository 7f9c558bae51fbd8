//! One line of the ladder for each packet.

use super::Side;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;
use std::net::IpAddr;

/// The link is the third-last byte of an address.
pub(super) fn link_number(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => v4.octets()[1],
        IpAddr::V6(_) => 0,
    }
}

pub(super) fn line(from: Side, path: u8, bytes: &[u8], lost: bool) -> String {
    let names = chunk_names(bytes).join(" ");
    let lost = if lost { " /lost/" } else { "" };
    let path = if path == 1 { String::new() } else { format!("{path}") };
    match from {
        Side::A => format!("A -{path}> {names}{lost} -> Z"),
        Side::Z => format!("A <{path}- {names}{lost} <- Z"),
    }
}

pub(super) fn chunk_names(bytes: &[u8]) -> Vec<&'static str> {
    match Packet::without_checksum(bytes).map_or_else(|| Packet::parse(bytes), Ok) {
        Ok(packet) => packet.chunks().map(|chunk| chunk.map_or("?", |c| name(&c))).collect(),
        Err(_) => vec!["?"],
    }
}

fn name(chunk: &Chunk<'_>) -> &'static str {
    match chunk {
        Chunk::Data(_) => "DATA",
        Chunk::Init(_) => "INIT",
        Chunk::InitAck(_) => "INIT_ACK",
        Chunk::Sack(_) => "SACK",
        Chunk::Heartbeat(_) => "HEARTBEAT",
        Chunk::HeartbeatAck(_) => "HEARTBEAT_ACK",
        Chunk::Abort(_) => "ABORT",
        Chunk::Shutdown(_) => "SHUTDOWN",
        Chunk::ShutdownAck => "SHUTDOWN_ACK",
        Chunk::Error(_) => "ERROR",
        Chunk::CookieEcho(_) => "COOKIE_ECHO",
        Chunk::CookieAck => "COOKIE_ACK",
        Chunk::Ecne(_) => "ECNE",
        Chunk::Cwr(_) => "CWR",
        Chunk::ShutdownComplete(_) => "SHUTDOWN_COMPLETE",
        Chunk::Auth(_) => "AUTH",
        Chunk::Dtls(_) => "DTLS",
        Chunk::NrSack(_) => "NR_SACK",
        Chunk::IData(_) => "I_DATA",
        Chunk::AsconfAck(_) => "ASCONF_ACK",
        Chunk::ReConfig(_) => "RE_CONFIG",
        Chunk::ForwardTsn(_) => "FORWARD_TSN",
        Chunk::Asconf(_) => "ASCONF",
        Chunk::IForwardTsn(_) => "I_FORWARD_TSN",
        Chunk::Pad(_) => "PAD",
        Chunk::Unknown(_) => "UNKNOWN",
    }
}
