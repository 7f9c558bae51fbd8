//! Whom a host trusts: the key of its own ([`IdentitySource`]), the keys of its peers ([`KnownPeers`],
//! [`SshHosts`]), the keys that may come in ([`AuthorizedPeers`]), and what a person compares ([`Fingerprint`]).
//!
//! ```text
//! ~/.config/manypath/identity          private key, in the format of OpenSSH
//! ~/.config/manypath/known_peers       ADDRESS KEY [comment]    @revoked KEY [comment]
//! ~/.config/manypath/authorized_peers  KEY [name]
//! ~/.config/manypath/secret            256 random bits or more, in base64
//! ~/.config/manypath/tickets           tickets of servers, sealed
//! ~/.ssh/known_hosts                   read only
//! ```
//!
//! The types hold what was read, decide without I/O, and name what may block: a loop reads at its start and leaves
//! changes to a thread, by [`KnownPeersFile::change`]. docs/key-management.md describes the files.
#![forbid(unsafe_code)]

mod authorized_peers;
mod error;
mod fingerprint;
mod identity;
mod known_peers;
mod line;
mod places;
mod secret;
mod ssh_hosts;
mod store;
mod tickets_file;
mod verdict;

pub use authorized_peers::AuthorizedPeers;
pub use error::TrustError;
pub use fingerprint::{BadFingerprint, Fingerprint, is_key_address};
pub use identity::{IdentitySource, load_identity, load_or_create_identity};
pub use known_peers::{KnownPeers, KnownPeersFile};
pub use line::{Fault, parse_key};
pub use places::{Place, folder};
pub use secret::{load_secret, new_secret};
pub use ssh_hosts::SshHosts;
pub use store::TrustStore;
pub use tickets_file::{TakenTickets, TicketsFile};
pub use verdict::{Source, Verdict};
