//! The tokens of a script.

use std::net::IpAddr;

/// One token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Token {
    /// A name: `socket`, `DATA`, `O_RDWR`.
    Word(String),
    /// A whole number, decimal or hexadecimal.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// An address.
    Ip(IpAddr),
    /// Text in double quotes.
    Text(String),
    /// A command in back quotes.
    Command(String),
    /// `--name`.
    Option(String),
    /// `%{ ... }%`.
    Code,
    /// `...`.
    Ellipsis,
    /// Any other character.
    Sign(char),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => write!(f, "'{word}'"),
            Self::Int(number) => write!(f, "'{number}'"),
            Self::Float(number) => write!(f, "'{number}'"),
            Self::Ip(address) => write!(f, "'{address}'"),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Command(command) => write!(f, "`{command}`"),
            Self::Option(name) => write!(f, "'--{name}'"),
            Self::Code => write!(f, "a code block"),
            Self::Ellipsis => write!(f, "'...'"),
            Self::Sign(sign) => write!(f, "'{sign}'"),
        }
    }
}
