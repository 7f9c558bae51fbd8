//! Packets of another implementation: read, described, and written back byte for byte.

use crate::reparse;
use manypath_wire::{Chunk, Packet, PacketWriter};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Lines of comment (`#`), packets in hexadecimal (`>`), and their chunks as they are to be read.
const FILES: [&str; 2] = ["usrsctp_sack.txt", "usrsctp_nr_sack.txt"];

#[test]
fn foreign_packets_are_read_as_recorded() {
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/captures").join(file);
        let recorded = fs::read_to_string(&path).expect("the capture is in the repository");
        let described = describe(&recorded);
        if env::var_os("MANYPATH_UPDATE").is_some() {
            fs::write(&path, &described).expect("the capture can be written");
            continue;
        }
        assert_eq!(described, recorded, "{file}: run with MANYPATH_UPDATE=1");
    }
}

/// The capture with the chunks' lines made anew.
fn describe(capture: &str) -> String {
    let mut text = String::new();
    for line in capture.lines() {
        if let Some(hex) = line.strip_prefix("> ") {
            let bytes = decode(hex);
            let packet = Packet::parse(&bytes).expect("a good checksum");
            let chunks: Vec<Chunk<'_>> = packet.chunks().map(|c| c.expect("well formed")).collect();
            assert_eq!(write_packet(&packet, &chunks), bytes);
            reparse::check(&bytes);
            writeln!(text, "> {hex}").expect("a String takes all text");
            chunks.iter().for_each(|chunk| writeln!(text, "{chunk}").expect("likewise"));
        } else if line.starts_with('#') {
            writeln!(text, "{line}").expect("likewise");
        }
    }
    text
}

fn write_packet(packet: &Packet<'_>, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut buffer = vec![0xFF; 2048];
    let mut writer = PacketWriter::new(&mut buffer, packet.header());
    chunks.iter().for_each(|chunk| writer.push(chunk).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

fn decode(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|digit| digit.to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
