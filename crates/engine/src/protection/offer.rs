//! What one endpoint says about key management in its INIT or INIT ACK (draft section 4.1).

use crate::config::{self, Config, KeyRoles};
use crate::rng::Rng;
use alloc::vec::Vec;
use manypath_wire::error::NoRoom;
use manypath_wire::parameter::{KeyManagement, Parameter, ParameterWriter};

/// Most identifiers that are taken from a peer. With more of them it is as if it had none: keys are
/// derived from the whole list, and the cookie would have to hold it.
pub(crate) const MAX_METHODS: usize = 16;
/// Set in the tie breaker of an INIT ACK and not in that of an INIT, so that the end that connects is the
/// client if both can be either: its first message can travel with the COOKIE ECHO. With two INITs that
/// cross, the other bits decide.
const ANSWERS: u32 = 1 << 31;
/// Room for a parameter with that many.
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
        Self { tie_breaker, flags: flags(wanted.roles), methods, zero_checksum: true }
    }

    /// What a peer has sent, if it is of use.
    pub(crate) fn received(parameter: &KeyManagement<'_>) -> Option<Self> {
        let KeyManagement { tie_breaker, flags, methods } = *parameter;
        let usable = (1..=MAX_METHODS).contains(&methods.len());
        let methods = methods.to_vec();
        usable.then_some(Self { tie_breaker, flags, methods, zero_checksum: false })
    }

    /// Whether a peer that lists this error detection method takes records without a checksum.
    pub(crate) const fn is_error_detection(method: u32) -> bool {
        method == ERROR_DETECTION
    }

    /// Writes the parameters.
    pub(crate) fn push(&self, parameters: &mut ParameterWriter<'_>) -> Result<(), NoRoom> {
        parameters.push(&self.parameter())?;
        match self.zero_checksum {
            true => parameters.push(&Parameter::ZeroChecksumAcceptable(ERROR_DETECTION)),
            false => Ok(()),
        }
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

    /// Appends it as cookies hold it: tie breaker, flags, and methods behind their number, whose first bit is
    /// [`Self::zero_checksum`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tie_breaker.to_be_bytes());
        // At most `MAX_METHODS`: more were not taken.
        let count = u8::try_from(self.methods.len()).unwrap_or(0);
        out.extend_from_slice(&[self.flags, count | u8::from(self.zero_checksum) << 7]);
        out.extend_from_slice(&self.methods);
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
