//! Chunks (RFC 9260 section 3.3), one file each.
//!
//! A chunk's file holds its picture, its fields, and the way from bytes to fields and back. Fields
//! that the RFC calls reserved are written as zero and ignored when read; so are bytes beyond the
//! last field of a chunk of fixed length. What a receiver has to do about a field's value (a zero
//! tag, an empty DATA chunk) is not syntax: such chunks parse.

mod abort;
mod any;
mod asconf;
mod auth;
mod cookie_ack;
mod cookie_echo;
mod cwr;
mod data;
mod dtls;
mod ecne;
mod error;
mod forward_tsn;
mod gap_block;
mod heartbeat;
mod heartbeat_ack;
mod i_data;
mod i_forward_tsn;
mod init;
mod init_ack;
mod nr_sack;
mod pad;
mod raw;
mod re_config;
mod sack;
mod set;
mod shutdown;
mod shutdown_ack;
mod shutdown_complete;
pub mod types;
mod unknown;

pub use abort::Abort;
pub use any::Chunk;
pub use asconf::{Asconf, AsconfAck};
pub use auth::Auth;
pub use cookie_echo::CookieEcho;
pub use cwr::Cwr;
pub use data::Data;
pub use dtls::Dtls;
pub use ecne::Ecne;
pub use error::Error;
pub use forward_tsn::{ForwardTsn, SkippedStream, SkippedStreams};
pub use gap_block::{GapBlock, GapBlocks, Tsns};
pub use heartbeat::Heartbeat;
pub use heartbeat_ack::HeartbeatAck;
pub use i_data::{FragmentPlace, IData};
pub use i_forward_tsn::{IForwardTsn, SkippedMessage, SkippedMessages};
pub use init::Init;
pub use init_ack::InitAck;
pub use nr_sack::NrSack;
pub use pad::Pad;
pub use raw::RawChunk;
pub use re_config::ReConfig;
pub use sack::Sack;
pub use set::ChunkTypes;
pub use shutdown::Shutdown;
pub use shutdown_complete::ShutdownComplete;
pub use unknown::Unknown;
