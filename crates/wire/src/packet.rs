//! The SCTP packet: common header and chunks (RFC 9260 section 3).

use crate::bytes::{Output, Reader, padded};
use crate::checksum::crc32c;
use crate::chunk::{Auth, Chunk, ChunkTypes, Dtls, RawChunk, types};
use crate::error::{NoRoom, ParseError};
use crate::numbers::VerificationTag;

/// The common header (RFC 9260 section 3.1) without its checksum, which [`Packet::parse`] checks
/// and [`PacketWriter::finish`] sets.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      Source Port Number       |    Destination Port Number    |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       Verification Tag                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           Checksum                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommonHeader {
    /// SCTP port of the sender.
    pub source_port: u16,
    /// SCTP port of the receiver.
    pub destination_port: u16,
    /// The tag that the receiver expects; zero with an INIT.
    pub tag: VerificationTag,
}

impl CommonHeader {
    /// Size in bytes, checksum included.
    pub const LEN: usize = 12;
}

/// Where the checksum stands in the packet.
const CHECKSUM_AT: usize = 8;
/// Bytes of the checksum.
const CHECKSUM_LEN: usize = 4;

/// A received packet, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: CommonHeader,
    chunks: &'a [u8],
    has_checksum: bool,
}

impl<'a> Packet<'a> {
    /// Checks the length of the common header and the CRC32c. The chunks are parsed by
    /// [`Self::chunks`].
    ///
    /// # Errors
    /// [`ParseError::TooShort`], [`ParseError::BadChecksum`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let packet = Self::parse_unchecked(bytes)?;
        if stored_checksum(bytes) == Some(checksum(bytes)) {
            Ok(packet)
        } else {
            Err(ParseError::BadChecksum)
        }
    }

    /// Like [`Self::parse`], without looking at the checksum: for packets that come cut short
    /// inside an ICMP message, and for fuzzing.
    ///
    /// # Errors
    /// [`ParseError::TooShort`].
    pub fn parse_unchecked(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (head, chunks) =
            bytes.split_at_checked(CommonHeader::LEN).ok_or(ParseError::TooShort)?;
        let mut reader = Reader::new(head);
        let (Some(source_port), Some(destination_port), Some(tag)) =
            (reader.u16(), reader.u16(), reader.u32())
        else {
            return Err(ParseError::TooShort);
        };
        let header = CommonHeader { source_port, destination_port, tag: VerificationTag(tag) };
        Ok(Self { header, chunks, has_checksum: true })
    }

    /// The packet, unchecked, if its checksum is zero and its first chunk a DTLS chunk, whose tag tells more than
    /// the checksum: peers that agree on it leave the checksum out (RFC 9653 section 5.2).
    pub fn without_checksum(bytes: &'a [u8]) -> Option<Self> {
        let omitted = stored_checksum(bytes) == Some(0);
        let packet = Self::parse_unchecked(bytes).ok().filter(|_| omitted)?;
        let is_record = packet.chunks.first() == Some(&types::DTLS);
        is_record.then_some(Self { has_checksum: false, ..packet })
    }

    /// The packet that a record has held, of which `chunks` are the decrypted bytes.
    pub const fn from_record(header: CommonHeader, has_checksum: bool, chunks: &'a [u8]) -> Self {
        Self { header, chunks, has_checksum }
    }

    /// The common header.
    pub const fn header(&self) -> CommonHeader {
        self.header
    }

    /// Whether it came with a checksum: see [`Self::without_checksum`].
    pub const fn has_checksum(&self) -> bool {
        self.has_checksum
    }

    /// The chunks in order. After an error nothing more comes.
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.chunks }
    }
}

/// Iterator over the chunks of a [`Packet`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// The bytes of the chunks that are still to come: before an AUTH chunk, what it covers (RFC 4895
    /// section 6.3).
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let chunk = RawChunk::split(self.rest).and_then(|(raw, rest)| {
            self.rest = rest;
            Chunk::parse(raw)
        });
        if chunk.is_err() {
            self.rest = &[];
        }
        Some(chunk)
    }
}

