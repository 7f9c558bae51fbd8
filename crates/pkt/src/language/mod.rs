//! The packetdrill script language, as far as SCTP scripts use it.
//!
//! ```text
//! text -> lexer.rs -> tokens -> parse/ -> ast.rs
//! ```
//!
//! The parser is plain recursive descent and knows no chunk, no call and no option by name: chunks,
//! parameters and structures all have one shape, `NAME[key=value, ...]` and `{key=value, ...}`. What
//! the names mean is decided where they are used, so that an unknown one is told with its line.

pub(crate) mod ast;
mod error;
mod lexer;
mod parse;
mod token;

pub(crate) use error::{Stop, Why};
pub(crate) use parse::parse;
