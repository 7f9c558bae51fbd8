//! The one property that holds for all bytes: what can be read can be written, and reads the same.
//! The fuzz target `wire_packet` uses this file as well.

use manypath_wire::{
    CauseWriter, Causes, Chunk, Packet, PacketWriter, Parameter, ParameterWriter, Parameters,
};
use std::fmt::Write;

/// Reads `bytes` as a packet, writes the chunks that were read and reads them again.
pub(crate) fn check(bytes: &[u8]) {
    // The checksum of random bytes is wrong, and finding that out must be safe as well.
    let _verdict = Packet::parse(bytes);
    let Ok(packet) = Packet::parse_unchecked(bytes) else { return };
    let chunks: Vec<Chunk<'_>> = packet.chunks().map_while(Result::ok).collect();
    chunks.iter().for_each(check_contents);
    let written = write(&packet, &chunks);
    assert!(written.len() <= bytes.len().next_multiple_of(4), "{} bytes grew", bytes.len());
    let again = Packet::parse(&written).expect("written packets have a good checksum");
    assert_eq!(again.header(), packet.header());
    let read: Vec<Chunk<'_>> = again.chunks().map(|chunk| chunk.expect("well formed")).collect();
    assert_eq!(read, chunks);
    // What was written once is in its final form.
    assert_eq!(write(&again, &read), written);
}

/// The packet with these chunks, in a buffer that has room for just them.
fn write(packet: &Packet<'_>, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let len: usize = chunks.iter().map(|chunk| chunk.encoded_len().next_multiple_of(4)).sum();
    let mut buffer = vec![0xFF; 12 + len];
    let mut writer = PacketWriter::new(&mut buffer, packet.header());
    for chunk in chunks {
        let before = writer.len();
        writer.push(chunk).expect("the buffer has room for all chunks");
        assert_eq!(writer.len() - before, chunk.encoded_len().next_multiple_of(4));
    }
    assert_eq!(writer.room(), 0);
    let written = writer.finish();
    assert_eq!(written, buffer.len());
    buffer
}

/// Looks at everything inside a chunk.
fn check_contents(chunk: &Chunk<'_>) {
    let mut text = String::new();
    write!(text, "{chunk} {chunk:?}").expect("a String takes all text");
    assert!(!text.is_empty());
    match chunk {
        Chunk::Init(init) => check_parameters(init.parameters),
        Chunk::InitAck(init_ack) => check_parameters(init_ack.parameters),
        Chunk::Abort(abort) => check_causes(abort.causes),
        Chunk::Error(error) => check_causes(error.causes),
        Chunk::Sack(sack) => assert_eq!(sack.gaps.iter().count(), sack.gaps.len()),
        Chunk::NrSack(sack) => assert_eq!(sack.nr_gaps.iter().rev().count(), sack.nr_gaps.len()),
        Chunk::Unknown(unknown) => assert_eq!(unknown.raw().len(), unknown.value.len() + 4),
        Chunk::IForwardTsn(chunk) => {
            assert_eq!(chunk.skipped.iter().count(), chunk.skipped.len());
        }
        Chunk::ForwardTsn(chunk) => {
            assert_eq!(chunk.skipped.iter().count(), chunk.skipped.len());
        }
        Chunk::ReConfig(chunk) => check_parameters(chunk.parameters),
        Chunk::Asconf(chunk) => check_parameters(chunk.parameters),
        Chunk::AsconfAck(chunk) => check_parameters(chunk.parameters),
        Chunk::Data(_)
        | Chunk::Auth(_)
        | Chunk::Dtls(_)
        | Chunk::IData(_)
        | Chunk::Pad(_)
        | Chunk::Heartbeat(_)
        | Chunk::HeartbeatAck(_)
        | Chunk::Shutdown(_)
        | Chunk::ShutdownAck
        | Chunk::CookieEcho(_)
        | Chunk::CookieAck
        | Chunk::Ecne(_)
        | Chunk::Cwr(_)
        | Chunk::ShutdownComplete(_) => {}
    }
}

/// The parameters that can be read can be written, and read the same.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others hold nothing that is read later")]
fn check_parameters(parameters: Parameters<'_>) {
    let read: Vec<_> = parameters.iter().filter_map(Result::ok).collect();
    let mut buffer = vec![0xFF; parameters.as_bytes().len().next_multiple_of(4)];
    let mut writer = ParameterWriter::new(&mut buffer);
    read.iter().for_each(|parameter| writer.push(parameter).expect("not longer than before"));
    let len = writer.finish();
    for parameter in &read {
        match parameter {
            Parameter::OutgoingSsnReset(reset) => {
                assert_eq!(reset.streams.iter().count(), reset.streams.len());
            }
            Parameter::ErrorIndication(error) => check_causes(error.causes),
            _ => {}
        }
    }
    let again: Vec<_> = Parameters::from_bytes(&buffer[..len]).iter().collect();
    assert_eq!(again, read.into_iter().map(Ok).collect::<Vec<_>>());
}

/// The causes that can be read can be written, and read the same.
fn check_causes(causes: Causes<'_>) {
    let read: Vec<_> = causes.iter().filter_map(Result::ok).collect();
    let mut buffer = vec![0xFF; causes.as_bytes().len().next_multiple_of(4)];
    let mut writer = CauseWriter::new(&mut buffer);
    read.iter().for_each(|cause| writer.push(cause).expect("not longer than before"));
    let len = writer.finish();
    let again: Vec<_> = Causes::from_bytes(&buffer[..len]).iter().collect();
    assert_eq!(again, read.into_iter().map(Ok).collect::<Vec<_>>());
}