/// Which chunks of a packet have to stand behind an AUTH chunk, and what that chunk says (RFC 4895
/// section 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cover {
    /// Shared Key Identifier.
    pub key: u16,
    /// HMAC Identifier.
    pub hmac_id: u16,
    /// Bytes of the HMAC, at most [`Cover::MAX_HMAC_LEN`].
    pub hmac_len: usize,
    /// The types of the chunks.
    pub types: ChunkTypes,
}

impl Cover {
    /// The longest HMAC: that of SHA-512.
    pub const MAX_HMAC_LEN: usize = 64;

    /// The AUTH chunk while its HMAC is not known.
    fn chunk(&self) -> Auth<'static> {
        const ZEROS: &[u8] = &[0; Cover::MAX_HMAC_LEN];
        let hmac = ZEROS.get(..self.hmac_len).unwrap_or(ZEROS);
        Auth { key: self.key, hmac_id: self.hmac_id, hmac }
    }

    /// Bytes of the AUTH chunk with its padding.
    pub const fn auth_len(&self) -> usize {
        padded(Auth::HEADER_LEN + self.hmac_len)
    }
}

/// Appends chunks to a caller's buffer, whose length is the limit of the packet's size.
#[derive(Debug)]
pub struct PacketWriter<'b> {
    out: Output<'b>,
    cover: Option<Cover>,
    auth_at: Option<usize>,
    chunks: u32,
    needs_checksum: bool,
    /// Bytes before the first chunk, and those that are kept behind the last one.
    before: usize,
    behind: usize,
}

impl<'b> PacketWriter<'b> {
    /// Begins a packet. If `buffer` is shorter than the common header, no chunk fits either and
    /// [`Self::finish`] returns 0.
    pub fn new(buffer: &'b mut [u8], header: CommonHeader) -> Self {
        let mut out = Output::new(buffer);
        let CommonHeader { source_port, destination_port, tag } = header;
        // Without room for it nothing is written, and `push` refuses every chunk.
        let _no_room = out.whole(|out| {
            out.u16(source_port)?;
            out.u16(destination_port)?;
            out.u32(tag.0)?;
            out.bytes(&[0; CHECKSUM_LEN])
        });
        let before = CommonHeader::LEN;
        let (cover, auth_at, chunks, needs_checksum) = (None, None, 0, false);
        Self { out, cover, auth_at, chunks, needs_checksum, before, behind: 0 }
    }

    /// The same for a packet whose chunks become a record in a DTLS chunk, with room for that:
    /// [`Self::finish_record`] ends it.
    pub fn for_record(buffer: &'b mut [u8], header: CommonHeader) -> Self {
        let mut packet = Self::new(buffer, header);
        // Without room `push` refuses every chunk.
        let _no_room = packet.out.bytes(&[0; Dtls::BEFORE]);
        packet.before += Dtls::BEFORE;
        packet.behind = Dtls::BEHIND;
        packet
    }

    /// Some chunks are to be authenticated: an AUTH chunk is written before the first of them. All that
    /// follow are covered by it as well. Its HMAC is left to [`Self::set_hmac`].
    pub fn cover(&mut self, cover: Cover) {
        self.cover = Some(cover);
    }

    /// Appends a chunk and its padding, if need be with an AUTH chunk before it, or nothing.
    ///
    /// # Errors
    /// [`NoRoom`] if the rest of the buffer or the chunk's 16-bit Length is too small for it.
    pub fn push(&mut self, chunk: &Chunk<'_>) -> Result<(), NoRoom> {
        if self.out.len() < self.before || self.behind > 0 && self.room() < chunk.encoded_len() {
            return Err(NoRoom);
        }
        self.needs_checksum |= matches!(chunk, Chunk::CookieEcho(_) | Chunk::Asconf(_));
        let Some(cover) = self.pending_cover(chunk.type_byte()) else {
            chunk.emit(&mut self.out)?;
            self.chunks += 1;
            return Ok(());
        };
        let at = self.out.len();
        self.out.whole(|out| {
            Chunk::Auth(cover.chunk()).emit(out)?;
            chunk.emit(out)
        })?;
        self.auth_at = Some(at);
        self.chunks += 2;
        Ok(())
    }

