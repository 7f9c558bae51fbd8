//! DTLS chunks of an association (draft-ietf-tsvwg-sctp-dtls-chunk section 5.2): which packets leave as
//! records, and what is done with records that arrive.

use super::authentication::Security;
use super::context::Context;
use super::tcb::Association;
use crate::protection::{KeyAgreement, KeyOffer, KeyUse, Keys, OpenError, ProtectionError, agree};
use crate::status::Counters;
use alloc::boxed::Box;
use alloc::vec::Vec;
use manypath_wire::chunk::{Chunk, Dtls, types};
use manypath_wire::packet::Packet;

/// Records that are left for the end of an association when its key is nearly used up.
const LAST_RECORDS: u64 = 4096;

/// What an association needs to protect packets.
#[derive(Debug)]
pub(crate) struct Protection {
    /// What our INIT or INIT ACK says.
    own: KeyOffer,
    /// None until the peer has spoken, or if nothing could be agreed on.
    agreement: Option<KeyAgreement>,
    pub(super) keys: Keys,
    /// Packets without protection are dropped.
    required: bool,
    /// Memory in which records are opened.
    opened: Vec<u8>,
}

impl Protection {
    /// Nothing is known of the peer.
    pub(super) fn new(own: KeyOffer) -> Box<Self> {
        let (keys, opened) = (Keys::default(), Vec::new());
        Box::new(Self { own, agreement: None, keys, required: false, opened })
    }

    /// The keys, to be changed.
    pub(crate) fn keys_mut(&mut self) -> &mut Keys {
        &mut self.keys
    }

    /// Drops what comes without protection from now on.
    pub(crate) fn require(&mut self) -> Result<(), ProtectionError> {
        if !self.keys.are_complete() {
            return Err(ProtectionError::NoKeys);
        }
        self.required = true;
        Ok(())
    }
}

/// A packet, as far as DTLS chunks are concerned.
enum Kind<'a> {
    Plain,
    Record(Dtls<'a>),
    Bundled,
}

fn kind<'a>(packet: &Packet<'a>) -> Kind<'a> {
    let mut chunks = packet.chunks().map_while(Result::ok);
    match (chunks.next(), packet.chunks().nth(1)) {
        (Some(Chunk::Dtls(dtls)), None) => Kind::Record(dtls),
        (Some(Chunk::Dtls(_)), Some(_)) => Kind::Bundled,
        _ if chunks.any(|chunk| chunk.type_byte() == types::DTLS) => Kind::Bundled,
        _ => Kind::Plain,
    }
}

impl OpenError {
    /// Notes that a packet was dropped for this reason.
    fn count(self, counters: &mut Counters) {
        *match self {
            Self::Malformed => &mut counters.malformed_records,
            Self::UnknownEpoch => &mut counters.unknown_epochs,
            Self::Replayed => &mut counters.replayed_records,
            Self::NotAuthentic | Self::Exhausted => &mut counters.forged_records,
        } += 1;
    }
}

impl Security {
    /// What we say about key management.
    pub(crate) fn own_key_offer(&self) -> Option<&KeyOffer> {
        self.protection.as_ref().map(|protection| &protection.own)
    }

    /// What was agreed on about key management.
    pub(crate) fn key_agreement(&self) -> Option<&KeyAgreement> {
        self.protection.as_ref()?.agreement.as_ref()
    }

    /// Our INIT ACK said `own`: that of the cookie from which the association is made anew.
    pub(super) fn adopt_key_offer(&mut self, own: Option<KeyOffer>) {
        self.protection = own.map(Protection::new);
    }

    /// The peer's INIT or INIT ACK said `peer`.
    pub(super) fn agree_on_keys(&mut self, peer: Option<&KeyOffer>) {
        if let Some(protection) = &mut self.protection {
            protection.agreement = agree(Some(&protection.own), peer).ok();
        }
    }

    /// Whether packets come and leave protected: then addresses may change (draft section 3.2).
    pub(super) fn is_protected(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.keys.are_complete())
    }

    /// Whether packets without protection are dropped.
    pub(crate) fn requires_protection(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.required)
    }

    /// Whether the peer may restart by a COOKIE ECHO without protection. With keys it would have to know
    /// those for restarts, which are not supported: "all sent packets with COOKIE ECHO will be dropped"
    /// (draft section 5.4).
    pub(crate) fn takes_plain_cookies(&self) -> bool {
        self.protection.as_ref().is_none_or(|it| !it.required && !it.keys.is_any())
    }

    /// Whether the key for sending is so much used that only the end of the association may use it.
    pub(super) fn is_key_used_up(&self) -> bool {
        let sealing = self.protection.as_ref().and_then(|protection| protection.keys.sealing());
        sealing.is_some_and(|key| key.left() <= LAST_RECORDS)
    }

    /// What keys were used for.
    pub(crate) fn key_use(&self) -> Option<KeyUse> {
        let protection = self.protection.as_ref().filter(|it| it.agreement.is_some())?;
        Some(protection.keys.usage(protection.required))
    }
}

impl Association {
    /// Hands `packet` to `process` if it may come without protection, or else the packet that its record
    /// holds. `process` is told whether it was protected.
    pub(super) fn unwrap_packet(
        &mut self,
        cx: &mut Context<'_>,
        packet: Packet<'_>,
        process: impl FnOnce(&mut Self, &mut Context<'_>, Packet<'_>, bool),
    ) {
        let Some(protection) =
            self.security.protection.as_mut().filter(|it| it.agreement.is_some())
        else {
            return process(self, cx, packet, false);
        };
        let dtls = match kind(&packet) {
            Kind::Plain if !protection.required => return process(self, cx, packet, false),
            Kind::Plain => {
                cx.counters.unprotected_packets += 1;
                return;
            }
            Kind::Bundled => {
                cx.counters.bundled_records += 1;
                return;
            }
            Kind::Record(dtls) => dtls,
        };
        // Keys for restarts are not supported.
        if dtls.restart {
            return OpenError::UnknownEpoch.count(cx.counters);
        }
        let mut memory = core::mem::take(&mut protection.opened);
        memory.clear();
        memory.extend_from_slice(dtls.record);
        match protection.keys.open(&mut memory) {
            Ok(chunks) => {
                process(self, cx, Packet::from_record(packet.header(), chunks), true);
            }
            Err(error) => error.count(cx.counters),
        }
        if let Some(protection) = &mut self.security.protection {
            protection.opened = memory;
        }
    }

    /// What protects the packets of an association that is established, if that was agreed on.
    pub(crate) fn agreed_protection(&mut self) -> Result<&mut Protection, ProtectionError> {
        if self.state.is_setting_up() {
            return Err(ProtectionError::NotEstablished);
        }
        let agreed = self.security.protection.as_deref_mut().filter(|it| it.agreement.is_some());
        agreed.ok_or(ProtectionError::NotAgreed)
    }
}
