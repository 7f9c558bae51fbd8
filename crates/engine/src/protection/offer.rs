//! What one endpoint says about key management in its INIT or INIT ACK (draft section 4.1).

use crate::config::{self, Config, KeyRoles};
use crate::rng::Rng;
use alloc::vec::Vec;
use manypath_wire::error::NoRoom;
use manypath_wire::parameter::{KeyManagement, Parameter, ParameterWriter};

/// Most identifiers that are taken from a peer. With more of them it is as if it had none: keys are
/// derived from the whole list, and the cookie would have to hold it.
const MAX_METHODS: usize = 16;
/// Set in the tie breaker of an INIT ACK and not in that of an INIT, so that the end that connects is the
/// client if both can be either: its first message can travel with the COOKIE ECHO. With two INITs that
/// cross, the other bits decide.
const ANSWERS: u32 = 1 << 31;
/// Longest ticket that is taken from a peer, or sent: the cookie has to hold it.
const MAX_TICKET: usize = 255;
/// In cookies, beside the number of methods: records are taken without a checksum, there is a Resumption parameter.
const ZERO_CHECKSUM: u8 = 1 << 7;
const RESUMPTION: u8 = 1 << 6;
/// Room for a parameter with that many methods.
const MAX_LEN: usize = 4 + 4 + 1 + MAX_METHODS + 3;

/// Error Detection Method Identifier of DTLS chunks: what RFC 9653 asks of a method they give, but the draft has no
/// number for it. This one is not registered.
const ERROR_DETECTION: u32 = u32::from_be_bytes(*b"DTLS");

/// A DTLS Key Management parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyOffer {
    /// Decides who is the server if both ends can be either.
    pub tie_breaker: u32,
    /// The flags as they were sent, reserved bits included.
    pub flags: u8,
    /// DTLS Key Management Identifiers, the most wanted first.
    pub methods: Vec<u8>,
    /// Records are taken in packets without a checksum (RFC 9653 section 4).
    pub zero_checksum: bool,
    /// A Resumption parameter goes with it: a ticket, or nothing.
    pub ticket: Option<Vec<u8>>,
}

impl KeyOffer {
    /// What an endpoint offers in its INIT if it is to protect anything.
    pub(crate) fn of_init(config: &Config, rng: &mut Rng) -> Option<Self> {
        let wanted = config.key_management.as_ref()?;
        Some(Self::with_tie_breaker(wanted, rng.next_u32() & !ANSWERS))
    }

    /// The same in an INIT ACK that answers an INIT of the peer's.
    pub(crate) fn of_init_ack(config: &Config, rng: &mut Rng) -> Option<Self> {
        let wanted = config.key_management.as_ref()?;
        Some(Self::with_tie_breaker(wanted, rng.next_u32() | ANSWERS))
    }

    /// The same with this tie breaker.
    pub(crate) fn with_tie_breaker(wanted: &config::KeyManagement, tie_breaker: u32) -> Self {
        let mut methods = wanted.methods.clone();
        methods.truncate(MAX_METHODS);
        let flags = flags(wanted.roles);
        Self { tie_breaker, flags, methods, zero_checksum: true, ticket: None }
    }

    /// What a peer has sent, if it is of use.
    pub(crate) fn received(parameter: &KeyManagement<'_>) -> Option<Self> {
        let KeyManagement { tie_breaker, flags, methods } = *parameter;
        let usable = (1..=MAX_METHODS).contains(&methods.len());
        let methods = methods.to_vec();
        let (zero_checksum, ticket) = (false, None);
        usable.then_some(Self { tie_breaker, flags, methods, zero_checksum, ticket })
    }

    /// What stands beside it in the peer's INIT or INIT ACK. A ticket that is too long is as good as none.
    pub(crate) fn note_beside(&mut self, zero_checksum: bool, ticket: Option<&[u8]>) {
        self.zero_checksum = zero_checksum;
        let fits = |ticket: &[u8]| ticket.len() <= MAX_TICKET;
        self.ticket = ticket.map(|it| if fits(it) { it.to_vec() } else { Vec::new() });
    }

    /// Whether a peer that lists this error detection method takes records without a checksum.
    pub(crate) const fn is_error_detection(method: u32) -> bool {
        method == ERROR_DETECTION
    }

