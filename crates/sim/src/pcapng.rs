//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), as Wireshark and tshark read them.
//!
//! One section, one interface per path, enhanced packet blocks with nanosecond timestamps and,
//! where there is something to say, a comment.

use std::io::{self, Write};

/// Link type of an interface: what the packets start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// An IPv4 or IPv6 header (LINKTYPE_RAW, 101).
    Raw,
    /// An SCTP common header without IP (LINKTYPE_SCTP, 248).
    Sctp,
}

/// Names an interface of one capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(u32);

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Writes a capture. Buffer the sink: every block is several writes.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    interfaces: u32,
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture: writes the section header. `application` is who made it.
    pub fn new(sink: W, application: &str) -> io::Result<Self> {
        let mut writer = Self { sink, interfaces: 0, body: Vec::new() };
        writer.u32(0x1A2B_3C4D);
        writer.body.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        writer.body.extend_from_slice(&u64::MAX.to_le_bytes()); // section length not given
        writer.option(SHB_USERAPPL, application.as_bytes());
        writer.end_of_options();
        writer.block(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Adds an interface. Packets can be written to it from now on.
    pub fn interface(&mut self, name: &str, link_type: LinkType) -> io::Result<InterfaceId> {
        let number: u32 = match link_type {
            LinkType::Raw => 101,
            LinkType::Sctp => 248,
        };
        self.u32(number); // the upper half is reserved
        self.u32(0); // no limit on captured bytes
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TSRESOL, &[9]);
        self.end_of_options();
        self.block(INTERFACE_DESCRIPTION)?;
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        Ok(id)
    }

    /// Writes a packet seen `nanos` nanoseconds after the epoch. `bytes` may be shorter than the
    /// packet's `original_len`.
    pub fn packet(
        &mut self,
        interface: InterfaceId,
        nanos: u64,
        bytes: &[u8],
        original_len: usize,
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.u32(interface.0);
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(bytes.len() as u32);
        self.u32(original_len as u32);
        self.padded(bytes);
        if let Some(comment) = comment {
            self.option(OPT_COMMENT, comment.as_bytes());
            self.end_of_options();
        }
        self.block(ENHANCED_PACKET)
    }

    /// Flushes and gives the sink back.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn u32(&mut self, value: u32) {
        self.body.extend_from_slice(&value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.body.extend_from_slice(&code.to_le_bytes());
        self.body.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end_of_options(&mut self) {
        self.u32(0);
    }

    /// Writes the collected body as a block of type `kind`.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let total = (self.body.len() as u32 + 12).to_le_bytes();
        self.sink.write_all(&kind.to_le_bytes())?;
        self.sink.write_all(&total)?;
        self.sink.write_all(&self.body)?;
        self.body.clear();
        self.sink.write_all(&total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole file, block by block, against the layout in the draft.
    #[test]
    fn blocks_are_laid_out_as_the_format_says() {
        let mut writer = Writer::new(Vec::new(), "me").unwrap();
        let id = writer.interface("pathA", LinkType::Raw).unwrap();
        writer.packet(id, 0x1_0000_0002, &[1, 2, 3, 4, 5], 9, Some("lost")).unwrap();
        let file = writer.finish().unwrap();
        let section = [
            0x0A, 0x0D, 0x0D, 0x0A, 40, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255,
            255, 255, 255, 255, 255, 4, 0, 2, 0, b'm', b'e', 0, 0, 0, 0, 0, 0, 40, 0, 0, 0,
        ];
        let interface = [
            1, 0, 0, 0, 44, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 2, 0, 5, 0, b'p', b'a', b't', b'h',
            b'A', 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 44, 0, 0, 0,
        ];
        let packet = [
            6, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 1,
            2, 3, 4, 5, 0, 0, 0, 1, 0, 4, 0, b'l', b'o', b's', b't', 0, 0, 0, 0, 52, 0, 0, 0,
        ];
        assert_eq!(file, [&section[..], &interface, &packet].concat());
    }
}
