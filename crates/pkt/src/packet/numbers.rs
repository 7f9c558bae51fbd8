//! The stack chooses its tags and TSNs at random; a script counts from numbers of its own. Those of
//! the peer are the script's, so only the stack's have to be translated.

use super::layout::Space;

/// What has been learnt from the handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// The stack's initiate tag in the script.
    pub script_tag: u32,
    /// The stack's initiate tag.
    pub live_tag: u32,
    /// The stack's initial TSN in the script.
    pub script_tsn: u32,
    /// The stack's initial TSN.
    pub live_tsn: u32,
    /// The peer's initiate tag.
    pub peer_tag: u32,
    /// The last State Cookie.
    pub cookie: Option<Vec<u8>>,
    /// The stack's initiate tag in the INIT ACK that brought it.
    pub cookie_tag: u32,
    /// The value of the last HEARTBEAT.
    pub heartbeat: Option<Vec<u8>>,
    /// Whether they are those of a chunk of the peer that the stack sends back.
    pub turned: bool,
}

impl Numbers {
    /// A number in an inbound packet, as the stack knows it.
    pub(crate) fn to_live(&self, number: u32, space: Space) -> u32 {
        match space {
            Space::Plain | Space::Tag | Space::Sent => number,
            Space::Acked => number.wrapping_sub(self.script_tsn).wrapping_add(self.live_tsn),
        }
    }

    /// A number in an outbound packet, as the script knows it.
    pub(crate) fn to_script(&self, number: u32, space: Space) -> u32 {
        match space {
            Space::Plain => number,
            Space::Sent | Space::Acked if (space == Space::Sent) == self.turned => number,
            Space::Sent | Space::Acked => {
                number.wrapping_sub(self.live_tsn).wrapping_add(self.script_tsn)
            }
            Space::Tag if number == self.live_tag => self.script_tag,
            Space::Tag => number,
        }
    }

    /// A TSN of the stack, as the script knows it.
    pub(crate) fn own_tsn(&self, tsn: u32) -> u32 {
        self.to_script(tsn, Space::Sent)
    }

    /// As they are in a chunk of the peer that the stack sends back.
    pub(crate) fn turned(&self) -> Self {
        Self { turned: true, ..self.clone() }
    }

    /// A verification tag that an inbound packet names. Tags beside the stack's own stay beside it.
    pub(crate) fn tag_to_live(&self, tag: u32) -> u32 {
        if tag == 0 {
            return 0;
        }
        tag.wrapping_sub(self.script_tag).wrapping_add(self.live_tag).max(1)
    }
}