    /// Writes the parameters.
    pub(crate) fn push(&self, parameters: &mut ParameterWriter<'_>) -> Result<(), NoRoom> {
        parameters.push(&self.parameter())?;
        if self.zero_checksum {
            parameters.push(&Parameter::ZeroChecksumAcceptable(ERROR_DETECTION))?;
        }
        let ticket = self.ticket.as_deref().map(Parameter::Resumption);
        ticket.map_or(Ok(()), |ticket| parameters.push(&ticket))
    }

    /// The parameter as it is sent, "including the parameter header and excluding the optional padding"
    /// (draft section 6): keys are derived from it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut buffer = [0; MAX_LEN];
        let mut parameters = ParameterWriter::new(&mut buffer);
        // At most `MAX_METHODS`: it fits.
        let _no_room = parameters.push(&self.parameter()).is_err();
        buffer[..4 + 4 + 1 + self.methods.len()].to_vec()
    }

    /// Appends it as cookies hold it: tie breaker, flags, methods behind their number, whose first bits are
    /// [`ZERO_CHECKSUM`] and [`RESUMPTION`], and with the latter the ticket behind its length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tie_breaker.to_be_bytes());
        // At most `MAX_METHODS`, and `MAX_TICKET` bytes: more were not taken.
        let count = u8::try_from(self.methods.len()).unwrap_or(0);
        let zero_checksum = if self.zero_checksum { ZERO_CHECKSUM } else { 0 };
        let resumption = if self.ticket.is_some() { RESUMPTION } else { 0 };
        out.extend_from_slice(&[self.flags, count | zero_checksum | resumption]);
        out.extend_from_slice(&self.methods);
        if let Some(ticket) = &self.ticket {
            out.push(u8::try_from(ticket.len()).unwrap_or(0));
            out.extend_from_slice(ticket);
        }
    }

    /// Reads what [`Self::encode`] has written at the beginning of `bytes`, and moves them behind it.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let ([t0, t1, t2, t3, flags, count], rest) = bytes.split_first_chunk()?;
        let (flags, count) = (*flags, *count);
        *bytes = rest;
        let methods = usize::from(count & !(ZERO_CHECKSUM | RESUMPTION)).min(MAX_METHODS);
        let methods = bytes.split_off(..methods)?.to_vec();
        let ticket = match count & RESUMPTION {
            0 => None,
            _ => {
                let len = usize::from(*bytes.split_off_first()?);
                Some(bytes.split_off(..len)?.to_vec())
            }
        };
        let tie_breaker = u32::from_be_bytes([*t0, *t1, *t2, *t3]);
        let zero_checksum = count & ZERO_CHECKSUM != 0;
        Some(Self { tie_breaker, flags, methods, zero_checksum, ticket })
    }

    pub(super) fn is_client(&self) -> bool {
        self.flags & KeyManagement::CLIENT != 0
    }

    pub(super) fn is_server(&self) -> bool {
        self.flags & KeyManagement::SERVER != 0
    }

    fn parameter(&self) -> Parameter<'_> {
        let Self { tie_breaker, flags, methods, .. } = self;
        let (tie_breaker, flags) = (*tie_breaker, *flags);
        Parameter::KeyManagement(KeyManagement { tie_breaker, flags, methods })
    }
}

const fn flags(roles: KeyRoles) -> u8 {
    match roles {
        KeyRoles::Client => KeyManagement::CLIENT,
        KeyRoles::Server => KeyManagement::SERVER,
        KeyRoles::Either => KeyManagement::CLIENT | KeyManagement::SERVER,
    }
}

#[cfg(test)]
mod tests {
    use super::KeyOffer;
    use manypath_wire::parameter::KeyManagement;

    #[test]
    fn keys_are_derived_from_the_bytes_as_they_came() {
        let parameter = KeyManagement { tie_breaker: 0x0102_0304, flags: 0xF3, methods: &[9, 0] };
        let offer = KeyOffer::received(&parameter).unwrap();
        assert_eq!(offer.bytes(), b"\x80\x06\x00\x0b\x01\x02\x03\x04\xf3\x09\x00");
    }

    #[test]
    fn without_a_method_or_with_too_many_there_is_no_offer() {
        let received = |methods| {
            KeyOffer::received(&KeyManagement { tie_breaker: 1, flags: 3, methods }).is_some()
        };
        assert_eq!([&[][..], &[1], &[1; 16], &[1; 17]].map(received), [false, true, true, false]);
    }
}
