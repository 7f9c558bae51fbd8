//! The rules table: which connections are carried over SCTP, and how.
//!
//! After Bickhart (2005), section 2.2. A *chain* is a side of a connection: `local` for services of
//! this host, `remote` for connections that its programs make. Each chain has a default policy and
//! two lists of rules, those that enable and those that disable, so the table has four lists. A
//! lookup searches the list that contradicts the default; the first rule that matches decides, even
//! if a later one fits better.
//!
//! ```text
//!                          default of the chain
//!                 disable                     enable
//! lookup ──▶ search the enable rules     search the disable rules
//!            match: carried              match: left to the kernel
//!            none:  left to the kernel   none:  carried; the first enable rule that
//!                                               matches gives its options
//! ```
//!
//! UDP is never carried by default, whatever the chain's policy says: only a rule enables it.
//!
//! [`Document`] is the table as files that people edit: one rule in a line, comments kept.
//! [`RulesFile`] says where they lie and changes one of them atomically; [`Sources`] does so for each part of
//! the configuration. [`Table`] is what a stack looks up; [`Table::explain`] tells why, [`Table::findings`] which rules
//! can never match.

#![forbid(unsafe_code)]

mod config;
mod cover;
mod document;
mod error;
mod explain;
mod file;
mod findings;
mod interned;
mod kept_file;
mod location;
mod network;
mod options;
mod parse;
pub mod paths;
mod ports;
mod rule;
mod shimrules;
mod source;
mod table;
mod uplinks;
mod via;

pub use config::{
    Layer, Layers, Migration, Part, Sources, goes_with_container, migrate, state_folder,
};
pub use document::Document;
pub use error::{FileError, RuleError};
pub use explain::{Explanation, Step};
pub use file::RulesFile;
pub use findings::Finding;
pub use kept_file::{
    KeptFile, KeptFileError, Opener, open_kept_file, open_through, open_to_append,
};
pub use network::Network;
pub use options::{Announce, Class, Encrypt, Form, Options, Profile, StepAside};
pub use ports::Ports;
pub use rule::{Chain, Policy, Protocol, Query, Rule};
pub use shimrules::{Command as ShimrulesCommand, USAGE as SHIMRULES_USAGE};
pub use source::{Client, Identity, Source};
pub use table::{Decider, Decision, Place, Table};
pub use uplinks::{PathDown, PathLimits, Uplinks};
pub use via::{RelayHost, Via};
