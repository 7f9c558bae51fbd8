//! Which of the packets that ICMP messages quote are ours (RFC 9260 section 10).

use super::tcb::Association;
use manypath_wire::VerificationTag;

/// Chunk type of an INIT.
const INIT: u8 = 1;

impl Association {
    /// Whether `quote`, the start of an SCTP packet as an ICMP message quotes it, can only come from
    /// a packet of this association. The verification tag proves it; the tag 0 of an INIT proves
    /// nothing, so the Initiate Tag must be there and be ours (rule ICMP6). A quote that is too short
    /// for that proves nothing either.
    pub(crate) fn has_sent(&self, quote: &[u8]) -> bool {
        let port_at = |offset| Some(u16::from_be_bytes(field(quote, offset)?));
        let tag_at = |offset| Some(VerificationTag(u32::from_be_bytes(field(quote, offset)?)));
        if (port_at(0), port_at(2)) != (Some(self.ports.local), Some(self.ports.peer)) {
            return false;
        }
        match tag_at(4) {
            Some(VerificationTag(0)) => {
                quote.get(12) == Some(&INIT) && tag_at(16) == Some(self.local_tag())
            }
            Some(tag) => self.peer_tag() == Some(tag),
            None => false,
        }
    }
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}
