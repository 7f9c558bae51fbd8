//! The Supported Address Types parameter of an INIT (RFC 9260 section 3.3.2.1.5).

use manypath_wire::error::NoRoom;
use manypath_wire::parameter::{AddressTypes, Parameter, ParameterWriter};

const TYPE_IPV4: u16 = 5;
const TYPE_IPV6: u16 = 6;

/// Address families that an endpoint can reach, for the Supported Address Types parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Families {
    /// IPv4 addresses are usable.
    pub ipv4: bool,
    /// IPv6 addresses are usable.
    pub ipv6: bool,
}

impl Families {
    pub(super) fn push(self, parameters: &mut ParameterWriter<'_>) -> Result<(), NoRoom> {
        let types: &[u16] = match (self.ipv4, self.ipv6) {
            (true, true) => &[TYPE_IPV4, TYPE_IPV6],
            (true, false) => &[TYPE_IPV4],
            (false, true) => &[TYPE_IPV6],
            (false, false) => return Ok(()),
        };
        parameters.push(&Parameter::SupportedAddressTypes(AddressTypes::from_slice(types)))
    }
}