    /// Chunks written, AUTH among them.
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The byte of the packet at which the AUTH chunk begins that [`Self::cover`] has asked for, if
    /// one was written.
    pub const fn auth_at(&self) -> Option<usize> {
        self.auth_at
    }

    fn pending_cover(&self, type_byte: u8) -> Option<Cover> {
        self.cover.filter(|cover| self.auth_at.is_none() && cover.types.contains(type_byte))
    }

    /// What was written from byte `at` of the packet on: what an AUTH chunk that begins there covers
    /// (RFC 4895 section 6.2).
    pub fn written_from(&self, at: usize) -> &[u8] {
        self.out.written().get(at..).unwrap_or_default()
    }

    /// Fills in the HMAC of the AUTH chunk that begins at byte `at` of the packet.
    pub fn set_hmac(&mut self, at: usize, hmac: &[u8]) {
        self.out.overwrite(at + Auth::HEADER_LEN, hmac);
    }

    /// Bytes left for one more chunk of this type: as [`Self::room`], less the AUTH chunk if it has
    /// to be written first.
    pub fn room_for(&self, type_byte: u8) -> usize {
        let auth = self.pending_cover(type_byte).map_or(0, |cover| cover.auth_len());
        self.room().saturating_sub(auth)
    }

    /// Bytes left for one more chunk, its chunk header included and its padding excluded.
    pub const fn room(&self) -> usize {
        if self.out.len() < self.before {
            return 0;
        }
        // Padding must fit as well: a rest of one to three bytes is of no use.
        self.out.capacity().saturating_sub(self.out.len() + self.behind) & !3
    }

    /// Bytes of the packet so far, with the common header, and with what [`Self::finish_record`] adds.
    pub const fn len(&self) -> usize {
        self.out.len() + self.behind
    }

    /// Whether the chunks are to go into a record.
    pub const fn is_record(&self) -> bool {
        self.behind > 0
    }

    /// Whether no chunk has been written yet.
    pub const fn is_empty(&self) -> bool {
        self.out.len() <= self.before
    }

    /// Ends a packet that was begun by [`Self::for_record`]: `seal` gets the record, the chunks in place,
    /// and makes it complete. With `without_checksum` the checksum stays zero, unless a COOKIE ECHO or an ASCONF is
    /// in it (RFC 9653 section 5.2). Returns the packet's length in bytes, 0 if `seal` does not succeed.
    pub fn finish_record(
        mut self,
        without_checksum: bool,
        seal: impl FnOnce(&mut [u8]) -> bool,
    ) -> usize {
        let end = self.out.len();
        if end < self.before {
            return 0;
        }
        let length = end - CommonHeader::LEN + Dtls::RECORD_TRAILER_LEN;
        let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        self.out.overwrite(CommonHeader::LEN, &[types::DTLS, 0, high, low, 0]);
        let zeros = [0; Dtls::BEHIND];
        if self.out.bytes(&zeros).is_err() {
            return 0;
        }
        let record = CommonHeader::LEN + Dtls::HEADER_LEN..end + Dtls::RECORD_TRAILER_LEN;
        if self.out.written_mut().get_mut(record).is_none_or(|record| !seal(record)) {
            return 0;
        }
        if without_checksum && !self.needs_checksum {
            return self.out.len();
        }
        self.finish()
    }

