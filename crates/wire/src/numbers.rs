//! Numbers that cross the wire. Serial numbers have no order here: the engine unwraps them to
//! 64 bits, where comparison is total.

/// Transmission sequence number (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tsn(pub u32);

/// Stream sequence number (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ssn(pub u16);

/// Message identifier: counts the ordered and the unordered messages of a stream (RFC 8260
/// section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mid(pub u32);

/// Fragment sequence number: counts the fragments of a message (RFC 8260 section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fsn(pub u32);

/// Stream identifier (RFC 9260 section 3.3.1). Ordered: it is a name, not a serial number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u16);

/// Payload protocol identifier (RFC 9260 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ppid(pub u32);

/// Verification tag (RFC 9260 section 3.1), also the initiate tag of INIT and INIT ACK.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VerificationTag(pub u32);
