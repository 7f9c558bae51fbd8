//! Protection of whole packets by DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): the record layer of
//! DTLS 1.3 (RFC 9147) in the one form that the draft uses, without associations and without ciphers.
//!
//! ```text
//!  our INIT or INIT ACK     the peer's
//!         |  offer.rs           |
//!         +----------+----------+
//!                    |  agreement.rs: method, role, what keys are derived from
//!                    v
//!  key management (outside)          packets
//!   RecordKey by epoch                  |
//!         |  keys.rs         seal.rs    |    open.rs, replay.rs
//!         +----------------> SealingKey-+-> OpeningKey
//!         |                             |
//!   cipher.rs: RecordCipher, implemented by a library outside of this crate
//! ```
//!
//! A record is its header of three bytes, the chunks, a content type and an authentication tag:
//!
//! ```text
//!  0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+
//! |0|0|1|0|1|0|E E|   two bits of the epoch
//! +-+-+-+-+-+-+-+-+
//! |    16 bit     |   encrypted (RFC 9147 section 4.2.3)
//! |Sequence Number|
//! +-+-+-+-+-+-+-+-+
//! |   Encrypted   |   chunks, content type 23, zeros if padded; tag
//! /    Record     /
//! +-+-+-+-+-+-+-+-+
//! ```

mod agreement;
mod cipher;
mod keys;
mod offer;
mod open;
mod replay;
mod resumption;
mod seal;

use manypath_wire::Ppid;
use manypath_wire::chunk::Dtls;

pub(crate) use agreement::{Incompatible, agree};
pub use agreement::{KeyAgreement, KeyRole};
pub use cipher::{Limits, NONCE_LEN, RecordCipher, RecordKey, SAMPLE_LEN, TAG_LEN};
pub(crate) use keys::Keys;
pub use keys::{EpochUse, KeyUse, ProtectionError};
pub(crate) use offer::KeyOffer;
pub use open::{OpenError, OpeningKey};
pub use resumption::{Declined, EpochKeys, Resumed, Resumption};
pub(crate) use resumption::{Numbers, Resumptions};
pub use seal::{Exhausted, SealingKey};

/// Bytes of a record's header.
pub const RECORD_HEADER_LEN: usize = Dtls::RECORD_HEADER_LEN;
/// Bytes of a record behind the chunks: content type and tag.
pub const RECORD_TRAILER_LEN: usize = Dtls::RECORD_TRAILER_LEN;
/// The epoch of the first keys of an association (draft section 3.1).
pub const FIRST_EPOCH: u64 = 3;

/// PPID of the messages of key management (draft section 9.5).
pub const KEY_MANAGEMENT: Ppid = Ppid(4242);

/// The fixed bits of the first byte: no connection ID, 16-bit sequence number, no length.
const FIXED: u8 = 0b0010_1000;
/// Two bits of the epoch.
const EPOCH_BITS: u8 = 0b11;
/// Content type `application_data`.
const APPLICATION_DATA: u8 = 23;
/// Records after which a key should be replaced at the latest: about 100 GB in packets of 1500 bytes, as
/// draft-westerlund-tsvwg-sctp-dtls-handshake recommends (section 6.2.3).
const MAX_RECORDS: u64 = 1 << 26;
/// The last sequence number of an epoch (RFC 9147 section 4.2.1).
const MAX_SEQUENCE: u64 = (1 << 48) - 1;

/// The first byte of the records of an epoch.
const fn first_byte(epoch: u64) -> u8 {
    FIXED | (epoch as u8 & EPOCH_BITS)
}
