//! Numbers that cross the wire. Serial numbers have no order here: the engine unwraps them to
//! 64 bits, where comparison is total.

/// Transmission sequence number (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tsn(pub u32);

/// Stream sequence number (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ssn(pub u16);

/// Stream identifier (RFC 9260 section 3.3.1). Ordered: it is a name, not a serial number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u16);

/// Payload protocol identifier (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ppid(pub u32);

/// Verification tag (RFC 9260 section 3.1), also the initiate tag of INIT and INIT ACK.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VerificationTag(pub u32);