    /// Sets the CRC32c and returns the packet's length in bytes.
    pub fn finish(mut self) -> usize {
        // The field is still zero, as the checksum wants it.
        let checksum = crc32c(&[self.out.written()]);
        self.out.overwrite(CHECKSUM_AT, &checksum.to_le_bytes());
        self.out.len()
    }
}

/// CRC32c of a received packet, its checksum field taken as zero (RFC 9260 section 6.8).
fn checksum(packet: &[u8]) -> u32 {
    let Some((head, rest)) = packet.split_first_chunk::<{ CommonHeader::LEN }>() else { return 0 };
    let mut head = *head;
    head[CHECKSUM_AT..].fill(0);
    crc32c(&[&head, rest])
}

/// The checksum field. Its bytes stand in the order in which the CRC comes out, lowest first
/// (RFC 9260 appendix A).
fn stored_checksum(packet: &[u8]) -> Option<u32> {
    packet.get(CHECKSUM_AT..)?.first_chunk().copied().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{CookieEcho, Shutdown};
    use crate::numbers::Tsn;
    use crate::parameter::Parameters;
    use crate::testing::HEADER;
    use std::vec::Vec;

    /// A SHUTDOWN ACK of usrsctp.
    const CAPTURE: &[u8] = b"\x13\x89\x13\x8a\x5b\x3a\xc9\x3e\xb1\x13\xad\x42\x08\x00\x00\x04";

    fn write(chunks: &[Chunk<'_>]) -> Vec<u8> {
        let mut buffer = std::vec![0xFF; 256];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        chunks.iter().for_each(|chunk| writer.push(chunk).unwrap());
        let len = writer.finish();
        buffer.truncate(len);
        buffer
    }

    #[test]
    fn reads_and_writes_the_capture() {
        let packet = Packet::parse(CAPTURE).unwrap();
        let tag = VerificationTag(0x5B3A_C93E);
        let header = CommonHeader { source_port: 5001, destination_port: 5002, tag };
        assert_eq!(packet.header(), header);
        assert!(packet.chunks().eq([Ok(Chunk::ShutdownAck)]));
        let mut buffer = [0xFF; 16];
        let mut writer = PacketWriter::new(&mut buffer, header);
        writer.push(&Chunk::ShutdownAck).unwrap();
        assert_eq!(writer.finish(), 16);
        assert_eq!(buffer, CAPTURE);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for bit in 0..CAPTURE.len() * 8 {
            let mut bytes = Vec::from(CAPTURE);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Packet::parse(&bytes), Err(ParseError::BadChecksum));
            assert!(Packet::parse_unchecked(&bytes).is_ok());
        }
    }

    #[test]
    fn a_packet_is_at_least_a_common_header() {
        for len in 0..CommonHeader::LEN {
            assert_eq!(Packet::parse(&CAPTURE[..len]), Err(ParseError::TooShort));
        }
        let empty = write(&[]);
        assert_eq!(empty.len(), CommonHeader::LEN);
        assert_eq!(Packet::parse(&empty).unwrap().chunks().next(), None);
    }

    #[test]
    fn chunks_before_a_malformed_one_are_yielded() {
        let whole = write(&[Chunk::CookieAck, Chunk::CookieEcho(CookieEcho { cookie: b"abcd" })]);
        let truncated = ParseError::ChunkTruncated { type_byte: 10, length: 8 };
        for (len, error) in [(19, ParseError::ChunkHeader), (20, truncated), (23, truncated)] {
            let packet = Packet::parse_unchecked(&whole[..len]).unwrap();
            assert!(packet.chunks().eq([Ok(Chunk::CookieAck), Err(error)]));
        }
    }

    #[test]
    fn nothing_follows_a_malformed_chunk() {
        let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(7) });
        let mut bytes = write(&[shutdown, Chunk::CookieAck]);
        bytes[15] = 4;
        let packet = Packet::parse_unchecked(&bytes).unwrap();
        assert!(packet.chunks().eq([Err(ParseError::ChunkLength { type_byte: 7, length: 4 })]));
    }

    #[test]
    fn an_auth_chunk_covers_itself_and_what_follows() {
        let auth = Auth { key: 1, hmac_id: 2, hmac: &[0; 4] };
        let mut buffer = [0xFF; 64];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        writer.push(&Chunk::CookieAck).unwrap();
        let at = writer.len();
        writer.push(&Chunk::Auth(auth)).unwrap();
        writer.push(&Chunk::ShutdownAck).unwrap();
        let covered = b"\x0f\x00\x00\x0c\x00\x01\x00\x02\0\0\0\0\x08\x00\x00\x04";
        assert_eq!(writer.written_from(at), covered);
        writer.set_hmac(at, b"HMAC");
        let len = writer.finish();
        let mut chunks = Packet::parse(&buffer[..len]).unwrap().chunks();
        assert_eq!(chunks.next(), Some(Ok(Chunk::CookieAck)));
        let rest = chunks.rest();
        assert_eq!(
            (&rest[..8], &rest[8..12], &rest[12..]),
            (&covered[..8], &b"HMAC"[..], &covered[12..])
        );
        assert_eq!(chunks.next(), Some(Ok(Chunk::Auth(Auth { hmac: b"HMAC", ..auth }))));
    }

    #[test]
    fn an_auth_chunk_is_written_before_the_first_chunk_that_needs_it() {
        let types = [crate::chunk::types::SHUTDOWN_ACK].into_iter().collect();
        let cover = Cover { key: 1, hmac_id: 3, hmac_len: 32, types };
        let mut buffer = [0xFF; 12 + 4 + 40 + 4 + 4];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        writer.cover(cover);
        writer.push(&Chunk::CookieAck).unwrap();
        assert_eq!((writer.auth_at(), writer.room(), writer.room_for(8)), (None, 48, 8));
        writer.push(&Chunk::ShutdownAck).unwrap();
        assert_eq!((writer.auth_at(), writer.room(), writer.room_for(8)), (Some(16), 4, 4));
        writer.push(&Chunk::ShutdownAck).unwrap();
        let len = writer.finish();
        let auth = Auth { key: 1, hmac_id: 3, hmac: &[0; 32] };
        let ack = Ok(Chunk::ShutdownAck);
        let chunks = Packet::parse(&buffer[..len]).unwrap().chunks();
        assert!(chunks.eq([Ok(Chunk::CookieAck), Ok(Chunk::Auth(auth)), ack, ack]));
    }

    #[test]
    fn the_chunks_of_a_record_are_where_they_stay() {
        let mut buffer = [0xFF; 12 + 8 + 8 + 20];
        let mut writer = PacketWriter::for_record(&mut buffer, HEADER);
        assert!(writer.is_empty() && writer.is_record() && writer.room() == 8);
        writer.push(&Chunk::CookieAck).unwrap();
        assert_eq!((writer.room(), writer.len()), (4, 12 + 8 + 4 + 20));
        writer.push(&Chunk::ShutdownAck).unwrap();
        assert_eq!(writer.push(&Chunk::CookieAck), Err(NoRoom));
        let len = writer.finish_record(false, |record| {
            assert_eq!(record[3..11], *b"\x0b\x00\x00\x04\x08\x00\x00\x04");
            record.fill(7);
            true
        });
        assert_eq!(len, buffer.len());
        assert_eq!(buffer[12..17], [0x41, 0, 0, 5 + 3 + 8 + 17, 0]);
        let dtls = Dtls { restart: false, record: &[7; 3 + 8 + 17] };
        assert!(Packet::parse(&buffer).unwrap().chunks().eq([Ok(Chunk::Dtls(dtls))]));
        let refused = PacketWriter::for_record(&mut buffer, HEADER).finish_record(false, |_| false);
        assert_eq!(refused, 0);
        assert!(!PacketWriter::new(&mut buffer, HEADER).is_record());
        assert_eq!(Dtls::OVERHEAD, 28, "what a packet is larger by");
        for len in 0..12 + 8 + 20 {
            let mut writer = PacketWriter::for_record(&mut buffer[..len], HEADER);
            assert_eq!((writer.room(), writer.push(&Chunk::CookieAck)), (0, Err(NoRoom)));
            assert_eq!(writer.finish_record(false, |_| true), 0);
        }
    }

    #[test]
    fn a_record_may_do_without_a_checksum_but_not_with_an_asconf_in_it() {
        let asconf = Chunk::Asconf(crate::chunk::Asconf {
            sequence: 1,
            address: core::net::IpAddr::from([0; 4]),
            parameters: Parameters::from_bytes(&[]),
        });
        let types = [crate::chunk::types::ASCONF].into_iter().collect();
        let cover = Cover { key: 0, hmac_id: 1, hmac_len: 20, types };
        for (chunk, cover, omitted) in
            [(Chunk::CookieAck, None, true), (asconf, None, false), (asconf, Some(cover), false)]
        {
            let mut buffer = [0xFF; 100];
            let mut writer = PacketWriter::for_record(&mut buffer, HEADER);
            cover.into_iter().for_each(|cover| writer.cover(cover));
            writer.push(&chunk).unwrap();
            let len = writer.finish_record(true, |_| true);
            let packet = &buffer[..len];
            assert_eq!(Packet::parse(packet).is_err(), omitted);
            let bare = Packet::without_checksum(packet);
            assert_eq!(bare.map(|packet| packet.has_checksum()), omitted.then_some(false));
            assert!(Packet::parse(packet).is_ok_and(|packet| packet.has_checksum()) != omitted);
        }
        let mut plain = write(&[Chunk::CookieAck]);
        plain[CHECKSUM_AT..CommonHeader::LEN].fill(0);
        assert_eq!(Packet::without_checksum(&plain), None, "nothing else protects it");
    }

    #[test]
    fn without_room_for_the_chunk_no_auth_chunk_is_written_either() {
        let types = [crate::chunk::types::SHUTDOWN_ACK].into_iter().collect();
        let mut buffer = [0xFF; 12 + 28 + 3];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        writer.cover(Cover { key: 0, hmac_id: 1, hmac_len: 20, types });
        assert_eq!(writer.room_for(8), 0);
        assert_eq!(writer.push(&Chunk::ShutdownAck), Err(NoRoom));
        assert_eq!((writer.auth_at(), writer.len()), (None, 12));
    }

    #[test]
    fn the_last_padding_may_be_missing() {
        let echo = Chunk::CookieEcho(CookieEcho { cookie: b"a" });
        let whole = write(&[Chunk::CookieAck, echo]);
        assert_eq!(whole.len(), 24);
        let packet = Packet::parse_unchecked(&whole[..21]).unwrap();
        assert!(packet.chunks().eq([Ok(Chunk::CookieAck), Ok(echo)]));
    }

    #[test]
    fn the_buffer_limits_the_packet() {
        let cookie = [0x55; 40];
        for (size, len) in (0..64).flat_map(|size| (0..40).map(move |len| (size, len))) {
            let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie[..len] });
            let mut buffer = [0xFF; 64];
            let mut writer = PacketWriter::new(&mut buffer[..size], HEADER);
            let room = writer.room();
            assert_eq!(room, (size & !3).saturating_sub(CommonHeader::LEN));
            let fits = echo.encoded_len() <= room;
            assert_eq!(writer.push(&echo), if fits { Ok(()) } else { Err(NoRoom) });
            assert_eq!(writer.is_empty(), !fits);
            let written = if fits { (4 + len).next_multiple_of(4) } else { 0 };
            let header = if size < CommonHeader::LEN { 0 } else { CommonHeader::LEN };
            assert_eq!(writer.len(), header + written);
            assert_eq!(writer.finish(), header + written);
            assert!(buffer[size..].iter().all(|&byte| byte == 0xFF));
        }
    }
}
